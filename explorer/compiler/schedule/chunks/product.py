"""Products of edges' rows and matrices, by blocks of both (cuKE §V-A, Listings 6 and 8).

The matrices that most edges choose are staged, a block at a time; a warp multiplies its edges' rows with those, or with
the table itself. How it comes by the rows is in `product_rows`.
"""

from __future__ import annotations

from contextlib import nullcontext

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.schedule.chunks.elements import Elements, Span
from explorer.compiler.schedule.chunks.product_rows import EdgesOf, ProductRows, RowsBy
from explorer.compiler.schedule.edit.builder import ALL
from explorer.compiler.schedule.match.matrix_products import Product

STAGED_AT_ONCE, FAR_AT_ONCE = 8, 16
"""Steps along the depth side by side, so that loads are under way together: of a staged matrix, and of one that is
not, whose loads take longer."""


@dataclass(frozen=True)
class _Block:
    """A block of a product: its depths and columns, how many columns lanes take at once, and the tile of its sums."""

    product: Product
    depths: Span
    columns: Span
    step: int
    total: str


class Products:
    """Writes products; the tiles in shared memory serve one after another."""

    def __init__(self, elements: Elements, by: RowsBy) -> None:
        self.elements, self.edges, self.inspector = elements, elements.edges, elements.inspector
        self.steps, self.sizes = elements.steps, elements.sizes
        most, block = min(self.sizes.edges, self.sizes.cached), self.sizes.block
        # A matrix that is read along its rows lies in the tile as it does in memory: lanes then go down a column.
        padding = int(any(product.transposed for product in elements.plan.products))
        self.matrix = self.steps.tile("matrix", [most, block, block], "shared", padding=padding)
        self.padded = bool(padding)
        self.rows = ProductRows(elements, by)

    def write(self, product: Product) -> None:
        """A block of columns after another: the products of all edges, and what follows from them."""
        steps, sizes, elements = self.steps, self.sizes, self.elements
        with elements.blocks("columns", product.column_extent) as columns:
            step = 1 if self.padded else elements.step((*product.epilogue, product.matrix), product.column, columns)
            total = steps.tile(product.total, [sizes.warps, sizes.each, sizes.block], "register")
            with self.edges.each() as edge, steps.loop("j", sizes.block, "lane", step=step, unroll=ALL) as inside:
                steps.store(total, [*edge.register, inside], 0.0)
            with elements.blocks("depths", product.depth_extent, self.rows.block) as depths:
                self.rows.stage(product, depths, columns)
                block = _Block(product, depths, columns, step, total)
                self._stage(block)
                steps.barrier()
                self._multiply(block)
                if depths.several or columns.several:
                    steps.barrier()
            self._epilogue(product, columns, total, step)

    def _stage(self, block: _Block) -> None:
        """Brings a block of the matrices that most edges choose into shared memory, row by row of what is there."""
        steps, array, transposed = self.steps, _chosen(block.product), block.product.transposed
        outer, inner = (block.columns, block.depths) if transposed else (block.depths, block.columns)
        with (
            steps.loop("c", self.inspector.most_cached(array), unroll=ALL) as which,
            self.inspector.each_cached(array, which) as matrix,
            steps.loop("q", outer.size, "warp", unroll=ALL) as row,
        ):
            first = steps.index("k" if transposed else "d", "add", outer.base, row)
            with (
                steps.where(first, "<", outer.extent, needed=outer.ragged),
                self.elements.each(inner, block.step) as (inside, second),
            ):
                depth, column = (second, first) if transposed else (first, second)
                steps.store(self.matrix, [which, row, inside], self._of_matrix(block.product, matrix, depth, column))

    def _of_matrix(self, product: Product, matrix: Atom, depth: Extent, column: Extent) -> str:
        place = (column, depth) if product.transposed else (depth, column)
        return self.steps.load(product.matrix.result, product.matrix.buffer, matrix, *place)

    def _multiply(self, block: _Block) -> None:
        """A warp's blocks of its edges' rows, then their products with the blocks of their matrices: where all edges
        have the same matrix, for all at once."""
        steps, edges, array = self.steps, self.edges, _chosen(block.product)
        with edges.warps() as warp:
            self.rows.bring(block.product, warp, block.depths, block.columns)
            first = self.inspector.at(array, edges.there(edges.edge(warp, 0)))
            if self.sizes.each == 1:
                self._sum(block, warp, edges.of, first)
                return
            alike = self._alike(warp, array, first)
            with steps.where(alike, "==", self.sizes.each):
                self._sum(block, warp, edges.of, first)
            with steps.where(alike, "<", self.sizes.each), edges.of(warp) as edge:
                its = self.inspector.at(array, edges.there(edge))
                self._sum(block, warp, lambda _: nullcontext(edge), its)

    def _alike(self, warp: str, array: str, first: str) -> str:
        """How many of a warp's edges have the same matrix as the first of them."""
        steps, edges = self.steps, self.edges
        total = steps.tile("alike", [self.sizes.warps], "register", type="i32")
        steps.store(total, [warp], 0)
        with edges.of(warp) as edge:
            its = self.inspector.at(array, edges.there(edge))
            steps.count(total, [warp], steps.index("same", "equal", its, first))
        return steps.load("alike", total, warp)

    def _sum(self, block: _Block, warp: str, edges_of: EdgesOf, at: str) -> None:
        """Adds products with the matrix at a place of `buf_idx`: one that is staged, or one of the table."""
        steps, edges = self.steps, self.sizes.edges
        with steps.where(at, "<", self.inspector.most_cached(_chosen(block.product))):
            self._sum_of(block, warp, edges_of, at, staged=True)
        with steps.where(edges, "<=", at):
            self._sum_of(block, warp, edges_of, steps.index("m", "sub", at, edges), staged=False)

    def _sum_of(self, block: _Block, warp: str, edges_of: EdgesOf, matrix: Extent, *, staged: bool) -> None:
        """Adds the products of edges' blocks with a block of a matrix."""
        steps, depths = self.steps, block.depths
        rest: Extent = depths.size
        if depths.ragged:
            rest = steps.index("rest", "min", steps.index("left", "sub", depths.extent, depths.base), depths.size)
        with steps.segment("q", 0, rest, STAGED_AT_ONCE if staged else FAR_AT_ONCE) as row:
            self.rows.hand_on(edges_of, warp, row)
            self._add_row(block, warp, edges_of, matrix, row, staged=staged)

    def _add_row(
        self, block: _Block, warp: str, edges_of: EdgesOf, matrix: Extent, row: Extent, *, staged: bool
    ) -> None:
        """Adds the products of an element of edges' blocks with a row of a matrix."""
        steps, product, depths = self.steps, block.product, block.depths
        with self.elements.each(block.columns, block.step, staged=staged) as (inside, column):
            if staged:
                place = (inside, row) if product.transposed else (row, inside)
                value = steps.load(product.matrix.result, self.matrix, matrix, *place)
            else:
                value = self._of_matrix(product, matrix, steps.index("d", "add", depths.base, row), column)
            with edges_of(warp) as edge:
                factor = self.rows.factor(edge, row)
                steps.accumulate(block.total, [*edge.register, inside], "mul", factor, value)

    def _epilogue(self, product: Product, columns: Span, total: str, step: int) -> None:
        """What each edge does with a block of its product."""
        steps, elements, column = self.steps, self.elements, product.column
        sums = [s.result for s in product.epilogue if isinstance(s, loops.Load) and s.buffer == product.total]
        body = tuple(s for s in product.epilogue if loops.result_of(s) not in sums)
        elements.stage(body, column, columns)
        steps.barrier()
        stores = any(isinstance(statement, loops.Store) for statement in body)
        with self.edges.each() as edge, steps.where(edge.place, "<", self.edges.chunk.here, needed=stores):
            at, known = elements.of_edge(edge, body, column)
            with elements.each(columns, step) as (inside, element):
                known |= {name: steps.load(name, total, *edge.register, inside) for name in sums}
                elements.body(body, known, (edge, at), (column, inside, element))


def _chosen(product: Product) -> str:
    """The index array that edges choose their matrices by."""
    assert product.matrix_index is not None
    return product.matrix_index.buffer
