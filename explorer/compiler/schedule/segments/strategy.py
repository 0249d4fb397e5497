"""Sparse templates: which of them a nest over nonzeros, entries, edges or their segments gets, and why."""

from __future__ import annotations

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import walk
from explorer.compiler.report import Report
from explorer.compiler.schedule.segments.by_dots import schedule_dots
from explorer.compiler.schedule.segments.by_nonzeros import schedule_nonzeros
from explorer.compiler.schedule.segments.by_row_pieces import schedule_row_pieces
from explorer.compiler.schedule.segments.by_rows import LISTS, schedule_rows

MANY = ("nonzeros", "entries", "edges", "src_pairs", "dst_pairs")
"""Extents of sets with so many elements that a warp may have 32 of them."""


def schedule_sparse(kernel: loops.Kernel, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernels that a sparse template makes of a nest, in order; empty where none is for it."""
    loop = kernel.body[0] if len(kernel.body) == 1 else None
    if not isinstance(loop, loops.For) or not loop.parallel:
        return ()
    sizes = dict(kernel.sizes)
    inner = [node for statement in loop.body for node in walk(statement) if isinstance(node, loops.For)]
    if all(isinstance(node.extent, int) or node.extent in sizes for node in inner):
        return schedule_dots(kernel, report) if loop.extent in MANY else ()
    lists = any(buffer.extents[:1] == (LISTS,) for buffer in kernel.buffers)
    if report.options.split == "nonzeros" or (report.options.split == "auto" and not lists):
        by_rows = schedule_row_pieces(kernel, report) if report.options.split == "auto" else ()
        pieces = by_rows or schedule_nonzeros(kernel, report)
        if pieces:
            return pieces
    elif lists:
        report.refused(f"{kernel.name} is not split by nonzeros: lists that a user gives are of like length")
    return schedule_rows(kernel, report)
