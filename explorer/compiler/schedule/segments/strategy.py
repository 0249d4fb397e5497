"""Strategies for sums: which of them a nest over nonzeros, entries, edges or their segments usually gets, and why."""

from __future__ import annotations

from explorer.compiler.ir import loops
from explorer.compiler.ir.index_sets import is_of_lists
from explorer.compiler.ir.node import walk
from explorer.compiler.report import Report
from explorer.compiler.schedule.segments.by_dots import schedule_dots
from explorer.compiler.schedule.segments.by_nonzeros import schedule_nonzeros
from explorer.compiler.schedule.segments.by_row_pieces import schedule_row_pieces
from explorer.compiler.schedule.segments.by_rows import schedule_rows
from explorer.compiler.schedule.strategies import DOTS, NONZEROS, ROW_PIECES, ROWS

MANY = ("nonzeros", "edges", "src_pairs", "dst_pairs")
"""Extents of sets with so many elements that a warp may have 32 of them."""


OF_SUMS = {DOTS: schedule_dots, ROW_PIECES: schedule_row_pieces, NONZEROS: schedule_nonzeros, ROWS: schedule_rows}
"""What makes the kernels of a strategy for sums; they give none, and say why, where it does not fit."""


def usual_of_sums(kernel: loops.Kernel, report: Report) -> tuple[str, ...]:
    """The strategies that a nest of sums may have, the best first; none for other nests."""
    loop = kernel.body[0] if len(kernel.body) == 1 else None
    if not isinstance(loop, loops.For) or not loop.parallel:
        return ()
    sizes = dict(kernel.sizes)
    inner = [node for statement in loop.body for node in walk(statement) if isinstance(node, loops.For)]
    if all(isinstance(node.extent, int) or node.extent in sizes for node in inner):
        return (DOTS,) if loop.extent in MANY or is_of_lists(loop.extent) else ()
    lists = any(buffer.extents and is_of_lists(buffer.extents[0]) for buffer in kernel.buffers)
    if report.options.split == "nonzeros":
        return NONZEROS, ROWS
    if report.options.split == "auto" and not lists:
        return ROW_PIECES, NONZEROS, ROWS
    if lists:
        report.refused(f"{kernel.name} is not split by nonzeros: lists that a user gives are of like length")
    return (ROWS,)
