"""Heads side by side: each column of the grid does one head of a nest whose iterations go through all heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import rewrite
from explorer.compiler.passes.report import Report
from explorer.compiler.passes.statements import pure

Template = Callable[[loops.Kernel, Report], tuple[kernels.ScheduledKernel, ...]]


def schedule_by_head(kernel: loops.Kernel, report: Report, template: Template) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernels that a template makes of one head's iterations, with a column for each head; those that it makes of
    the whole where the kernel is no `parallel for n { scalars; for head { ... for e over a segment ... } }`."""
    match kernel.body:
        case (loops.For(parallel=True, body=(*shared, loops.For(lower=0) as heads)) as rows,) if all(map(pure, shared)):
            pass
        case _:
            return template(kernel, report)
    sizes = dict(kernel.sizes)
    segments = [node for node in heads.body if isinstance(node, loops.For) and node.lower != 0]
    if not segments or not (isinstance(heads.extent, int) or heads.extent in sizes):
        return template(kernel, report)
    own = replace(rows, body=(*shared, *heads.body))
    # A column's head is given, as sizes are, and so is not to be named again.
    one = replace(kernel, sizes=(*kernel.sizes, (heads.variable, 0)), body=(own,))
    return tuple(_in_columns(kernel, heads, scheduled) for scheduled in template(one, report))


def _in_columns(kernel: loops.Kernel, heads: loops.For, scheduled: kernels.ScheduledKernel) -> kernels.ScheduledKernel:
    """A kernel of one head with the loop over heads on the grid's columns: what one head passes on to another kernel
    is an array for each."""
    given = {buffer.name for buffer in kernel.buffers}
    passed = {buffer.name for buffer in scheduled.buffers} - given
    buffers = tuple(
        replace(buffer, extents=(buffer.extents[0], heads.extent, *buffer.extents[1:]))
        if buffer.name in passed
        else buffer
        for buffer in scheduled.buffers
    )

    def of_head(node: kernels.Statement) -> kernels.Statement:
        match node:
            case loops.Load() if node.buffer in passed:
                return replace(node, indices=(node.indices[0], heads.variable, *node.indices[1:]))
            case loops.Store() | loops.Accumulate() if node.target in passed:
                return replace(node, indices=(node.indices[0], heads.variable, *node.indices[1:]))
        return node

    (blocks,) = scheduled.body
    assert isinstance(blocks, kernels.Loop)
    columns = kernels.Loop(
        variable=heads.variable,
        extent=heads.extent,
        body=tuple(rewrite(statement, of_head) for statement in blocks.body),
        bind="column",
        origin=heads.origin,
    )
    return replace(
        scheduled,
        sizes=kernel.sizes,
        buffers=buffers,
        schedule=(*scheduled.schedule, f"bind {heads.variable} @column"),
        body=(replace(blocks, body=(columns,)),),
    )
