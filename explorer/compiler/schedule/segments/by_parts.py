"""Long segments of few rows in parts: each row's segment is shared out among iterations of a kernel of its own.

A warp that walks a row's segment alone is all that works on it: where rows are few and long, most of a GPU waits. What
an iteration's loops over its segment reduce is computed for each part of the segment, all parts at once, and put
together by whoever needs it next:

    parallel for r in 0..rows                       parallel for p in 0..rows * 16
      row y[F]; for f { y[f] = -inf }                 r = p / 16; [from, upto) = a sixteenth of r's segment
      for e in begin..end { y[f] max= v[e, f] }       row y[F]; for e in from..upto { y[f] max= v[e, f] }
      acc s = 0                                       for f { y_parts[p, f] = y[f] }
      for e in begin..end { s += g(y, e) }     ->   parallel for p in 0..rows * 16
      out[r] = h(y, s)                                row y[F]; for u in 0..16 { y[f] max= y_parts[r * 16 + u, f] }
                                                      acc s; for e in from..upto { s += g(y, e) }; s_parts[p] = s
                                                    parallel for r in 0..rows
                                                      y and s of all parts; out[r] = h(y, s)

Loops that need nothing of one another have one kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Names, Node, walk
from explorer.compiler.ir.statements import (
    alive,
    closure,
    is_segment,
    names_read,
    redirected,
    written_in,
    written_names,
)
from explorer.compiler.report import Report
from explorer.compiler.schedule.distribute.join_segments import join_segments
from explorer.compiler.schedule.edit.nests import Body, only_loop, part, static_loop
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.lanes.state import scale_of
from explorer.compiler.schedule.segments.by_rows import elements_in_flight

OF_PARTS = "parts"
"""The template of a kernel whose iterations are parts of rows, or put parts together."""
LONG = 32
"""Elements that rows have on average from which on they are worth parts: what the usual strategy is told by."""
SHORTEST = 8
"""Elements of a part, at least, usually: each part's state is stored and read again."""
MOST = 64
PARTS = Decision(
    name="parts",
    domain=(2, 4, 8, 16, 32, MOST),
    why="parts of a row: more have more warps at work, and whoever puts them together takes one after another",
    source="as many as keep all multiprocessors busy, of 8 elements or more, up to 64",
)
MOST_TURNS = 16
"""Loads one after another from which on a row in parts is put together sooner than walked: each takes about 0.7 us on
an H100, a kernel that puts parts together about 4."""
NEUTRAL = {"sum": 0.0, "product": 1.0}
"""What begins so may begin in every part; maxima and minima may begin anywhere."""


@dataclass(frozen=True)
class InParts:
    """The kernels, and how many parts there are, by name."""

    kernels: tuple[loops.Kernel, ...]
    count: tuple[str, Count]


def in_parts(kernel: loops.Kernel, names: Names, report: Report) -> InParts | None:
    """The kernels of a nest whose segments are shared out; None where rows are many or short, or nobody knows, or a
    loop over a segment does more than reduce."""
    loop = only_loop(kernel)
    if loop is None or kernel.template == OF_PARTS or not isinstance(loop.extent, str):
        return None
    segments = [s for s in loop.body if isinstance(s, loops.For) and is_segment(kernel, s)]
    usual = _usual_parts(kernel, loop, report)
    inner = [node for s in segments for node in walk(s) if isinstance(node, loops.For) and node is not s]
    if usual < 2 or any(is_segment(kernel, node) for node in inner):
        return None
    found = {id(segment): _reductions(kernel, loop, segment) for segment in segments}
    if not all(found.values()):
        return None
    count, parts = names.new(f"{kernel.name}_parts"), report.number(kernel.name, PARTS, usual)
    nest = _Nest(kernel, loop, parts, count, Writer(kernel, loop.origin), names)
    made = nest.kernels(segments, {key: states for key, states in found.items() if states})
    return InParts(made, (count, Count(((loop.extent, 1),), parts))) if made else None


def waits_long(kernel: loops.Kernel, report: Report) -> bool:
    """Whether whoever walks a row of a kernel by rows waits so often that parts are sooner done and put together: for
    what each of the loops over an element's rows loads."""
    loop = only_loop(kernel)
    if loop is None or not isinstance(loop.extent, str):
        return False
    rows, elements = _counted(kernel, loop, report)
    if not rows or elements < LONG * rows:
        return False
    together = elements_in_flight(join_segments(kernel), report.like(None))
    segments = [node for s in loop.body if is_segment(kernel, s) for node in walk(s) if isinstance(node, loops.For)]
    inside = sum(not is_segment(kernel, node) for node in segments)
    return together > 0 and elements * max(1, inside) >= MOST_TURNS * together * rows


def _counted(kernel: loops.Kernel, loop: loops.For, report: Report) -> tuple[int, int]:
    """How many rows there are, and elements of all of their segments; 0 where nobody knows."""
    extents = {buffer.name: buffer.extents for buffer in kernel.buffers}
    elements = [
        report.counts.of(str(extents[node.buffer][0])) or 0
        for segment in loop.body
        if isinstance(segment, loops.For) and is_segment(kernel, segment)
        for node in walk(segment)
        if isinstance(node, loops.Load) and node.indices[:1] == (segment.variable,) and node.buffer in extents
    ]
    return report.counts.of(str(loop.extent)) or 0, max(elements, default=0)


def _usual_parts(kernel: loops.Kernel, loop: loops.For, report: Report) -> int:
    """How many parts a row usually has, a power of 2: as many as keep all multiprocessors busy, if rows are that
    long."""
    count, elements = _counted(kernel, loop, report)
    if not count or elements < LONG * count:
        return 1
    parts = 1
    while parts < MOST and count * parts < report.target.busy_warps and elements >= 2 * parts * SHORTEST * count:
        parts *= 2
    return parts


@dataclass(frozen=True)
class _State:
    """A row, an accumulator or the row of an output that a segment's loop reduces into: `extents` of a row's part, and
    how; a sum may be kept relative to exp of a maximum, its `scale`."""

    name: str
    extents: tuple[Extent, ...]
    reduction: str
    start: float
    of_output: bool = False
    scale: str = ""


def _reductions(kernel: loops.Kernel, loop: loops.For, segment: loops.For) -> tuple[_State, ...]:
    """What a loop over a segment reduces into; nothing where it does something else."""
    nodes = list(walk(segment))
    own = {name for node in nodes if (name := loops.result_of(node)) is not None}
    targets = sorted(written_names([segment]) - own)
    scales = {target: _scale(nodes, target) for target in targets}
    states = [_state(kernel, loop, segment, nodes, target, scales) for target in targets]
    known = tuple(state for state in states if state is not None)
    extents = {state.name: state.extents for state in known if state.reduction == "max"}
    fit = all(extents.get(each.scale) in ((), each.extents) for each in known if each.scale)
    return tuple(sorted(known, key=lambda state: state.scale != "")) if fit and len(known) == len(states) else ()


def _scale(nodes: Sequence[Node], target: str) -> str:
    """The maximum that a sum is kept relative to; empty for other targets."""
    writes = [n for n in nodes if isinstance(n, loops.Accumulate) and (n.target, n.reduction) == (target, "product")]
    return scale_of(writes[0], nodes) if len(writes) == 1 else ""


def _state(
    kernel: loops.Kernel,
    loop: loops.For,
    segment: loops.For,
    nodes: Sequence[Node],
    target: str,
    scales: Mapping[str, str],
) -> _State | None:
    """How a target is reduced into; None where it is read or stored in, or its parts could not be put together."""
    writes = [n for n in nodes if isinstance(n, (loops.Store, loops.Accumulate)) and n.target == target]
    reductions = {write.reduction for write in writes if isinstance(write, loops.Accumulate)}
    read = {r for n in nodes for r in (loops.reads_of(n)[1:] if isinstance(n, loops.Accumulate) else loops.reads_of(n))}
    if scales[target]:
        reductions.discard("product")
    if len(reductions) != 1 or not all(isinstance(write, loops.Accumulate) for write in writes):
        return None
    (reduction,) = reductions
    if target in read and (target not in scales.values() or reduction != "max"):
        return None
    output = next((b for b in kernel.buffers if (b.name, b.kind) == (target, "output")), None)
    declared = next((s for s in loop.body if loops.result_of(s) == target), None)
    before = [s for s in loop.body[: loop.body.index(segment)] if target in written_in(s)]
    start = _start(kernel, before, output or declared)
    if start is None or NEUTRAL.get(reduction, start) != start:
        return None
    if output is not None:
        mine = all(write.indices[:1] == (loop.variable,) for write in writes) and not scales[target]
        known = mine and target not in scales.values() and (before or reduction == "sum")
        return _State(target, output.extents[1:], reduction, start, of_output=True) if known else None
    extents = declared.extents if isinstance(declared, loops.Row) else ()
    if target in scales.values() and not isfinite(start):
        return None
    return _State(target, extents, reduction, start, scale=scales[target])


def _start(kernel: loops.Kernel, before: list[loops.Statement], declared: Node | None) -> float | None:
    """The constant that a row, an accumulator or an output's row begins with, which these statements write; None for
    what begins otherwise, or has more done to it before its segment."""
    if isinstance(declared, loops.Accumulator):
        return declared.start if not before and isinstance(declared.start, float) else None
    if isinstance(declared, Buffer) and not before:
        return 0.0
    if not isinstance(declared, (loops.Row, Buffer)) or len(before) != 1:
        return None
    (first,) = before
    while isinstance(first, loops.For) and static_loop(kernel, first) and len(first.body) == 1:
        (first,) = first.body
    if not isinstance(first, loops.Store) or first.function != "copy":
        return None
    return first.operands[0] if isinstance(first.operands[0], float) else None


@dataclass(frozen=True)
class _Nest:
    """An iteration whose segments get parts; `count` names how many parts all rows have."""

    kernel: loops.Kernel
    loop: loops.For
    parts: int
    count: str
    write: Writer
    names: Names

    def kernels(
        self, segments: Sequence[loops.For], states: Mapping[int, tuple[_State, ...]]
    ) -> tuple[loops.Kernel, ...]:
        """The kernels of the parts, in order, and that of the rows; none where a part would do what all may do but
        once."""
        arrays = {(key, state.name): self._array(state) for key, found in states.items() for state in found}
        first = self.write.index("first", "mul", self.loop.variable, self.parts)
        whole: list[loops.Statement] = [first]
        groups: list[list[tuple[loops.For, Body]]] = []  # each loop with what it needs
        joins: set[int] = set()  # of the last group's states
        for statement in self.loop.body:
            if not any(statement is segment for segment in segments):
                whole.append(statement)
                continue
            assert isinstance(statement, loops.For)
            found = states[id(statement)]
            own = {state.name for state in found if not state.of_output}
            needed = closure(whole, (names_read([statement]) | own) - {each.name for each in found if each.of_output})
            if not groups or not joins.isdisjoint(map(id, needed)):
                groups.append([])
                joins = set()
            groups[-1].append((statement, needed))
            mine = {state.name: arrays[id(statement), state.name] for state in found}
            joined = [s for state in found for s in self._joined(state, mine, first.result)]
            whole += joined
            joins |= set(map(id, joined))
        outputs = {buffer.name for buffer in self.kernel.buffers if buffer.kind == "output"}
        if any(outputs & written_names(needed) for group in groups for _, needed in group):
            return ()
        places = {id(statement): at for at, statement in enumerate(whole)}
        made = [self._of_parts(group, number, states, arrays, places) for number, group in enumerate(groups)]
        rest = part(self.kernel, self.kernel.name, replace(self.loop, body=alive(whole)), *arrays.values())
        return *made, replace(rest, template=OF_PARTS)

    def _array(self, state: _State) -> Buffer:
        name = self.names.new(f"{self.kernel.name}_{state.name}")
        return Buffer(name=name, kind="output", extents=(self.count, *state.extents), origin=self.loop.origin)

    def _joined(self, state: _State, arrays: Mapping[str, Buffer], first: str) -> Body:
        """The loops that put a state's parts together, the parts of an element one after another."""
        write, number = self.write, self.write.names.new("u")
        place = write.index("part", "add", first, number)
        variables = write.over(state.extents)
        value = write.load("s", arrays[state.name].name, place.result, *variables)
        whole = state.name if not state.extents and not state.of_output else write.names.new("t")
        grown = (
            self._grown(arrays[state.scale], state.scale, place.result, value.result, variables) if state.scale else ()
        )
        term = str(loops.result_of(grown[-1])) if grown else value.result
        body = (place, value, *grown, write.add(whole, state.reduction, term))
        each = loops.For(variable=number, extent=self.parts, body=body, origin=self.loop.origin)
        if whole == state.name:
            return (each,)
        start = NEUTRAL.get(state.reduction, state.start)
        total = loops.Accumulator(name=whole, start=start, origin=self.loop.origin)
        row = (self.loop.variable,) if state.of_output else ()
        add = write.add(state.name, state.reduction, whole, *row, *variables)
        return write.nested(variables, state.extents, (total, each, add))

    def _grown(self, array: Buffer, scale: str, place: str, value: str, variables: tuple[str, ...]) -> Body:
        """A part of a sum that is relative to exp of the part's maximum, relative to that of all parts."""
        write, own = self.write, variables[: len(array.extents) - 1]
        highest = (write.load("top", scale, *own),) if own else ()
        part_highest = write.load("high", array.name, place, *own)
        below = write.compute("below", "sub", part_highest.result, highest[0].result if highest else scale)
        grow = write.compute("grow", "exp", below.result)
        return *highest, part_highest, below, grow, write.compute("scaled", "mul", value, grow.result)

    def _of_parts(
        self,
        group: Sequence[tuple[loops.For, Body]],
        number: int,
        states: Mapping[int, tuple[_State, ...]],
        arrays: Mapping[tuple[int, str], Buffer],
        places: Mapping[int, int],
    ) -> loops.Kernel:
        """The kernel in which an iteration reduces a part of the segment of its row; what it needs besides is done as
        in a whole iteration, where statements have these `places`."""
        write = self.write
        variable = write.names.new("p")
        kept: dict[int, loops.Statement] = {}
        row = replace(write.index("", "div", variable, self.parts), result=self.loop.variable)
        which = write.index("which", "mod", variable, self.parts)
        for _, needed in group:
            kept |= {id(statement): statement for statement in needed}
        body: list[loops.Statement] = [row, which, *sorted(kept.values(), key=lambda s: places[id(s)])]
        for segment, _ in group:
            found = states[id(segment)]
            local = {state.name: write.names.new("y") for state in found if state.of_output}
            body += [s for state in found if state.of_output for s in self._declared(state, local[state.name])]
            begin, end = segment.lower, segment.extent
            length = write.index("length", "sub", end, begin)
            padded = write.index("padded", "add", length.result, self.parts - 1)
            share = write.index("share", "div", padded.result, self.parts)
            before = write.index("before", "mul", which.result, share.result)
            skipped = write.index("skipped", "max", before.result, 0)  # which a product is not seen to be at once
            lower = write.index("from", "add", begin, skipped.result)
            past = write.index("past", "add", lower.result, share.result)
            upper = write.index("upto", "min", past.result, end)
            own = replace(segment, lower=lower.result, extent=upper.result)
            mine = redirected(own, local, lambda indices: indices[1:])
            body += [length, padded, share, before, skipped, lower, past, upper, mine]
            for state in found:
                name, array = local.get(state.name, state.name), arrays[id(segment), state.name]
                body += write.stored(name, state.extents, "s", array.name, variable)
        loop = replace(self.loop, variable=variable, extent=self.count, body=alive(body))
        name = self.names.new(f"{self.kernel.name}_parts{number}")
        return replace(part(self.kernel, name, loop, *arrays.values()), template=OF_PARTS)

    def _declared(self, state: _State, name: str) -> Body:
        """What a part has of an output's row, which begins with zeros."""
        if not state.extents:
            return (loops.Accumulator(name=name, start=state.start, origin=self.loop.origin),)
        variables = self.write.over(state.extents)
        row = loops.Row(name=name, extents=state.extents, origin=self.loop.origin)
        return row, *self.write.nested(variables, state.extents, (self.write.store(name, state.start, *variables),))
