"""Sums that lanes take together: a part in each lane, and where the parts are put together."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from explorer.compiler.frozen import replace
from explorer.compiler.ir.kernels import AtomicAccumulate, Loop, Reduce, ScheduledKernel, Statement, Where
from explorer.compiler.ir.loops import Accumulate, Accumulator, Store, reads_of
from explorer.compiler.ir.node import Atom, Names, merge, walk
from explorer.compiler.schedule.edit.queries import Body, edit, names_of, scheduled

NEUTRAL = {"sum": 0.0, "product": 1.0, "max": -math.inf, "min": math.inf}
"""What a reduction starts with so that it changes nothing."""
STARTS = {"sum": (0.0,), "product": (1.0,), "max": None, "min": None}
"""Starts with which every lane's part may begin alike; None: any, as a maximum of equals changes nothing."""


def reduce_parts(kernel: ScheduledKernel, lanes: int) -> ScheduledKernel:
    """Every accumulator that lanes add to reduced over so many lanes: once after the last of its loops where nothing
    asks for it before, else after each loop, whose part it then adds."""
    body = _reduced(kernel.body, lanes, frozenset(), names_of(kernel))
    targets = sorted({node.target for s in body for node in walk(s) if isinstance(node, Reduce)})
    if not targets:
        return kernel
    return scheduled(kernel, f"reduce {', '.join(targets)} over {lanes} lanes", body)


def _reduced(body: Body, lanes: int, waiting: frozenset[str], names: Names) -> Body:
    ends: dict[int, list[Statement]] = {}
    last = last_accumulations(body)
    for place, statement in enumerate(body):
        if isinstance(statement, Accumulator):
            until = last.get(statement.name, place)
            if reduction := _waits(statement, body[place + 1 : until + 1]):
                waiting |= {statement.name}
                ends.setdefault(until, []).append(_reduce(body[until], statement.name, reduction, lanes))
    result: list[Statement] = []
    for place, statement in enumerate(body):
        if isinstance(statement, Loop) and _over_row(statement):
            result += _with_parts(statement, lanes, waiting, names)
        elif isinstance(statement, (Loop, Where)):
            result.append(replace(statement, body=_reduced(statement.body, lanes, waiting, names)))
        else:
            result.append(statement)
        result += ends.get(place, ())
    return tuple(result)


def _reduce(after: Statement, target: str, reduction: str, lanes: int) -> Reduce:
    sums = [node for node in walk(after) if isinstance(node, Accumulate) and node.target == target]
    return Reduce(origin=merge(*(s.origin for s in sums)), target=target, reduction=reduction, lanes=lanes)


def _over_row(loop: Loop) -> bool:
    """Whether lanes share a loop, and none in it: not one that gives groups of lanes an iteration each."""
    inner = (node for statement in loop.body for node in walk(statement))
    return loop.bind == "lane" and not any(isinstance(node, Loop) and node.bind for node in inner)


def last_accumulations(body: Sequence[Statement]) -> dict[str, int]:
    """For each target, the place in `body` of the last statement that accumulates into it, itself or below."""
    return {
        node.target: place
        for place, statement in enumerate(body)
        for node in walk(statement)
        if isinstance(node, Accumulate)
    }


def _waits(accumulator: Accumulator, body: Body) -> str:
    """The reduction of an accumulator whose parts nobody asks for in these statements; empty if there is none."""
    reductions = set()
    for node, in_lanes in _with_place(body, False):
        if isinstance(node, Accumulate) and node.target == accumulator.name:
            reductions.add(node.reduction)
            if not in_lanes or accumulator.name in node.operands:
                return ""
        elif accumulator.name in reads_of(node):
            return ""
    if len(reductions) != 1:
        return ""
    (reduction,) = reductions
    starts = STARTS[reduction]
    return reduction if starts is None or accumulator.start in starts else ""


def _with_place(body: Body, in_lanes: bool) -> Iterator[tuple[Statement, bool]]:
    for statement in body:
        yield statement, in_lanes
        if isinstance(statement, (Loop, Where)):
            shared = isinstance(statement, Loop) and _over_row(statement)
            yield from _with_place(statement.body, in_lanes or shared)


def _with_parts(loop: Loop, lanes: int, waiting: frozenset[str], names: Names) -> Iterator[Statement]:
    """A loop that lanes share between the part that each lane starts and what adds the parts to their target."""
    nodes = [node for child in loop.body for node in walk(child)]
    local = {child.name for child in nodes if isinstance(child, Accumulator)} | waiting
    sums = [
        child
        for child in nodes
        if isinstance(child, Accumulate) and child.target not in local and loop.variable not in child.indices
    ]
    firsts = {(child.target, child.indices): child for child in reversed(sums)}
    parts = {place: names.new(f"{place[0]}_part") for place in firsts}
    for place, child in firsts.items():
        yield Accumulator(origin=child.origin, name=parts[place], start=NEUTRAL[child.reduction])
    yield replace(loop, body=edit(loop.body, lambda child: (_into_part(child, parts),)))
    for (target, indices), child in firsts.items():
        part = parts[target, indices]
        yield Reduce(origin=child.origin, target=part, reduction=child.reduction, lanes=lanes)
        yield replace(child, function="copy", operands=(part,))


def _into_part(statement: Statement, parts: dict[tuple[str, tuple[Atom, ...]], str]) -> Statement:
    if not isinstance(statement, Accumulate) or (statement.target, statement.indices) not in parts:
        return statement
    return Accumulate(
        origin=statement.origin,
        target=parts[statement.target, statement.indices],
        indices=(),
        reduction=statement.reduction,
        function=statement.function,
        operands=statement.operands,
    )


def make_atomic(kernel: ScheduledKernel, outputs: frozenset[str]) -> ScheduledKernel:
    """The sums in these outputs made atomic: other warps add to the same elements."""
    if not outputs:
        return kernel
    line = f"add to {', '.join(sorted(outputs))} atomically"
    return scheduled(kernel, line, _atomic(kernel.body, outputs, Accumulate))


def stores_added(body: Body, outputs: Collection[str]) -> Body:
    """The body with each store in these outputs as an atomic sum: others add to the same elements of what has been
    cleared."""
    return _atomic(body, outputs, Store)


def _atomic(body: Body, outputs: Collection[str], kind: type[Accumulate | Store]) -> Body:
    """The body with statements of a kind in these outputs as atomic sums, or of the reduction that they are."""

    def of(statement: Statement) -> Body:
        if not isinstance(statement, (Accumulate, Store)) or not isinstance(statement, kind):
            return (statement,)
        if statement.target not in outputs:
            return (statement,)
        return (
            AtomicAccumulate(
                target=statement.target,
                indices=statement.indices,
                reduction=statement.reduction if isinstance(statement, Accumulate) else "sum",
                function=statement.function,
                operands=statement.operands,
                origin=statement.origin,
            ),
        )

    return edit(body, of)
