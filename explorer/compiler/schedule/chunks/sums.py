"""Sums that a chunk's edges add to rows and matrices of a table, as backward passes have them (cuKE §V-A's bov).

What the edges give is in shared memory first. Of a row or a matrix that several edges of the chunk have chosen, the
block sums what these give, and adds it to the table once; all else goes there edge by edge. A thread has its elements
of a sum in registers, so that nobody else adds to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.schedule.chunks.edges import LANES, Edge
from explorer.compiler.schedule.chunks.elements import Elements, Span
from explorer.compiler.schedule.chunks.plan import Gather
from explorer.compiler.schedule.edit.builder import ALL
from explorer.compiler.schedule.match.outer_products import OuterSum

GIVEN_AT_ONCE = 4
"""Edges side by side, so that their loads are under way together."""


@dataclass(frozen=True)
class _Block:
    """A block of an outer product: its rows and columns, the tiles of what edges give to both, and how many columns
    lanes take at once."""

    down: Span
    across: Span
    left: str
    right: str
    step: int


class Sums:
    """Writes sums; the tile in shared memory serves one after another."""

    def __init__(self, elements: Elements) -> None:
        self.elements, self.edges, self.inspector = elements, elements.edges, elements.inspector
        self.steps, self.sizes, self.plan = elements.steps, elements.sizes, elements.plan
        self.given = self.steps.tile("given", [self.sizes.edges, self.sizes.block], "shared")

    def rows(self, loop: loops.For, added: Gather) -> None:
        """A loop that adds to an element of a row in each iteration."""
        steps, elements, variable = self.steps, self.elements, loop.variable
        *body, add = loop.body
        assert isinstance(add, loops.Accumulate)
        with elements.blocks("block", loop.extent) as span:
            step = elements.step(loop.body, variable, span)
            elements.stage(body, variable, span)
            steps.barrier()
            self._give(self.given, (body, variable, (add.function, add.operands)), span, step)
            steps.barrier()
            with steps.loop("c", self.inspector.most_cached(added.chosen), "warp") as which:
                self._shared_row(added, which, span, step)
            with self._apart(added) as (edge, row), elements.each(span, step) as (inside, element):
                steps.atomic(added.table, [row, element], steps.load("value", self.given, edge.place, inside))
            if span.several:
                steps.barrier()

    def number(self, add: loops.Accumulate) -> None:
        """A number that each edge adds to one of a table."""
        steps, edges = self.steps, self.edges
        with edges.each() as edge, steps.where(edge.place, "<", edges.chunk.here):
            known = edges.known(edge, edge.place, (add,))
            value = self._value((add.function, add.operands), known)
            with steps.loop("l", LANES, "lane") as lane, steps.where(lane, "==", 0):
                steps.atomic(add.target, [known[str(add.indices[0])]], value)

    def matrices(self, outer: OuterSum, added: Gather) -> None:
        """Outer products, by blocks of their rows and columns."""
        steps, elements = self.steps, self.elements
        right = steps.tile("across", [self.sizes.edges, self.sizes.block], "shared")
        with (
            elements.blocks("rows", outer.down.extent) as down,
            elements.blocks("columns", outer.across.extent) as across,
        ):
            step = elements.step(outer.statements, outer.across.variable, across)
            sides = (
                (self.given, outer.of_down, outer.down.variable, outer.factors[0], down),
                (right, outer.of_across, outer.across.variable, outer.factors[1], across),
            )
            for tile, body, variable, factor, span in sides:
                elements.stage(body, variable, span)
                steps.barrier()
                own = elements.step(body, variable, span)
                self._give(tile, (body, variable, ("copy", (factor,))), span, own)
                steps.barrier()
            block = _Block(down, across, self.given, right, step)
            with (
                steps.loop("c", self.inspector.most_cached(added.chosen)) as which,
                self.inspector.each_cached(added.chosen, which) as matrix,
            ):
                self._shared_matrix(added, which, matrix, block)
            self._matrices_apart(added, block)
            if down.several or across.several:
                steps.barrier()

    def _give(
        self,
        tile: str,
        made: tuple[Sequence[loops.Statement], str, tuple[str, tuple[Atom, ...]]],
        span: Span,
        step: int,
    ) -> None:
        """Stores what each edge gives to a block of elements: a body, its variable, and the value that it ends in."""
        steps, (body, variable, (function, operands)) = self.steps, made
        # The value may be made of scalars alone, which the edge's own code has to name then.
        last = loops.Compute(result="", function=function, operands=operands, origin=self.plan.rows.origin)
        with self.edges.each() as edge, steps.where(edge.place, "<", self.edges.chunk.here):
            at, known = self.elements.of_edge(edge, (*body, last), variable)
            with self.elements.each(span, step) as (inside, element):
                names = self.elements.body(body, known, (edge, at), (variable, inside, element))
                steps.store(tile, [edge.place, inside], self._value((function, operands), names))

    def _value(self, made: tuple[str, tuple[Atom, ...]], known: dict[str, Atom]) -> Atom:
        function, operands = made
        found = [known[operand] if isinstance(operand, str) else operand for operand in operands]
        return found[0] if function == "copy" else self.steps.compute("value", function, *found)

    def _shared_row(self, added: Gather, which: str, span: Span, step: int) -> None:
        """The sum of what the edges give that chose the unique row at a place of the cache."""
        steps, elements = self.steps, self.elements
        with self.inspector.each_cached(added.chosen, which) as row:
            total = steps.tile("total", [self.sizes.block], "register")
            with elements.each(span, step) as (inside, _):
                steps.store(total, [inside], 0.0)
            with self._givers(added, which) as place, elements.each(span, step) as (inside, _):
                steps.accumulate(total, [inside], "copy", steps.load("value", self.given, place, inside))
            with elements.each(span, step) as (inside, element):
                steps.atomic(added.table, [row, element], steps.load("total", total, inside))

    def _shared_matrix(self, added: Gather, which: str, matrix: str, block: _Block) -> None:
        """The same of a matrix; a warp has some of its rows."""
        steps, size = self.steps, self.sizes.block
        total = steps.tile("total", [size, size], "register")
        with self._elements(block) as (row, inside, _, _):
            steps.store(total, [row, inside], 0.0)
        with self._givers(added, which) as place, self._elements(block) as (row, inside, _, _):
            factors = steps.load("x", block.left, place, row), steps.load("y", block.right, place, inside)
            steps.accumulate(total, [row, inside], "mul", *factors)
        with self._elements(block) as (row, inside, depth, column):
            steps.atomic(added.table, [matrix, depth, column], steps.load("total", total, row, inside))

    def _matrices_apart(self, added: Gather, block: _Block) -> None:
        """The outer products of edges with matrices of their own."""
        steps, down = self.steps, block.down
        rest: Extent = down.size
        if down.ragged:
            rest = steps.index("rest", "min", steps.index("left", "sub", down.extent, down.base), down.size)
        with self._apart(added) as (edge, matrix), steps.segment("q", 0, rest, GIVEN_AT_ONCE) as row:
            depth, factor = steps.index("d", "add", down.base, row), steps.load("x", block.left, edge.place, row)
            with self.elements.each(block.across, block.step) as (inside, column):
                value = steps.compute("u", "mul", factor, steps.load("y", block.right, edge.place, inside))
                steps.atomic(added.table, [matrix, depth, column], value)

    @contextmanager
    def _elements(self, block: _Block) -> Iterator[tuple[str, str, Extent, Extent]]:
        """A block's elements, its rows by warps: the row and the column there, and in the matrix."""
        steps, down = self.steps, block.down
        with steps.loop("q", down.size, "warp", unroll=ALL) as row:
            depth = steps.index("d", "add", down.base, row)
            with (
                steps.where(depth, "<", down.extent, needed=down.ragged),
                self.elements.each(block.across, block.step) as (inside, column),
            ):
                yield row, inside, depth, column

    @contextmanager
    def _givers(self, added: Gather, which: str) -> Iterator[str]:
        """The places of the chunk's edges that chose the unique row or matrix at a place of the cache."""
        steps = self.steps
        with (
            steps.segment("i", 0, self.edges.chunk.here, GIVEN_AT_ONCE) as place,
            steps.where(self.inspector.at(added.chosen, place), "==", which),
        ):
            yield place

    @contextmanager
    def _apart(self, added: Gather) -> Iterator[tuple[Edge, Extent]]:
        """The edges whose row or matrix is not in the cache, with its index."""
        steps, edges = self.steps, self.edges
        with edges.each() as edge, steps.where(edge.place, "<", edges.chunk.here):
            at = self.inspector.at(added.chosen, edge.place)
            with steps.where(self.sizes.edges, "<=", at):
                yield edge, steps.index("row", "sub", at, self.sizes.edges)
