"""However an iteration mixes what it has summed over a segment, the segment's elements are shared out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import explorer
from benchmarks.cases.growing import GROWING
from explorer.compiler.ir.index_sets import few
from explorer.compiler.ir.kernels import Loop, ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import walk
from tests.compiler.schedule.segment_models import SEGMENT_MODELS

SHARED_OUT = ("nonzeros", "far", "merge", "outer_products", "adds")
"""The templates in which a segment, however long, is cut."""
ONE_BLOCK = ("inspector",)
"""Those of kernels that run once for a graph, in one block, whose threads take turns."""


def kernels_of(text: str, **options: Any) -> list[ScheduledKernel]:
    program: Any = explorer.compile(text, options=options, on_demand=True).stages["kernels"].program
    return [*program.programs] if isinstance(program, Module) else [program]


def walked(kernels: list[ScheduledKernel]) -> Iterator[str]:
    """The kernels in which one warp goes from the first element of a segment to its last."""
    for kernel in kernels:
        sizes = {name for name, _ in kernel.sizes}
        rows = any(line.startswith("split ") and "kMTile" in line for line in kernel.schedule)
        if kernel.template in (*SHARED_OUT, *ONE_BLOCK) or rows:
            continue
        for loop in walk(kernel):
            if isinstance(loop, Loop) and loop.bind != "block":
                bounds = {bound for bound in (loop.lower, loop.extent) if isinstance(bound, str)} - sizes
                if any(not few(bound) for bound in bounds):
                    yield f"{kernel.name}: {loop.variable}"


@pytest.mark.parametrize("grad", [False, True], ids=["forward", "grad"])
@pytest.mark.parametrize("name", SEGMENT_MODELS)
def test_no_warp_walks_a_segment(name: str, grad: bool) -> None:
    assert not list(walked(kernels_of(SEGMENT_MODELS[name], grad=grad)))


def test_a_nest_that_ends_a_segment_by_its_columns_stays_whole() -> None:
    """There is nothing to gain from storing sums that pieces can end."""
    text = """dim F = 6

layer Model(g: graph):
    input x[node, F], b[node, F]
    for n in g.nodes():
        n["h"] = relu(sum(x[e.src] for e in n.incoming_edges()) + b[n])
    return n["h"]
"""
    names = [kernel.name for kernel in kernels_of(text)]
    assert not [name for name in names if "segments" in name], names


def test_many_sums_are_parted_by_halves() -> None:
    """As many as a warp has room for are one kernel: not each, because all of them are too many."""
    text = GROWING["bags"][0]
    assert len(kernels_of(text(24))) == 2


@pytest.mark.parametrize("size", [8, 41, 100, 256])
def test_at_every_width(size: int) -> None:
    text = f"""dim F = {size}

layer Model(g: graph):
    input x[node, F]
    param w[F]
    for n in g.nodes():
        m = max(x[e.src] for e in n.incoming_edges())
        n["h"] = m * sigmoid(dot(m, w))
    return n["h"]
"""
    assert not list(walked(kernels_of(text)))
