"""Sums of outer products over segments are found from the loops alone, and go in pieces of rows."""

from __future__ import annotations

from pathlib import Path

import explorer
from explorer.compiler.ir.kernels import AtomicAccumulate, ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import walk

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "rgnn"


def _kernels(model: str, sizes: dict[str, int]) -> list[ScheduledKernel]:
    text = (EXAMPLES / f"{model}.emb").read_text()
    made = explorer.compile(text, sizes=sizes, options={"grad": True}, on_demand=True)
    program = made.stages["kernels"].program
    assert isinstance(program, Module)
    return [kernel for kernel in program.programs if isinstance(kernel, ScheduledKernel)]


def test_the_gradients_of_weights_are_sums_of_pieces_after_a_kernel_that_clears_them() -> None:
    kernels = _kernels("rgcn", {"F": 64, "G": 33})
    found = [at for at, kernel in enumerate(kernels) if kernel.template == "outer_products"]
    assert len(found) == 2
    for at in found:
        (target,) = {node.target for node in walk(kernels[at]) if isinstance(node, AtomicAccumulate)}
        assert any(buffer.name == target for buffer in kernels[at - 1].buffers)
        assert kernels[at - 1].name.endswith("_clear")


def test_each_head_has_a_column_of_blocks() -> None:
    found = [kernel for kernel in _kernels("hgt", {}) if kernel.template == "outer_products"]
    assert len(found) >= 2
    assert all(any(getattr(node, "bind", "") == "column" for node in walk(kernel)) for kernel in found)


def test_rows_that_have_to_be_computed_first_are_computed_for_all_segments_together() -> None:
    kernels = _kernels("hgt", {})
    rows = [kernel for kernel in kernels if "_rows" in kernel.name]
    made = {buffer.name for kernel in rows for buffer in kernel.buffers if buffer.kind == "output"}
    sums = [kernel for kernel in kernels if "_sums" in kernel.name and kernel.template == "outer_products"]
    assert len([kernel for kernel in sums if made & {buffer.name for buffer in kernel.buffers}]) == 3
