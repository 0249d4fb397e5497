"""Which loops the lanes of a warp may share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.kernels import Loop, ScheduledKernel, Tile, Where, inputs_of, reads_of, result_of
from explorer.compiler.ir.loops import Accumulate, Accumulator, Index, Load, Store
from explorer.compiler.ir.node import Atom, Node, walk
from explorer.compiler.schedule.edit.queries import Body, accesses, array_of, static_extent, touched_in
from explorer.compiler.target import WARP

JOINING = WARP.bit_length() - 1
"""Exchanges in which the lanes of a warp join their parts of a sum, by halves."""
SHORT = 8
"""Elements of a row up to which lanes may read one row each: as many lines of memory at a time, that stay in a cache
until all of a row is read."""


def shared_by_lanes(kernel: ScheduledKernel, body: Body, outputs: set[str]) -> tuple[str, ...]:
    """The variables of the loops that lanes share: the innermost ones that they may; where such a loop is a sum that
    an iteration of another takes for itself, and that other one has more work for lanes, the other one.

        for d in 0..80                           for d in 0..80 @lane
          acc s = 0.0                              acc s = 0.0
          for i in 0..3 @lane { s += ... }   ->    for i in 0..3 { s += ... }
          reduce s over 32 lanes                   out[d] = s
          out[d] = s
    """
    found: dict[str, None] = {}
    for around, loop in _innermost(body, ()):
        if not spreads(loop, outputs):
            continue
        outer = around[-1] if around else None
        whole = outer is not None and _takes_sums(kernel, outer, outputs) and spreads(outer, outputs)
        found[outer.variable if whole and outer is not None else loop.variable] = None
    return tuple(found)


def _innermost(body: Body, around: tuple[Loop, ...]) -> Iterator[tuple[tuple[Loop, ...], Loop]]:
    """The loops that hold no loop, each with those around it, in program order."""
    for statement in body:
        if isinstance(statement, Where):
            yield from _innermost(statement.body, around)
        elif isinstance(statement, Loop):
            inner = list(_innermost(statement.body, (*around, statement)))
            yield from inner or [(around, statement)]


def _takes_sums(kernel: ScheduledKernel, outer: Loop, outputs: set[str]) -> bool:
    """Whether all that the loops in a loop do is take sums of an iteration's own, which lanes take in fewer steps with
    an iteration each, a line of memory that they read being a step."""
    inner = [statement for statement in outer.body if isinstance(statement, Loop)]
    own = {statement.name for statement in outer.body if isinstance(statement, Accumulator)}
    sums = [node for loop in inner for node in walk(loop) if isinstance(node, (Store, Accumulate))]
    if not all(isinstance(each, Accumulate) and each.target in own for each in sums):
        return False
    iterations, trips = static_extent(kernel, outer.extent), [static_extent(kernel, loop.extent) for loop in inner]
    if outer.lower != 0 or iterations is None or any(loop.lower != 0 for loop in inner):
        return False
    touched = [access for name in touched_in(outer) for access in accesses(outer, name)]
    lines = [_lines(kernel, outer, access) for access in touched]
    if None in trips or None in lines:
        return False
    each = sum(trip or 0 for trip in trips) * max((line or 1 for line in lines), default=1)
    joined = sum(-(-(trip or 0) // WARP) + JOINING for trip in trips)
    return -(-iterations // WARP) * each < iterations * joined


def _lines(kernel: ScheduledKernel, loop: Loop, access: Load | Store | Accumulate) -> int | None:
    """How many lines of the GPU's memory neighbouring iterations of a loop touch, each of a lane: one where they touch
    neighbours, or one element, and as many as a row is long where each has its own; None where these are long."""
    extents = next((buffer.extents for buffer in kernel.buffers if buffer.name == array_of(access)), ())
    places = _Places.of(loop)
    if not extents or not any(places.follow(index) for index in access.indices[:-1]):
        return 1
    length = static_extent(kernel, extents[-1])
    short = len(access.indices) == 2 and length is not None and length <= SHORT and places.follow(access.indices[0])
    return length if short else None


@dataclass(frozen=True)
class _Places:
    """Names in a loop's body: `apart` those that are the loop's variable and something that is the same in all
    iterations, so that each iteration has its own; `following` those that the variable is part of in any way."""

    apart: frozenset[str]
    following: frozenset[str]

    @classmethod
    def of(cls, loop: Loop) -> _Places:
        nodes = [node for statement in loop.body for node in walk(statement)]
        local = {name for node in nodes if (name := result_of(node)) is not None}
        steady = local & _steady(nodes, {loop.variable})
        apart = {loop.variable}
        for node in nodes:
            if isinstance(node, Index) and node.function == "add":
                others = [operand for operand in node.operands if operand not in apart]
                if len(others) == 1 and (others[0] not in local or others[0] in steady):
                    apart.add(node.result)
        return cls(frozenset(apart), frozenset(_following(nodes, loop.variable)))

    def tell(self, indices: tuple[Atom, ...]) -> bool:
        """Whether an index is another one in each iteration."""
        return not self.apart.isdisjoint(map(str, indices))

    def follow(self, index: Atom) -> bool:
        """Whether an index may be another one in each iteration."""
        return index in self.following


def _following(nodes: Sequence[Node], variable: str) -> set[str]:
    """The names that a loop's variable is part of in any way."""
    found = {variable}
    for node in nodes:
        name = result_of(node)
        if name is not None and not found.isdisjoint(reads_of(node)):
            found.add(name)
    return found


def _steady(nodes: Sequence[Node], variables: set[str]) -> set[str]:
    """The index arithmetic that is the same in all iterations of a loop of these variables."""
    changing = set(variables)
    found: set[str] = set()
    for node in nodes:
        name = result_of(node)
        if name is None:
            continue
        if isinstance(node, Index) and changing.isdisjoint(map(str, node.operands)):
            found.add(name)
        else:
            changing.add(name)
    return found


def spreads(loop: Loop, outputs: set[str]) -> bool:
    """Whether lanes may share the iterations: each writes elements of its own, or all reduce into one."""
    nodes = [node for statement in loop.body for node in walk(statement)]
    places, read = _Places.of(loop), {name for node in nodes for name in inputs_of(node)}
    made = {name for node in nodes if (name := result_of(node)) is not None}
    for statement in nodes:
        if isinstance(statement, Tile):
            return False
        if not isinstance(statement, (Store, Accumulate)) or statement.target in made:
            continue
        if places.tell(statement.indices):
            others = accesses(loop, statement.target)
            if statement.target in outputs:
                others = [access for access in others if isinstance(access, Load)]
            mine = all(access.indices == statement.indices for access in others)
        else:
            fixed = made.isdisjoint(map(str, statement.indices)) and statement.target not in read
            mine = isinstance(statement, Accumulate) and fixed and _only_reduced(nodes, statement)
        if not mine:
            return False
    return True


def _only_reduced(nodes: Sequence[Node], write: Accumulate) -> bool:
    """Whether statements do nothing with the target but this one kind of reduction into this one element."""
    return all(
        isinstance(child, Accumulate) and child.indices == write.indices and child.reduction == write.reduction
        for child in nodes
        if isinstance(child, (Store, Accumulate)) and child.target == write.target
    )
