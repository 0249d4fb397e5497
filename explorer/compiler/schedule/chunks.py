"""The template of cuKE's run-time inspection: a score by chunks of edges, in one kernel (cuKE §V and §VI).

It is the user's to choose, beside the whole batch grouped by its matrices (`grouping`), which measures better: the
inspection of a chunk costs as much as its vectors do, and a warp an edge reads each matrix from shared memory once an
edge, where a tile of rows reads it once.
"""

from __future__ import annotations

from math import prod

from explorer.compiler.codegen.cuda_tiles import FLOAT_BYTES, MOST_SHARED_BYTES
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ScheduledKernel, Tile
from explorer.compiler.ir.node import walk
from explorer.compiler.options import Options
from explorer.compiler.passes.report import Report
from explorer.compiler.schedule.chunk_edges import ChunkSizes
from explorer.compiler.schedule.chunk_kernel import write_chunks
from explorer.compiler.schedule.chunk_plan import Plan, Unfit, plan_of, sort_index


def schedule_chunks(kernel: loops.Kernel, report: Report) -> ScheduledKernel | None:
    """The kernel of a score by chunks, where the options ask for it; None, with the reason, where it does not fit."""
    options = report.options
    if options.inspect != "chunks" or kernel.template != "batch":
        return None
    try:
        plan = plan_of(kernel)
    except Unfit as reason:
        if options.negatives is None:  # else it is of the loop over candidates, and `unread` has the reason
            report.refused(f"{kernel.name} is not inspected by chunks: {reason}")
        return None
    sizes = ChunkSizes(options.inspect_edges, options.inspect_cached, options.inspect_block, options.inspect_group)
    made = write_chunks(plan, sizes)
    needed, there = shared_bytes(made), MOST_SHARED_BYTES[options.arch]
    if needed > there:
        report.refused(
            f"{kernel.name} is not inspected by chunks: its tiles take {needed:,} bytes of shared memory, and a block"
            f" of {options.arch} has {there:,}: make inspect_edges, inspect_cached, inspect_block or inspect_group"
            " smaller"
        )
        return None
    _tell(plan, sizes, report)
    return made


def shared_bytes(kernel: ScheduledKernel) -> int:
    """What a block's tiles take in shared memory, each on a boundary of 16 bytes."""
    tiles = [node for node in walk(kernel) if isinstance(node, Tile) and node.memory == "shared"]
    return sum(-(-prod(map(kernel.size, tile.extents)) // 4) * 4 * FLOAT_BYTES for tile in tiles)


def _tell(plan: Plan, sizes: ChunkSizes, report: Report) -> None:
    name, arrays = plan.kernel.name, ", ".join(plan.chosen)
    report.did(f"{name}: {sizes.edges} edges a block, inspected in shared memory by {arrays} (chunks)")
    if sizes.group > 1:
        report.did(
            f"{name}: groups of {sizes.group} chunks sorted by {sort_index(plan)}; scores go to their own places"
        )
    for table in plan.matrices.values():
        report.did(f"{name}: {sizes.cached} matrices of {table} by {sizes.block} x {sizes.block} in shared memory")
    if plan.gathers:
        tables = ", ".join(dict.fromkeys(gather.table for gather in plan.gathers))
        report.did(f"{name}: repeated rows of {tables} by {sizes.block} in shared memory")
    if not plan.matrices and sizes.cached != Options().inspect_cached:
        report.refused(f"{name}: inspect_cached={sizes.cached}: nothing, for edges choose no matrices")
