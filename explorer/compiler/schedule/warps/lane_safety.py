"""Which loops the lanes of a warp may share."""

from __future__ import annotations

from explorer.compiler.ir.kernels import Loop, Tile, inputs_of, result_of
from explorer.compiler.ir.loops import Accumulate, Index, Load, Store
from explorer.compiler.ir.node import Atom
from explorer.compiler.schedule.edit.queries import accesses


def spreads(loop: Loop, outputs: set[str]) -> bool:
    """Whether lanes may share the iterations: each writes elements of its own, or all reduce into one."""
    local = {name for statement in loop.body if (name := result_of(statement)) is not None}
    read = {name for statement in loop.body for name in inputs_of(statement)}
    moving = _moving(loop)
    for statement in loop.body:
        if isinstance(statement, Tile):
            return False
        if not isinstance(statement, Store | Accumulate) or statement.target in local:
            continue
        if moving & set(statement.indices):
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


def _moving(loop: Loop) -> set[Atom]:
    """The indices that each iteration has for itself: the variable, and its sums with what is the same in all."""
    moving: set[Atom] = {loop.variable}
    fixed = {name for statement in loop.body if (name := result_of(statement)) is not None}
    for statement in loop.body:
        if not isinstance(statement, Index):
            continue
        own = [operand for operand in statement.operands if operand in moving]
        if own and statement.function == "add" and len(own) == 1 and not fixed & set(statement.operands) - moving:
            moving.add(statement.result)
        elif not own and not fixed & set(statement.operands):
            fixed.discard(statement.result)
    return moving


def _only_reduced(loop: Loop, write: Accumulate) -> bool:
    """Whether the loop does nothing with the target but this one kind of reduction into this one element."""
    return all(
        isinstance(child, Accumulate) and child.indices == write.indices and child.reduction == write.reduction
        for child in loop.body
        if isinstance(child, Store | Accumulate) and child.target == write.target
    )
