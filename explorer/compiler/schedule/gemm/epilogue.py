"""What the loops do with the sums of a product: the epilogue, from the registers that hold them.

Every row of a tile is looked up and computed alike, those behind the last as the last one, and only what is stored
has a condition: no row's loads wait for the row before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import AtomicAccumulate, Reduce
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.ir.statements import names_read, slice_for
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.gemm.on_cuda_cores import ThreadSums
from explorer.compiler.schedule.gemm.on_tensor_cores import TensorSums, WarpgroupSums
from explorer.compiler.schedule.gemm.row_epilogues import Ending, add_part
from explorer.compiler.schedule.gemm.tiling import TilePlace, Tiling
from explorer.compiler.schedule.match.matrix_products import Product

NEUTRAL = {"sum": 0.0, "product": 1.0}
"""What a block's part of a reduction starts with; a maximum or minimum may start with the whole's start."""


@dataclass(frozen=True)
class _Row:
    """A row of a tile: its `position` in the order, which the tile has where it is below `end`; what it is `stored` as
    there; where its sums are, and which part of the columns they are of."""

    position: Extent
    end: Extent
    stored: Extent
    sums: tuple[Extent, ...]
    part: Extent


class Epilogue:
    """Writes the epilogue of one product's kernel. `parts` are where a block leaves its part of each accumulator; there
    are none where it has whole rows, and ends them."""

    def __init__(
        self,
        kernel: loops.Kernel,
        product: Product,
        tiling: Tiling,
        sums: ThreadSums | TensorSums | WarpgroupSums,
        steps: Steps,
        parts: Mapping[str, Buffer],
        ending: Ending | None,
    ) -> None:
        self._product, self._tiling, self._sums, self._steps = product, tiling, sums, steps
        self._parts, self._ending = parts, ending
        self._columns = kernel.size(product.column_extent)
        head = tuple(statement for statement in product.head if statement is not product.matrix_index)
        self._guards = dict(product.guards)
        guarding = set(self._guards.values())
        needed = slice_for(head, product.epilogue)
        self._head = [s for s in head if s in needed or loops.result_of(s) in guarding]
        self._indices = {buffer.name for buffer in kernel.buffers if buffer.kind == "index"}
        self._ahead: dict[str, str] = {}
        self._common: dict[str, str] = {}

    def look_up(self, place: TilePlace) -> None:
        """Loads what the rows' epilogues look up, if that is indices, while the rows are multiplied."""
        steps, product = self._steps, self._product
        loads = [s for s in self._head if isinstance(s, loops.Load) and s.buffer in self._indices]
        if product.accumulators or not loads or len(loads) < len(self._head):
            return
        self._ahead = {s.result: steps.tile(s.result, self._sums.row_extents, "register", type="i32") for s in loads}
        with self._sums.rows(steps) as (row, at, part), self._sums.columns(steps, part):
            known = steps.copy(loads, {**place.known, product.rows.variable: place.row(steps, row)})
            for name, tile in self._ahead.items():
                steps.store(tile, at, known[name])

    def write(self, place: TilePlace, end: Extent, block: Extent) -> None:
        """What the loops do with the sums of a tile whose rows lie before position `end`, in a block of its columns."""
        steps, product = self._steps, self._product
        self._load_common(place)
        with self._sums.rows(steps) as (row, at, part):
            position = steps.index("position", "add", place.begin, row)
            ordered = place.grouping is not None and place.grouping.order is not None
            own = place.row_at(steps, position) if ordered or self._by_row else position
            known = steps.copy(() if self._ahead else self._head, {**place.known, product.rows.variable: own})
            for accumulator in product.accumulators:
                known[accumulator.name] = self._part(accumulator)
            which = _Row(position, end, own if ordered else position, at, part)
            self._elements(place, known, which)
            for accumulator in product.accumulators:
                self._reduce(accumulator, known[accumulator.name])
            if product.accumulators:
                with steps.where(position, "<", end):
                    if self._ending is not None:
                        own_row = {product.rows.variable: which.stored}  # not the last one's, which others have too
                        self._end(self._ending, {**known, **own_row}, which.stored)
                    else:
                        self._store_parts(known, which, block)

    def _load_common(self, place: TilePlace) -> None:
        """Loads once what all rows of a thread have in common: what columns and the tile's matrix alone find."""
        steps, product, sums = self._steps, self._product, self._sums
        known = {*place.known, product.column}
        changed = {s.target for s in product.epilogue if isinstance(s, (loops.Store, loops.Accumulate))}
        others = {product.total, *self._guards, *self._indices, *changed}
        loads = [s for s in product.epilogue if isinstance(s, loops.Load) and s.buffer not in others]
        common = [s for s in loads if {index for index in s.indices if isinstance(index, str)} <= known]
        if not common or not isinstance(sums, ThreadSums):
            return
        self._common = {s.result: steps.tile(s.result, sums.column_extents, "register") for s in common}
        with sums.columns(steps, 0) as (inside, element), self._column(place, inside) as column:
            names = steps.copy(common, {**place.known, product.column: column})
            for name, tile in self._common.items():
                steps.store(tile, element, names[name])

    @contextmanager
    def _column(self, place: TilePlace, inside: Extent) -> Iterator[Extent]:
        """A column at a place of the tile, which the matrix has."""
        steps, product = self._steps, self._product
        column = steps.index(product.column, "add", place.column, inside)
        with steps.where(column, "<", product.column_extent, needed=bool(self._columns % self._tiling.columns)):
            yield column

    @property
    def _by_row(self) -> bool:
        """Whether something is loaded by the row itself."""
        loads = (*(() if self._ahead else self._head), *(s for s in self._product.epilogue if not self._stores(s)))
        return self._product.rows.variable in names_read(loads)

    def _stores(self, statement: loops.Statement) -> bool:
        """Whether a statement of the epilogue writes memory."""
        accumulators = {accumulator.name for accumulator in self._product.accumulators}
        return isinstance(statement, (loops.Store, loops.Accumulate)) and statement.target not in accumulators

    def _elements(self, place: TilePlace, known: dict[str, Atom], row: _Row) -> None:
        """The epilogue for a thread's columns of a row."""
        steps, product = self._steps, self._product
        with self._sums.columns(steps, row.part) as (inside, element), self._column(place, inside) as column:
            names = {**known, product.column: column}
            names |= {name: steps.load(name, tile, *row.sums) for name, tile in self._ahead.items()}
            for stored, statements in groupby(product.epilogue, self._stores):
                with steps.where(row.position, "<", row.end, needed=stored):
                    own = row.stored if stored else known[product.rows.variable]
                    names = self._statements(statements, {**names, product.rows.variable: own}, (row.sums, element))

    def _add(self, add: AtomicAccumulate, names: Mapping[str, Atom]) -> None:
        """Adds to a row that others add to; where it is known that nobody else does, stores there."""
        steps, adding = self._steps, self._product.adding
        if not adding:
            steps.copy([add], names)
            return
        with steps.where(0, "<=", names[adding]):
            steps.copy([add], names)
        with steps.where(names[adding], "<", 0):
            row = steps.index("row", "sub", -1, str(names[adding]))
            store = loops.Store(
                target=add.target,
                indices=add.indices,
                function=add.function,
                operands=add.operands,
                origin=add.origin,
            )
            steps.copy([store], {**names, adding: row})

    def _statements(
        self,
        statements: Iterable[loops.Statement],
        names: dict[str, Atom],
        at: tuple[tuple[Extent, ...], tuple[Extent, ...]],
    ) -> dict[str, Atom]:
        """Statements of the epilogue, whose element's sum is that of a row at a place in it; what names are then."""
        steps, (row, element) = self._steps, at
        for statement in statements:
            if isinstance(statement, loops.Load) and statement.buffer == self._product.total:
                names = {**names, statement.result: steps.load(statement.result, self._sums.name, *row, *element)}
            elif isinstance(statement, loops.Load) and statement.result in self._common:
                common = self._common[statement.result]
                names = {**names, statement.result: steps.load(statement.result, common, *element)}
            elif isinstance(statement, loops.Load) and statement.buffer in self._guards:
                names = {**names, statement.result: self._guarded(statement, names)}
            elif isinstance(statement, AtomicAccumulate):
                self._add(statement, names)
            else:
                names = steps.copy([statement], names)
        return names

    def _guarded(self, load: loops.Load, names: Mapping[str, Atom]) -> str:
        """What is loaded of a row that may not be there: 0 where it is not."""
        steps = self._steps
        found = steps.names.new(load.result)
        steps.add(loops.Accumulator(name=found, start=0.0, origin=load.origin))
        with steps.where(0, "<", names[self._guards[load.buffer]]):
            steps.accumulate(found, (), "copy", steps.copy([load], names)[load.result])
        return found

    def _part(self, accumulator: loops.Accumulator) -> str:
        """An accumulator for this block's columns."""
        name = self._steps.names.new(accumulator.name)
        self._steps.add(replace(accumulator, name=name, start=self._start(accumulator)))
        return name

    def _start(self, accumulator: loops.Accumulator) -> float:
        return NEUTRAL.get(self._product.reduction_of(accumulator.name), accumulator.start)

    def _reduce(self, accumulator: loops.Accumulator, part: Atom) -> None:
        assert isinstance(part, str)
        reduction = self._product.reduction_of(accumulator.name)
        lanes, apart = self._sums.lanes, self._sums.apart
        self._steps.add(Reduce(target=part, reduction=reduction, lanes=lanes, apart=apart, origin=accumulator.origin))

    def _end(self, ending: Ending, known: dict[str, Atom], row: Extent) -> None:
        """What an iteration does once its sums are complete: one of the lanes that share the row does it."""
        steps, product = self._steps, self._product
        with self._sums.each_lane(steps) as lane, steps.where(lane, "==", 0):
            for accumulator in product.accumulators:
                if accumulator.start != self._start(accumulator):
                    whole, part = steps.names.new(accumulator.name), known[accumulator.name]
                    assert isinstance(part, str)
                    steps.add(replace(accumulator, name=whole))
                    add_part(steps, product, accumulator, whole, part)
                    known[accumulator.name] = whole
            ending.write(steps, known, row)

    def _store_parts(self, known: Mapping[str, Atom], row: _Row, block: Extent) -> None:
        """A row's part of each accumulator, of a block and of its part of the columns: one of the lanes that share the
        row stores it."""
        steps = self._steps
        own_part = steps.index("part", "add", steps.index("parts", "mul", block, self._sums.parts), row.part)
        with self._sums.each_lane(steps) as lane, steps.where(lane, "==", 0):
            for accumulator in self._product.accumulators:
                steps.store(self._parts[accumulator.name].name, [own_part, row.stored], known[accumulator.name])
