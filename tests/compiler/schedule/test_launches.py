"""Nothing that grows with the graph or the batch is one block's work: blocks grow as the work does, in every kernel of
every example and of the models from the literature that lie beside the project, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import explorer
from benchmarks.cases.checked import ZOO
from explorer.compiler.ir.index_sets import few
from explorer.compiler.ir.kernels import Count, Loop, ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import walk
from tests.compiler.parameters import PARAMETERS

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = {path.stem: path.read_text() for path in sorted((ROOT / "examples").glob("*/*.emb"))}
LITERATURE = {path.stem: path.read_text() for path in sorted(ZOO.glob("*.emb"))}
MODELS = {**{f"zoo-{name}": text for name, text in LITERATURE.items()}, **EXAMPLES}
TYPES, SMALL, LARGE = 8, 100_000, 1_600_000
"""How many types there are, and of all else, in two runs."""
ONE_BLOCK = {"inspector": "one block counts a batch's rows by their matrix, a tile of rows each thread"}
"""The templates of kernels that are one block's work, with the reason."""


def settings(text: str) -> Iterator[dict[str, str]]:
    """Forward and backward, with negatives too where there are triples."""
    score = explorer.compile(text, on_demand=True).family == "score"
    for grad in ("false", "true"):
        for negatives in ("none", "tail:5") if score else ("none",):
            yield {"grad": grad, "negatives": negatives}


def kernels_of(text: str, options: Mapping[str, Any]) -> list[ScheduledKernel]:
    """The kernels of a text."""
    program: Any = explorer.compile(text, options=options, on_demand=True).stages["kernels"].program
    return [*program.programs] if isinstance(program, Module) else [program]


class Sizes(dict[str, int]):
    """The extents of a kernel, with so many of everything that grows."""

    def __init__(self, kernel: ScheduledKernel, many: int) -> None:
        super().__init__(kernel.sizes)
        self.many = many
        for name, count in kernel.counts:
            self[name] = count.value(self)

    def __missing__(self, name: str) -> int:
        return TYPES if few(name) else self.many


def blocks(kernel: ScheduledKernel, many: int) -> int:
    """How many blocks a launch has."""
    sizes, most = Sizes(kernel, many), 1
    for loop in walk(kernel):
        if isinstance(loop, Loop) and loop.bind == "block":
            count = loop.extent if isinstance(loop.extent, Count) else Count(((loop.extent, 1),))
            most = max(most, count.value(sizes))
    return most


def grows(kernel: ScheduledKernel) -> bool:
    """Whether a thread of the kernel has a loop whose bounds are known only at run time."""
    sizes = dict(kernel.sizes)
    inner = [node for node in walk(kernel) if isinstance(node, Loop) and node.bind != "block"]
    bounds = [bound for loop in inner for bound in (loop.lower, loop.extent)]
    return any(isinstance(bound, str) and bound not in sizes and not few(bound) for bound in bounds)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", MODELS)
def test_blocks_grow_with_the_work(name: str) -> None:
    assert not list(walked_by_few(MODELS[name]))


@pytest.mark.parametrize("name", PARAMETERS)
def test_blocks_grow_with_what_parameters_sum(name: str) -> None:
    assert not list(walked_by_few(PARAMETERS[name]))


def walked_by_few(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The kernels of a model whose work grows and whose blocks do not."""
    for options in settings(text):
        for kernel in kernels_of(text, options):
            shared = blocks(kernel, LARGE) >= 4 * blocks(kernel, SMALL)
            if kernel.template not in ONE_BLOCK and grows(kernel) and not shared:
                yield kernel.name, options
