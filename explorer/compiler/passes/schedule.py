"""Loops to scheduled kernels: the first template that fits each nest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.compiler.codegen.cleared import clearing_kernel
from explorer.compiler.codegen.text import Unsupported
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import VerificationError
from explorer.compiler.ir.verify_kernels import verify_scheduled
from explorer.compiler.passes.report import Report
from explorer.compiler.schedule.join_segments import join_segments
from explorer.compiler.schedule.outer_products import schedule_outer_products
from explorer.compiler.schedule.row_products import Groupings, schedule_pairs, schedule_products
from explorer.compiler.schedule.sparse import schedule_sparse
from explorer.compiler.schedule.split_rows import split_rows
from explorer.compiler.schedule.split_sums import split_sums
from explorer.compiler.schedule.warps import schedule_warps


def warps(kernel: loops.Kernel, report: Report) -> tuple[ScheduledKernel, ...]:
    """A warp an iteration, after what clears the sums that iterations take together."""
    steps = [step for step in (clearing_kernel(kernel), kernel) if step]
    return tuple(schedule_warps(step, report) for step in steps)


def schedule(program: loops.Kernel | Module, report: Report) -> ScheduledKernel | Module:
    """The program's kernels scheduled; raises Unsupported, with a sentence, for one that no template fits."""
    if isinstance(program, loops.Kernel):
        kernels = _scheduled(program, Groupings.of([program]), report)
        if len(kernels) == 1:
            return kernels[0]
        result = next(buffer.name for buffer in program.buffers if buffer.kind == "output")
        return Module(origin=program.origin, name=program.name, result=result, gradients=(), programs=kernels)
    nests = [kernel for kernel in program.programs if isinstance(kernel, loops.Kernel)]
    groupings = Groupings.of(nests)
    return replace(program, programs=tuple(step for nest in nests for step in _scheduled(nest, groupings, report)))


def _scheduled(kernel: loops.Kernel, groupings: Groupings, report: Report) -> tuple[ScheduledKernel, ...]:
    """A nest's kernels: those of its products, if it starts with some, then of a template of sums where one is for
    it, else a warp an iteration."""
    made, said = dict(groupings.made), list(report.done)

    def step_back() -> None:
        """A refused template has grouped and done nothing."""
        groupings.made, report.done = dict(made), list(said)

    for products in (schedule_products, schedule_pairs):
        parts = products(kernel, groupings, report)
        if parts is not None and _shown_right(kernel, parts, report):
            each = (
                (part,) if isinstance(part, ScheduledKernel) else _scheduled(part, groupings, report) for part in parts
            )
            return tuple(step for steps in each for step in steps)
        step_back()
    split = split_sums(kernel, groupings.names) or split_rows(kernel, groupings.names)
    if split:
        return tuple(step for part in split for step in _scheduled(part, groupings, report))
    for sums, nest in ((schedule_outer_products, kernel), (schedule_sparse, join_segments(kernel))):
        found = sums(nest, report)
        if found and _shown_right(kernel, found, report):
            return found
        step_back()
    steps = warps(kernel, report)
    if _shown_right(kernel, steps, report):
        return steps
    raise Unsupported(f"No template's kernels for {kernel.name} can be shown to be right.")


def _shown_right(kernel: loops.Kernel, steps: Sequence[ScheduledKernel | loops.Kernel], report: Report) -> bool:
    """Whether all scheduled kernels keep the rules of the IR; reports what does not."""
    for step in steps:
        if isinstance(step, ScheduledKernel):
            try:
                verify_scheduled(step)
            except VerificationError as error:
                report.refused(f"{kernel.name}: {step.name} ({step.template}) cannot be shown right: {error}")
                return False
    return True
