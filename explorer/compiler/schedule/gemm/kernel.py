"""The GEMM template: a product of rows and matrices, with gather and scatter on the fly (Hector §3.3.1, cuKE §V).

A block takes a tile of rows that share a matrix, and a tile of columns. It walks along the depth a slab at a time: the
left operand is computed by the rows' own code (the prologue) on its way into shared memory and never stored anywhere
else; the matrix's slab is staged beside it; each thread sums a small rectangle in registers, or each warp multiplies
on tensor cores. Slabs are copied, or loaded into registers, while the one before is multiplied, and there are two
stages of shared memory, so one barrier a slab is enough. What the loops do with the sums (the epilogue) is done from
the registers, and what they do behind them too, where one block has all columns of a row.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Atom, Extent, Names
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.fitting import blocks_at_a_time
from explorer.compiler.schedule.gemm.epilogue import Epilogue
from explorer.compiler.schedule.gemm.on_cuda_cores import ThreadSums
from explorer.compiler.schedule.gemm.on_tensor_cores import TensorSums, WarpgroupSums
from explorer.compiler.schedule.gemm.operands import LeftOperand, RightOperand
from explorer.compiler.schedule.gemm.row_epilogues import Ending
from explorer.compiler.schedule.gemm.segment_operand import SegmentOperand
from explorer.compiler.schedule.gemm.tiling import TilePlace, Tiling, choose_tiling
from explorer.compiler.schedule.inspect.group_by_matrix import HEIGHTS, ROWS_A_TILE, Grouping
from explorer.compiler.schedule.match.matrix_products import Product


@dataclass(frozen=True)
class ProductKernel:
    """A product's kernel. `parts` has, for each accumulator of the epilogue, the output with a part of it from each
    block of columns and warp in it that has some, `count` in all, by row; none where the kernel has `ended` its rows.
    `on_tensor_cores` says what multiplies."""

    kernel: ScheduledKernel
    parts: dict[str, Buffer]
    count: int
    ended: bool
    on_tensor_cores: bool


@dataclass(frozen=True)
class _Operands:
    """The two operands of one product, `depth` deep."""

    left: LeftOperand | SegmentOperand
    right: RightOperand
    depth: int

    @property
    def names(self) -> tuple[str, str]:
        """Their slabs in shared memory."""
        return self.left.name, self.right.name

    def declare(self, steps: Steps, before: _Operands | None = None) -> None:
        """Their tiles; slabs lie where those of the operands before did, if there are some."""
        left, right = before.names if before else ("", "")
        self.left.declare(steps, left)
        self.right.declare(steps, right)

    def load(self, steps: Steps, place: TilePlace, depth: Extent, stage: Extent) -> None:
        """Starts to load a slab of both, which goes to a stage."""
        self.left.load(steps, place, depth, stage)
        self.right.load(steps, place, depth, stage)


def _operands(kernel: loops.Kernel, product: Product, tiling: Tiling) -> _Operands:
    depth, columns = kernel.size(product.depth_extent), kernel.size(product.column_extent)
    right = RightOperand(product, tiling, depth, columns)
    if product.segment is None:
        return _Operands(LeftOperand(kernel, product, tiling, depth), right, depth)
    return _Operands(SegmentOperand(kernel, product, product.segment, tiling, depth), right, depth)


class ProductWriter:
    """Writes the kernel of one of a kernel's products, in a precision of the options where rows of the columns are
    whole vectors, with what ends its rows where that can be. `names` are those of the module's buffers."""

    def __init__(
        self,
        kernel: loops.Kernel,
        product: Product,
        grouping: Grouping | None,
        name: str,
        names: Names,
        report: Report,
        ending: Ending | None = None,
    ) -> None:
        report.enter(name)
        self.name, self.report = name, report
        self.kernel, self.product, self.grouping = kernel, product, grouping
        self.tiling = choose_tiling(kernel, product, name, report)
        self.sums: ThreadSums | TensorSums | WarpgroupSums = ThreadSums(self.tiling)
        if self.tiling.precision is not None:
            on_tensor_cores = WarpgroupSums if self.tiling.together else TensorSums
            self.sums = on_tensor_cores(self.tiling, self.tiling.precision, product.origin)
        self.columns = kernel.size(product.column_extent)
        self.blocks = -(-self.columns // self.tiling.columns)
        self.operands = _operands(kernel, product, self.tiling)
        self.added = _operands(kernel, product.added, self.tiling) if product.added else None
        self.count = self.blocks * self.sums.parts
        parted = self.count > 1 or product.heads or not product.accumulators
        if parted or (ending and ending.reads(_stored(product))):
            ending = None  # other threads have a part of the row, or may not have stored it yet; or there are no sums
        self.parts = {
            accumulator.name: Buffer(
                name=names.new("part"),
                kind="output",
                extents=(self.count, product.rows.extent),
                origin=accumulator.origin,
            )
            for accumulator in (() if ending else product.accumulators)
        }
        self.ending = ending
        self.steps = Steps.over(self._arrays(), product.origin, (name for name, _ in kernel.sizes))
        self.epilogue = Epilogue(kernel, product, self.tiling, self.sums, self.steps, self.parts, ending)

    def _arrays(self) -> tuple[Buffer, ...]:
        """All buffers that the kernel may name."""
        inspected = self.grouping.arrays if self.grouping else ()
        added = self.ending.added if self.ending else ()
        return (*self.kernel.buffers, *inspected, *self.parts.values(), *added)

    def write(self) -> ProductKernel:
        """The kernel: blocks, then what one of them does."""
        steps, product = self.steps, self.product
        tiles: Extent | Count = self.grouping.tiles if self.grouping else Count(((product.rows.extent, ROWS_A_TILE),))
        heads = self.kernel.size(product.heads.extent) if product.heads else 1
        with steps.loop("tile", tiles, "block") as tile:
            steps.did(f"tile {product.rows.variable} by {ROWS_A_TILE} @block")
            if self.blocks * heads == 1:
                self._tile(tile, 0)
            else:
                steps.did(f"tile {product.column} by {self.tiling.columns} @column")
                with steps.loop("column", self.blocks * heads, "column") as column:
                    self._tile(tile, column)
        made = steps.kernel(self.name, "gemm", self.tiling.threads, self._arrays(), sizes=self.kernel.sizes)
        counts, busy = (self.grouping.counts, self.grouping.used) if self.grouping else ((), "")
        threads = self.tiling.threads
        resident = blocks_at_a_time(self.name, self._usual_resident(), threads, self.report)
        kernel = replace(made, resident=resident, counts=counts, busy=busy)
        return ProductKernel(kernel, self.parts, self.count, self.ending is not None, self.tiling.precision is not None)

    def _usual_resident(self) -> int:
        """As many as have room where rows are sums, whose loads wait for one another. For other products on tensor
        cores the assembler knows best."""
        left, right = self.operands.left, self.operands.right
        if self.product.segment is not None:
            return self.sums.resident(left.registers, self.report.target)
        if self.tiling.precision and not self.tiling.together:
            return 0
        return self.sums.resident(left.registers + right.registers, self.report.target)

    def _tile(self, tile: Extent, column: Extent) -> None:
        """Finds out what the tile's rows are, and does them if there are any."""
        steps, grouping, chosen = self.steps, self.grouping, self.product.matrix_index
        if grouping is None or chosen is None:
            begin = steps.index("begin", "mul", tile, ROWS_A_TILE)
            past = steps.index("past", "add", begin, ROWS_A_TILE)
            end = steps.index("end", "min", past, self.product.rows.extent)
            self._rows(begin, end, HEIGHTS, column, {})
            return
        rows, heights = self.product.rows.variable, self.sums.granule
        steps.did(f"group {rows} by {chosen.result} = {chosen.buffer}, heights by {heights}")
        begin = steps.load("begin", grouping.begin.name, tile)
        end = steps.load("end", grouping.end.name, tile)
        if self.added is not None:  # what is done depends on the matrix; of few and long groups most tiles are full
            matrix = steps.load(chosen.result, grouping.matrix.name, tile)
            with steps.where(begin, "<", end):
                self._rows(begin, end, HEIGHTS, column, {chosen.result: matrix})
            return
        with steps.where(begin, "<", end):
            matrix = steps.load(chosen.result, grouping.matrix.name, tile)
            height: Extent = HEIGHTS  # by four warps together, all tiles alike: small ones wait for their matrix anyway
            if not isinstance(self.sums, WarpgroupSums):
                height = self.sums.height(steps, steps.index("rows", "sub", end, begin))
            self._rows(begin, end, height, column, {chosen.result: matrix})

    def _rows(self, begin: Extent, end: Extent, height: Extent, column: Extent, known: dict[str, Atom]) -> None:
        """Does a tile: rows from position `begin` to `end`, of which each row of threads has up to `height`."""
        steps, product = self.steps, self.product
        last, block = steps.index("last", "sub", end, 1), column
        if product.heads is not None:
            known[product.heads.variable] = steps.index(product.heads.variable, "div", column, self.blocks)
            block = steps.index("block", "mod", column, self.blocks) if self.blocks > 1 else 0
        first = steps.index("k", "mul", block, self.tiling.columns)
        place = TilePlace(self.grouping, begin, last, first, height, known)
        tiling = self.tiling
        self.operands.declare(steps)
        stages = f"stages {tiling.stages}"
        steps.did(f"tile {product.depth} by {tiling.depth}: slabs of both operands in shared memory, {stages}")
        self.sums.clear(steps, product.total)
        steps.did(*self.sums.schedule)
        self.operands.left.prepare(steps, place)
        steps.did(*self.operands.left.schedule)
        if tiling.step > 1:
            steps.did(f"vectorise {product.column} by {tiling.step}")
        if tiling.depth_step > 1:
            stored = "rows" if tiling.by_rows else "columns"
            steps.did(f"vectorise {product.depth} by {tiling.depth_step}, stored by {stored}")
        if self.added is None:
            self._slabs(place, self.operands)
        else:
            self._both(place, self.added)
        self.epilogue.write(place, end, block)
        if self.ending is not None:
            steps.did(f"end {product.rows.variable} in its tile, which has all of {product.column}")

    def _both(self, place: TilePlace, added: _Operands) -> None:
        """The sums of a tile's own matrix, if it has one, and those that are added to them."""
        steps, matrix, chosen = self.steps, self.product.matrix, self.product.matrix_index
        assert chosen is not None
        matrices = next(buffer.extents[0] for buffer in self.kernel.buffers if buffer.name == matrix.buffer)
        with steps.where(place.known[chosen.result], "<", matrices):
            self._slabs(place, self.operands)
            steps.barrier()
        added.declare(steps, self.operands)
        steps.did(f"add the products with {added.right.array}, slabs in the same places")
        added.left.prepare(steps, place)
        self.epilogue.look_up(place)
        self._slabs(place, added)

    def _slabs(self, place: TilePlace, operands: _Operands) -> None:
        """The sums, slab by slab: while one is multiplied, the next one is on its way."""
        steps, slabs = self.steps, -(-operands.depth // self.tiling.depth)
        copied = operands.left.copied and operands.right.copied and self.tiling.stages > 1
        if copied and slabs > 1 and not isinstance(place.height, int):
            self._copied_slabs(place, operands, slabs)
            return
        operands.load(steps, place, 0, 0)
        if slabs == 1:
            self._slab(place, operands, 0, slabs)
            return
        with steps.loop("slab", slabs) as slab:
            self._slab(place, operands, slab, slabs)
            if self.tiling.stages == 1:
                steps.barrier()

    def _copied_slabs(self, place: TilePlace, operands: _Operands, slabs: int) -> None:
        """The sums where all is copied: in turns, of which each starts to copy a slab and multiplies the one before.

        Tiles of one height alone do not take it: their threads have no registers left for it (80, and 76 bytes)."""
        steps, tiling = self.steps, self.tiling
        with steps.loop("slab", slabs + 1) as slab:
            steps.barrier(copies=True)
            with steps.where(slab, "<", slabs):
                stage = steps.index("stage", "mod", slab, tiling.stages)
                operands.load(steps, place, steps.index("depth", "mul", slab, tiling.depth), stage)
            with steps.where(0, "<", slab):
                before = steps.index("before", "add", slab, tiling.stages - 1)
                stage = steps.index("stage", "mod", before, tiling.stages)
                self.sums.multiply(steps, operands.names, stage, place.height)

    def _slab(self, place: TilePlace, operands: _Operands, slab: Extent, slabs: int) -> None:
        """Puts a slab into shared memory, starts to load the next one, and multiplies."""
        steps, tiling = self.steps, self.tiling
        depth = steps.index("depth", "mul", slab, tiling.depth)
        stage = steps.index("stage", "mod", slab, tiling.stages)
        operands.left.store(steps, place, depth, stage)
        operands.right.store(steps, stage)
        steps.barrier(copies=operands.left.copied or operands.right.copied)
        if slabs == 1 and self.added is None:
            self.epilogue.look_up(place)
        elif slabs > 1:
            following = steps.index("following", "add", depth, tiling.depth)
            next_stage = steps.index("next", "mod", steps.index("next", "add", slab, 1), tiling.stages)
            with steps.where(following, "<", slabs * tiling.depth):
                operands.load(steps, place, following, next_stage)
        self.sums.multiply(steps, operands.names, stage, place.height)


def _stored(product: Product) -> set[str]:
    """The arrays that the epilogue stores in."""
    return {statement.target for statement in product.epilogue if isinstance(statement, loops.Store)}
