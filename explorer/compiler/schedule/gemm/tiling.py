"""How a block's threads share a tile of a matrix product, and where in the operands a tile lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Precision
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.ir.verify.products import ROW
from explorer.compiler.options import PRECISIONS as OPTION_PRECISIONS
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.fitting import nearest
from explorer.compiler.schedule.inspect.group_by_matrix import GRANULE, HEIGHTS, ROWS_A_TILE, Grouping
from explorer.compiler.schedule.match.matrix_products import Product
from explorer.compiler.target import VECTOR, WARP

WIDTHS = (16, 32, 64, 128)
"""Columns that a tile may have."""
WIDTHS_TOGETHER: dict[Precision, tuple[int, ...]] = {"tf32": (256, 128), "tf32x3": (128,)}
"""Columns that a tile may have where four warps multiply together, the best first: a warp has 32. With more, rows are
gathered less often, but in three passes a block then keeps too much of them in shared memory."""
COLUMNS = Decision(
    name="columns",
    domain=(*WIDTHS, 256),
    why="columns of the output in a tile: more gather rows less often, and take more registers and shared memory",
    source="as many as there are, up to 128 (256 in one pass by four warps together); measured on an H100",
)
DEPTH, DEPTH_OF_ONE_PASS = 16, 32
DEPTHS = (16, 32, 64)
SLAB = Decision(
    name="depth",
    domain=DEPTHS,
    why="elements of the depth in a slab: more take more shared memory and registers, and fewer barriers",
    source="16, but 32 in one pass on tensor cores, where one of 16 is multiplied before the next can have come, and as"
    " many as may be where rows are sums, which are taken once for a slab; measured on an H100",
)
STAGES = Decision(
    name="stages",
    domain=(1, 2),
    why="slabs in shared memory: of two, one is multiplied while the next is stored",
    source="2, as cuKE's and Hector's GEMM; measured on an H100",
)
THREADS_ACROSS = 16
ACROSS = Decision(
    name="across",
    domain=(4, 8, THREADS_ACROSS),
    why="threads beside each other in a tile, of 8 rows of threads: fewer have more sums each in registers",
    source="16, for blocks of 128 threads; measured on an H100",
)
SUMS_A_THREAD = 128
"""Sums that a thread may have room for, of the 255 registers that one can have."""
ALONG = Decision(
    name="along",
    domain=(2, 4, 8),
    why="steps along the depth that a thread takes together: it loads a vector of each row, and holds the matrix's part"
    " in registers",
    source="4, a vector",
)
NEIGHBOURS = Decision(
    name="neighbours",
    domain=(1, 2, 4),
    why="threads beside each other that have the same columns, of rows beside each other: shared memory answers half a"
    " warp's vectors at once where neighbours ask for the same one and no more than 8 differ",
    source="2, and 1 where a thread has one vector of columns: where half a warp has a row to itself, it takes two"
    " turns, and in all as long as the multiply-adds"
    " (ncu on an H100, TransR of 1024: 157 million wavefronts in place of 104)",
)
PRECISION = Decision(
    name="precision",
    domain=tuple(OPTION_PRECISIONS),
    why="what rows and matrices are multiplied in: on tensor cores a factor is rounded, or taken as two numbers",
    source="the option precision; float32, for it gives up nothing",
)
PRECISIONS: dict[str, Precision] = {"tf32": "tf32", "tf32x3": "tf32x3"}
"""The precisions of the options that are for tensor cores."""


@dataclass(frozen=True)
class Tiling:
    """The sizes of a tile, of slabs `depth` deep in `stages` places of shared memory. `GRANULE` by `across` threads
    have `pieces` vectors of `step` columns of every row each.
    `depth_step` is how many elements of a row's prologue are computed at once, `matrix_step` how many of the matrix
    are loaded. With a `precision`, tensor cores multiply.

    `whole` says that rows which a tile does not have are loaded all the same. That takes less time where registers are
    short: conditions keep the loads of a slab apart (on an H100, 3 % of three passes, and 10 % of one with slabs of 16;
    with slabs of 32 it takes 3 % more, and up to 1 % more in float32).

    Where threads multiply by themselves, they take `along` steps of the depth together, and so many `neighbours` have
    the same columns.

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
    along: int = VECTOR
    neighbours: int = 1
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


def choose_tiling(kernel: loops.Kernel, product: Product, name: str, report: Report) -> Tiling:
    """The tiling for a product's shape, and for that of what is added to it, in the kernel `name`: vectors where all
    that is walked has rows of a multiple of a vector, and on tensor cores where the epilogue has, if that precision is
    chosen; by four warps together, if the GPU has such instructions, where all tiles are whole."""
    columns = kernel.size(product.column_extent)
    products = [product, *([product.added] if product.added else [])]
    by_column = (*product.epilogue, *(each.matrix for each in products if not each.transposed))
    step = vector_step(kernel, by_column, product.column, columns)
    depth = kernel.size(product.depth_extent)
    matrix_step = vector_step(kernel, (product.matrix,), product.depth, depth) if product.transposed else step
    depth_step = min(vector_step(kernel, p.prologue, p.depth, kernel.size(p.depth_extent)) for p in products)
    precision = _precision(name, step, report)
    if precision and report.target.warpgroups and min(matrix_step, depth_step) == VECTOR:
        widths = tuple(width for width in WIDTHS_TOGETHER[precision] if columns % width == 0)
        if widths and depth % ROW == 0 and not product.transposed and product.segment is None:
            return _together(_chosen(name, COLUMNS, widths[0], widths, report), depth, precision)
    widest = next(width for width in WIDTHS if width >= min(columns, WIDTHS[-1]))
    width = _chosen(name, COLUMNS, widest, tuple(each for each in WIDTHS if each <= widest), report)
    most = min(THREADS_ACROSS, width // step)
    least = max(4, min(most, width * HEIGHTS // SUMS_A_THREAD))
    narrow = tuple(int(each) for each in ACROSS.domain if least <= int(each) <= most)
    across = _chosen(name, ACROSS, most, narrow, report)
    slab = _slab(name, depth, depth_step, across, precision, product.segment is not None, report)
    if product.transposed and width * slab < GRANULE * across * matrix_step:
        matrix_step = 1  # there are more threads than vectors in a slab of the matrix
    staged = product.segment is None and depth > slab
    pieces = width // (across * step)
    along, neighbours = _of_threads(name, across, pieces, report) if precision is None else (VECTOR, 1)
    return Tiling(
        depth=slab,
        stages=_chosen(name, STAGES, 2, (1, 2), report) if staged else 1,
        columns=width,
        across=across,
        pieces=pieces,
        step=step,
        depth_step=depth_step,
        matrix_step=matrix_step,
        precision=precision,
        whole=precision is not None and slab == DEPTH,
        along=along,
        neighbours=neighbours,
    )


def _of_threads(name: str, across: int, pieces: int, report: Report) -> tuple[int, int]:
    """How many steps threads take together, and how many neighbours have the same columns: those that share a row are
    of one warp."""
    fitting = tuple(each for each in map(int, NEIGHBOURS.domain) if across * each <= WARP)
    neighbours = _chosen(name, NEIGHBOURS, 2 if pieces > 1 else 1, fitting, report)
    return report.number(name, ALONG, VECTOR), neighbours


def _precision(name: str, step: int, report: Report) -> Precision | None:
    """What tensor cores multiply in; None without them, and where columns are no vectors. The option says how much a
    search may give up."""
    most = list(PRECISION.domain).index(report.options.precision)
    permitted = (PRECISION.domain[0], *PRECISION.domain[1 : most + 1]) if step == VECTOR else ("float32",)
    precision = str(report.choose(name, PRECISION, "float32", lambda: permitted))
    if step != VECTOR:
        report.settle(name, PRECISION, "float32")
        return None
    return PRECISIONS.get(precision)


def _chosen(name: str, decision: Decision, usual: int, fitting: tuple[int, ...], report: Report) -> int:
    """What is chosen of the numbers that fit, or the nearest of them."""
    return nearest(name, decision, usual, fitting, report, f"its shape leaves {', '.join(map(str, fitting))}")


def _slab(
    name: str, depth: int, depth_step: int, across: int, precision: Precision | None, sums: bool, report: Report
) -> int:
    """How deep a slab is; no deeper than its rows have threads. Where rows are sums, a thread has two rows or more."""
    threads = GRANULE * across
    most = threads * depth_step // 2 if sums else threads * depth_step
    least = threads * depth_step // ROWS_A_TILE
    fitting = tuple(each for each in DEPTHS if least <= each <= most) or DEPTHS[:1]
    usual = DEPTH_OF_ONE_PASS if precision == "tf32" and depth > DEPTH else DEPTH
    if sums:
        usual = next(deep for deep in DEPTHS if deep >= min(depth, fitting[-1]))
    return _chosen(name, SLAB, usual, (*fitting, *([] if usual in fitting else [usual])), report)


def _together(columns: int, depth: int, precision: Precision) -> Tiling:
    """The tiling where four warps multiply together."""
    across = columns // VECTOR
    return Tiling(
        depth=ROW,
        stages=2 if depth > ROW else 1,
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
    """How many elements accesses by the variable may be of: a vector where it, or its rest by a number of whole
    vectors, is always the last index."""
    last_extents = {buffer.name: buffer.extents[-1] for buffer in kernel.buffers}
    wide = {variable}
    if extent % VECTOR:
        return 1
    for statement in statements:
        if isinstance(statement, loops.Index) and wide & set(map(str, statement.operands)):
            if statement.function not in ("mod", "div") or _rest_of(statement) % VECTOR:
                return 1
            wide |= {statement.result} if statement.function == "mod" else set()
        if not isinstance(statement, (loops.Load, loops.Store, loops.Accumulate)):
            continue
        name = statement.buffer if isinstance(statement, loops.Load) else statement.target
        *before, last = map(str, statement.indices or ("",))
        if wide & set(before):
            return 1
        if last not in wide:
            continue
        if name in last_extents and kernel.size(last_extents[name]) % VECTOR:
            return 1
    return VECTOR


def _rest_of(index: loops.Index) -> int:
    """The number that an index is divided by; 1 where that is not known."""
    by = index.operands[-1]
    return by if isinstance(by, int) else 1


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
