"""Takes sums of exp(x - max x) while the maximum is still growing: one visit of a segment's elements instead of three.

Where a loop has the maximum m of some x, and loops over the same elements sum terms with a factor exp(x - m), one loop
can do both: whenever the maximum grows from m to m', what has been summed so far is multiplied by exp(m - m') (online
normalisation, Milakov and Gimelshein 2018; Dao et al. 2022 for rows). The sums must be proportional to exp(-m): each
value of the loops is followed through that question alone.

The running maximum starts at the lowest f32 number, not at -inf, so that no difference of infinities arises. Where all
x of a segment are -inf the sums are 0 then, and not NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.compiler.frozen import replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Atom, Names, once, walk
from explorer.compiler.ir.set_maps import THROUGH, sorted_maps
from explorer.compiler.ir.statements import (
    alive,
    all_names,
    names_read,
    read_in,
    segment_bounds,
    written_in,
    written_names,
)
from explorer.compiler.passes.loops.one_loop import Maximum, Merging, Refusal, Sums
from explorer.compiler.report import Report

LOWEST = -3.4028234663852886e38
"""The lowest finite f32 number, in which the search for a maximum starts."""


@each_program
def online(kernel: loops.Kernel, report: Report) -> loops.Kernel:
    """The kernel with each maximum and the sums that wait for it taken in one loop, where they can be."""
    return replace(kernel, body=tuple(_in_loop(s, kernel, report) for s in kernel.body))


def _in_loop(statement: loops.Statement, kernel: loops.Kernel, report: Report) -> loops.Statement:
    if not isinstance(statement, loops.For) or not statement.parallel:
        return statement
    body, names = statement.body, Names(all_names(kernel))
    for inner in statement.body:
        at = next((at for at, each in enumerate(body) if each is inner), None)
        largest = _maximum(body, at) if isinstance(inner, loops.For) and at is not None else None
        if largest is None:
            continue
        try:
            body = _merged(body, largest, kernel, names, report)
        except Refusal as reason:
            report.refused(f"{largest.name} is found before its sums: {reason}")
    return replace(statement, body=body)


def _maximum(body: Sequence[loops.Statement], at: int) -> Maximum | None:
    """The maximum that the loop at that place finds, if that is all it does."""
    loop = body[at]
    assert isinstance(loop, loops.For)
    writes = [node for node in walk(loop) if isinstance(node, (loops.Accumulate, loops.Store, loops.Row))]
    if len(writes) != 1 or not isinstance(writes[0], loops.Accumulate) or writes[0].reduction != "max":
        return None
    name = writes[0].target
    starts = [s for s in body[:at] if _starts(s, name)]
    ends = [s for s in body[at + 1 :] if name in read_in(s) and _ends(s, name)]
    if not starts or not ends or not isinstance(loop.extent, str):
        return None
    return Maximum(name, loop, writes[0], starts[-1], ends[0])


def _starts(statement: loops.Statement, name: str) -> bool:
    if isinstance(statement, loops.Accumulator):
        return statement.name == name and statement.start == float("-inf")
    if name not in written_in(statement):
        return False
    stores = [node for node in walk(statement) if isinstance(node, loops.Store)]
    return len(stores) == 1 and stores[0].target == name and stores[0].operands == (float("-inf"),)


def _ends(statement: loops.Statement, name: str) -> bool:
    computes = [node for node in walk(statement) if isinstance(node, loops.Compute)]
    if len(computes) != 1 or computes[0].function != "unless_empty":
        return False
    return computes[0].operands[0] == name or (
        isinstance(statement, loops.For) and written_names([statement]) == {name}
    )


def _proportional(largest: Maximum, loop: loops.For, kernel: loops.Kernel) -> set[str]:
    """The names in a loop, and of what it sums into, that are proportional to exp(-m); raises Refusal for what
    depends on m in any other way."""
    of_max: set[str] = set() if largest.reduction.indices else {largest.result}
    found: set[str] = set()
    shifted: set[str] = set()  # x - m
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    for node in walk(loop):
        if isinstance(node, loops.Load) and node.buffer == largest.name:
            of_max.add(node.result)
        elif isinstance(node, loops.Load) and node.buffer in found:
            found.add(node.result)
        elif isinstance(node, (loops.Compute, loops.Accumulate, loops.Store)):
            inputs = [atom for atom in node.operands if atom in of_max | found | shifted]
            made = node.result if isinstance(node, loops.Compute) else node.target
            if not inputs:
                continue
            kind = _kind(node, inputs, of_max, shifted)
            if kind == "shifted" and isinstance(node, loops.Compute):
                shifted.add(made)
            elif kind == "proportional" and not (isinstance(node, loops.Accumulate) and node.reduction != "sum"):
                if isinstance(node, loops.Store) and made in outputs:
                    raise Refusal(f"{made} is stored before the maximum is known")
                found.add(made)
            else:
                raise Refusal(f"{loops.print_statement(node)} is not proportional to exp(-{largest.name})")
    for node in walk(loop):
        if isinstance(node, (loops.Accumulate, loops.Store)) and node.target in found:
            zero = isinstance(node, loops.Store) and node.operands == (0.0,)
            if not zero and found.isdisjoint(node.operands):
                raise Refusal(f"{loops.print_statement(node)} is not proportional to exp(-{largest.name})")
    return found


def _kind(
    node: loops.Compute | loops.Accumulate | loops.Store, inputs: Sequence[Atom], of_max: set[str], shifted: set[str]
) -> str:
    """What a result is whose operands depend on m: "shifted" (x - m), "proportional" to exp(-m), or "" for neither."""
    function, operands = node.function, node.operands
    if function == "sub" and operands[1] in of_max and len(inputs) == 1:
        return "shifted"
    if function == "exp" and inputs[0] in shifted:
        return "proportional"
    if any(name in of_max | shifted for name in inputs):
        return ""
    if function in ("copy", "neg") or (function == "mul" and len(inputs) == 1):
        return "proportional"
    if function == "div" and inputs == [operands[0]]:
        return "proportional"
    if function in ("add", "sub") and len(inputs) == 2:
        return "proportional"
    return ""


# Which loops visit the same elements


def _inner_loop(
    loop: loops.For, largest: Maximum, defined: dict[str, loops.Statement], edges: str
) -> tuple[loops.For, str] | None:
    """The loop over the maximum's elements that a loop is or holds, if it visits just those: the edges of a node, or
    those of its pairs, one pair after another, as they lie where edges are sorted by the end `edges`."""
    bounds = largest.loop.lower, largest.loop.extent
    if (loop.lower, loop.extent) == bounds:
        return loop, ""
    inner = [s for s in loop.body if isinstance(s, loops.For) and isinstance(s.extent, str) and s.extent in defined]
    bounds_of = [segment_bounds(each, defined) for each in (largest.loop, loop, *inner)]
    if len(inner) != 1 or None in bounds_of:
        return None
    segments = ((found[0].removesuffix("_ptr"), found[1]) for found in bounds_of if found is not None)
    (whole, place), (outer, row), (along, inside) = segments
    together = THROUGH.get((along, whole)) == outer and {whole, outer, along} <= sorted_maps(edges).keys()
    return (inner[0], along) if together and row == place and inside == loop.variable else None


# The one loop


def _merged(
    body: tuple[loops.Statement, ...], largest: Maximum, kernel: loops.Kernel, names: Names, report: Report
) -> tuple[loops.Statement, ...]:
    """The body with the maximum's loop and those of its sums as one, at the place of the last of them."""
    at = body.index(largest.loop)
    early, late, sums = _parted(body[at + 1 :], largest, kernel, report.options.edges)
    if not sums:
        return body
    if not report.options.online:
        raise Refusal("the option online is off")
    if len(largest.reduction.indices) > 1:
        raise Refusal("it has more than one dimension")
    _check_starts(body, sums)
    host = next((each for each in sums if each.nested), sums[0])
    if any(each.nested for each in sums if each is not host):
        raise Refusal("two of the loops that wait for it hold loops of their own")
    before = tuple(_restarted(s) if s is largest.start else s for s in body[:at])
    merging = Merging(largest, kernel, names, host, [each for each in sums if each is not host])
    loop = merging.loop((*before, *early))
    rows = {s.name for s in before if isinstance(s, loops.Row)}
    if largest.name in rows and largest.name not in names_read(s for s in late if s is not largest.end):
        late.remove(largest.end)
    result = alive((*before, *early, loop, *late))
    loads = [sum(_loads(s) for s in part if _loops_over_segments(s)) for part in (body, result)]
    report.did(
        f"{largest.name} and what waits for it in one loop: {1 + len(sums)} visits of the elements -> 1,"
        f" {loads[0]} loads -> {loads[1]}; the sums are proportional to exp(-{largest.name}), and rescaled as it grows"
    )
    return result


@once
def _loads(statement: loops.Statement) -> int:
    return sum(isinstance(node, loops.Load) for node in walk(statement))


def _loops_over_segments(statement: loops.Statement) -> bool:
    return isinstance(statement, loops.For) and statement.lower != 0


@once
def _definitions(kernel: loops.Kernel) -> dict[str, loops.Statement]:
    return {name: node for node in walk(kernel) if (name := loops.result_of(node)) is not None}  # type: ignore[misc]


def _parted(
    rest: Sequence[loops.Statement], largest: Maximum, kernel: loops.Kernel, edges: str
) -> tuple[list[loops.Statement], list[loops.Statement], list[Sums]]:
    """What follows the maximum's loop: what can go before the one loop, what must come after it, what becomes part."""
    defined = _definitions(kernel)
    early: list[loops.Statement] = []
    late: list[loops.Statement] = []
    sums: list[Sums] = []
    waiting = {largest.name, largest.result}  # names that have their final values only after the one loop
    refusal: Refusal | None = None
    for statement in rest:
        touched = waiting & read_in(statement) | waiting & written_in(statement)
        if isinstance(statement, loops.For) and touched == {largest.result} and statement is not largest.end:
            inner = _inner_loop(statement, largest, defined, edges)
            try:
                if inner is not None:
                    found = frozenset(_proportional(largest, statement, kernel))
                    sums.append(Sums(statement, inner[0], found, inner[1]))
                    waiting |= written_names([statement])
                    continue
            except Refusal as reason:
                refusal = reason
        if touched:
            late.append(statement)
            waiting |= written_names([statement]) | {loops.result_of(statement) or largest.name}
        else:
            early.append(statement)
    if refusal is not None and not sums:
        raise refusal
    return early, late, sums


def _check_starts(body: Sequence[loops.Statement], sums: Sequence[Sums]) -> None:
    """Whether all that the loops add to starts from 0, which is proportional to anything."""
    targets = {name for each in sums for name in written_names([each.loop]) & each.proportional}
    for statement in body:
        if any(statement is each.loop for each in sums):
            return
        if not isinstance(statement, loops.Accumulator) and targets.isdisjoint(written_in(statement)):
            continue
        for node in walk(statement):
            if isinstance(node, loops.Accumulator) and node.name in targets and node.start != 0:
                raise Refusal(f"{node.name} starts from {node.start}")
            if isinstance(node, (loops.Store, loops.Accumulate)) and node.target in targets and node.operands != (0.0,):
                raise Refusal(f"{node.target} holds more than these sums")


def _restarted(statement: loops.Statement) -> loops.Statement:
    """The start of the maximum, at the lowest number."""
    match statement:
        case loops.Accumulator():
            return replace(statement, start=LOWEST)
        case loops.Store():
            return replace(statement, operands=(LOWEST,))
        case loops.For():
            return replace(statement, body=tuple(_restarted(s) for s in statement.body))
    return statement
