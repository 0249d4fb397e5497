"""Gives the segment of an iteration a kernel of its own, which leaves its sums to what the iteration does behind it.

An iteration that mixes its row's columns behind the sum over its segment, with a small matrix, a norm or a softmax
over heads, is not one that pieces of rows can end. The sum by itself is: its elements are shared out, however long the
longest segment is.

    parallel for n in 0..nodes                  parallel for n in 0..nodes
      row y[G]                                    row y[G]
      for g { y[g] = 0 }                          for g { y[g] = 0 }
      for e in begin..end                         for e in begin..end
        for g { y[g] += v[e, g] }          ->       for g { y[g] += v[e, g] }
      for g                                       for g { s[n, g] = y[g] }
        acc t = 0                               parallel for n in 0..nodes
        for k { t += y[k] * W[k, g] }             for g
        out[n, g] = t                               acc t = 0
                                                    for k { t += s[n, k] * W[k, g] }
                                                    out[n, g] = t
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.index_sets import few
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.ir.statements import (
    alive,
    closure,
    is_segment,
    names_read,
    pure,
    read_in,
    written_in,
    written_names,
)
from explorer.compiler.schedule.distribute.join_segments import join_segments
from explorer.compiler.schedule.edit.nests import Body, all_stored_in, array_of_each, loaded, only_loop, part
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.lanes.mapping import Nest, Unfit
from explorer.compiler.schedule.lanes.output_rows import output_in_row

State = loops.Row | loops.Accumulator


@dataclass(frozen=True)
class Parts:
    """The kernels of a nest in order, worth it where there is a strategy for `sums`: for the one of them that is that
    of the first segment of each iteration, or for that segment alone where one is of many."""

    kernels: tuple[loops.Kernel, ...]
    sums: loops.Kernel


def split_segments(kernel: loops.Kernel, names: Names) -> Iterator[Parts]:
    """The ways to part a nest at the first segment of its iterations: the segment with all that it needs, and the
    rest; and with a kernel ahead of both for the rows that an iteration computes before; all loops over that segment
    together, or the first alone. None for nests without a segment, or of which nothing would be left.

    A nest of many is parted behind the first half of them: behind the first each time, the rests would be as many nests
    as there are loops, nearly all as long as the whole."""
    together = join_segments(kernel)
    for whole in (together, kernel) if together is not kernel else (kernel,):
        loop = only_loop(whole)
        if loop is None or few(loop.extent) or _segment_at(whole, loop) is None:
            continue
        nest = _sums_apart(whole, loop, names)
        if behind := _behind(nest, names):
            halves = _halves(kernel, loop, names) if whole is not together else ()
            yield Parts(halves or behind, behind[0])
        if ahead := _ahead(nest, names):
            computing, left = ahead
            rest = only_loop(left)
            assert rest is not None
            parts = _behind(Nest(left, rest), names) or (left,)
            yield Parts((computing, *parts), parts[0])


def _halves(kernel: loops.Kernel, loop: loops.For, names: Names) -> tuple[loops.Kernel, ...]:
    """The kernel of the first half of a nest's segments, and that of the rest; none where they are few."""
    half = sum(is_segment(kernel, statement) for statement in loop.body) // 2
    return _behind(_sums_apart(kernel, loop, names, half), names, half) if half > 1 else ()


def _segment_at(kernel: loops.Kernel, loop: loops.For) -> int | None:
    """The place of an iteration's first loop over a segment."""
    return next((place for place, statement in enumerate(loop.body) if is_segment(kernel, statement)), None)


def _sums_apart(kernel: loops.Kernel, loop: loops.For, names: Names, segments: int = 1) -> Nest:
    """The nest with a row for each output that the first segments add to and the iteration writes elsewhere too, where
    a row can be: each of both kernels has outputs of its own."""
    nest, first = Nest(kernel, loop), _first(kernel, loop, segments)
    among = set(map(id, first))
    others = written_names(s for s in loop.body if id(s) not in among)
    for buffer in kernel.buffers:
        if buffer.kind == "output" and buffer.name in written_names(first) & others:
            try:
                nest = output_in_row(nest, buffer, names)
            except Unfit:
                continue
    return nest


def _first(kernel: loops.Kernel, loop: loops.For, segments: int) -> Body:
    """The first so many segments of an iteration."""
    return tuple(islice((s for s in loop.body if is_segment(kernel, s)), segments))


def _behind(nest: Nest, names: Names, segments: int = 1) -> tuple[loops.Kernel, ...]:
    """The kernel of the first so many segments, and that of the rest; none where the rest would only copy."""
    kernel, loop = nest.kernel, nest.loop
    summed = _first(kernel, loop, segments)
    at = next(place for place, statement in enumerate(loop.body, 1) if statement is summed[-1])
    upto, after = loop.body[:at], loop.body[at:]
    first = closure(upto, written_names(summed))
    among = set(map(id, first))
    moved = tuple(s for s in upto if pure(s) or id(s) not in among)
    if not any(map(_works, after)) and all(map(pure, moved)):
        return ()
    if not _may_follow(upto, moved):
        return ()
    return _cut(nest, first, (*moved, *after), names, "segments")


def _ahead(nest: Nest, names: Names) -> tuple[loops.Kernel, ...]:
    """The kernel of the rows that an iteration computes before its segment, and that of the rest; none where it only
    begins the segment's sums and copies."""
    kernel, loop = nest.kernel, nest.loop
    at = _segment_at(kernel, loop)
    assert at is not None
    before, rest = loop.body[:at], loop.body[at:]
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    declared = [s.name for s in before if isinstance(s, State)]
    summed = written_names([rest[0]])
    stay = {name for name in declared if name in summed or not any(map(_works, _doing(before, name)))}
    moved = tuple(s for s in before if pure(s) or loops.result_of(s) in stay or not stay.isdisjoint(written_in(s)))
    among = set(map(id, moved))
    if any(written_in(s) - stay for s in moved) or all(id(s) in among for s in before):
        return ()
    first = tuple(s for s in before if pure(s) or id(s) not in among)
    if outputs & summed & written_names(first) or not _may_follow(before, moved):
        return ()
    return _cut(nest, first, (*moved, *rest), names, "ahead")


def _doing(before: Body, name: str) -> Body:
    """The statements that a row or an accumulator needs, its declaration apart."""
    return tuple(s for s in closure(before, {name}) if not isinstance(s, State) and not pure(s))


def _works(statement: loops.Statement) -> bool:
    """Whether a statement does more than to copy."""
    copies = (loops.For, loops.Load)
    return any(
        not isinstance(node, copies) and not (isinstance(node, loops.Store) and node.function == "copy")
        for node in walk(statement)
    )


def _may_follow(before: Body, moved: Sequence[loops.Statement]) -> bool:
    """Whether statements may be done behind those of `before` that are not moved."""
    written, among = set[str](), set(map(id, moved))
    for statement in reversed(before):
        if id(statement) not in among:
            written |= written_in(statement)
        elif not (written.isdisjoint(read_in(statement)) and written.isdisjoint(written_in(statement))):
            return False
    return True


def _cut(nest: Nest, first: Body, second: Body, names: Names, role: str) -> tuple[loops.Kernel, ...]:
    """The kernels of both parts of an iteration, the first named after its `role`; what the second needs of it is
    stored. None where both write an output, or the second goes on with a number."""
    kernel, loop = nest.kernel, nest.loop
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    declared = {s.name: s for s in first if isinstance(s, State)}
    changed = written_names(second)
    touched = names_read(second) | changed
    crossing = {name: state for name, state in declared.items() if name in touched and not _declares(second, name)}
    if outputs & written_names(first) & changed or not outputs & changed:
        return ()
    if any(name in changed and isinstance(state, loops.Accumulator) for name, state in crossing.items()):
        return ()
    named = replace(kernel, name=names.new(f"{kernel.name}_{role}"))  # pieces of the rest name arrays after the rest
    arrays = {name: array_of_each(named, state, loop.extent, names) for name, state in crossing.items()}
    cut = _Crossing(nest, arrays, names)
    stored = tuple(s for name, state in crossing.items() for s in cut.stored(state))
    loaded = tuple(s for name, state in crossing.items() for s in cut.loaded(state, name in changed))
    rows = {name for name, state in crossing.items() if isinstance(state, loops.Row) and name not in changed}
    second = tuple(cut.read(s, rows & read_in(s)) for s in second)
    done = closure(first, {*(outputs & written_names(first)), *crossing})
    left = alive(closure((*loaded, *second), outputs & changed))
    made = tuple(cut.arrays.values())
    behind = replace(part(kernel, kernel.name, replace(loop, body=left), *made), template="rows")
    return part(kernel, named.name, replace(loop, body=(*done, *stored)), *made), behind


def _declares(body: Body, name: str) -> bool:
    return any(isinstance(s, State) and s.name == name for s in body)


class _Crossing:
    """What one part of an iteration leaves to the other, by name, in `arrays`."""

    def __init__(self, nest: Nest, arrays: dict[str, Buffer], names: Names) -> None:
        self.row, self.arrays, self.writer = nest.loop.variable, arrays, Writer.named(names, nest.loop.origin)

    def read(self, statement: loops.Statement, rows: Iterable[str]) -> loops.Statement:
        """A statement that reads rows of the first part where they are stored."""
        return all_stored_in(statement, {row: self.arrays[row].name for row in rows}, self.row)

    def stored(self, state: State) -> Body:
        """What stores a row or a number at the end of the first part."""
        array = self.arrays[state.name]
        return self.writer.stored(state.name, array.extents[1:], "s", array.name, self.row)

    def loaded(self, state: State, changed: bool) -> Body:
        """What the second part begins with: a number, or a row that it changes; it reads others where they are."""
        array, write = self.arrays[state.name], self.writer
        if isinstance(state, loops.Accumulator):
            return loaded({state.name: array}, self.row)
        if not changed:
            return ()
        variables = write.over(state.extents)
        value = write.load("s", array.name, self.row, *variables)
        return state, *write.nested(
            variables, state.extents, (value, write.store(state.name, value.result, *variables))
        )
