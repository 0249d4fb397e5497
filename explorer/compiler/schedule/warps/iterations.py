"""The kernels of a nest that has a warp an iteration: what clears its sums, and itself, whose rows may be in memory."""

from __future__ import annotations

from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.node import Names
from explorer.compiler.passes.loops.cleared import clearing_kernel
from explorer.compiler.report import Report
from explorer.compiler.schedule.warps.rows_in_memory import rows_in_memory, rows_to_move
from explorer.compiler.schedule.warps.strategy import SHARED_BYTES, RowsTooLarge, schedule_warps
from explorer.compiler.target import FLOAT_BYTES


def warps(
    kernel: loops.Kernel, report: Report, most_bytes: int, names: Names, *, moving: bool = True
) -> tuple[ScheduledKernel, ...]:
    """A warp an iteration, after what clears the sums that iterations take together. Raises RowsTooLarge where a block
    has no room for an iteration's rows, and these may not move to the GPU's memory, or may be given more first."""
    steps = [step for step in (clearing_kernel(kernel), kernel) if step]
    found: list[ScheduledKernel] = []
    for step in steps:
        if step is not kernel:
            report.enter(step.name)
        found.append(_a_warp(step, report, most_bytes, names, moving))
    return tuple(found)


def _a_warp(kernel: loops.Kernel, report: Report, most_bytes: int, names: Names, moving: bool) -> ScheduledKernel:
    """A warp an iteration; rows that no block of the GPU has room for are in its memory."""
    try:
        return schedule_warps(kernel, report, most_bytes)
    except RowsTooLarge as error:
        if not moving or most_bytes < report.target.shared_most:
            raise
        moved = rows_to_move(error.rows, SHARED_BYTES // FLOAT_BYTES)
        report.did(f"{kernel.name}: {', '.join(moved)} in the GPU's memory, larger than a block's shared memory")
        return schedule_warps(rows_in_memory(kernel, moved, names), report)
