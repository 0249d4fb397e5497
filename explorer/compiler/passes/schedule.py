"""Loops to scheduled kernels: the first template that fits each nest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.compiler.codegen.cleared import clearing_kernel
from explorer.compiler.codegen.text import Unsupported
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import VerificationError, walk
from explorer.compiler.ir.verify_kernels import verify_scheduled
from explorer.compiler.passes.report import Report
from explorer.compiler.schedule.outer_products import schedule_outer_products
from explorer.compiler.schedule.outer_rows import split_rows
from explorer.compiler.schedule.row_products import Groupings, schedule_pairs, schedule_products
from explorer.compiler.schedule.sparse import schedule_sparse
from explorer.compiler.schedule.warps import schedule_warps


def warps(kernel: loops.Kernel, report: Report) -> tuple[ScheduledKernel, ...]:
    """A warp an iteration, after what clears the sums that iterations take together."""
    steps = [step for step in (clearing_kernel(kernel), kernel) if step]
    return tuple(schedule_warps(step, report) for step in steps)


def schedule(program: loops.Kernel | Module, report: Report) -> ScheduledKernel | Module:
    """The program's kernels scheduled; raises Unsupported, with a sentence, for one that no template fits."""
    if isinstance(program, loops.Kernel):
        kernels = _scheduled(program, Groupings.of([program]), report)
        _say_precision(program.name, kernels, report)
        if len(kernels) == 1:
            return kernels[0]
        result = next(buffer.name for buffer in program.buffers if buffer.kind == "output")
        steps = _streaming(result, kernels)
        return Module(origin=program.origin, name=program.name, result=result, gradients=(), programs=steps)
    nests = [kernel for kernel in program.programs if isinstance(kernel, loops.Kernel)]
    groupings = Groupings.of(nests)
    steps = tuple(step for nest in nests for step in _scheduled(nest, groupings, report))
    _say_precision(program.name, steps, report)
    return replace(program, programs=_streaming(program.result, steps))


def _streaming(result: str, kernels: tuple[ScheduledKernel, ...]) -> tuple[ScheduledKernel, ...]:
    """The kernels, those over pieces storing the program's result past the caches if nothing reads it again."""
    nodes = [node for kernel in kernels for node in walk(kernel)]
    if any(isinstance(node, loops.Load) and node.buffer == result for node in nodes):
        return kernels

    def one(kernel: ScheduledKernel) -> ScheduledKernel:
        stores = any(isinstance(node, loops.Store) and node.target == result for node in walk(kernel))
        over_pieces = kernel.template == "nonzeros" and stores
        return replace(kernel, streamed=(*kernel.streamed, result)) if over_pieces else kernel

    return tuple(map(one, kernels))


def _say_precision(name: str, kernels: Sequence[ScheduledKernel], report: Report) -> None:
    """That the option has no effect, where it has none."""
    precision = report.options.precision
    if precision != "float32" and all(kernel.template != "gemm" for kernel in kernels):
        report.refused(f"{name}: multiply in {precision}: nothing, for no product of rows and matrices is by tiles")


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
    split = split_rows(kernel, groupings.names)
    if split:
        return tuple(step for part in split for step in _scheduled(part, groupings, report))
    for sums in (schedule_outer_products, schedule_sparse):
        found = sums(kernel, report)
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
