"""Moves what does not change in a loop in front of it: each scalar to the outermost loop that knows its operands."""

from __future__ import annotations

from explorer.compiler.frozen import replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.statements import loop_origin, pure, written_names
from explorer.compiler.report import Report


@each_program
def hoist(kernel: loops.Kernel, report: Report) -> loops.Kernel:
    """The kernel with invariant loads and scalars moved out, never out of the outermost loop.

    Moving is always legal: extents are at least 1, and what moves only names a scalar."""
    body = tuple(_hoist_inside(s, report) if isinstance(s, loops.For) else s for s in kernel.body)
    return replace(kernel, body=body)


def _hoist_inside(loop: loops.For, report: Report) -> loops.For:
    """A loop with what is invariant in its inner loops moved out of them."""
    body: list[loops.Statement] = []
    for statement in loop.body:
        if isinstance(statement, loops.For):
            moved, rest = _hoist_loop(statement, report)
            body += [*moved, rest]
        else:
            body.append(statement)
    return replace(loop, body=tuple(body))


def _hoist_loop(loop: loops.For, report: Report) -> tuple[list[loops.Statement], loops.For]:
    """What leaves the loop, and what is left of it."""
    loop = _hoist_inside(loop, report)
    changing = {loop.variable} | written_names(loop.body)
    moved, stays = [], []
    for statement in loop.body:
        if pure(statement) and changing.isdisjoint(loops.reads_of(statement)):
            moved.append(statement)
            report.did(f"{loops.result_of(statement)} out of the loop over {loop.variable}")
        else:
            stays.append(statement)
            name = loops.result_of(statement)
            if name is not None:
                changing.add(name)
    return moved, replace(loop, body=tuple(stays), origin=loop_origin(stays, loop.extent))
