"""Takes the sums of a batch's gradients element by element: scattered, where the loops gather them.

The gradient of a relation's row is a sum over the relation's triples. The loops have it so, a relation's triples one
after another, which needs the batch ordered by relation for each batch anew, and a popular relation's sum is as long
as the batch. Where the array that says which relation a triple has is at hand, the triples may as well all add at once,
by atomics, to what another kernel has cleared. What a triple adds many times to one row it sums first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.ir.statements import all_names, closure, names_read, pure, renamed, slice_for, written_names
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


def scatter_sums(
    kernels: tuple[loops.Kernel, ...], inverses: Sequence[tuple[str, str]], report: Report
) -> tuple[loops.Kernel, ...]:
    """The kernels, those that go along the segments of a batch's order in kernels that scatter. `inverses` are by index
    array the order of the batch by it."""
    arrays = {buffer.name: buffer for kernel in kernels for buffer in kernel.buffers if buffer.kind == "index"}
    maps = {order: arrays[entry] for entry, order in inverses if entry in arrays}
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
    """How a module's sums may be scattered: `maps` has by order of a batch the index array that it is the order of."""

    maps: Mapping[str, Buffer]
    names: Names

    def parts(self, kernel: loops.Kernel) -> tuple[loops.Kernel, ...]:
        """The kernels that clear and add what a kernel sums over its segments, and those of what is left; none where
        some sum cannot be scattered."""
        loop = only_loop(kernel)
        if loop is None or not any(buffer.name in self.maps for buffer in kernel.buffers):
            return ()
        found: list[loops.Kernel] = []
        for each in _summed_in_place(distribute_sums(kernel, self.names)):
            if self._map_of(each) is None:
                found.append(each)
                continue
            added = self._added(each)
            if not added:
                return ()
            found += added
        return _cleared_once(found)

    def _map_of(self, kernel: loops.Kernel) -> Buffer | None:
        """The index array by whose order a kernel goes along its segments."""
        orders = [self.maps[buffer.name] for buffer in kernel.buffers if buffer.name in self.maps]
        return orders[0] if len(orders) == 1 else None

    def _added(self, kernel: loops.Kernel) -> tuple[loops.Kernel, ...]:
        """What clears the rows, and what adds to them element by element; none where it is more than a sum."""
        loop, index = only_loop(kernel), self._map_of(kernel)
        assert loop is not None
        assert index is not None
        *scalars, segment = loop.body
        outputs = [buffer for buffer in kernel.buffers if buffer.kind == "output"]
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
        row = self._row(kernel, index, order, loop.variable)
        own = (*row, *slice_for(tuple(scalars), body), *_summed_first(kernel, tuple(body), output, loop.variable))
        elements = replace(loop, variable=order.result, extent=extent, body=own, parallel=False, note="")
        within = replace(kernel, buffers=_with(kernel.buffers, index))
        return clear_output(kernel, output), *self._apart(within, elements, output)

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
    def _row(kernel: loops.Kernel, index: Buffer, order: loops.Load, row: str) -> Body:
        """Loads the row that an element adds to, of an index array with one dimension, or with one in the other."""
        writer, split = Writer(kernel, order.origin), tuple[loops.Index, ...]()
        places: tuple[str, ...] = (order.result,)
        if len(index.extents) == 2:
            one = index.extents[1] == 1  # then a candidate has its triple's number
            functions = ("mod",) if one else ("div", "mod")
            split = tuple(writer.index("n", function, order.result, index.extents[1]) for function in functions)
            places = (*places[: int(one)], *(statement.result for statement in split))
        return *split, loops.Load(result=row, buffer=index.name, indices=places, origin=order.origin)


def _with(buffers: tuple[Buffer, ...], index: Buffer) -> tuple[Buffer, ...]:
    return buffers if any(buffer.name == index.name for buffer in buffers) else (index, *buffers)


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
    return (outputs[0], arrays) if len(set(arrays)) == len(arrays) > 1 else None


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
