"""The elements of rows, a block of them at a time: the rows that several edges choose are brought into shared memory,
and a lane has some elements of each edge's rows, wherever those are (cuKE §V-A, Listings 2 to 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.loops import Accumulate
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.schedule.chunks.edges import LANES, Edge, Edges
from explorer.compiler.schedule.chunks.inspector import Inspector
from explorer.compiler.schedule.chunks.plan import Gather
from explorer.compiler.schedule.edit.builder import ALL

VECTORS = (4, 2)


@dataclass(frozen=True)
class Span:
    """A block of `size` elements from `base` on, of rows of `extent`, which is `length`."""

    base: Extent
    size: int
    extent: Extent
    length: int

    @property
    def ragged(self) -> bool:
        """Whether the last block is not full."""
        return bool(self.length % self.size)

    @property
    def several(self) -> bool:
        """Whether there is more than one block."""
        return self.length > self.size


Body = Sequence[loops.Statement]
"""Straight-line code for each element of rows."""


class Elements:
    """Writes loops over elements; `rows` are the tiles of the rows that are cached."""

    def __init__(self, edges: Edges, inspector: Inspector) -> None:
        self.edges, self.inspector = edges, inspector
        self.steps, self.plan, self.sizes = edges.steps, edges.plan, edges.sizes
        self.rows = {
            gather: self.steps.tile(
                f"{gather.table}_{gather.chosen}",
                [inspector.most_cached(gather.chosen), self.sizes.block],
                "shared",
            )
            for gather in self.plan.gathers
        }

    def loop(self, loop: loops.For) -> None:
        """A loop over the elements of rows, block by block."""
        steps, variable = self.steps, loop.variable
        with self.blocks("block", loop.extent) as span:
            self.stage(loop.body, variable, span)
            steps.barrier()
            stores = any(isinstance(statement, loops.Store) for statement in loop.body)
            with self.edges.each() as edge, steps.where(edge.place, "<", self.edges.chunk.here, needed=stores):
                at, known = self.of_edge(edge, loop.body, variable)
                with self.each(span, self.step(loop.body, variable, span)) as (inside, element):
                    self.body(loop.body, known, (edge, at), (variable, inside, element))
            if span.several:
                steps.barrier()

    @contextmanager
    def blocks(self, hint: str, extent: Extent, size: int = 0) -> Iterator[Span]:
        """The blocks of rows of a length, of `size` elements or as many as usual, one after another; no loop where
        there is but one."""
        steps, size, length = self.steps, size or self.sizes.block, self.plan.kernel.size(extent)
        if length <= size:
            yield Span(0, size, extent, length)
            return
        with steps.loop(hint, -(-length // size)) as number:
            yield Span(steps.index("base", "mul", number, size), size, extent, length)

    @contextmanager
    def each(self, span: Span, step: int, *, staged: bool = False) -> Iterator[tuple[str, Extent]]:
        """A lane for each element, or vector, of a block: its place there, and in the row, which what is `staged` is
        not asked for."""
        steps = self.steps
        with steps.loop("j", span.size, "lane", step=step, unroll=ALL) as inside:
            if staged and not span.ragged:
                yield inside, inside
                return
            element = steps.index("k", "add", span.base, inside)
            with steps.where(element, "<", span.extent, needed=span.ragged):
                yield inside, element

    def step(self, body: Body, variable: str, span: Span) -> int:
        """How many elements lanes take at once: as many as give each lane some, where vectors divide all rows."""
        if not all(self._in_rows(statement, variable, span) for statement in body):
            return 1
        return next((step for step in VECTORS if step * LANES <= span.size and span.length % step == 0), 1)

    def _in_rows(self, statement: loops.Statement, variable: str, span: Span) -> bool:
        """Whether a statement touches no element but those of the span's rows."""
        if isinstance(statement, loops.Index):
            return variable not in statement.operands
        if not isinstance(statement, (loops.Load, loops.Store, Accumulate)) or variable not in statement.indices:
            return True
        extents = {buffer.name: buffer.extents for buffer in self.plan.kernel.buffers}
        array = statement.buffer if isinstance(statement, loops.Load) else statement.target
        *outer, last = statement.indices
        whole = extents.get(array, (*outer, span.extent))
        return last == variable and variable not in outer and (len(whole), whole[-1]) == (len(outer) + 1, span.extent)

    def stage(self, body: Body, variable: str, span: Span) -> None:
        """Brings a block of the rows that several edges choose into shared memory."""
        steps, plan = self.steps, self.plan
        for gather in dict.fromkeys(g for s in body if (g := plan.gather(s, variable))):
            step = self.step([s for s in body if plan.gather(s, variable) == gather], variable, span)
            with (
                steps.loop("c", self.inspector.most_cached(gather.chosen), "warp") as which,
                self.inspector.each_cached(gather.chosen, which) as row,
                self.each(span, step) as (inside, element),
            ):
                value = steps.load("value", gather.table, row, element)
                steps.store(self.rows[gather], [which, inside], value)

    def of_edge(self, edge: Edge, body: Body, variable: str) -> tuple[dict[Gather, tuple[str, str]], dict[str, Atom]]:
        """Where an edge's rows are, for each gather of a body, with the register that their elements go through; and
        what else the body needs of the edge."""
        steps, there = self.steps, self.edges.there(edge)
        others = [statement for statement in body if not self.plan.gather(statement, variable)]
        known = self.edges.known(edge, there, others)
        found: dict[Gather, tuple[str, str]] = {}
        at: dict[str, str] = {}
        for gather in dict.fromkeys(g for s in body if (g := self.plan.gather(s, variable))):
            if gather.chosen not in at:
                at[gather.chosen] = self.inspector.at(gather.chosen, there)
            found[gather] = at[gather.chosen], steps.tile("held", [self.sizes.block], "register")
        return found, known

    def body(
        self,
        body: Body,
        known: dict[str, Atom],
        at: tuple[Edge, dict[Gather, tuple[str, str]]],
        where: tuple[str, str, Extent],
    ) -> dict[str, Atom]:
        """Straight-line code for an element; what it adds to sums goes to the edge's. Gives what names stand for."""
        steps, (edge, places), (variable, inside, element) = self.steps, at, where
        known = {**known, variable: element}
        for statement in body:
            gather = self.plan.gather(statement, variable)
            if gather and isinstance(statement, loops.Load):
                known[statement.result] = self._gathered(statement, gather, places[gather], (inside, element))
            elif isinstance(statement, Accumulate):
                target = replace(statement, target=self.edges.sums[statement.target], indices=edge.register)
                steps.copy((target,), known)
            else:
                known = steps.copy((statement,), known)
        return known

    def _gathered(self, load: loops.Load, gather: Gather, place: tuple[str, str], where: tuple[str, Extent]) -> str:
        """A gathered element, from shared memory where its row is there, else from the table."""
        steps, (at, held), (inside, element) = self.steps, place, where
        edges = self.sizes.edges
        with steps.where(at, "<", self.inspector.most_cached(gather.chosen)):
            steps.store(held, [inside], steps.load(load.result, self.rows[gather], at, inside))
        with steps.where(edges, "<=", at):
            row = steps.index("row", "sub", at, edges)
            steps.store(held, [inside], steps.load(load.result, gather.table, row, element))
        return steps.load(load.result, held, inside)
