"""How a block's threads share a tile of a matrix product, and where in the operands a tile lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Precision
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.ir.verify.products import ROW
from explorer.compiler.options import Options
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.inspect.group_by_matrix import GRANULE, ROWS_A_TILE, Grouping
from explorer.compiler.schedule.match.matrix_products import Product
from explorer.compiler.target import VECTOR, GpuTarget

DEPTH, STAGES = 16, 2
"""Elements of the depth in a slab, and slabs in shared memory: one is multiplied while the next is stored."""
DEPTH_OF_ONE_PASS = 32
"""In one pass on tensor cores a slab of 16 is multiplied before the next can have come."""
DEPTHS_OF_SUMS = (16, 32, 64)
"""Where rows are sums, those are taken once for a slab, so that a slab is as deep as may be, and there is one."""
WIDTHS = (16, 32, 64, 128)
"""Columns that a tile may have."""
ACROSS = 16
"""Threads beside each other in a tile, at most."""
PRECISIONS: dict[str, Precision] = {"tf32": "tf32", "tf32x3": "tf32x3"}
"""The precisions of the options that are for tensor cores."""
WIDTHS_TOGETHER: dict[Precision, tuple[int, ...]] = {"tf32": (256, 128), "tf32x3": (128,)}
"""Columns that a tile may have there, the best first: a warp has 32. With more, rows are gathered less often, but in
three passes a block then keeps too much of them in shared memory."""


@dataclass(frozen=True)
class Tiling:
    """The sizes of a tile, of slabs `depth` deep in `stages` places of shared memory. `GRANULE` by `across` threads
    have `pieces` vectors of `step` columns of every row each.
    `depth_step` is how many elements of a row's prologue are computed at once, `matrix_step` how many of the matrix
    are loaded. With a `precision`, tensor cores multiply.

    `whole` says that rows which a tile does not have are loaded all the same. That takes less time where registers are
    short: conditions keep the loads of a slab apart (on an H100, 3 % of three passes, and 10 % of one with slabs of 16;
    with slabs of 32 it takes 3 % more, and up to 1 % more in float32).

    `together` says that four warps multiply together."""

    depth: int
    stages: int
    columns: int
    across: int
    pieces: int
    step: int
    depth_step: int
    matrix_step: int
    precision: Precision | None
    whole: bool
    together: bool = False

    @property
    def by_rows(self) -> bool:
        """Whether a slab of the rows lies in shared memory row by row, or by columns, as a warp on its own reads it for
        tensor cores."""
        return self.precision is None or self.together

    @property
    def parts(self) -> list[int]:
        """How many parts of each number of the rows a slab has, where four warps multiply together in three passes."""
        return [2] if self.together and self.precision == "tf32x3" else []

    @property
    def left_extents(self) -> list[int]:
        """The extents of the rows' slabs in shared memory."""
        slab = (ROWS_A_TILE, self.depth) if self.by_rows else (self.depth, ROWS_A_TILE)
        return [self.stages, *self.parts, *slab]

    def left_place(self, stage: Extent, row: Extent, along: Extent) -> list[Extent]:
        """Where an element of the rows lies in a slab."""
        return [stage, row, along] if self.by_rows else [stage, along, row]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return GRANULE * self.across

    @property
    def piece(self) -> int:
        """Columns from one of a thread's vectors to the next: those of all threads beside each other."""
        return self.across * self.step


def choose_tiling(kernel: loops.Kernel, product: Product, options: Options, target: GpuTarget) -> Tiling:
    """The tiling for a product's shape, and for that of what is added to it: vectors where all that is walked has rows
    of a multiple of a vector, and on tensor cores where the epilogue has, if the option `precision` asks for that; by
    four warps together, if the GPU has such instructions, where all tiles are whole."""
    columns = kernel.size(product.column_extent)
    width = next(width for width in WIDTHS if width >= min(columns, WIDTHS[-1]))
    products = [product, *([product.added] if product.added else [])]
    by_column = (*product.epilogue, *(each.matrix for each in products if not each.transposed))
    step = vector_step(kernel, by_column, product.column, columns)
    depth = kernel.size(product.depth_extent)
    across = min(ACROSS, width // step)
    matrix_step = vector_step(kernel, (product.matrix,), product.depth, depth) if product.transposed else step
    depth_step = min(vector_step(kernel, p.prologue, p.depth, kernel.size(p.depth_extent)) for p in products)
    precision = PRECISIONS.get(options.precision) if step == VECTOR else None
    if precision and target.warpgroups and min(matrix_step, depth_step) == VECTOR:
        widths = [width for width in WIDTHS_TOGETHER[precision] if columns % width == 0]
        if widths and depth % ROW == 0 and not product.transposed and product.segment is None:
            return _together(widths[0], depth, precision)
    slab = DEPTH_OF_ONE_PASS if precision == "tf32" and depth > DEPTH else DEPTH
    if product.segment is not None:
        deepest = min(DEPTHS_OF_SUMS[-1], GRANULE * across * depth_step // 2)  # two rows at a time or more
        slab = next(deep for deep in DEPTHS_OF_SUMS if deep >= min(depth, deepest))
    if product.transposed and width * slab < GRANULE * across * matrix_step:
        matrix_step = 1  # there are more threads than vectors in a slab of the matrix
    return Tiling(
        depth=slab,
        stages=STAGES if product.segment is None and depth > slab else 1,
        columns=width,
        across=across,
        pieces=width // (across * step),
        step=step,
        depth_step=depth_step,
        matrix_step=matrix_step,
        precision=precision,
        whole=precision is not None and slab == DEPTH,
    )


def _together(columns: int, depth: int, precision: Precision) -> Tiling:
    """The tiling where four warps multiply together."""
    across = columns // VECTOR
    return Tiling(
        depth=ROW,
        stages=STAGES if depth > ROW else 1,
        columns=columns,
        across=across // 2,
        pieces=2,
        step=VECTOR,
        depth_step=VECTOR,
        matrix_step=VECTOR,
        precision=precision,
        whole=True,
        together=True,
    )


def vector_step(kernel: loops.Kernel, statements: Sequence[loops.Statement], variable: str, extent: int) -> int:
    """How many elements accesses by the variable may be of: a vector where it is always the last index."""
    last_extents = {buffer.name: buffer.extents[-1] for buffer in kernel.buffers}
    if extent % VECTOR:
        return 1
    for statement in statements:
        if isinstance(statement, loops.Index) and variable in statement.operands:
            return 1
        if not isinstance(statement, loops.Load | loops.Store | loops.Accumulate) or variable not in statement.indices:
            continue
        name = statement.buffer if isinstance(statement, loops.Load) else statement.target
        if variable in statement.indices[:-1]:
            return 1
        if name in last_extents and kernel.size(last_extents[name]) % VECTOR:
            return 1
    return VECTOR


@dataclass(frozen=True)
class TilePlace:
    """Where a block's tile lies: rows from position `begin` to `last` of the order, columns from `column` on.

    Each row of threads has `height` rows. `known` are what
    names of the loops stand for in the whole tile: the matrix's index, the head."""

    grouping: Grouping | None
    begin: Extent
    last: Extent
    column: Extent
    height: Extent
    known: Mapping[str, Atom]

    def row(self, steps: Steps, row: Extent) -> Extent:
        """The iteration of the parallel loop that a row of the tile is."""
        return self.row_at(steps, steps.index("place", "add", self.begin, row))

    def row_at(self, steps: Steps, position: Extent) -> Extent:
        """The iteration at a position of the order. What lies behind the last is the last again: it is computed, and
        not stored."""
        place = steps.index("place", "min", position, self.last)
        return place if self.grouping is None else self.grouping.row(steps, place)
