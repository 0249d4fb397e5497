"""The rows that edges multiply with their matrices, a block of elements at a time: how a warp's lanes come by them
(cuKE §V-A, Listing 6, and §V-B).

A product has a block of columns after another, and needs all of a row for each:

    computed again (usual)           stored and reloaded (Listing 6: "stored when jj == 0, loaded otherwise")
    vector[i, j] = E[h] - E[t]       where columns begin at 0: vector[i, j] = rows[i, k] = E[h] - E[t]
                                     where they do not: vector[i, j] = rows[i, k]

The paper stores what is computed, and not what is gathered as it is, which reading again would bring as well.

The lanes of a warp all need each element of a block:

    from shared memory (usual)       handed on by shuffles (§V-B: "each thread holds one element")
    vector[i, j] = ...    for j @lane    vector[w, e, j] = ...    for j in 0..32 @lane, in registers
    u = vector[i, q]                     u = vector[w, e, q] shuffled

Blocks are then of as many elements as there are lanes, and no shared memory is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Barrier, Count
from explorer.compiler.ir.node import Atom, Extent, Names
from explorer.compiler.schedule.chunks.edges import LANES, ChunkSizes, Edge
from explorer.compiler.schedule.chunks.elements import Elements, Span
from explorer.compiler.schedule.chunks.plan import Plan
from explorer.compiler.schedule.match.matrix_products import Product

EdgesOf = Callable[[str], AbstractContextManager[Edge]]
"""Writes a loop over some of a warp's edges."""


@dataclass(frozen=True)
class RowsBy:
    """How products have their edges' rows. `stored` has, by the name of a product's sums, the array that it stores
    them in for all blocks of columns but the first; the others compute them again. Where they are `shuffled`, lanes
    hand elements on; else these are in shared memory."""

    stored: Mapping[str, loops.Buffer] = field(default_factory=dict)
    shuffled: bool = False

    def counts(self, plan: Plan, sizes: ChunkSizes) -> tuple[tuple[str, Count], ...]:
        """How many chunks those arrays have rows of."""
        chunks = Count(((plan.rows.extent, sizes.edges),))
        return tuple(dict.fromkeys((str(array.extents[0]), chunks) for array in self.stored.values()))


def stored_rows(plan: Plan, sizes: ChunkSizes, names: Names) -> dict[str, loops.Buffer]:
    """The arrays of the products whose rows are worth storing, [chunks, edges of a chunk, depth], by the names of their
    sums: these rows are computed, and needed for several blocks of columns."""
    found = [product for product in plan.products if not why_recomputed(plan, product, sizes.block)]
    chunks = names.new(f"{plan.kernel.name}_chunks") if found else ""
    return {
        product.total: loops.Buffer(
            name=names.new(f"{plan.kernel.name}_rows"),
            kind="output",
            extents=(chunks, sizes.edges, product.depth_extent),
            origin=product.origin,
        )
        for product in found
    }


def why_recomputed(plan: Plan, product: Product, block: int) -> str:
    """Why a product's rows are not stored, as the end of a sentence; "" where they may be."""
    if plan.kernel.size(product.column_extent) <= block:
        return f"all {product.column_extent} columns of {product.matrix.buffer} are in one block of {block}"
    if any(isinstance(made, loops.Load) and made.result == product.factor for made in product.prologue):
        return f"the rows that {product.matrix.buffer} multiplies are in memory as they are"
    return ""


class ProductRows:
    """Writes how a warp has blocks of its edges' rows; the tiles serve one product after another. `block` is how many
    elements a block has, 0 for as many as usual."""

    def __init__(self, elements: Elements, by: RowsBy) -> None:
        self.elements, self.edges, self.by = elements, elements.edges, by
        self.steps, sizes = elements.steps, elements.sizes
        self.block = LANES if by.shuffled else 0
        if by.shuffled:
            self.vector = self.steps.tile("vector", [sizes.warps, sizes.each, LANES], "register")
            self.handed = self.steps.tile("handed", [sizes.warps, sizes.each], "register")
        else:
            self.vector = self.steps.tile("vector", [sizes.edges, sizes.block], "shared")

    def stage(self, product: Product, depths: Span, columns: Span) -> None:
        """Brings what several edges gather of a block of their rows into shared memory, where these are computed."""
        with self._computed(product, columns):
            self.elements.stage(product.prologue, product.depth, depths)

    def bring(self, product: Product, warp: str, depths: Span, columns: Span) -> None:
        """A block of the rows of a warp's edges."""
        with self._computed(product, columns), self.edges.of(warp) as edge:
            self._compute(product, edge, depths)
        if product.total in self.by.stored:
            with self.steps.where(0, "<", columns.base), self.edges.of(warp) as edge:
                self._reload(product, edge, depths)
        if not self.by.shuffled:
            self.steps.add(Barrier(level="warp", origin=product.origin))

    def hand_on(self, edges_of: EdgesOf, warp: str, row: Extent) -> None:
        """Has all lanes get an element of each edge's block, where they do not find it in shared memory."""
        if self.by.shuffled:
            with edges_of(warp) as edge:
                self.steps.store(self.handed, edge.register, self.steps.shuffle("u", self.vector, *edge.register, row))

    def factor(self, edge: Edge, row: Extent) -> str:
        """An element of the block of an edge's row, in any lane."""
        if self.by.shuffled:
            return self.steps.load("u", self.handed, *edge.register)
        return self.steps.load("u", self.vector, edge.place, row)

    @contextmanager
    def _computed(self, product: Product, columns: Span) -> Iterator[None]:
        """What is done where rows are computed: for the first block of columns alone, where they are stored."""
        with self.steps.where(columns.base, "==", 0, needed=product.total in self.by.stored):
            yield

    def _compute(self, product: Product, edge: Edge, depths: Span) -> None:
        elements, stored = self.elements, self.by.stored.get(product.total)
        # The factor may be one of the edge's scalars alone, which the edge's own code has to name then.
        last = loops.Compute(result="", function="copy", operands=(product.factor,), origin=product.origin)
        at, known = elements.of_edge(edge, (*product.prologue, last), product.depth)
        with elements.each(depths, self._step(product, depths)) as (inside, depth):
            names = elements.body(product.prologue, known, (edge, at), (product.depth, inside, depth))
            factor = names[product.factor] if isinstance(product.factor, str) else product.factor
            self._keep(edge, inside, factor)
            if stored:
                self.steps.store(stored.name, [*self._row(edge), depth], factor)

    def _reload(self, product: Product, edge: Edge, depths: Span) -> None:
        stored = self.by.stored[product.total]
        with self.elements.each(depths, self._step(product, depths)) as (inside, depth):
            self._keep(edge, inside, self.steps.load("u", stored.name, *self._row(edge), depth))

    def _keep(self, edge: Edge, inside: Extent, factor: Atom) -> None:
        place = edge.register if self.by.shuffled else (edge.place,)
        self.steps.store(self.vector, [*place, inside], factor)

    def _row(self, edge: Edge) -> tuple[Extent, Extent]:
        """Which row is the edge's: that of its place in the chunk, which no other has, whichever edge is sorted there;
        a place without an edge does what the last one does, in a row of its own."""
        return self.edges.chunk.number, edge.place

    def _step(self, product: Product, depths: Span) -> int:
        return self.elements.step(product.prologue, product.depth, depths)
