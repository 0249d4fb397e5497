"""Computes what a sum over a segment takes of each element first, for the elements of all segments at once.

Where an element's part is a sum over a segment of its own, a product with a matrix, or a factor of an outer product, an
iteration of the segment's loop is a kernel's worth of work, and a segment may have thousands of them, or be the only
one. A kernel of its own has an iteration for each element, and stores a row; the sum then adds stored rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.index_sets import ORDER, few
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Names, Origin, walk
from explorer.compiler.ir.set_maps import holds_sorted
from explorer.compiler.ir.statements import closure, names_read, pure, slice_for, written_names
from explorer.compiler.schedule.edit.nests import (
    Body,
    array_of_each,
    first_extents,
    is_deep,
    kept_in,
    loaded,
    map_of,
    only_adds,
    only_loop,
    part,
    static_loop,
    stored_in,
)
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.match.outer_products import find_outer_sum


def split_rows(
    kernel: loops.Kernel, names: Names, maps: Mapping[str, Buffer], edges: str, *, always: bool = False
) -> tuple[loops.Kernel, ...]:
    """The kernel of the rows and that of their sums; none for other kernels. `maps` are by an array of where segments
    begin the one that says of each element in which segment it is, `edges` the end that a graph's edges are sorted by.
    With `always`, rows that take no more than a static
    loop too, and sums of several numbers for one element of the output."""
    loop = only_loop(kernel)
    if loop is None:
        return ()
    *scalars, segment = loop.body
    if not isinstance(segment, loops.For) or static_loop(kernel, segment) or not all(pure(s) for s in scalars):
        return ()
    writer = Writer(kernel, segment.origin)
    body = _segments_first(kernel, segment.body, loop.variable, writer, always)
    body = products_first(kernel, body, writer)
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    sums = [statement for statement in body if outputs & written_names([statement])]
    if len(sums) != 1 or len(outputs) != 1 or outputs & names_read(s for s in body if s is not sums[0]):
        return ()
    found = _Rows(kernel, loop, tuple(scalars), replace(segment, body=body), sums[0], writer, names, maps, edges)
    return found.kernels(always)


def products_first(kernel: loops.Kernel, body: Body, writer: Writer) -> Body:
    """A segment's body with sums that are taken for each element of a row, where that is added, in a row of their
    own."""
    found: list[loops.Statement] = []
    for statement in body:
        found += _divided(kernel, statement, writer) if static_loop(kernel, statement) else (statement,)
    return tuple(found)


def _segments_first(kernel: loops.Kernel, body: Body, row: str, writer: Writer, always: bool) -> Body:
    """A segment's body with what the segment of an element adds to an output's row in a row of the element, and that
    added: `for e in n..n1 { y[r, d] += v }` as `row w; for e { w[d] += v }; for d { y[r, d] += w[d] }`. With `always`,
    with what a static loop adds to one element too."""
    outputs = {buffer.name: buffer for buffer in kernel.buffers if buffer.kind == "output"}
    found: list[loops.Statement] = []
    for statement in body:
        written = outputs.keys() & written_names([statement])
        many = isinstance(statement, loops.For) and (
            not static_loop(kernel, statement) or (always and _adds_up(statement, written))
        )
        if not many or len(written) != 1:
            found.append(statement)
            continue
        assert isinstance(statement, loops.For)
        found += summed_first(statement, outputs[written.pop()], row, writer, "w", statement.origin)
    return tuple(found)


def _adds_up(loop: loops.For, outputs: set[str]) -> bool:
    """Whether several iterations of a loop, or of one in it, add to one element of these outputs."""
    for node in walk(loop):
        if isinstance(node, loops.For):
            sums = [n for n in walk(node) if isinstance(n, loops.Accumulate) and n.target in outputs]
            if any(node.variable not in each.indices for each in sums):
                return True
    return False


def summed_first(loop: loops.For, output: Buffer, row: str, writer: Writer, hint: str, origin: Origin) -> Body:
    """A loop that adds to the row of an output, its sum taken in a row or an accumulator of its own; the loop itself
    where it does something else with the output."""
    if not only_adds([loop], output.name, row):
        return (loop,)
    extents, name = output.extents[1:], writer.names.new(hint)
    inner = kept_in(loop, {output.name: name})
    if not extents:
        total = loops.Accumulator(name=name, start=0.0, origin=origin)
        return total, inner, writer.add(output.name, "sum", name, row)
    cleared, last = writer.cleared(name, extents), writer.over(extents)
    value = writer.load("s", name, *last)
    return (
        loops.Row(name=name, extents=extents, origin=origin),
        *cleared,
        inner,
        *writer.nested(last, extents, (value, writer.add(output.name, "sum", value.result, row, *last))),
    )


def _divided(kernel: loops.Kernel, nest: loops.Statement, writer: Writer) -> Body:
    """`for d { acc s; for k { s += ... }; y[d] += s }` as `row w; for d { acc s; ...; w[d] = s }; for d { s = w[d];
    y[d] += s }`; the nest itself where it is another."""
    around: list[loops.For] = []
    inner = nest
    while isinstance(inner, loops.For) and static_loop(kernel, inner):
        around.append(inner)
        inner = inner.body[-1]
    body = around[-1].body
    totals = [statement for statement in body if isinstance(statement, loops.Accumulator)]
    last = body[-1]
    if len(totals) != 1 or not isinstance(last, loops.Accumulate) or not last.indices:
        return (nest,)
    (total,) = totals
    at = max((p for p, s in enumerate(body) if total.name in written_names([s])), default=-1)
    if at < 0 or not all(pure(s) for loop in around[:-1] for s in loop.body[:-1]):
        return (nest,)
    variables = tuple(loop.variable for loop in around)
    row = loops.Row(name=writer.names.new("w"), extents=tuple(loop.extent for loop in around), origin=total.origin)
    first = (*body[: at + 1], writer.store(row.name, total.name, *variables))
    load = loops.Load(result=total.name, buffer=row.name, indices=variables, origin=total.origin)
    second = (*slice_for(tuple(s for s in body[: at + 1] if pure(s)), body[at + 1 :]), load, *body[at + 1 :])
    return row, _around(around, first), _around(around, second)


def _around(nest: list[loops.For], body: Body) -> loops.For:
    """The loops of a nest around another body, with those of their scalars that it needs."""
    for loop in reversed(nest):
        scalars = tuple(s for s in loop.body[:-1] if pure(s)) if loop is not nest[-1] else ()
        body = (replace(loop, body=(*slice_for(scalars, body), *body)),)
    (made,) = body
    assert isinstance(made, loops.For)
    return made


@dataclass(frozen=True)
class _Rows:
    """The loop over a segment, `sums` the statement of its body that adds to the output."""

    kernel: loops.Kernel
    loop: loops.For
    scalars: Body
    segment: loops.For
    sums: loops.Statement
    writer: Writer
    names: Names
    maps: Mapping[str, Buffer]
    edges: str

    def kernels(self, always: bool) -> tuple[loops.Kernel, ...]:
        """Both kernels; none where the rows need their segment, or the sum is taken as well without them."""
        before = tuple(statement for statement in self.segment.body if statement is not self.sums)
        used = slice_for(tuple(s for s in before if pure(s)), (self.sums,))
        read = names_read((*used, self.sums))
        crossing = [s for s in before if isinstance(s, (loops.Row, loops.Accumulator)) and s.name in read]
        rows = closure(before, {statement.name for statement in crossing})
        place = self._place(rows)
        if not crossing or place is None:
            return ()
        element, extent, rows = place
        if self._outside(rows):
            known = self._segment_of(element, extent, rows)
            if not known:
                return ()
            rows = (*known, *(s for s in rows if s not in known))
        made = {s.name: array_of_each(self.kernel, s, extent, self.names) for s in crossing}
        sums = self._summing(used, made, element)
        if not always and not is_deep(self.kernel, rows) and find_outer_sum(sums) is None:
            return ()
        return self._computing(rows, crossing, made, element, extent), sums

    def _outside(self, rows: Body) -> bool:
        """Whether rows need something of the iteration around the segment that is not the same in all."""
        own = {self.loop.variable}
        outputs = {buffer.name for buffer in self.kernel.buffers if buffer.kind == "output"}
        for scalar in self.scalars:
            if (own | outputs) & set(loops.reads_of(scalar)):
                own.add(str(loops.result_of(scalar)))
        return bool(own & names_read(rows))

    def _segment_of(self, element: str, extent: Extent, rows: Body) -> Body:
        """The load of which of few segments an element is in, behind that of the element where it is told apart by its
        place in an order; none where no array says it, or where the segment begins and ends is needed too."""
        index = map_of(self.maps, self.scalars, self.segment)
        needed = slice_for(self.scalars, rows)
        bounds = {self.segment.lower, self.segment.extent}
        if index is None or index.extents != (extent,) or not few(self.loop.extent):
            return ()
        if bounds & {loops.result_of(s) for s in needed}:
            return ()
        found: Body = ()
        if element == self.segment.variable and not holds_sorted(index, self.edges):
            order = f"{index.name}{ORDER}", (element,)
            found = tuple(s for s in rows if isinstance(s, loops.Load) and (s.buffer, s.indices) == order)[:1]
            if not found:
                return ()
            element = str(loops.result_of(found[0]))
        load = loops.Load(result=self.loop.variable, buffer=index.name, indices=(element,), origin=rows[0].origin)
        return *found, load

    def _place(self, rows: Body) -> tuple[str, Extent, Body] | None:
        """What tells elements apart, how many there are, and the rows' statements: an element that is only looked up
        in an order is told apart by what is found there."""
        segment = self.segment
        reads = [s for s in rows if segment.variable in names_read([s])]
        extents = first_extents(self.kernel, segment.body, segment.variable)
        if not extents and segment.lower == 0 and isinstance(segment.extent, str):
            extents = {segment.extent}
        if len(extents) != 1:
            return None
        (extent,) = extents
        match reads:
            case [loops.Load(indices=(index,)) as order] if index == segment.variable:
                rest = tuple(s for s in rows if s is not order)
                if first_extents(self.kernel, segment.body, order.result) == {extent}:
                    return order.result, extent, rest
        return segment.variable, extent, rows

    def _computing(
        self,
        rows: Body,
        crossing: list[loops.Row | loops.Accumulator],
        made: dict[str, Buffer],
        element: str,
        extent: Extent,
    ) -> loops.Kernel:
        """The kernel of the rows."""
        known = closure(rows, {self.loop.variable})
        body = [*known, *slice_for(self.scalars, rows), *(s for s in rows if s not in known)]
        for statement in crossing:
            array = made[statement.name].name
            if isinstance(statement, loops.Row) and self._only_stored(body, statement.name):
                body = [stored_in(s, statement.name, array, element) for s in body if s is not statement]
            else:
                extents = statement.extents if isinstance(statement, loops.Row) else ()
                body += self.writer.stored(statement.name, extents, "y", array, element)
        loop = replace(self.loop, variable=element, extent=extent, body=tuple(body))
        arrays = {load.buffer for load in known if isinstance(load, loops.Load)}
        maps = [index for index in self.maps.values() if index.name in arrays and index not in self.kernel.buffers]
        return part(self.kernel, f"{self.kernel.name}_rows", loop, *maps, *made.values())

    @staticmethod
    def _only_stored(body: list[loops.Statement], name: str) -> bool:
        """Whether the statements store a row's elements, each once, and do nothing else with it."""
        writes = [s for s in body if name in written_names([s])]
        return name not in names_read(body) and len(writes) == 1

    def _summing(self, used: list[loops.Statement], made: dict[str, Buffer], element: str) -> loops.Kernel:
        """The kernel of the sums."""
        loads = loaded(made, element)
        body: list[loops.Statement] = [*used, self.sums]
        for name, array in made.items():
            body = [stored_in(statement, name, array.name, element) for statement in body]
        order = [s for s in self.segment.body if loops.result_of(s) == element and pure(s)]
        rest = tuple(statement for statement in body if statement not in order)
        segment = replace(self.segment, body=(*order, *loads, *rest))
        loop = replace(self.loop, body=(*self.scalars, segment))
        return part(self.kernel, f"{self.kernel.name}_sums", loop, *made.values())
