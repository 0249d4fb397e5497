"""Loops to scheduled kernels: the first template that fits each nest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from explorer.compiler.codegen.cleared import clearing_kernel
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.compiler.passes.report import Report
from explorer.compiler.schedule.outer_products import schedule_outer_products
from explorer.compiler.schedule.outer_rows import split_rows
from explorer.compiler.schedule.row_products import Groupings, schedule_pairs, schedule_products
from explorer.compiler.schedule.sparse import schedule_sparse
from explorer.compiler.schedule.warps import schedule_warps

Template = tuple[Callable[[loops.Kernel, Report], bool], Callable[[loops.Kernel, Report], tuple[ScheduledKernel, ...]]]
"""Whether a template fits a nest, telling the report why not, and the kernels that it makes of it, in order."""


def warps(kernel: loops.Kernel, report: Report) -> tuple[ScheduledKernel, ...]:
    """A warp an iteration, after what clears the sums that iterations take together."""
    steps = [step for step in (clearing_kernel(kernel), kernel) if step]
    return tuple(schedule_warps(step, report) for step in steps)


TEMPLATES: tuple[Template, ...] = ((lambda kernel, report: True, warps),)


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
    """A nest's kernels: those of its products, if it starts with some, then a template of sums where one is for
    it, else the first that fits."""
    parts = schedule_products(kernel, groupings, report) or schedule_pairs(kernel, groupings, report)
    if parts is not None:
        each = ((part,) if isinstance(part, ScheduledKernel) else _scheduled(part, groupings, report) for part in parts)
        return tuple(step for steps in each for step in steps)
    split = split_rows(kernel, groupings.names)
    if split:
        return tuple(step for part in split for step in _scheduled(part, groupings, report))
    found = schedule_outer_products(kernel, report) or schedule_sparse(kernel, report)
    if found:
        return found
    build = next(build for applies, build in TEMPLATES if applies(kernel, report))
    return build(kernel, report)
