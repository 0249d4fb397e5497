"""Elements in other places, made of the views that the graph has: dimensions exchanged, elements and runs taken, rings
turned. A new way to arrange elements needs no operator of its own, and has its gradient already.

What goes along the first dimension treats all behind it as one: a run of the flattened elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from explorer.compiler.ir import graph as ir
from explorer.compiler.ir.node import Extent
from explorer.compiler.language.elaborate.builder import GraphBuilder
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.elaborate.values.operations import Operations
from explorer.compiler.language.names.dependency import Dependency
from explorer.compiler.language.names.entities import Row

LARGEST_MADE = 1 << 20
"""Elements of a row that a function makes of fewer."""
MOST_SLICES = 32
"""Elements, or windows' lengths, up to which slices are put together, which makes no more than there is in the end."""


class Arranging:
    """Arranges values for one operation of the text."""

    def __init__(self, operations: Operations, site: OperationSite) -> None:
        self._operations = operations
        self._shapes = operations.shapes
        self._builder: GraphBuilder = operations.builder
        self._site = site
        self._origin = (site.span,)

    def reshaped(self, row: Row, shape: ir.Shape) -> Row:
        """The same elements in row-major order."""
        if row.shape == shape:
            return row
        operator = ir.Reshape(origin=self._origin, operand=row.name)
        return self._builder.emit(self._site, operator, shape, row.depends, row.lines)

    def sliced(self, row: Row, start: int, stop: int) -> Row:
        """Elements start..stop of the last dimension."""
        extent = row.shape[-1]
        if (start, stop) == (0, self._shapes.size(extent)):
            return row
        operator = ir.Slice(origin=self._origin, operand=row.name, start=start, stop=stop)
        return self._builder.emit(self._site, operator, (*row.shape[:-1], stop - start), row.depends, row.lines)

    def repeated(self, row: Row, count: Extent) -> Row:
        """Copies along a new first dimension."""
        operator = ir.Repeat(origin=self._origin, operand=row.name)
        return self._builder.emit(self._site, operator, (count, *row.shape), row.depends, row.lines)

    def joined(self, rows: Sequence[Row]) -> Row:
        """One after another along the last dimension."""
        if len(rows) == 1:
            return rows[0]
        operator = ir.Concat(origin=self._origin, operands=tuple(row.name for row in rows))
        depends = frozenset[Dependency]().union(*(row.depends for row in rows))
        lines = tuple(sorted({line for row in rows for line in row.lines}))
        size = sum(self._shapes.size(row.shape[-1]) for row in rows)
        return self._builder.emit(self._site, operator, (*rows[0].shape[:-1], size), depends, lines)

    def transposed(self, row: Row) -> Row:
        """The last two dimensions exchanged."""
        return self._operations.transpose(self._site, row)

    def size(self, shape: ir.Shape) -> int:
        """How many elements a shape has."""
        return math.prod(self._shapes.numbers(shape))

    def last(self, row: Row, axis: int) -> Row:
        """One dimension behind all others."""
        before, extent, behind = row.shape[:axis], row.shape[axis], row.shape[axis + 1 :]
        if not behind:
            return row
        pairs = self.reshaped(row, (*before, extent, self._one(behind)))
        return self.reshaped(self.transposed(pairs), (*before, *behind, extent))

    def back(self, row: Row, axis: int) -> Row:
        """The last dimension at that place: what `last` did, undone."""
        before, behind, extent = row.shape[:axis], row.shape[axis:-1], row.shape[-1]
        if not behind:
            return row
        pairs = self.reshaped(row, (*before, self._one(behind), extent))
        return self.reshaped(self.transposed(pairs), (*before, extent, *behind))

    def _one(self, shape: ir.Shape) -> Extent:
        """Dimensions as one."""
        return shape[0] if len(shape) == 1 else self.size(shape)

    def element(self, row: Row, places: Sequence[int]) -> Row:
        """The element at these places of the first dimensions."""
        shape, start = row.shape[len(places) :], 0
        for place, extent in zip(places, row.shape, strict=False):
            start = start * self._shapes.size(extent) + place
        size = self.size(shape)
        flat = self.reshaped(row, (self._one(row.shape),))
        return self.reshaped(self.sliced(flat, start * size, (start + 1) * size), shape)

    def joined_along(self, rows: Sequence[Row], axis: int) -> Row:
        """One after another along a dimension; what lies behind it is a run of elements."""
        before, behind = rows[0].shape[:axis], rows[0].shape[axis + 1 :]
        runs = [self.reshaped(row, (*before, self._one(row.shape[axis:]))) for row in rows]
        extent = sum(self._shapes.size(row.shape[axis]) for row in rows)
        return self.reshaped(self.joined(runs), (*before, extent, *behind))

    def stacked(self, rows: Sequence[Row], axis: int) -> Row:
        """Side by side along a new dimension."""
        shape = rows[0].shape
        return self.joined_along([self.reshaped(row, (*shape[:axis], 1, *shape[axis:])) for row in rows], axis)

    def rolled(self, row: Row, count: int) -> Row:
        """The elements of the last dimension so many places on, in a ring."""
        extent = self._shapes.size(row.shape[-1])
        start = -count % extent
        if not start:
            return row
        turned = self.joined([self.sliced(row, start, extent), self.sliced(row, 0, start)])
        return self.reshaped(turned, row.shape)

    def circulant(self, row: Row) -> Row:
        """A row for each k: a vector of D from element k on, in a ring.

        Copies of the vector one after another, cut into rows of D + 1: each begins one element later."""
        extent = row.shape[0]
        size = self._shapes.size(extent)
        copies = self.reshaped(self.repeated(row, size + 1), ((size + 1) * size,))
        square = self.sliced(self.reshaped(copies, (extent, size + 1)), 0, size)
        return self.reshaped(square, (extent, extent))

    def windows(self, row: Row, length: int) -> Row:
        """A row for each run of so many neighbours of a vector; of long runs see `circulant`."""
        size = self._shapes.size(row.shape[0])
        count = size - length + 1
        if length <= MOST_SLICES:
            columns = self.joined([self.sliced(row, place, place + count) for place in range(length)])
            return self.transposed(self.reshaped(columns, (length, count)))
        copies = -(-count * (size + 1) // size)
        flat = self.reshaped(self.repeated(row, copies), (copies * size,))
        rows = self.reshaped(self.sliced(flat, 0, count * (size + 1)), (count, size + 1))
        return self.sliced(rows, 0, length)

    def stepped(self, row: Row, taken: range) -> Row:
        """The elements of the last dimension that a range goes through."""
        if taken.step < 0 and len(taken) <= MOST_SLICES:
            extent = row.shape[-1] if len(taken) == self._shapes.size(row.shape[-1]) else len(taken)
            found = self.joined([self.sliced(row, place, place + 1) for place in taken])
            return self.reshaped(found, (*row.shape[:-1], extent))
        if taken.step < 0:
            start, count = taken[-1], len(taken)
            turned = self.reversed(self.sliced(row, start, taken[0] + 1))
            return self.stepped(turned, range(0, taken[0] + 1 - start, -taken.step)) if count > 1 else turned
        if taken.step == 1 or len(taken) == 1:
            return self.sliced(row, taken[0], taken[-1] + 1)
        # Runs of one element and those that the step leaves out, but for the last, behind which there may be fewer.
        before, count = row.shape[:-1], len(taken) - 1
        runs = self.sliced(row, taken[0], taken[0] + count * taken.step)
        firsts = self.sliced(self.reshaped(runs, (*before, count, taken.step)), 0, 1)
        return self.joined([self.reshaped(firsts, (*before, count)), self.sliced(row, taken[-1], taken[-1] + 1)])

    def made_turning(self, row: Row, taken: range) -> int:
        """How many elements `stepped` makes to turn a dimension around, 0 where it need not make copies."""
        copies = taken.step < 0 and len(taken) > MOST_SLICES
        return (taken[0] + 1 - taken[-1]) ** 2 * self.size(row.shape[:-1]) if copies else 0

    def reversed(self, row: Row) -> Row:
        """The elements of the last dimension from the last to the first.

        Copies one after another, read from the last element on and cut into runs of D - 1: each begins one earlier."""
        before, extent = row.shape[:-1], row.shape[-1]
        count, size = self._shapes.size(extent), self.size(before)
        if count == 1:
            return row
        columns = self.reshaped(row, (size, extent)) if before else row
        columns = self.transposed(columns) if before else columns
        flat = self.reshaped(self.repeated(columns, count), (count * count * size,))
        read = self.sliced(flat, (count - 1) * size, (count * count - 1) * size)
        turned = self.sliced(self.reshaped(read, (count, (count - 1) * size)), 0, size)
        if not before:
            return self.reshaped(turned, row.shape)
        return self.reshaped(self.transposed(self.reshaped(turned, (extent, size))), row.shape)
