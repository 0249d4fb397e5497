"""Whose the loops, the conditions and the address arithmetic are that a schedule writes around the model's statements.

What a strategy writes has the strategy's origin, a whole product's, say. Inside a loop from which values of one
operation alone leave, it is there for that operation, and the strategy's others contribute as they do elsewhere:

    @       for pass in 0..2                            P[r]    for pass in 0..2
    @         index row = pass * 8              ->      P[r]      index row = pass * 8
    P[r]      copy right[0, row] = P[ir, row]           P[r]      copy right[0, row] = P[ir, row]
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.compiler.frozen import replace
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import Made, Origin, Span, merge
from explorer.compiler.ir.statements import written_in

WRITES = (loops.Store, loops.Accumulate, kernels.Reduce, kernels.Multiply, kernels.Loop, kernels.Where)


def around(body: Sequence[kernels.Statement], strategy: Origin) -> tuple[tuple[kernels.Statement, ...], Origin]:
    """A body, of which the statements of the strategy's own origin get that of what they are there for, and the origin
    of the loop or the condition around it."""
    own = {s.name for s in body if isinstance(s, (kernels.Tile, loops.Accumulator))}
    primaries = {s.origin[0] for s in body if isinstance(s, WRITES) and s.origin and not _stays(s, own)}
    if isinstance(strategy[0], Made):  # what serves the strategy alone needs no name of its own
        primaries = {each for each in primaries if isinstance(each, Span)}
    if len(primaries) != 1 or primaries == {*strategy[:1]}:
        return tuple(body), strategy
    origin = merge((*primaries,), strategy)
    return tuple(replace(s, origin=origin) if s.origin is strategy else s for s in body), origin


def _stays(statement: kernels.Statement, own: set[str]) -> bool:
    """Whether all that a statement writes is declared beside it."""
    if isinstance(statement, (kernels.Reduce, kernels.Multiply)):
        return statement.target in own
    return bool(written := written_in(statement)) and written <= own
