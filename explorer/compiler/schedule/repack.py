"""Lays out the arrays of scheduled kernels as their loops had them before they were scheduled, with columns of other
arrays and with padding, and pads what only scheduled kernels make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.module import Packing
from explorer.compiler.ir.node import Extent, walk
from explorer.compiler.passes.loops.columns import in_columns
from explorer.compiler.passes.loops.pad import padded_rows
from explorer.compiler.report import Report


def repack(
    steps: tuple[ScheduledKernel, ...], packings: Sequence[Packing], report: Report
) -> tuple[ScheduledKernel, ...]:
    """The kernels with these arrays packed or padded; told which are, and of others why they stay as they are."""
    for packing in packings:
        reason = next((reason for kernel in steps if (reason := _apart(kernel, packing))), "")
        if reason:
            report.refused(f"{_stays(packing)}: {reason}")
            continue
        steps = tuple(in_columns(kernel, (packing,)) for kernel in steps)
        report.did(_placed(packing))
    return steps


def padded(steps: tuple[ScheduledKernel, ...], kept: Iterable[str], report: Report) -> tuple[ScheduledKernel, ...]:
    """The kernels with padded rows of what only they make for one another, such as products and the sums of pieces, if
    the option asks for it; those of arrays that the loops have are padded already, and stay as they are."""
    multiple = report.options.pad
    return repack(steps, padded_rows(steps, kept, (), multiple), report) if multiple else steps


def _placed(packing: Packing) -> str:
    if packing.scalars:
        return f"{', '.join(packing.scalars)} in {packing.vectors} again"
    return f"rows of {packing.vectors} {packing.stride} numbers apart"


def _stays(packing: Packing) -> str:
    if packing.scalars:
        return f"{', '.join(packing.scalars)} stays out of {packing.vectors}"
    return f"rows of {packing.vectors} are not padded"


def _apart(kernel: ScheduledKernel, packing: Packing) -> str:
    """Why a kernel cannot have the arrays packed; "" where it can."""
    ranks = {
        buffer.name: len(buffer.extents)
        for buffer in kernel.buffers
        if buffer.name in (packing.vectors, *packing.scalars)
    }
    sizes = dict[Extent, Extent](kernel.sizes)
    length = sizes.get(packing.length, packing.length)
    for buffer in kernel.buffers:
        if buffer.name == packing.vectors and sizes.get(buffer.extents[-1], buffer.extents[-1]) != length:
            return f"{kernel.name} has the rows of {buffer.name} behind one another, as one"
    wide = kernels.vector_indices(kernel)
    written = {buffer.name for buffer in kernel.buffers if buffer.name in ranks and buffer.kind == "output"}
    for node in walk(kernel):
        for array, indices in _accesses(node):
            if array not in ranks:
                continue
            if len(indices) != ranks[array]:
                return f"{kernel.name} takes {array} as one row"
            if array in packing.scalars and indices[-1] in wide:
                return f"{kernel.name} takes neighbouring rows of {array} together"
            if written and isinstance(node, (kernels.Copy, kernels.KeptLoad)):
                return f"{kernel.name} reads {array} as what nobody writes, and writes {', '.join(sorted(written))}"
    return ""


def _accesses(node: object) -> list[tuple[str, tuple[object, ...]]]:
    """The arrays that a statement itself accesses, with the indices."""
    match node:
        case kernels.Copy():
            return [(node.buffer, node.buffer_indices)]
        case loops.Load():
            return [(node.buffer, node.indices)]
        case loops.Store() | loops.Accumulate():
            return [(node.target, node.indices)]
    return []
