"""Products whose threads have several vectors of columns, on the emulator: neighbours have the same columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import explorer
from benchmarks.cases.checked import Case, sizes_of
from benchmarks.gpu_check import Setting, check, check_gradients
from explorer.compiler.ir.kernels import Loop, Reduce
from explorer.compiler.ir.node import walk

EXAMPLES = Path(__file__).parents[2] / "examples" / "kge"


def case_of(name: str, size: int, **options: str) -> Case:
    text = (EXAMPLES / f"{name}.emb").read_text()
    text = text.replace("dim D = 64, K = 64", "dim D = 64").replace("K]", "D]")  # a case has no two equal dimensions
    return Case(text, size, 75, options)


def nodes(case: Case) -> list[Any]:
    compilation = explorer.compile(case.text, sizes=sizes_of(case), options=case.options)
    program: Any = compilation.stages["kernels"].program
    return [node for kernel in getattr(program, "programs", (program,)) for node in walk(kernel)]


@pytest.mark.parametrize("size", [128, 132])
@pytest.mark.parametrize("name", ["transr", "rescal"])
def test_a_score(emulated: Setting, name: str, size: int) -> None:
    case = case_of(name, size)
    assert {node.apart for node in nodes(case) if isinstance(node, Reduce)} == {2}
    outcome = check(emulated, case)
    assert outcome["agrees"], outcome


def test_a_backward_pass(emulated: Setting) -> None:
    case = case_of("transr", 128, grad="true")
    assert any(node.apart for node in nodes(case) if isinstance(node, Loop))
    outcome = check_gradients(emulated, case)
    assert outcome["agrees"], outcome


def test_one_vector_of_columns_a_thread() -> None:
    assert {node.apart for node in nodes(case_of("transr", 64)) if isinstance(node, Reduce)} == {1}
