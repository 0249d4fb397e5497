"""The template for sums of outer products over segments: the gradients of matrices that rows are multiplied with.

Rows lie segment by segment. A block takes a piece of them and a tile of the matrix (Hector §3.3.1, with atomics in the
place of its segments' sizes: segments are very unequal). It walks through the segments that its piece meets, a slab of
rows at a time: both operands are gathered and computed on their way into shared memory (`outer_operands`), each thread
sums a rectangle in registers, and a segment's sums go into memory by vector atomics. A kernel before it clears the
matrices.

Rows that say themselves which matrix they add to are grouped by the inspector; a block takes a tile of the grouping.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from explorer.compiler.decisions import Decision
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.node import Atom, Extent, Names
from explorer.compiler.ir.statements import all_names
from explorer.compiler.passes.loops.cleared import clear_output, clearing_kernel
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.builder import ALL, Steps
from explorer.compiler.schedule.fitting import RESIDENT, nearest
from explorer.compiler.schedule.gemm.outer_operands import STAGES, OuterOperand, SegmentRows
from explorer.compiler.schedule.gemm.strategy import Groupings
from explorer.compiler.schedule.gemm.tiling import vector_step
from explorer.compiler.schedule.inspect.group_by_matrix import ROWS_A_TILE, Chosen, Grouping
from explorer.compiler.schedule.match.matrix_products import rows_at
from explorer.compiler.schedule.match.outer_products import OuterSum, find_outer_sum, find_scattered
from explorer.compiler.schedule.warps.strategy import schedule_warps
from explorer.compiler.target import BLOCK_THREADS, WARP

PIECE = Decision(
    name="rows",
    domain=(32, 64, 128, 256, 512),
    why="rows of a block's piece: more add to the matrices less often, and leave fewer blocks",
    source="128, measured on an H100",
)
TILES = (16, 32, 64)
"""Rows or columns of the matrix that a tile may have."""
TILE_ROWS, TILE_COLUMNS = (
    Decision(
        name=name,
        domain=TILES,
        why=f"{name.removeprefix('tile_')} of a tile of the matrix: more gather rows less often and leave fewer blocks",
        source="as many as there are, up to 64; measured on an H100",
    )
    for name in ("tile_rows", "tile_columns")
)
SLAB = Decision(
    name="depth",
    domain=(8, 16, 32),
    why="rows of a slab: more take more shared memory and registers, and fewer barriers",
    source="16, as in a slab of other products",
)
HEIGHT = Decision(
    name="height",
    domain=(1, 2, 4, 8, 16),
    why="rows of the tile that a thread has: more sums a thread, of operands that are loaded once, and fewer threads",
    source="as few as leave a block 256 threads",
)
MOST_THREADS = 256
REGISTERS_A_THREAD = 64
"""Enough for whole tiles of the largest blocks, whose number a multiprocessor is usually to have of all blocks."""


def schedule_outer_products(kernel: loops.Kernel, groupings: Groupings, report: Report) -> tuple[ScheduledKernel, ...]:
    """The kernels that clear the matrices and sum the outer products; none where the nest does something else."""
    scattered = find_scattered(kernel, groupings.names)
    if scattered is not None:
        return _by_groups(kernel, *scattered, groupings, report)
    found = find_outer_sum(kernel)
    if found is None:
        return ()
    writer = _Writer(kernel, found, report)
    report.did(f"{kernel.name}: sums of outer products, {writer.rows} rows and a tile of {found.output.name} a block")
    cleared = clear_output(kernel, found.output)
    report.enter(cleared.name)
    return (schedule_warps(cleared, report), writer.write())


def _by_groups(
    kernel: loops.Kernel, found: OuterSum, chosen: loops.Load, groupings: Groupings, report: Report
) -> tuple[ScheduledKernel, ...]:
    """The kernels that clear the matrices and group the rows, unless that is done, and sum their outer products."""
    times = rows_at(found.of_down, found.row.variable, chosen.indices)
    if not times or report.options.inspect == "false":
        reason = "the option inspect is off" if times else f"{chosen.buffer} is read at something else than the row"
        report.refused(f"{kernel.name}: outer products are not grouped by their matrices: {reason}")
        return ()
    index = next(buffer for buffer in kernel.buffers if buffer.name == chosen.buffer)
    by = Chosen(index, found.rows, times)
    grouping, new = groupings.by(kernel.name, by, found.output.extents[0], found.origin)
    report.did(f"{kernel.name}: sums of outer products, a tile of rows grouped by {index.name} a block")
    clearing = clearing_kernel(kernel)
    writer = _Writer(kernel, found, report, grouping)
    cleared: tuple[ScheduledKernel, ...] = ()
    if clearing:
        report.enter(clearing.name)
        cleared = (schedule_warps(clearing, report),)
    return (*cleared, *(grouping.kernels if new else ()), writer.write())


def _tile_of(name: str, decision: Decision, extent: int, report: Report) -> int:
    usual = next((tile for tile in TILES if tile >= extent), TILES[-1])
    return report.number(name, decision, usual)


def _height(name: str, rows: int, width: int, report: Report) -> int:
    """How many of a tile's rows a thread has, where a row takes so many threads: those of a block are whole warps."""
    threads = {height: rows // height * width for height in map(int, HEIGHT.domain) if height <= rows}
    fitting = tuple(height for height, each in threads.items() if each <= BLOCK_THREADS and each % WARP == 0)
    usual = next(height for height, each in threads.items() if each <= MOST_THREADS)
    return nearest(name, HEIGHT, usual, fitting, report, f"threads of a block are {WARP} to {BLOCK_THREADS:,}")


class _Writer:
    """Writes the kernel of a sum of outer products."""

    def __init__(self, kernel: loops.Kernel, found: OuterSum, report: Report, grouping: Grouping | None = None) -> None:
        self.kernel, self.found, self.grouping = kernel, found, grouping
        self.rows = report.number(kernel.name, PIECE, 128) if grouping is None else 0
        inspected = grouping.arrays if grouping else ()
        self.buffers = (*kernel.buffers, *inspected)
        taken = {buffer.name for buffer in inspected} | {grouping.tiles if grouping else ""}
        self.steps = Steps(Names(all_names(kernel) | taken), found.origin)
        self.extents = (kernel.size(found.down.extent), kernel.size(found.across.extent))
        down, across = self.extents
        high, wide = (TILE_ROWS, down), (TILE_COLUMNS, across)
        self.tiles = (_tile_of(kernel.name, *high, report), _tile_of(kernel.name, *wide, report))
        self.step = vector_step(kernel, found.statements, found.across.variable, self.extents[1])
        self.down_step = vector_step(kernel, found.of_down, found.down.variable, self.extents[0])
        width = self.tiles[1] // self.step
        usual = report.target.resident(MOST_THREADS, REGISTERS_A_THREAD)
        self.resident = report.number(kernel.name, RESIDENT, usual, lambda: tuple(range(9)))
        self.height = _height(kernel.name, self.tiles[0], width, report)
        self.threads = self.tiles[0] // self.height * width
        self.slab = report.number(kernel.name, SLAB, 16)
        sizes = zip(self.extents, self.tiles, (self.down_step, self.step), (self.slab, self.slab), strict=True)
        self.operands = [OuterOperand(kernel, found, grouping, side, of) for side, of in enumerate(sizes)]
        self.sums = ""

    def write(self) -> ScheduledKernel:
        """The kernel: blocks of pieces, columns of heads and tiles."""
        steps, found = self.steps, self.found
        heads = self.kernel.size(found.head.extent) if found.head else 1
        downs, acrosses = (-(-extent // tile) for extent, tile in zip(self.extents, self.tiles, strict=True))
        pieces: Extent | Count = self.grouping.tiles if self.grouping else Count(((found.rows, self.rows),))
        with steps.loop("piece", pieces, "block") as piece:
            if heads * downs * acrosses == 1:
                self._piece(piece, 0, 0, 0)
            else:
                names, (high, wide) = (found.down.variable, found.across.variable), self.tiles
                steps.did(f"tile {names[0]} by {high}, {names[1]} by {wide} @column")
                with steps.loop("column", heads * downs * acrosses, "column") as column:
                    tile = steps.index("tile", "mod", column, downs * acrosses)
                    head = steps.index("head", "div", column, downs * acrosses)
                    first = steps.index("down", "mul", steps.index("t", "div", tile, acrosses), self.tiles[0])
                    left = steps.index("across", "mul", steps.index("t", "mod", tile, acrosses), self.tiles[1])
                    self._piece(piece, head, first, left)
        kernel, counts = self.kernel, self.grouping.counts if self.grouping else ()
        made = steps.kernel(kernel.name, "outer_products", self.threads, self.buffers, sizes=kernel.sizes)
        return replace(made, resident=self.resident, counts=counts, origin=kernel.origin)

    def _piece(self, piece: Extent, head: Extent, down: Extent, across: Extent) -> None:
        """The segments that a piece of rows meets."""
        steps, found, grouping = self.steps, self.found, self.grouping
        known: dict[str, Atom] = {found.head.variable: head} if found.head else {}
        for operand in self.operands:
            operand.declare(steps)
        steps.did(f"stage slabs of {self.slab} rows of both operands in shared memory, stages {STAGES}")
        if grouping is not None:
            steps.did(f"tile {found.row.variable} by {ROWS_A_TILE} @block, grouped by {found.segment}")
            first_row, past_row = (steps.load(b.name, b.name, piece) for b in (grouping.begin, grouping.end))
            with steps.where(first_row, "<", past_row):
                matrix = steps.load(found.segment, grouping.matrix.name, piece)
                self._segment(first_row, past_row, {**known, found.segment: matrix}, down, across)
            return
        steps.did(f"split {found.row.variable} by {self.rows} @block, of all segments together")
        begin = steps.index("begin", "mul", piece, self.rows)
        end = steps.index("end", "min", steps.index("past", "add", begin, self.rows), found.rows)
        if found.offsets is None:
            self._segment(begin, end, {**known, found.segment: 0}, down, across)
            return
        offsets = found.offsets
        first = steps.search("first", offsets.name, begin, offsets.extents[0])
        last = steps.search("last", offsets.name, steps.index("final", "sub", end, 1), offsets.extents[0])
        with steps.segment("r", first, steps.index("stop", "add", last, 1), 1) as segment:
            low = steps.load("low", offsets.name, segment)
            high = steps.load("high", offsets.name, steps.index("next", "add", segment, 1))
            lower, upper = steps.index("lower", "max", low, begin), steps.index("upper", "min", high, end)
            with steps.where(lower, "<", upper):
                self._segment(lower, upper, {**known, found.segment: segment}, down, across)

    def _segment(self, lower: Extent, upper: Extent, known: dict[str, Atom], down: Extent, across: Extent) -> None:
        """Sums the rows of a segment from `lower` to `upper`, and adds the sums to its matrix."""
        steps, (high, wide) = self.steps, self.tiles
        self.sums = steps.tile("y", [high // self.height, self.height, wide], "register")
        with self._threads() as (ty, x), steps.loop("i", self.height, unroll=ALL) as i:
            steps.store(self.sums, [ty, i, x], 0.0)
        steps.did(f"keep {self.height} x {self.step} sums a thread in registers")
        rows = steps.index("rows", "sub", upper, lower)
        slabs = steps.index("slabs", "div", steps.index("more", "add", rows, self.slab - 1), self.slab)
        self._slabs(SegmentRows(upper, known, (down, across)), lower, slabs)
        self._add(known, down, across)

    @contextmanager
    def _threads(self) -> Iterator[tuple[str, str]]:
        """The threads of a block: their rows of the tile, and their vectors of its columns."""
        high, wide = self.tiles
        with (
            self.steps.loop("ty", high // self.height, "thread") as ty,
            self.steps.loop("x", wide, "thread", step=self.step) as x,
        ):
            yield ty, x

    def _slabs(self, rows: SegmentRows, lower: Extent, slabs: Extent) -> None:
        """The slabs of a segment's rows from `lower` on: while one is multiplied, the next is on its way."""
        steps, operands = self.steps, self.operands
        for operand in operands:
            operand.look_up(steps, rows, lower)
        for operand in operands:
            operand.load(steps, rows, lower)
            operand.look_up(steps, rows, lower, self.slab)
        steps.did("look a slab's rows up two slabs ahead, load them one ahead")
        with steps.segment("slab", 0, slabs, 1) as slab:
            start = steps.index("start", "add", lower, steps.index("before", "mul", slab, self.slab))
            stage = steps.index("stage", "mod", slab, STAGES)
            for operand in operands:
                operand.store(steps, rows, start, stage)
            steps.barrier()
            following = steps.index("following", "add", start, self.slab)
            for operand in operands:
                operand.load(steps, rows, following)
                operand.look_up(steps, rows, following, self.slab)
            self._multiply(stage)
        steps.barrier()

    def _multiply(self, stage: Extent) -> None:
        """A slab's part of the sums."""
        steps, (left, right) = self.steps, self.operands
        with self._threads() as (ty, x):
            first = steps.index("first", "mul", ty, self.height)
            with steps.loop("k", self.slab, unroll=ALL) as k:
                beside = steps.load("v", right.name, stage, k, x)
                with steps.loop("i", self.height, unroll=ALL) as i:
                    below = steps.load("u", left.name, stage, k, steps.index("row", "add", first, i))
                    steps.accumulate(self.sums, [ty, i, x], "mul", below, beside)

    def _add(self, known: dict[str, Atom], down: Extent, across: Extent) -> None:
        """The sums of a segment into its matrix."""
        steps, found, (high, wide) = self.steps, self.found, self.tiles
        with self._threads() as (ty, x):
            first = steps.index("first", "add", down, steps.index("before", "mul", ty, self.height))
            column = steps.index("column", "add", across, x)
            with (
                steps.where(column, "<", found.across.extent, needed=bool(self.extents[1] % wide)),
                steps.loop("i", self.height, unroll=ALL) as i,
            ):
                row = steps.index("row", "add", first, i)
                with steps.where(row, "<", found.down.extent, needed=bool(self.extents[0] % high)):
                    value = steps.load("s", self.sums, ty, i, x)
                    places = {**known, found.down.variable: row, found.across.variable: column}
                    steps.atomic(found.output.name, [places[str(index)] for index in found.indices], value)
        steps.did(f"add to {found.output.name} by atomics, a segment at a time")
