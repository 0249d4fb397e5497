"""How several cores share a program: each takes an equal, contiguous part of the iterations of every outermost
traversal (bags, rows, triples), the first ones one more where they do not divide."""

from __future__ import annotations

from collections.abc import Callable

from explorer.compiler.ir.access import dlc, execute
from explorer.compiler.ir.node import Atom, Node
from explorer.machine.assembly.binding import InputError


def slice_traversals(
    program: dlc.DlcProgram, known: Callable[[Atom], int | None], cores: int
) -> dict[str, list[tuple[int, int]]]:
    """The bounds of each outermost traversal for each core."""
    slices = {}
    for traversal in program.traversals(None):
        lower, upper = known(traversal.lower), known(traversal.upper)
        if lower is None or upper is None:
            raise InputError(f"the bounds of the outermost traversal {traversal.name} are not known before the run")
        if cores > 1 and any(isinstance(stream, dlc.AccStream) for stream in program.streams(traversal.name)):
            raise InputError(
                f"{cores} cores cannot share {traversal.name}: each of its iterations goes on from the sum of those "
                "before it; run it on one core, or without accumulation streams"
            )
        steps = len(range(lower, upper, traversal.stride))
        firsts = [lower + traversal.stride * (core * steps // cores) for core in range(cores)]
        slices[traversal.name] = list(zip(firsts, [*firsts[1:], max(lower, upper)], strict=True))
    return slices


def slice_counter(
    program: dlc.DlcProgram, counter: execute.Counter, slices: dict[str, list[tuple[int, int]]], cores: int
) -> list[int]:
    """What a counter is at the start of each core's part: it has gone on once an iteration, or it starts anew there."""
    if cores == 1:
        return [counter.start]
    changes = [
        (case.token, statement)
        for case in program.execute
        for statement in _statements(case.body)
        if isinstance(statement, execute.Increment | execute.Reset) and statement.target == counter.name
    ]
    if any(isinstance(statement, execute.Reset) for _, statement in changes):
        return [counter.start] * cores
    starts = [counter.start] * cores
    for token, statement in changes:
        root = _once_an_iteration(program, token)
        if root is None or not isinstance(statement, execute.Increment):
            raise InputError(f"{cores} cores cannot share the program: where {counter.name} stands depends on data")
        first = slices[root.name][0][0]
        for core, (lower, _) in enumerate(slices[root.name]):
            starts[core] += statement.by * ((lower - first) // root.stride)
    return starts


def _once_an_iteration(program: dlc.DlcProgram, token: str) -> dlc.Traversal | None:
    """The outermost traversal at each of whose iterations the token is pushed once, if there is one."""
    callback = next(s for s in program.access if isinstance(s, dlc.Callback) and s.token == token)
    if callback.toggle:
        return None
    for root in program.traversals(None):
        children = {child.name for child in program.traversals(root.name)}
        if (callback.traversal == root.name and callback.event == "ite") or (
            callback.traversal in children and callback.event != "ite"
        ):
            return root
    return None


def _statements(body: tuple[Node, ...]) -> list[Node]:
    """All statements of a case, those inside loops too."""
    return [inner for statement in body for inner in (statement, *_statements(execute.body_of(statement)))]
