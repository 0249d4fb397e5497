"""Which loops the lanes of a warp may share."""

from __future__ import annotations

from explorer.compiler.ir.kernels import Loop, Tile, inputs_of, result_of
from explorer.compiler.ir.loops import Accumulate, Load, Store
from explorer.compiler.schedule.edit.queries import accesses


def spreads(loop: Loop, outputs: set[str]) -> bool:
    """Whether lanes may share the iterations: each writes elements of its own, or all reduce into one."""
    local = {name for statement in loop.body if (name := result_of(statement)) is not None}
    read = {name for statement in loop.body for name in inputs_of(statement)}
    for statement in loop.body:
        if isinstance(statement, Tile):
            return False
        if not isinstance(statement, Store | Accumulate) or statement.target in local:
            continue
        if loop.variable in statement.indices:
            others = accesses(loop, statement.target)
            if statement.target in outputs:
                others = [access for access in others if isinstance(access, Load)]
            mine = all(access.indices == statement.indices for access in others)
        else:
            fixed = local.isdisjoint(map(str, statement.indices)) and statement.target not in read
            mine = isinstance(statement, Accumulate) and fixed and _only_reduced(loop, statement)
        if not mine:
            return False
    return True


def _only_reduced(loop: Loop, write: Accumulate) -> bool:
    """Whether the loop does nothing with the target but this one kind of reduction into this one element."""
    return all(
        isinstance(child, Accumulate) and child.indices == write.indices and child.reduction == write.reduction
        for child in loop.body
        if isinstance(child, Store | Accumulate) and child.target == write.target
    )
