"""The work of loops is counted as often as they do it: held against going through every iteration by itself."""

from __future__ import annotations

from collections import Counter
from operator import add, floordiv, mod, mul, sub
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.compiler.interpret import asked_work as counting
from explorer.compiler.interpret.asked_work import UncountableError, asked_work
from explorer.compiler.ir.loops import For, Index, Kernel, Load, Statement
from explorer.runtime.shares import nests as nests_module
from tests.runtime.shares.runs import MODELS, run

OPERATORS = {"add": add, "sub": sub, "mul": mul, "div": floordiv, "mod": mod}
STEPS = {"Load": 1, "Store": 1, "Accumulate": 2}

Nest = tuple[Kernel, dict[str, Any], dict[Any, int]]


def slowly(kernel: Kernel, arrays: dict[str, Any], extents: dict[Any, int]) -> Counter[Any]:
    """The same count, an iteration at a time."""
    found: Counter[Any] = Counter()

    def block(body: tuple[Statement, ...], around: dict[str, int]) -> None:
        names = dict(around)

        def known(atom: Any) -> int:
            return names[atom] if isinstance(atom, str) else int(atom)

        for node in body:
            if isinstance(node, For):
                for at in range(known(node.lower), known(node.extent), node.step):
                    block(node.body, names | {node.variable: at})
            elif isinstance(node, Index):
                names[node.result] = OPERATORS[node.function](*map(known, node.operands))
            else:
                if isinstance(node, Load) and arrays.get(node.buffer, np.zeros(0)).dtype == np.int32:
                    names[node.result] = int(arrays[node.buffer][tuple(map(known, node.indices))])
                computes = getattr(node, "function", "copy") != "copy"
                found[node.origin[0]] += computes + STEPS.get(type(node).__name__, 0)

    block(kernel.body, {name: size for name, size in extents.items() if isinstance(name, str)})
    return +found


@pytest.fixture
def nests(monkeypatch: pytest.MonkeyPatch) -> list[Nest]:
    """Those that a run counts, with what it counts them on."""
    found: list[Nest] = []

    def watched(kernel: Kernel, arrays: dict[str, Any], extents: dict[Any, int]) -> Counter[Any]:
        found.append((kernel, arrays, extents))
        return asked_work(kernel, arrays, extents)

    monkeypatch.setattr(nests_module, "asked_work", watched)
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("model", MODELS)
def test_the_count_is_that_of_every_iteration(model: str, nests: list[Nest], tmp_path: Path) -> None:
    path, options = MODELS[model]
    run(path, options, tmp_path, on="cpu")
    assert nests
    for kernel, arrays, extents in nests:
        counted = asked_work(kernel, arrays, extents)
        assert +counted == slowly(kernel, arrays, extents)
        assert counted.total() > 0


def test_too_many_iterations_that_differ_are_not_counted(
    nests: list[Nest], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run(*MODELS["sls"], tmp_path, on="cpu")
    monkeypatch.setattr(counting, "MOST_AT_ONCE", 1)
    with pytest.raises(UncountableError):
        asked_work(*nests[0])
