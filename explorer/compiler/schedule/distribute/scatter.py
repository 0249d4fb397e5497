"""Takes the sums of a batch's gradients element by element: scattered, where the loops gather them.

The gradient of a relation's row is a sum over the relation's triples. The loops have it so, a relation's triples one
after another, which needs the batch ordered by relation for each batch anew, and a popular relation's sum is as long
as the batch. Where the array that says which relation a triple has is at hand, the triples may as well all add at once,
by atomics, to what another kernel has cleared. What a triple adds many times to one row it sums first.

    parallel for p in 0..relation_by_entities        for b in 0..B
      for i in r_t_ptr[p]..r_t_ptr[p + 1]        ->    ir = r[b]; it = t[b]
        b = r_t_order[i]                               out[ir, it] += v[b]
        out[p] += v[b]

So it is too for rows that two sets tell apart: of these there may be millions, and a batch has to do with few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Names, walk
from explorer.compiler.ir.statements import (
    all_names,
    closure,
    names_read,
    pure,
    redirected,
    renamed,
    slice_for,
    written_names,
)
from explorer.compiler.passes.loops.cleared import ADDS, clear_output
from explorer.compiler.report import Report
from explorer.compiler.schedule.distribute.split_rows import products_first, summed_first
from explorer.compiler.schedule.distribute.split_sums import distribute_sums
from explorer.compiler.schedule.edit.nests import (
    Body,
    array_of_each,
    multiplies,
    only_adds,
    only_loop,
    part,
    static_loop,
    stored_in,
)
from explorer.compiler.schedule.edit.statement_writer import Writer

Products = Sequence[tuple[str, tuple[tuple[str, Extent], ...]]]
"""By name of an index array that stands for several, each of these and the extent of what it leads to."""
Places = tuple[tuple[Buffer, Extent], ...]
"""The index arrays that together say which row an element is of, each with the extent of what it leads to."""


def scatter_sums(
    kernels: tuple[loops.Kernel, ...], inverses: Sequence[tuple[str, str]], products: Products, report: Report
) -> tuple[loops.Kernel, ...]:
    """The kernels, those that go along the segments of a batch's order in kernels that scatter. `inverses` are by index
    array the order of the batch by it, `products` the arrays that stand for several."""
    arrays = {buffer.name: buffer for kernel in kernels for buffer in kernel.buffers if buffer.kind == "index"}
    several = dict(products)
    entries = {order: several.get(entry, ((entry, 1),)) for entry, order in inverses}
    maps = {
        order: tuple((arrays[entry], extent) for entry, extent in found)
        for order, found in entries.items()
        if all(entry in arrays for entry, _ in found)
    }
    names = Names({name for kernel in kernels for name in (*all_names(kernel), kernel.name)})
    found: list[loops.Kernel] = []
    for kernel in kernels:
        parts = _Scatter(maps, names).parts(kernel)
        if parts:
            report.did(f"{kernel.name}: sums over segments of a batch scattered, element by element")
        found += parts or (kernel,)
    return tuple(found)


@dataclass(frozen=True)
class _Scatter:
    """How a module's sums may be scattered: `maps` has by order of a batch the index arrays that it is the order of."""

    maps: Mapping[str, Places]
    names: Names

    def parts(self, kernel: loops.Kernel) -> tuple[loops.Kernel, ...]:
        """The kernels that clear and add what a kernel sums over its segments, and those of what is left; none where
        some sum that goes along a batch's order cannot be scattered, or where none goes along one alone."""
        loop = only_loop(kernel)
        if loop is None or not any(buffer.name in self.maps for buffer in kernel.buffers):
            return ()
        apart = distribute_sums(kernel, self.names)
        together = _summed_in_place(apart)
        scattered = [self._map_of(each) is not None for each in together]
        if not any(scattered):
            return ()
        found: list[loops.Kernel] = []
        for each in together if all(scattered) else apart:  # what does not add stores all of its output
            if self._map_of(each) is None:
                found.append(each)
                continue
            added = self._added(each)
            if not added:
                return ()
            found += added
        return _cleared_once(found)

    def _map_of(self, kernel: loops.Kernel) -> Places | None:
        """The index arrays by whose order a kernel goes along its segments."""
        orders = [self.maps[buffer.name] for buffer in kernel.buffers if buffer.name in self.maps]
        return orders[0] if len(orders) == 1 else None

    def _added(self, kernel: loops.Kernel) -> tuple[loops.Kernel, ...]:
        """What clears the rows, and what adds to them element by element; none where it is more than a sum."""
        loop, places = only_loop(kernel), self._map_of(kernel)
        assert loop is not None
        assert places is not None
        outputs = [buffer for buffer in kernel.buffers if buffer.kind == "output"]
        *scalars, segment = _added_in_place(loop, {buffer.name for buffer in outputs})
        if not isinstance(segment, loops.For) or not all(map(pure, scalars)) or len(outputs) != 1:
            return ()
        order, *body = segment.body
        if not isinstance(order, loops.Load) or order.buffer not in self.maps:
            return ()
        if order.indices != (segment.variable,) or segment.variable in names_read(body):
            return ()
        (output,) = outputs
        if not only_adds(body, output.name, loop.variable):
            return ()
        extent = next(buffer.extents[0] for buffer in kernel.buffers if buffer.name == order.buffer)
        own = (*slice_for(tuple(scalars), body), *_summed_first(kernel, tuple(body), output, loop.variable))
        found, rows = self._rows(kernel, places, order, loop.variable)
        whole, output = output, replace(output, extents=(*(to for _, to in places), *output.extents[1:]))
        if len(places) > 1:
            same = {output.name: output.name}
            own = tuple(redirected(s, same, lambda indices: (*rows, *indices[1:])) for s in own)
            if loop.variable in names_read(own):
                return ()
        else:
            output = whole
        own = (*found, *own)
        elements = replace(loop, variable=order.result, extent=extent, body=own, parallel=False, note="")
        known = {buffer.name for buffer in kernel.buffers}
        missing = {index.name: index for index, _ in places if index.name not in known}
        seen = tuple(output if buffer.name == output.name else buffer for buffer in kernel.buffers)
        within = replace(kernel, buffers=(*missing.values(), *seen))
        return clear_output(kernel, whole), *self._apart(within, elements, output)

    def _apart(self, kernel: loops.Kernel, elements: loops.For, output: Buffer) -> tuple[loops.Kernel, ...]:
        """The kernel of the elements; two where what they add are products, of which the first stores them."""
        body = products_first(kernel, elements.body, Writer(replace(kernel, body=(elements,)), elements.origin))
        *before, add = body
        rows = [row for row in before if isinstance(row, loops.Row) and row.name in names_read([add])]
        if not any(map(multiplies, before)) or len(rows) != 1 or output.name in written_names(before):
            return (replace(part(kernel, kernel.name, elements), template=ADDS),)
        (row,) = rows
        array = array_of_each(kernel, row, elements.extent, self.names)
        needed = [s for s in closure(before, {row.name}) if s is not row]
        if any(isinstance(n, loops.Accumulate) and n.target == row.name for s in needed for n in walk(s)):
            writer = Writer(replace(kernel, body=(elements,)), row.origin)
            needed = [row, *needed, *writer.stored(row.name, row.extents, "s", array.name, elements.variable)]
        else:
            needed = [stored_in(s, row.name, array.name, elements.variable) for s in needed]
        first = part(kernel, f"{kernel.name}_rows", replace(elements, body=tuple(needed), parallel=True), array)
        added = stored_in(add, row.name, array.name, elements.variable)
        scalars = slice_for(tuple(s for s in before if pure(s)), (added,))
        second = part(kernel, kernel.name, replace(elements, body=(*scalars, added)), array)
        return replace(first, template="gemm"), replace(second, template=ADDS)

    @staticmethod
    def _rows(kernel: loops.Kernel, places: Places, order: loops.Load, row: str) -> tuple[Body, tuple[str, ...]]:
        """Loads the row that an element adds to, of an index array with one dimension, or with one in the other; where
        several arrays say it, one place of each."""
        writer, split = Writer(kernel, order.origin), tuple[loops.Index, ...]()
        inside = [index.extents[1] for index, _ in places if len(index.extents) == 2]
        within: tuple[str, ...] = (order.result,)
        if inside:
            one = inside[0] == 1  # then a candidate has its triple's number
            functions = ("mod",) if one else ("div", "mod")
            split = tuple(writer.index("n", function, order.result, inside[0]) for function in functions)
            within = (*within[: int(one)], *(statement.result for statement in split))
        names = (row,) if len(places) == 1 else tuple(writer.names.new(f"i{index.name}") for index, _ in places)
        loads = (
            loops.Load(result=name, buffer=index.name, indices=within[: len(index.extents)], origin=order.origin)
            for name, (index, _) in zip(names, places, strict=True)
        )
        return (*split, *loads), names


def _added_in_place(loop: loops.For, outputs: set[str]) -> Body:
    """An iteration that sums a number and stores it last as one that adds to where it is stored."""
    *before, last = loop.body
    if not isinstance(last, loops.Store) or (last.function, last.indices) != ("copy", (loop.variable,)):
        return loop.body
    totals = [s for s in before if isinstance(s, loops.Accumulator) and (s.name, s.start) == (last.operands[0], 0.0)]
    if last.target not in outputs or not totals:
        return loop.body
    added = (statement for statement in before if statement is not totals[0])
    return tuple(redirected(each, {totals[0].name: last.target}, lambda _: (loop.variable,)) for each in added)


def _summed_first(kernel: loops.Kernel, body: Body, output: Buffer, row: str) -> Body:
    """An element's statements, where several iterations of a loop in them add to one row of numbers, with a row of
    their own for that sum."""
    at = next((p for p, s in enumerate(body) if output.name in written_names([s])), None)
    if at is None or len(output.extents) != 2:
        return body
    loop = body[at]
    sums = [n for n in walk(loop) if isinstance(n, loops.Accumulate) and n.target == output.name]
    if not isinstance(loop, loops.For) or not static_loop(kernel, loop) or len(sums) != 1:
        return body
    if loop.variable in sums[0].indices:
        return body
    origin = sums[0].origin
    return (*body[:at], *summed_first(loop, output, row, Writer(kernel, origin), "y", origin), *body[at + 1 :])


def _summed_in_place(parts: Sequence[loops.Kernel]) -> tuple[loops.Kernel, ...]:
    """The kernels without a last one that only adds up arrays which the others sum: those sum in its output at once."""
    if not parts:
        return ()
    *sums, last = parts
    outputs = {buffer.name: buffer for each in sums for buffer in each.buffers if buffer.kind == "output"}
    found = _total(last)
    if found is None or not set(found[1]) <= outputs.keys() or len(outputs) != len(sums):
        return tuple(parts)
    total, arrays = found

    def one(kernel: loops.Kernel) -> loops.Kernel:
        own = next(buffer.name for buffer in kernel.buffers if buffer.kind == "output")
        if own not in arrays:
            return kernel
        kept = tuple(buffer for buffer in kernel.buffers if buffer.name != own)
        return replace(kernel, buffers=(*kept, total), body=renamed(kernel.body, {own: total.name}))

    return tuple(map(one, sums))


def _total(kernel: loops.Kernel) -> tuple[Buffer, list[str]] | None:
    """The output of a kernel that does nothing but add up arrays of its shape, element by element, and those arrays."""
    loop = only_loop(kernel)
    outputs = [buffer for buffer in kernel.buffers if buffer.kind == "output"]
    indices: list[str] = []
    body: Body = (loop,) if loop is not None else ()
    while len(body) == 1 and isinstance(inner := body[0], loops.For):
        indices.append(inner.variable)
        body = inner.body
    *before, store = body or (None,)
    if len(outputs) != 1 or not isinstance(store, loops.Store) or store.indices != tuple(indices):
        return None
    terms: dict[str, list[str]] = {}
    for statement in before:
        match statement:
            case loops.Load() if statement.indices == tuple(indices):
                terms[statement.result] = [statement.buffer]
            case loops.Compute(function="add", operands=(str(left), str(right))) if {left, right} <= terms.keys():
                terms[statement.result] = [*terms[left], *terms[right]]
            case _:
                return None
    arrays = terms.get(str(store.operands[0]), []) if store.function == "copy" else []
    return (outputs[0], arrays) if len(set(arrays)) == len(arrays) > 0 else None


def _cleared_once(parts: Sequence[loops.Kernel]) -> tuple[loops.Kernel, ...]:
    """The kernels without those that clear what has been cleared, so that all sums in an array meet."""
    cleared: set[str] = set()
    found: list[loops.Kernel] = []
    for kernel in parts:
        outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
        stores = [node.operands for node in walk(kernel) if isinstance(node, loops.Store)]
        clears = kernel.template == "rows" and set(stores) == {(0.0,)}
        if clears and outputs <= cleared:
            continue
        cleared |= outputs if clears else set()
        found.append(kernel)
    return tuple(found)
