"""The operands of a matrix product, a slab at a time: from memory into shared memory, meanwhile the slab before is
multiplied.

What goes there as it is, in whole vectors, is copied on the side. Anything else is loaded into registers, and computed
and stored once the slab before has been multiplied, so nothing uses what has been loaded until it has had time to
arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.ir.statements import slice_for
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.edit.nests import element_type
from explorer.compiler.schedule.gemm.tiling import TilePlace, Tiling
from explorer.compiler.schedule.inspect.group_by_matrix import GRANULE, ROWS_A_TILE
from explorer.compiler.schedule.match.matrix_products import Product
from explorer.compiler.target import VECTOR

PADDING = VECTOR
"""Elements behind each row of a tile that is stored by columns, or read in several at once: neighbours in a column
fall into different banks, of which shared memory has 32 of 4 bytes. What they are decides it, so nobody need choose."""
PADDING_OF_VECTORS = 2 * VECTOR
"""The same where lanes read vectors of two neighbours in each of four rows at once."""


class LeftOperand:
    """The rows: computed by the prologue, each thread a few elements along the depth, and stored by columns."""

    schedule: tuple[str, ...] = ()

    def __init__(self, kernel: loops.Kernel, product: Product, tiling: Tiling, depth: int) -> None:
        self._kernel, self._product, self._depth, self._tiling = kernel, product, depth, tiling
        self._step = tiling.depth_step
        self._across = tiling.depth // tiling.depth_step
        self._down = tiling.threads // self._across
        self._passes = ROWS_A_TILE // self._down
        of_depth = {product.depth}
        self._loads: list[loops.Load] = []
        self._arithmetic: list[loops.Statement] = []
        for statement in product.prologue:
            by_depth = bool(of_depth & set(loops.reads_of(statement)))
            if by_depth and isinstance(statement, loops.Load):
                self._loads.append(statement)
                of_depth.add(statement.result)
            else:
                self._arithmetic.append(statement)
        read = {name for s in product.prologue for name in loops.reads_of(s)} | {product.factor}
        self._head = tuple(s for s in product.head if s is not product.matrix_index)
        self._scalars = [s for s in self._head if loops.result_of(s) in read]
        self._row_read = product.rows.variable in read
        by_depth = any(product.depth in loops.reads_of(statement) for statement in self._arithmetic)
        self._depth_read = by_depth or bool(depth % tiling.depth)
        self.copied = self._is_copied()
        self._kept: dict[str, str] = {}
        self._loaded: dict[str, str] = {}
        self.name = ""

    @property
    def registers(self) -> int:
        """What a thread keeps of it while a slab is multiplied."""
        return self._passes * (len(self._scalars) + (0 if self.copied else len(self._loads) * self._step))

    def _is_copied(self) -> bool:
        """Whether the rows are gathered as they are."""
        tiling, only = self._tiling, self._loads[0] if len(self._loads) == 1 else None
        gathered = only is not None and only.result == self._product.factor and not self._arithmetic
        room = tiling.stages > 1 or self._depth <= tiling.depth
        whole = self._step == VECTOR and self._depth % tiling.depth == 0
        return gathered and room and tiling.precision is None and whole

    def declare(self, steps: Steps, slab: str = "") -> None:
        """The tiles: scalars of the rows, a slab's loads, and the slab in shared memory, if that is not there yet."""
        together = self._tiling.together
        padding = 0 if together else PADDING
        extents = self._tiling.left_extents
        self.name = slab or steps.tile("left", extents, "shared", padding=padding, swizzled=together)
        rows = [self._passes, self._down]
        if self._row_read:
            self._kept[self._product.rows.variable] = steps.tile("kept", rows, "register", type="i32")
        for scalar in self._scalars:
            name = loops.result_of(scalar)
            assert name is not None
            self._kept[name] = steps.tile("kept", rows, "register", type=element_type(self._kernel, scalar))
        for load in () if self.copied else self._loads:
            self._loaded[load.result] = steps.tile("next", [*rows, self._tiling.depth], "register")

    @contextmanager
    def _each(self, steps: Steps) -> Iterator[tuple[Extent, str, str]]:
        """Each element of a slab: the pass, the row in it, and the place along the depth."""
        with (
            steps.loop("row", self._down, "thread") as down,
            steps.loop("q", self._tiling.depth, "thread", step=self._step) as along,
            steps.all("pass", self._passes) as which,
        ):
            yield which, down, along

    def _scalars_of(
        self, steps: Steps, place: TilePlace, row: tuple[Extent, Extent], readers: Sequence[loops.Statement]
    ) -> dict[str, Atom]:
        """What names of the loops stand for in a row, of those that the readers need."""
        read = {name for statement in readers for name in loops.reads_of(statement)} | {self._product.factor}
        kept = {name: steps.load(name, tile, *row) for name, tile in self._kept.items() if name in read}
        return {**place.known, **kept}

    def prepare(self, steps: Steps, place: TilePlace) -> None:
        """Scalars of the rows, which all slabs need."""
        product = self._product
        with self._each(steps) as (which, down, _):
            row = self._row(steps, which, down)
            known = {**place.known, product.rows.variable: place.row(steps, row)}
            needed = slice_for(self._head, self._scalars)
            known = steps.copy([s for s in self._head if s in needed or s in self._scalars], known)
            for name, tile in self._kept.items():
                steps.store(tile, [which, down], known[name])

    def load(self, steps: Steps, place: TilePlace, slab: Extent, stage: Extent) -> None:
        """Loads a slab, from depth `slab` on, into registers, or starts to copy it into a stage."""
        with self._each(steps) as (which, down, along):
            row = self._row(steps, which, down) if self.copied or self._asks(place) else down
            depth = steps.index("d", "add", slab, along)
            with (
                self._there(steps, place, row),
                steps.where(depth, "<", self._product.depth_extent, needed=bool(self._depth % self._tiling.depth)),
            ):
                known = {**self._scalars_of(steps, place, (which, down), self._loads), self._product.depth: depth}
                if self.copied:
                    steps.copy_async(self.name, self._tiling.left_place(stage, row, along), self._loads[0], known)
                for load in () if self.copied else self._loads:
                    known = steps.copy([load], known)
                    steps.store(self._loaded[load.result], [which, down, along], known[load.result])

    def store(self, steps: Steps, place: TilePlace, slab: Extent, stage: Extent) -> None:
        """Computes the slab from what was loaded, and stores it; what lies behind the depth is 0."""
        if self.copied:
            return
        with self._each(steps) as (which, down, along):
            row = self._row(steps, which, down)
            depth = steps.index("d", "add", slab, along) if self._depth_read else along
            with self._there(steps, place, row):
                at = self._tiling.left_place(stage, row, along)
                self._store(steps, place, (at, along), (which, down), depth)

    def _row(self, steps: Steps, which: Extent, down: str) -> Extent:
        """A row of the tile, by its pass."""
        return steps.index("row", "add", steps.index("first", "mul", which, self._down), down)

    def _asks(self, place: TilePlace) -> bool:
        """Whether rows that a tile does not have are left out."""
        return not self._tiling.whole and not isinstance(place.height, int)

    def _there(self, steps: Steps, place: TilePlace, row: Extent) -> AbstractContextManager[None]:
        """What a tile of this height has: whole warps have nothing to do with the rows behind it."""
        if not self._asks(place):
            return nullcontext()
        return steps.where(row, "<", steps.index("rows", "mul", place.height, GRANULE))

    def _store(
        self,
        steps: Steps,
        place: TilePlace,
        element: tuple[Sequence[Extent], str],
        row: tuple[Extent, Extent],
        depth: Extent,
    ) -> None:
        product, (at, along) = self._product, element
        with steps.where(depth, "<", product.depth_extent, needed=bool(self._depth % self._tiling.depth)):
            known = {**self._scalars_of(steps, place, row, self._arithmetic), product.depth: depth}
            for load in self._loads:
                known[load.result] = steps.load(load.result, self._loaded[load.result], *row, along)
            known = steps.copy(self._arithmetic, known)
            self._store_parts(steps, at, known[product.factor] if isinstance(product.factor, str) else product.factor)
        if self._depth % self._tiling.depth:
            with steps.where(product.depth_extent, "<=", depth):
                steps.store(self.name, at, 0.0)

    def _store_parts(self, steps: Steps, at: Sequence[Extent], value: Atom) -> None:
        """Stores an element, where four warps multiply together as they read it: rounded, or with what is below it."""
        if not self._tiling.together:
            steps.store(self.name, at, value)
        elif not self._tiling.parts:
            steps.store(self.name, at, steps.compute("rounded", "as_tf32", value))
        else:
            stage, *place = at
            steps.store(self.name, [stage, 0, *place], value)
            steps.store(self.name, [stage, 1, *place], steps.compute("below", "below_tf32", value))


class RightOperand:
    """The matrix: walked along its rows, whichever of its dimensions those are."""

    def __init__(self, product: Product, tiling: Tiling, depth: int, columns: int) -> None:
        self._padding = PADDING if tiling.precision or product.transposed else 0
        if tiling.together:
            self._padding = PADDING_OF_VECTORS
        self._product, self._depth, self._columns, self._tiling = product, depth, columns, tiling
        self._step = tiling.matrix_step
        whole = depth % tiling.depth == 0 and columns % tiling.columns == 0
        room = tiling.stages > 1 or depth <= tiling.depth
        as_it_is = (tiling.precision is None or tiling.together) and not product.transposed
        self.copied = whole and room and self._step == VECTOR and as_it_is
        self.array = product.matrix.buffer
        if product.transposed:
            self._across = tiling.depth // self._step
            self._down = tiling.threads // self._across
            self._passes = -(-tiling.columns // self._down)
        else:
            self._across = tiling.across
            self._down = tiling.threads // self._across
            self._passes = -(-tiling.depth // self._down)
        self._loaded = self.name = ""

    @property
    def registers(self) -> int:
        """What a thread keeps of it while a slab is multiplied."""
        pieces = 1 if self._product.transposed else self._tiling.pieces
        return 0 if self.copied else self._passes * pieces * self._step

    def declare(self, steps: Steps, slab: str = "") -> None:
        """The tiles: what a slab's loads bring, and the slab in shared memory, if that is not there yet."""
        extents = [self._tiling.stages, self._tiling.depth, self._tiling.columns]
        self.name = slab or steps.tile("right", extents, "shared", padding=self._padding)
        if self.copied:
            return
        last = self._tiling.depth if self._product.transposed else self._tiling.piece
        pieces = 1 if self._product.transposed else self._tiling.pieces
        self._loaded = steps.tile("next", [self._passes, pieces, self._down, last], "register")

    @contextmanager
    def _each(self, steps: Steps) -> Iterator[tuple[tuple[Extent, ...], Extent, Extent]]:
        """Each vector of a slab: where it is kept, its place along the depth, and its column in the tile."""
        transposed = self._product.transposed
        with (
            steps.loop("row", self._down, "thread") as down,
            steps.loop(
                "q", self._tiling.depth if transposed else self._tiling.piece, "thread", step=self._step
            ) as along,
            steps.all("pass", self._passes) as which,
        ):
            row = steps.index("row", "add", steps.index("first", "mul", which, self._down), down)
            if transposed:
                yield (which, 0, down, along), along, row
                return
            with steps.all("piece", self._tiling.pieces) as piece:
                before = steps.index("before", "mul", piece, self._tiling.piece)
                yield (which, piece, down, along), row, steps.index("column", "add", before, along)

    @contextmanager
    def _inside(self, steps: Steps, depth: Extent, column: Extent) -> Iterator[None]:
        """What lies in the matrix."""
        product = self._product
        with (
            steps.where(depth, "<", product.depth_extent, needed=bool(self._depth % self._tiling.depth)),
            steps.where(column, "<", product.column_extent, needed=bool(self._columns % self._tiling.columns)),
        ):
            yield

    def load(self, steps: Steps, place: TilePlace, slab: Extent, stage: Extent) -> None:
        """Loads a slab, from depth `slab` on, into registers, or starts to copy it into a stage; what lies outside of
        the matrix is 0."""
        product = self._product
        with self._each(steps) as (kept, along, column):
            depth = steps.index("d", "add", slab, along)
            of_matrix = steps.index("k", "add", place.column, column)
            if self._depth % self._tiling.depth or self._columns % self._tiling.columns:
                steps.store(self._loaded, kept, 0.0)
            with self._inside(steps, depth, of_matrix):
                known = {**place.known, product.depth: depth, product.column: of_matrix}
                if self.copied:
                    steps.copy_async(self.name, [stage, along, column], product.matrix, known)
                else:
                    known = steps.copy([product.matrix], known)
                    steps.store(self._loaded, kept, known[product.matrix.result])

    def store(self, steps: Steps, stage: Extent) -> None:
        """Stores what was loaded."""
        if self.copied:
            return
        with self._each(steps) as (kept, along, column):
            value = steps.load(self._product.matrix.result, self._loaded, *kept)
            steps.store(self.name, [stage, along, column], value)
