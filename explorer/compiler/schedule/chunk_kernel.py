"""Writes the kernel of a score by chunks: a block finds out what its edges share, keeps blocks of the rows and matrices
that several choose in shared memory, and computes all of its scores there (cuKE §V, Listings 2 to 8).

A warp has an edge, or several in turn; its lanes share a block's elements. Sums of an edge stay in the warp's
registers from one block of elements to the next. The paper stores what a product's rows are made of in global memory
for the second block of columns on; here they are computed again, since two gathered rows are no more to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Barrier, Count, Reduce, ScheduledKernel
from explorer.compiler.ir.loops import Accumulate
from explorer.compiler.ir.node import Atom, Extent, Names, walk
from explorer.compiler.passes.statements import all_names, slice_for
from explorer.compiler.schedule.chunk_inspector import Chunk, Inspector
from explorer.compiler.schedule.chunk_order import sort_group
from explorer.compiler.schedule.chunk_plan import Gather, Plan, bodies
from explorer.compiler.schedule.products import Product
from explorer.compiler.schedule.steps import ALL, Steps, arrays_of

LANES = 32
MOST_WARPS = 16
"""Warps of a block, at most: 512 threads. Where there are more edges, a warp has several; where all of those choose
the same matrix, what is read of it serves each of them."""
VECTORS = (4, 2)
STAGED_AT_ONCE, FAR_AT_ONCE = 8, 16
"""Steps along the depth side by side, so that loads are under way together: of a staged matrix, and of one that is
not, whose loads take longer."""
PREFETCH = True


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
class _Span:
    """A block of `size` elements from `base` on, of rows of `extent`, which is `length`; whether the last is `ragged`,
    and whether there are `several`."""

    base: Extent
    size: int
    extent: Extent
    length: int

    @property
    def ragged(self) -> bool:
        return bool(self.length % self.size)

    @property
    def several(self) -> bool:
        return self.length > self.size


@dataclass(frozen=True)
class _Edge:
    """A place of the chunk, and whose it is: the warp's edge `which`."""

    warp: str
    which: Extent
    place: Extent

    @property
    def register(self) -> tuple[Extent, Extent]:
        """Where its sums are."""
        return self.warp, self.which


_Sums = tuple[Callable[[str], AbstractContextManager[_Edge]], str, str, int]
"""The edges of a warp whose sums are meant, the warp, the tile of sums, and the length of its vectors."""


class ChunkWriter:
    """Writes one kernel."""

    def __init__(self, plan: Plan, sizes: ChunkSizes) -> None:
        self.plan, self.sizes = plan, sizes
        kernel = plan.kernel
        self.steps = Steps(Names(all_names(kernel)), plan.rows.origin)
        self.rows: dict[Gather, str] = {}
        self.sums: dict[str, str] = {}
        self.matrix = self.vector = ""

    def write(self) -> ScheduledKernel:
        """The kernel."""
        steps, plan, sizes = self.steps, self.plan, self.sizes
        with steps.loop("chunk", Count(((plan.rows.extent, sizes.edges),)), "block") as number:
            self.chunk = self._chunk(number)
            # An array that chooses rows and matrices is inspected once: the rows are cached with their matrices.
            rows = [array for array in plan.chosen if array not in plan.matrices]
            self.inspector = Inspector.declare(steps, self.chunk, tuple(plan.matrices), rows, sizes.cached)
            self.inspector.inspect()
            self._declare()
            waited = True
            for place, phase in enumerate(plan.phases):
                if not (waited or isinstance(phase, loops.Store)):
                    steps.barrier()  # before rows are staged where those of the last phase were
                match phase:
                    case Product():
                        self._product(phase)
                        waited = False
                    case loops.For():
                        self._elements(phase)
                        waited = plan.kernel.size(phase.extent) > sizes.block
                    case loops.Store():
                        with self._each_edge() as edge, steps.where(edge.place, "<", self.chunk.here):
                            steps.copy((phase,), self._known(edge, edge.place, (phase,)))
                self._join(place)
        used = {name for statement in steps.body for node in walk(statement) for name in arrays_of(node)}
        return ScheduledKernel(
            name=plan.kernel.name,
            template="chunks",
            sizes=plan.kernel.sizes,
            buffers=tuple(buffer for buffer in plan.kernel.buffers if buffer.name in used),
            threads=LANES * sizes.warps,
            schedule=self._schedule(),
            body=steps.body,
            origin=plan.rows.origin,
        )

    def _schedule(self) -> tuple[str, ...]:
        plan, sizes, edge = self.plan, self.sizes, self.plan.rows.variable
        lines = [f"split {edge} by {sizes.edges} @block, by {sizes.each} @warp", f"split rows by {sizes.block} @lane"]
        if self._sorted_by is not None:
            lines.insert(0, f"sort {edge} by {self._sorted_by} in groups of {sizes.group} x {sizes.edges}")
        lines += [f"inspect {array} in shared memory" for array in plan.chosen]
        lines += [f"stage {sizes.cached} matrices of {table} by {array}" for array, table in plan.matrices.items()]
        lines += [f"stage repeated rows of {gather.table} by {gather.chosen}" for gather in plan.gathers]
        return tuple(lines)

    @property
    def _sorted_by(self) -> str | None:
        """The index array that edges are sorted by, if they are."""
        return sort_index(self.plan) if self.sizes.group > 1 else None

    def _chunk(self, number: Extent) -> Chunk:
        """The block's edges: neighbours in the batch, or in the order of their group."""
        steps, sizes, rows = self.steps, self.sizes, self.plan.rows.extent
        first = steps.index("first", "mul", number, sizes.edges)
        here = steps.index("here", "min", steps.index("left", "sub", rows, first), sizes.edges)
        array = self._sorted_by
        if array is None:
            return Chunk(sizes.edges, here, lambda place: steps.index("b", "add", first, place))
        which = steps.index("which", "mod", number, sizes.group)
        begin = steps.index("begin", "mul", which, sizes.edges)
        of_group = steps.index("group", "sub", first, begin)
        order = sort_group(steps, array, of_group, (sizes.edges, sizes.group), rows, self._indices_of(array))

        def edge(place: Extent) -> Extent:
            return steps.load("b", order, steps.index("at", "add", begin, place))

        return Chunk(sizes.edges, here, edge)

    def _indices_of(self, array: str) -> Extent:
        """How many rows or matrices there are to choose by an index array."""
        return chosen_from(self.plan)[array]

    def _declare(self) -> None:
        """The tiles that outlive a phase, and the sums at their start."""
        steps, sizes = self.steps, self.sizes
        for gather in self.plan.gathers:
            most = self.inspector.most_cached(gather.chosen)
            self.rows[gather] = steps.tile(f"{gather.table}_{gather.chosen}", [most, sizes.block], "shared")
        if self.plan.matrices:
            most = min(sizes.edges, sizes.cached)
            self.matrix = steps.tile("matrix", [most, sizes.block, sizes.block], "shared")
            self.vector = steps.tile("vector", [sizes.edges, sizes.block], "shared")
        for accumulator in self.plan.accumulators:
            self.sums[accumulator.name] = steps.tile(accumulator.name, [sizes.warps, sizes.each], "register")
        if self.sums:
            with self._each_edge() as edge:
                for accumulator in self.plan.accumulators:
                    steps.store(self.sums[accumulator.name], edge.register, accumulator.start)

    def _join(self, place: int) -> None:
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

    @contextmanager
    def _each_edge(self) -> Iterator[_Edge]:
        """Every edge, by warps."""
        with self._warps() as warp, self._edges_of(warp) as edge:
            yield edge

    def _warps(self) -> AbstractContextManager[str]:
        return self.steps.loop("w", self.sizes.warps, "warp")

    @contextmanager
    def _edges_of(self, warp: str) -> Iterator[_Edge]:
        """A warp's edges, side by side."""
        steps, each = self.steps, self.sizes.each
        first = steps.index("i", "mul", warp, each)
        if each == 1:
            yield _Edge(warp, 0, first)
            return
        with steps.loop("e", each, unroll=ALL) as which:
            yield _Edge(warp, which, steps.index("i", "add", first, which))

    def _there(self, edge: _Edge) -> Extent:
        """A place that has an edge: the last one's for what has none."""
        last = self.steps.index("last", "sub", self.chunk.here, 1)
        return self.steps.index("own", "min", edge.place, last)

    def _known(self, edge: _Edge, there: Extent, readers: Sequence[loops.Statement]) -> dict[str, Atom]:
        """What names stand for that the readers need of an edge, `there` in the chunk."""
        steps, plan = self.steps, self.plan
        needed = slice_for(plan.scalars, readers)
        read = {name for statement in (*needed, *readers) for name in loops.reads_of(statement)}
        known: dict[str, Atom] = {}
        if plan.rows.variable in read:
            known[plan.rows.variable] = self.chunk.edge(there)
        for name, tile in self.sums.items():
            if any(name in loops.reads_of(s)[isinstance(s, Accumulate) :] for s in (*needed, *readers)):
                known[name] = steps.load(name, tile, *edge.register)
        return steps.copy(needed, known)

    @contextmanager
    def _blocks(self, hint: str, extent: Extent) -> Iterator[_Span]:
        """The blocks of rows of a length, one after another; no loop where there is but one."""
        steps, size, length = self.steps, self.sizes.block, self.plan.kernel.size(extent)
        if length <= size:
            yield _Span(0, size, extent, length)
            return
        with steps.loop(hint, -(-length // size)) as number:
            yield _Span(steps.index("base", "mul", number, size), size, extent, length)

    @contextmanager
    def _each_element(self, span: _Span, step: int, *, staged: bool = False) -> Iterator[tuple[str, Extent]]:
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

    def _step(self, body: Sequence[loops.Statement], variable: str, span: _Span) -> int:
        """How many elements lanes take at once: as many as give each lane some, where vectors divide all rows."""
        extents = {buffer.name: buffer.extents for buffer in self.plan.kernel.buffers}
        for statement in body:
            if isinstance(statement, loops.Index) and variable in statement.operands:
                return 1
            if isinstance(statement, loops.Load | loops.Store) and variable in statement.indices:
                array = statement.buffer if isinstance(statement, loops.Load) else statement.target
                last = extents.get(array, (span.extent,))[-1]
                whole = last == span.extent and len(statement.indices) == len(extents.get(array, statement.indices))
                if statement.indices[-1] != variable or variable in statement.indices[:-1] or not whole:
                    return 1
        return next((step for step in VECTORS if step * LANES <= span.size and span.length % step == 0), 1)

    def _stage(self, body: Sequence[loops.Statement], variable: str, span: _Span) -> None:
        """Brings a block of the rows that several edges choose into shared memory."""
        steps, plan = self.steps, self.plan
        for gather in dict.fromkeys(g for s in body if (g := plan.gather(s, variable))):
            step = self._step([s for s in body if plan.gather(s, variable) == gather], variable, span)
            with (
                steps.loop("c", self.inspector.most_cached(gather.chosen), "warp") as which,
                self.inspector.each_cached(gather.chosen, which) as row,
                self._each_element(span, step) as (inside, element),
            ):
                value = steps.load("value", gather.table, row, element)
                steps.store(self.rows[gather], [which, inside], value)

    def _places(self, body: Sequence[loops.Statement], variable: str, there: Extent) -> dict[Gather, tuple[str, str]]:
        """Where an edge's rows are, for each gather of a body, and the register that its elements go through."""
        steps = self.steps
        found: dict[Gather, tuple[str, str]] = {}
        at: dict[str, str] = {}
        for gather in dict.fromkeys(g for s in body if (g := self.plan.gather(s, variable))):
            if gather.chosen not in at:
                at[gather.chosen] = self.inspector.at(gather.chosen, there)
            held = steps.tile("held", [self.sizes.block], "register")
            found[gather] = at[gather.chosen], held
        return found

    def _loaded(self, load: loops.Load, gather: Gather, place: tuple[str, str], where: tuple[str, Extent]) -> str:
        """A gathered element, from shared memory where its row is there, else from the table."""
        steps, (at, held), (inside, element) = self.steps, place, where
        edges = self.sizes.edges
        with steps.where(at, "<", edges):
            steps.store(held, [inside], steps.load(load.result, self.rows[gather], at, inside))
        with steps.where(edges, "<=", at):
            row = steps.index("row", "sub", at, edges)
            steps.store(held, [inside], steps.load(load.result, gather.table, row, element))
        return steps.load(load.result, held, inside)

    def _body(
        self,
        body: Sequence[loops.Statement],
        known: dict[str, Atom],
        at: tuple[_Edge, dict[Gather, tuple[str, str]]],
        where: tuple[str, str, Extent],
    ) -> dict[str, Atom]:
        """Straight-line code for an element; what it adds to sums goes to the edge's. Gives what names stand for."""
        steps, (edge, places), (variable, inside, element) = self.steps, at, where
        known = {**known, variable: element}
        for statement in body:
            gather = self.plan.gather(statement, variable)
            if gather and isinstance(statement, loops.Load):
                known[statement.result] = self._loaded(statement, gather, places[gather], (inside, element))
            elif isinstance(statement, Accumulate):
                target = replace(statement, target=self.sums[statement.target], indices=edge.register)
                steps.copy((target,), known)
            else:
                known = steps.copy((statement,), known)
        return known

    def _others(self, body: Sequence[loops.Statement], variable: str) -> tuple[loops.Statement, ...]:
        """The statements of a body but for its gathers."""
        return tuple(s for s in body if not self.plan.gather(s, variable))

    def _elements(self, loop: loops.For) -> None:
        """A loop over the elements of rows, block by block."""
        steps = self.steps
        with self._blocks("block", loop.extent) as span:
            self._stage(loop.body, loop.variable, span)
            steps.barrier()
            with self._each_edge() as edge:
                there = self._there(edge)
                known = self._known(edge, there, self._others(loop.body, loop.variable))
                places = self._places(loop.body, loop.variable, there)
                with self._each_element(span, self._step(loop.body, loop.variable, span)) as (inside, element):
                    self._body(loop.body, known, (edge, places), (loop.variable, inside, element))
            if span.several:
                steps.barrier()

    def _product(self, product: Product) -> None:
        """A block of columns after another: the products of all edges, and what follows from them."""
        steps, sizes = self.steps, self.sizes
        with self._blocks("columns", product.column_extent) as columns:
            step = self._step((*product.epilogue, product.matrix), product.column, columns)
            total = steps.tile(product.total, [sizes.warps, sizes.each, sizes.block], "register")
            with self._each_edge() as edge, steps.loop("j", sizes.block, "lane", step=step, unroll=ALL) as inside:
                steps.store(total, [*edge.register, inside], 0.0)
            if PREFETCH:
                first = _Span(0, sizes.block, product.depth_extent, self.plan.kernel.size(product.depth_extent))
                most = self.inspector.most_cached(_chosen(product))
                following = steps.tile("next", [most, sizes.block, sizes.block], "register")
                self._stage_matrices(product, first, columns, step, load=following)
            with self._blocks("depths", product.depth_extent) as depths:
                self._stage(product.prologue, product.depth, depths)
                if PREFETCH:
                    self._stage_matrices(product, depths, columns, step, store=following)
                else:
                    self._stage_matrices(product, depths, columns, step)
                steps.barrier()
                if PREFETCH and depths.several:
                    base = steps.index("base", "add", depths.base, sizes.block)
                    ahead = _Span(base, sizes.block, depths.extent, depths.length)
                    with steps.where(base, "<", product.depth_extent):
                        self._stage_matrices(product, ahead, columns, step, load=following)
                self._multiply(product, depths, columns, (total, step))
                if depths.several or columns.several:
                    steps.barrier()
            self._epilogue(product, columns, (total, step))

    def _stage_matrices(self, product: Product, depths: _Span, columns: _Span, step: int, load="", store="") -> None:
        """Brings a block of the matrices that most edges choose into shared memory."""
        steps, sizes, array = self.steps, self.sizes, _chosen(product)
        with (
            steps.loop("c", self.inspector.most_cached(array), unroll=ALL) as which,
            self.inspector.each_cached(array, which) as matrix,
            steps.loop("q", sizes.block, "warp", unroll=ALL) as row,
        ):
            depth = steps.index("d", "add", depths.base, row)
            with (
                steps.where(depth, "<", depths.extent, needed=depths.ragged),
                self._each_element(columns, step) as (inside, column),
            ):
                at = [which, row, inside]
                value = steps.load("p", store, *at) if store else self._of_matrix(product, matrix, depth, column)
                steps.store(load or self.matrix, at, value)

    def _of_matrix(self, product: Product, matrix: Atom, depth: Extent, column: Extent) -> str:
        return self.steps.load(product.matrix.result, product.matrix.buffer, matrix, depth, column)

    def _multiply(self, product: Product, depths: _Span, columns: _Span, sums: tuple[str, int]) -> None:
        """A warp's blocks of its edges' rows, then their products with the blocks of their matrices: where all edges
        have the same matrix, for all at once."""
        steps, array = self.steps, _chosen(product)
        with self._warps() as warp:
            with self._edges_of(warp) as edge:
                self._row(product, depths, edge)
            steps.add(Barrier(level="warp", origin=product.origin))
            first = steps.index("i", "mul", warp, self.sizes.each)
            places = [_Edge(warp, which, steps.index("i", "add", first, which)) for which in range(self.sizes.each)]
            at = [self.inspector.at(array, self._there(edge)) for edge in places]
            spread = self._spread(at)
            with steps.where(spread, "==", 0, needed=len(at) > 1):
                self._sum_where(product, depths, columns, (self._edges_of, warp, *sums), at[0])
            if len(at) == 1:
                return
            with steps.where(0, "<", spread), self._edges_of(warp) as edge:
                its = self.inspector.at(array, self._there(edge))
                self._sum_where(product, depths, columns, (lambda _: nullcontext(edge), warp, *sums), its)

    def _spread(self, at: Sequence[str]) -> Extent:
        """How far apart the places of matrices are."""
        low: Extent = at[0]
        high: Extent = at[0]
        for other in at[1:]:
            low, high = self.steps.index("low", "min", low, other), self.steps.index("high", "max", high, other)
        return self.steps.index("spread", "sub", high, low)

    def _row(self, product: Product, depths: _Span, edge: _Edge) -> None:
        """A block of an edge's row."""
        steps, prologue = self.steps, product.prologue
        there = self._there(edge)
        known = self._known(edge, there, self._others(prologue, product.depth))
        places = self._places(prologue, product.depth, there)
        with self._each_element(depths, self._step(prologue, product.depth, depths)) as (inside, depth):
            names = self._body(prologue, known, (edge, places), (product.depth, inside, depth))
            factor = names[product.factor] if isinstance(product.factor, str) else product.factor
            steps.store(self.vector, [edge.place, inside], factor)

    def _sum_where(self, product: Product, depths: _Span, columns: _Span, sums: _Sums, at: str) -> None:
        """Adds products with the matrix at a place of `buf_idx`: one that is staged, or one of the table."""
        steps, edges = self.steps, self.sizes.edges
        with steps.where(at, "<", edges):
            self._sum(product, depths, columns, sums, at, staged=True)
        with steps.where(edges, "<=", at):
            self._sum(product, depths, columns, sums, steps.index("m", "sub", at, edges), staged=False)

    def _sum(
        self, product: Product, depths: _Span, columns: _Span, sums: _Sums, matrix: Extent, *, staged: bool
    ) -> None:
        """Adds the products of edges' blocks with a block of a matrix."""
        steps, (edges_of, warp, total, step) = self.steps, sums
        rest: Extent = depths.size
        if depths.ragged:
            rest = steps.index("rest", "min", steps.index("left", "sub", depths.extent, depths.base), depths.size)
        with (
            steps.segment("q", 0, rest, STAGED_AT_ONCE if staged else FAR_AT_ONCE) as row,
            self._each_element(columns, step, staged=staged) as (inside, column),
        ):
            if staged:
                value = steps.load(product.matrix.result, self.matrix, matrix, row, inside)
            else:
                value = self._of_matrix(product, matrix, steps.index("d", "add", depths.base, row), column)
            with edges_of(warp) as edge:
                factor = steps.load("u", self.vector, edge.place, row)
                steps.accumulate(total, [*edge.register, inside], "mul", factor, value)

    def _epilogue(self, product: Product, columns: _Span, sums: tuple[str, int]) -> None:
        """What each edge does with a block of its product."""
        steps, (total, step), column = self.steps, sums, product.column
        self._stage(product.epilogue, column, columns)
        steps.barrier()
        body = tuple(s for s in product.epilogue if not (isinstance(s, loops.Load) and s.buffer == product.total))
        totals = {s.result for s in product.epilogue if isinstance(s, loops.Load) and s.buffer == product.total}
        with self._each_edge() as edge:
            there = self._there(edge)
            known = self._known(edge, there, self._others(body, column))
            places = self._places(body, column, there)
            with self._each_element(columns, step) as (inside, element):
                for name in totals:
                    known[name] = steps.load(name, total, *edge.register, inside)
                self._body(body, known, (edge, places), (column, inside, element))


def _chosen(product: Product) -> str:
    """The index array that edges choose their matrices by."""
    assert product.matrix_index is not None
    return product.matrix_index.buffer


def chosen_from(plan: Plan) -> dict[str, Extent]:
    """By index array, how many rows or matrices there are to choose from."""
    extents = {buffer.name: buffer.extents[0] for buffer in plan.kernel.buffers}
    tables = {gather.chosen: gather.table for gather in plan.gathers} | plan.matrices
    return {array: extents[table] for array, table in tables.items()}


def sort_index(plan: Plan) -> str:
    """The index array that sorting by brings most: that of the matrices; else the one that alone chooses from its
    tables, and from most of them (both ends of an edge are entities, which are many; relations are few)."""
    if plan.matrices:
        return next(iter(plan.matrices))
    sets, gathered = chosen_from(plan), [gather.chosen for gather in plan.gathers]
    return min(plan.chosen, key=lambda array: (list(sets.values()).count(sets[array]), -gathered.count(array)))
