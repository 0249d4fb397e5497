"""Where the lanes of a warp must wait for one another: before one touches what another wrote in memory."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir.kernels import Barrier, Loop, ScheduledKernel, Statement, Where
from explorer.compiler.ir.loops import Load
from explorer.compiler.schedule.edit.queries import Body, access_of, array_of, scheduled


@dataclass(frozen=True)
class Touch:
    """What accesses of one kind do to a tile in shared memory, or to an output that the kernel reads again.

    `lanes` says which lanes touch which elements. Two accesses alike in it touch an element from the same lane:
    `own p n s` by the lane of that index p below n in steps of s, `first` by the first lane; `all` is any other."""

    array: str
    lanes: str
    writes: bool

    def disturbs(self, other: Touch) -> bool:
        """Whether a lane may touch an element that another lane writes, when one follows the other."""
        apart = self.lanes != other.lanes or self.lanes == "all"
        return self.array == other.array and (self.writes or other.writes) and apart


def add_barriers(kernel: ScheduledKernel, arrays: frozenset[str]) -> ScheduledKernel:
    """The warp in step wherever one lane needs what another did to these arrays."""
    body = _in_step(kernel.body, arrays)
    return kernel if body == kernel.body else scheduled(kernel, "keep the lanes of a warp in step", body)


def _in_step(body: Body, arrays: frozenset[str], *, repeats: bool = False) -> Body:
    """`repeats`: the statements are a loop's body, so the first follow the last."""
    touches = [_touches(statement, arrays, None) for statement in body]
    pending: set[Touch] = set()
    result: list[Statement] = []
    for statement, mine in zip(body, touches, strict=True):
        if _disturb(pending, mine):
            result.append(Barrier(origin=statement.origin, level="warp"))
            pending = set()
        if isinstance(statement, Loop) and statement.bind not in ("lane", "thread"):
            again = statement.bind == ""
            statement = replace(statement, body=_in_step(statement.body, arrays, repeats=again))
        elif isinstance(statement, Where):
            statement = replace(statement, body=_in_step(statement.body, arrays))
        result.append(statement)
        pending |= mine
    if repeats and _disturb(pending, set().union(*touches)):
        result.append(Barrier(origin=body[-1].origin, level="warp"))
    return tuple(result)


def _disturb(before: set[Touch], after: set[Touch]) -> bool:
    return any(first.disturbs(second) for first in before for second in after)


def _touches(statement: Statement, arrays: frozenset[str], loop: Loop | None) -> set[Touch]:
    """What a statement and those below it do to the arrays; `loop` is the one around it that lanes share, if any."""
    if isinstance(statement, (Loop, Where)):
        shared = isinstance(statement, Loop) and statement.bind == "lane"
        inner = statement if shared and isinstance(statement, Loop) else loop
        return set().union(*(_touches(child, arrays, inner) for child in statement.body))
    access = access_of(statement)
    if access is None or array_of(access) not in arrays:
        return set()
    writes = not isinstance(access, Load)
    if loop is not None and loop.lower == 0 and loop.variable in access.indices:
        lanes = f"own {access.indices.index(loop.variable)} {loop.extent} {loop.step}"
    else:
        lanes = "first" if writes and loop is None else "all"
    return {Touch(array_of(access), lanes, writes)}


def holds_barriers(body: Sequence[Statement]) -> bool:
    """Whether lanes wait for one another anywhere in these statements."""
    return any(
        isinstance(statement, Barrier) or (isinstance(statement, (Loop, Where)) and holds_barriers(statement.body))
        for statement in body
    )
