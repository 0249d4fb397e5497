"""A chunk's edges: which ones a block has, which of them a warp has, and what an edge carries along (cuKE §V-A)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Reduce, inputs_of
from explorer.compiler.ir.loops import Accumulate
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.ir.statements import slice_for
from explorer.compiler.schedule.chunks.inspector import Chunk
from explorer.compiler.schedule.chunks.order import sort_group
from explorer.compiler.schedule.chunks.plan import Plan, bodies, chosen_from, sort_index
from explorer.compiler.schedule.edit.builder import ALL, Steps
from explorer.compiler.schedule.inspect import facts
from explorer.compiler.target import WARP

LANES = WARP
MOST_WARPS = 16
"""Warps of a block, at most: 512 threads. Where there are more edges, a warp has several; where all of those choose
the same matrix, what is read of it serves each of them."""


@dataclass(frozen=True)
class ChunkSizes:
    """The paper's C edges, C1 cached matrices, D elements of a block, and p chunks of a group."""

    edges: int
    cached: int
    block: int
    group: int

    @property
    def each(self) -> int:
        """Edges of a warp, as many for each."""
        fewest = -(-self.edges // MOST_WARPS)
        return next(each for each in range(fewest, self.edges + 1) if self.edges % each == 0)

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.edges // self.each


@dataclass(frozen=True)
class Edge:
    """A place of the chunk, and whose it is: the warp's edge `which`."""

    warp: str
    which: Extent
    place: Extent

    @property
    def register(self) -> tuple[Extent, Extent]:
        """Where its sums are."""
        return self.warp, self.which


class Edges:
    """Writes loops over a chunk's edges, a warp for some each; `sums` are the tiles of accumulators, by name."""

    def __init__(self, steps: Steps, plan: Plan, sizes: ChunkSizes, chunk: Chunk) -> None:
        self.steps, self.plan, self.sizes, self.chunk = steps, plan, sizes, chunk
        self.sums: dict[str, str] = {}

    @contextmanager
    def each(self) -> Iterator[Edge]:
        """Every edge, by warps."""
        with self.warps() as warp, self.of(warp) as edge:
            yield edge

    def warps(self) -> AbstractContextManager[str]:
        """Every warp. Gives its variable."""
        return self.steps.loop("w", self.sizes.warps, "warp")

    @contextmanager
    def of(self, warp: str) -> Iterator[Edge]:
        """A warp's edges, side by side."""
        if self.sizes.each == 1:
            yield self.edge(warp, 0)
            return
        with self.steps.loop("e", self.sizes.each, unroll=ALL) as which:
            yield self.edge(warp, which)

    def edge(self, warp: str, which: Extent) -> Edge:
        """One of a warp's edges."""
        first = self.steps.index("i", "mul", warp, self.sizes.each)
        return Edge(warp, which, self.steps.index("i", "add", first, which))

    def there(self, edge: Edge) -> Extent:
        """A place that has an edge: in the batch's last chunk, the last one's for what has none."""
        last = self.steps.index("last", "sub", self.chunk.here, 1)
        return self.steps.index("there", "min", edge.place, last)

    def known(self, edge: Edge, there: Extent, readers: Sequence[loops.Statement]) -> dict[str, Atom]:
        """What names stand for that the readers need of an edge, `there` in the chunk: its scalars, computed again."""
        steps, plan = self.steps, self.plan
        needed = slice_for(plan.scalars, readers)
        read = {name for statement in (*needed, *readers) for name in loops.reads_of(statement)}
        known: dict[str, Atom] = {}
        if plan.rows.variable in read:
            known[plan.rows.variable] = self.chunk.edge(there)
        for name, tile in self.sums.items():
            if any(name in inputs_of(s) for s in (*needed, *readers)):
                known[name] = steps.load(name, tile, *edge.register)
        return steps.copy(needed, known)

    def start_sums(self) -> None:
        """Declares the sums of all edges, at their start."""
        if not self.plan.accumulators:
            return
        for accumulator in self.plan.accumulators:
            extents = [self.sizes.warps, self.sizes.each]
            self.sums[accumulator.name] = self.steps.tile(accumulator.name, extents, "register")
        with self.each() as edge:
            for accumulator in self.plan.accumulators:
                self.steps.store(self.sums[accumulator.name], edge.register, accumulator.start)

    def join_sums(self, place: int) -> None:
        """After the last phase that adds to a sum, its parts in lanes are put together."""
        for accumulator in self.plan.accumulators:
            adding = [
                (at, node.reduction)
                for at, phase in enumerate(self.plan.phases)
                for body, _ in bodies(phase)
                for node in body
                if isinstance(node, Accumulate) and node.target == accumulator.name
            ]
            if adding and adding[-1][0] == place:
                target, origin = self.sums[accumulator.name], accumulator.origin
                self.steps.add(Reduce(target=target, reduction=adding[-1][1], lanes=LANES, origin=origin))


def chunk_of(steps: Steps, plan: Plan, sizes: ChunkSizes, number: Extent) -> Chunk:
    """Writes which edges a block has: neighbours in the batch, or in the order of their group."""
    rows = plan.rows.extent
    first = steps.index("first", "mul", number, sizes.edges)
    here = steps.index("here", "min", steps.index("left", "sub", rows, first), sizes.edges)
    if sizes.group == 1:
        return Chunk(sizes.edges, number, here, lambda place: steps.index("b", "add", first, place), plan.triples)
    which = steps.index("which", "mod", number, sizes.group)
    begin = steps.index("begin", "mul", which, sizes.edges)
    of_group, array = steps.index("group", "sub", first, begin), sort_index(plan)
    key_of = array, plan.triples[array]
    order = sort_group(steps, key_of, of_group, (sizes.edges, sizes.group), rows, chosen_from(plan)[array])

    def edge(place: Extent) -> Extent:
        sorted_edge = steps.load("b", order, steps.index("at", "add", begin, place))
        steps.know(facts.of_sorted(sorted_edge, rows))
        return sorted_edge

    return Chunk(sizes.edges, number, here, edge, plan.triples)
