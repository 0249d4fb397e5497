"""Gives the sums that an iteration takes over segments kernels of their own (loop distribution).

A relation's gradients are sums over its edges, its (source, type) pairs and its (destination, type) pairs: segments of
thousands of elements, and few of them. Each sum by itself may be shared out by its elements; the iteration as a whole
can only be walked through. What follows the sums reads them where they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import prod
from operator import add

from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Names
from explorer.compiler.ir.statements import (
    alive,
    closure,
    is_segment,
    names_read,
    pure,
    read_in,
    redirected,
    written_in,
    written_names,
)
from explorer.compiler.schedule.edit.nests import (
    Body,
    array_of_each,
    clears,
    is_deep,
    only_adds,
    only_loop,
    part,
    static_loop,
    stored_in,
)
from explorer.compiler.schedule.edit.statement_writer import Writer

MATRIX = 512
"""Numbers that an iteration sums at a time, from which on they are no row."""


def split_sums(kernel: loops.Kernel, names: Names) -> tuple[loops.Kernel, ...]:
    """For each loop over a segment the kernel of its sum, and one of what is left; none where nothing is to split."""
    split = _split(kernel, names)
    return split.kernels() if split and _worth(kernel, split.loop.body, split.sums) else ()


def distribute_sums(kernel: loops.Kernel, names: Names) -> tuple[loops.Kernel, ...]:
    """The same wherever it can be done."""
    split = _split(kernel, names)
    return split.kernels() if split else ()


def _split(kernel: loops.Kernel, names: Names) -> _Split | None:
    """The iteration that is to be split; None where some loop over a segment is more than a sum."""
    loop = only_loop(kernel)
    if loop is None or not any(is_segment(kernel, statement) for statement in loop.body):
        return None
    body = without_copies(kernel, loop)
    sums = tuple(_sums_of(kernel, body))
    if len(sums) < sum(is_segment(kernel, statement) for statement in body):
        return None
    return _Split(kernel, replace(loop, body=body), sums, names)


@dataclass(frozen=True)
class _Sum:
    """The loop over a segment, and what it adds to: a row or an accumulator of the iteration, or an output's row
    (None)."""

    loop: loops.For
    target: loops.Row | loops.Accumulator | None


def _sums_of(kernel: loops.Kernel, body: Body) -> Iterator[_Sum]:
    """The segments that do nothing but add to one target of their own, which starts with zeros."""
    declared = {s.name: s for s in body if isinstance(s, (loops.Row, loops.Accumulator))}
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    writers: dict[str, list[loops.Statement]] = {}
    for statement in body:
        for name in written_in(statement):
            writers.setdefault(name, []).append(statement)
    for statement in body:
        if not isinstance(statement, loops.For) or not is_segment(kernel, statement):
            continue
        targets = written_names([statement]) & (declared.keys() | outputs)
        if len(targets) != 1:
            continue
        (name,) = targets
        others = [s for s in writers[name] if s is not statement]
        target = declared.get(name)
        if not only_adds([statement], name) or any(not clears(kernel, s, name) for s in others):
            continue
        if isinstance(target, loops.Accumulator) and target.start != 0.0:
            continue
        if target is not None or (not others and _unread(name, body, statement)):
            yield _Sum(statement, target)


def _worth(kernel: loops.Kernel, body: Body, sums: tuple[_Sum, ...]) -> bool:
    """Whether the sums are of different segments, or one takes more than its segment, or is a matrix, and there is
    more than one sum in an output."""
    if len(sums) == 1 and _is_all(body, sums[0]):
        return False
    if len({(each.loop.lower, each.loop.extent) for each in sums}) > 1:
        return True
    rows = [each.target for each in sums if isinstance(each.target, loops.Row)]
    large = any(prod(kernel.size(extent) for extent in row.extents) >= MATRIX for row in rows)
    return large or any(is_deep(kernel, each.loop.body) for each in sums)


def _unread(name: str, body: Body, writer: loops.Statement) -> bool:
    """Whether only what writes a name reads it."""
    return not any(name in read_in(statement) for statement in body if statement is not writer)


def _is_all(body: Body, total: _Sum) -> bool:
    """Whether an iteration takes one sum and stores it as it is: what its kernel of its own would be."""
    rest = [s for s in body if s is not total.loop and s is not total.target and not pure(s)]
    if not isinstance(total.target, loops.Accumulator):
        return total.target is None and not rest
    match rest:
        case [loops.Store(function="copy", operands=(value,))]:
            return value == total.target.name
    return False


def without_copies(kernel: loops.Kernel, loop: loops.For) -> Body:
    """The iteration with what it keeps of arrays in rows read where it lies: kernels of their own would each fill it
    again."""
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    rows = {at: statement for at, statement in enumerate(loop.body) if isinstance(statement, loops.Row)}
    names = {row.name for row in rows.values()}
    fills, readers = _places(loop.body, written_in), _places(loop.body, read_in)
    body = dict(enumerate(loop.body))
    for at, row in rows.items():
        filled = fills.get(row.name, [])
        load = _copied(kernel, body[filled[0]], row.name) if len(filled) == 1 else None
        if load is None or load.buffer in outputs or load.buffer in names:
            continue
        names.remove(row.name)
        prefix = load.indices[: len(load.indices) - len(row.extents)]
        del body[at], body[filled[0]]
        for place in readers.get(row.name, []):
            body[place] = redirected(body[place], {row.name: load.buffer}, partial(add, prefix))
    return tuple(body.values())


def _places(body: Body, of: Callable[[loops.Statement], Iterable[str]]) -> dict[str, list[int]]:
    """By name the places of the statements that a function says have something of it."""
    found: dict[str, list[int]] = {}
    for place, statement in enumerate(body):
        for name in of(statement):
            found.setdefault(name, []).append(place)
    return found


def _copied(kernel: loops.Kernel, statement: loops.Statement, row: str) -> loops.Load | None:
    """The load of a nest that only fills a row with a part of an array: `for g { w = W[r, g]; q[g] = w }`."""
    found = _copy(kernel, statement)
    if found is None:
        return None
    load, store = found
    filled = (store.target, load.indices[len(load.indices) - len(store.indices) :]) == (row, store.indices)
    return load if filled and all(isinstance(index, str) for index in load.indices) else None


def _copy(kernel: loops.Kernel, statement: loops.Statement) -> tuple[loops.Load, loops.Store] | None:
    """The load and the store of a nest that does nothing else, for each of its iterations; None for other nests."""
    variables: list[str] = []
    body: Body = (statement,)
    while len(body) == 1 and isinstance(loop := body[0], loops.For) and static_loop(kernel, loop):
        variables.append(loop.variable)
        body = loop.body
    match body:
        case (loops.Load() as load, loops.Store(function="copy", operands=(value,)) as store) if value == load.result:
            taken = (load.indices[-len(variables) :], store.indices[-len(variables) :])
            return (load, store) if variables and taken == (tuple(variables), tuple(variables)) else None
    return None


@dataclass(frozen=True)
class _Split:
    """An iteration whose sums get arrays."""

    kernel: loops.Kernel
    loop: loops.For
    sums: tuple[_Sum, ...]
    names: Names

    def kernels(self) -> tuple[loops.Kernel, ...]:
        """The kernels of the sums, in order, and that of the rest; none where a sum needs what the iteration computes
        otherwise."""
        body, made = self.loop.body, dict[str, Buffer]()
        totals: dict[str, tuple[Body, Body]] = {}
        for each in self.sums:
            match each.target:
                case loops.Row() as row:
                    body, array = self._row_stored(body, row)
                    made |= {} if array in self.kernel.buffers else {array.name: array}
                case loops.Accumulator() as total:
                    array = array_of_each(self.kernel, total, self.loop.extent, self.names)
                    made[array.name] = array
                    body = self._total_loaded(body, total, array)
                    totals[each.loop.variable] = (total,), (self._stored(total, array),)
        segments = [s for s in body if isinstance(s, loops.For) and is_segment(self.kernel, s)]
        rest = tuple(s for s in body if not any(s is segment for segment in segments))
        parts: list[loops.Kernel] = []
        for place, segment in enumerate(segments):
            declared, stored = totals.get(segment.variable, ((), ()))
            before = closure(rest, names_read([segment]) - set(made) - written_names([segment]))
            if not all(pure(statement) for statement in before):
                return ()
            own = (*before, *declared, segment, *stored)
            name = f"{self.kernel.name}_sums{place}"
            parts.append(part(self.kernel, name, replace(self.loop, body=own), *made.values()))
        left = alive(rest)
        if any(not pure(statement) for statement in left):
            last = part(self.kernel, self.kernel.name, replace(self.loop, body=left), *made.values())
            parts.append(replace(last, template="rows"))
        return tuple(parts)

    def _total_loaded(self, body: Body, total: loops.Accumulator, array: Buffer) -> Body:
        """An iteration that loads an accumulator's sum, from where its own kernel has stored it."""
        load = loops.Load(result=total.name, buffer=array.name, indices=(self.loop.variable,), origin=total.origin)
        return tuple(load if statement is total else statement for statement in body)

    def _stored(self, total: loops.Accumulator, array: Buffer) -> loops.Store:
        return Writer.named(self.names, total.origin).store(array.name, total.name, self.loop.variable)

    def _row_stored(self, body: Body, target: loops.Row) -> tuple[Body, Buffer]:
        """An iteration that adds to an array instead of a row, and reads it from there."""
        copy, array = self._output(body, target) or (
            None,
            array_of_each(self.kernel, target, self.loop.extent, self.names),
        )
        found: list[loops.Statement] = []
        for statement in body:
            if statement is target or statement is copy:
                continue
            if is_segment(self.kernel, statement) or not clears(self.kernel, statement, target.name):
                found.append(stored_in(statement, target.name, array.name, self.loop.variable))
        return tuple(found), array

    def _output(self, body: Body, target: loops.Row) -> tuple[loops.Statement, Buffer] | None:
        """The statement that does nothing but store a row in an output, and that output, where there is no other use
        of either."""
        readers = [
            s
            for s in body
            if target.name in names_read([s])
            and not is_segment(self.kernel, s)
            and not clears(self.kernel, s, target.name)
        ]
        found = _copy(self.kernel, readers[0]) if len(readers) == 1 else None
        if found is None:
            return None
        load, store = found
        others = [s for s in body if s is not readers[0]]
        if load.indices != store.indices[1:] or store.indices[0] != self.loop.variable:
            return None
        if store.target in names_read(others) | written_names(others) or load.buffer != target.name:
            return None
        output = next((b for b in self.kernel.buffers if (b.name, b.kind) == (store.target, "output")), None)
        if output is None or output.extents[1:] != target.extents:
            return None
        return readers[0], output
