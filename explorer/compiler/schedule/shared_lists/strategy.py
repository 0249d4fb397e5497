"""Schedules scores of facts with the negatives that a chunk of them shares as tiles of facts x negatives.

A matrix product is the case where a pair's element is a product: here it may be anything of an element of the fact and
one of the negative, so that distances are summed as products are. A block has a tile of one chunk's facts and of its
negatives. A slab of the depth at a time, it stages both sides in shared memory, each of which is gathered once for the
tile, and each thread adds to a square of sums in registers. What an iteration computes of the fact alone, such as a row
that all its negatives meet, is a kernel in front of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import groupby

from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.node import Atom, Extent, Names
from explorer.compiler.report import Report
from explorer.compiler.schedule.distribute.products.split_products import cut
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.edit.nests import Body, only_loop
from explorer.compiler.schedule.fitting import nearest
from explorer.compiler.schedule.shared_lists.match import Shared, Side, Sum, find_shared, loop_over_lists
from explorer.compiler.schedule.shared_lists.operands import PADDING, Operand, Slabs
from explorer.compiler.target import FLOAT_BYTES, STATIC_SHARED_BYTES, VECTOR

ACROSS = 16
"""Threads beside each other in a tile, which have neighbouring negatives, and the most rows of them."""
HIGHEST = 8
"""Facts that a thread may have."""
USUAL_TILE = 64
TILE_FACTS = Decision(
    name="tile_facts",
    domain=tuple(range(8, ACROSS * HIGHEST + 1, 2)),
    why="facts of a tile: more gather negatives less often, take more registers and leave fewer blocks",
    source="up to 64, as part a chunk evenly; not measured",
)
TILE_NEGATIVES = Decision(
    name="tile_negatives",
    domain=tuple(range(ACROSS, ACROSS * HIGHEST + 1, ACROSS)),
    why="negatives of a tile: more gather facts less often, take more registers and leave fewer blocks",
    source="up to 64, as a list has; not measured",
)
SLAB = Decision(
    name="depth",
    domain=(4, 8, 16, 32),
    why="elements of the depth in a slab: more take more shared memory, and fewer barriers",
    source="as many as shared memory has room for, up to 32, that part all sums evenly; not measured",
)
LEAST_COPIED = 8
"""Elements of a slab that is copied while the one before is summed."""


def schedule_shared_lists(
    kernel: loops.Kernel, names: Names, report: Report
) -> tuple[ScheduledKernel | loops.Kernel, ...]:
    """The kernels of a nest whose facts share lists of negatives; none where the nest is something else."""
    options = report.options.negatives
    if options is None or options.sharing == 1 or loop_over_lists(kernel) is None:
        return ()
    if not _parts(options.sharing):
        report.refused(
            f"{kernel.name}: chunks of {options.sharing} facts have no tiles of threads that part them evenly"
        )
        return ()
    before, nest, after = _parted(kernel, names)
    found = find_shared(nest)
    if found is None:
        report.refused(f"{kernel.name}: its facts share negatives, but what they have of each is no sum of pairs")
        return ()
    writer = _Writer(nest, found, options.sharing, report)
    if not writer.depth:
        report.refused(f"{kernel.name}: a tile of facts and negatives has too many values for shared memory")
        return ()
    written = writer.write()
    report.did(f"{kernel.name}: a tile of facts and of the negatives that they share a block")
    return (*before, written, *after)


def _parted(
    kernel: loops.Kernel, names: Names
) -> tuple[tuple[loops.Kernel, ...], loops.Kernel, tuple[loops.Kernel, ...]]:
    """The loop over a fact's negatives as a nest of its own, of the kernel's name, as far as it can be one; the nests
    of what an iteration does before, and behind."""
    before: tuple[loops.Kernel, ...] = ()
    rows, head, rest = _at_loop(kernel)
    if any(isinstance(s, (loops.For, loops.Store, loops.Accumulate)) for s in head):
        parts = cut(kernel, rows, head, rest, names)
        if parts is None:
            return (), kernel, ()
        before, kernel = parts[:1], parts[1]
        rows, head, rest = _at_loop(kernel)
    parts = cut(kernel, rows, (*head, *rest[:1]), rest[1:], names) if rest[1:] else None
    if parts is None:
        return before, kernel, ()
    return before, replace(parts[0], name=parts[1].name), (replace(parts[1], name=parts[0].name),)


def _at_loop(kernel: loops.Kernel) -> tuple[loops.For, Body, Body]:
    """A nest's loop, what comes in it before the loop over a fact's negatives, and this with what is behind."""
    rows, place = only_loop(kernel), loop_over_lists(kernel)
    assert rows is not None
    assert place is not None
    return rows, rows.body[:place], rows.body[place:]


def _down(facts: int) -> int:
    """Rows of threads that a tile of so many facts has: as many as part it evenly, of whole warps; 0 where each would
    have too many facts."""
    rows = [down for down in range(2, ACROSS + 1, 2) if facts % down == 0]
    return rows[-1] if rows and facts <= rows[-1] * HIGHEST else 0


def _parts(sharing: int) -> tuple[int, ...]:
    """The sizes of tiles that part a chunk evenly."""
    return tuple(facts for facts in map(int, TILE_FACTS.domain) if sharing % facts == 0 and _down(facts))


def _tile_of(name: str, decision: Decision, fitting: tuple[int, ...], report: Report) -> int:
    """How many a tile has, of what fits."""
    usual = max(each for each in fitting if each <= max(USUAL_TILE, fitting[0]))
    return nearest(name, decision, usual, fitting, report, "tiles part a chunk evenly, and are no wider than a list")


def _step(kernel: loops.Kernel, elements: Body, variable: str, extent: int) -> int:
    """How many elements of a sum are taken at once: a vector where each row of what is loaded has whole ones, from
    whole ones on."""
    last_extents = {buffer.name: buffer.extents[-1] for buffer in kernel.buffers if buffer.extents}
    wide = {variable}
    for statement in elements:
        if isinstance(statement, loops.Index) and wide & set(statement.operands):
            others = [operand for operand in statement.operands if operand not in wide]
            if statement.function != "add" or not all(isinstance(each, int) and each % VECTOR == 0 for each in others):
                return 1
            wide.add(statement.result)
        elif isinstance(statement, loops.Load) and wide & set(statement.indices):
            *before, last = statement.indices
            if wide & set(before) or last not in wide or kernel.size(last_extents[statement.buffer]) % VECTOR:
                return 1
    return VECTOR if extent % VECTOR == 0 else 1


def _as_they_are(kernel: loops.Kernel, each: Sum) -> bool:
    """Whether all values of both sides are elements of arrays of float32."""
    whole = {buffer.name for buffer in kernel.buffers if buffer.storage == "f32"}
    elements = (*each.fact.elements, *each.negative.elements)
    read = all(isinstance(s, loops.Index) or (isinstance(s, loops.Load) and s.buffer in whole) for s in elements)
    return read and all(len(side.loads) == len(side.values) for side in (each.fact, each.negative))


@dataclass(frozen=True)
class _Pairs:
    """The pairs of a tile: `heights` are how many facts, and how many negatives, each of `down` rows of threads has."""

    steps: Steps
    down: int
    heights: tuple[int, int]

    @contextmanager
    def threads(self) -> Iterator[tuple[str, str]]:
        """The rows of threads, and those beside each other in one."""
        with (
            self.steps.loop("down", self.down, "thread", width=self.down, apart=ACROSS) as down,
            self.steps.loop("across", ACROSS, "thread", width=ACROSS, apart=1) as across,
        ):
            yield down, across

    def fact(self, which: Extent, down: Extent) -> Extent:
        """A fact of the tile, by its number among the thread's own."""
        return self.steps.index("row", "add", self.steps.index("before", "mul", which, self.down), down)

    def negative(self, which: Extent, across: Extent) -> Extent:
        """A negative of the tile, likewise."""
        return self.steps.index("row", "add", self.steps.index("before", "mul", which, ACROSS), across)

    @contextmanager
    def each(self) -> Iterator[tuple[Extent, ...]]:
        """Each pair: where its sums are."""
        with (
            self.threads() as (down, across),
            self.steps.all("i", self.heights[0]) as i,
            self.steps.all("k", self.heights[1]) as k,
        ):
            yield down, i, across, k


@dataclass(frozen=True)
class _Place:
    """Where a tile lies: its facts from `begin` to the `last` there is, its negatives from the `first` on."""

    begin: Extent
    last: Extent
    first: Extent


class _Writer:
    """Writes the kernel of a nest whose facts share lists of negatives, `sharing` a list."""

    def __init__(self, kernel: loops.Kernel, found: Shared, sharing: int, report: Report) -> None:
        self.kernel, self.found, self.sharing = kernel, found, sharing
        self.count = kernel.size(found.negatives.extent)
        widths = tuple(tile for tile in map(int, TILE_NEGATIVES.domain) if tile < self.count + ACROSS)
        self.facts = _tile_of(kernel.name, TILE_FACTS, _parts(sharing), report)
        self.negatives = _tile_of(kernel.name, TILE_NEGATIVES, widths, report)
        self.sides = tuple(max(len(side.values) for side in sides) for sides in self._sides())
        self.depth = self._depth(report)
        self.steps = Steps.over(kernel.buffers, found.rows.origin, (name for name, _ in kernel.sizes))
        down = _down(self.facts)
        self.pairs = _Pairs(self.steps, down, (self.facts // down, self.negatives // ACROSS))
        self.totals: dict[str, str] = {}

    def _depth(self, report: Report) -> int:
        """How deep a slab is, as far as shared memory has room for two; 0 where it has none."""
        row = 2 * FLOAT_BYTES * (self.facts * self.sides[0] + self.negatives * self.sides[1])
        depths = [self.kernel.size(each.loop.extent) for each in self.found.sums]
        room = tuple(each for each in map(int, SLAB.domain) if row * (each + PADDING) <= STATIC_SHARED_BYTES)
        fitting = tuple(each for each in room if each < 2 * max(depths)) or room[:1]
        if not fitting:
            return 0
        even = [each for each in fitting if each >= LEAST_COPIED and not any(depth % each for depth in depths)]
        usual = max(even or fitting)
        return nearest(self.kernel.name, SLAB, usual, fitting, report, "shared memory has room for no more")

    def _sides(self) -> tuple[list[Side], list[Side]]:
        sums = self.found.sums
        return [each.fact for each in sums], [each.negative for each in sums]

    def write(self) -> ScheduledKernel:
        """The kernel: blocks of tiles, then what one of them does."""
        steps, found = self.steps, self.found
        batch, columns = found.rows.extent, -(-self.count // self.negatives)
        steps.did(f"tile {found.rows.variable} by {self.facts} @block, of one chunk of {self.sharing}")
        with steps.loop("tile", Count(((batch, self.facts),)), "block") as tile, ExitStack() as inside:
            column: Extent = 0
            if columns > 1:
                steps.did(f"tile {found.negatives.variable} by {self.negatives} @column")
                column = inside.enter_context(steps.loop("column", columns, "column"))
            begin = steps.index("begin", "mul", tile, self.facts)
            past = steps.index("past", "add", begin, self.facts)
            last = steps.index("last", "sub", steps.index("end", "min", past, batch), 1)
            self._pairs(_Place(begin, last, steps.index("j", "mul", column, self.negatives)))
        threads = self.pairs.down * ACROSS
        made = steps.kernel(self.kernel.name, "shared_lists", threads, self.kernel.buffers, sizes=self.kernel.sizes)
        return replace(made, origin=self.kernel.origin)

    def _pairs(self, place: _Place) -> None:
        """All pairs of a tile."""
        steps = self.steps
        high, wide = self.pairs.heights
        steps.did(f"keep {high} x {wide} sums a thread in registers")
        for accumulator in self.found.accumulators:
            self.totals[accumulator.name] = steps.tile(
                accumulator.name, [self.pairs.down, high, ACROSS, wide], "register"
            )
            with self.pairs.each() as at:
                steps.store(self.totals[accumulator.name], at, accumulator.start)
        shared = [
            [steps.tile(hint, [2, rows, self.depth], "shared", padding=PADDING) for _ in range(count)]
            for hint, rows, count in zip(("left", "right"), (self.facts, self.negatives), self.sides, strict=True)
        ]
        steps.did(f"stage slabs of {self.depth} of both sides in shared memory")
        for number, each in enumerate(self.found.sums):
            if number:
                steps.barrier()
            self._sum(each, place, shared)
        self._store(place)

    def _sum(self, each: Sum, place: _Place, shared: list[list[str]]) -> None:
        """The sums of all pairs, slab by slab."""
        steps, kernel = self.steps, self.kernel
        whole = kernel.size(each.loop.extent)
        elements = (*each.fact.elements, *each.negative.elements)
        step = _step(kernel, elements, each.loop.variable, whole)
        copied = step == VECTOR and whole % self.depth == 0 and _as_they_are(kernel, each) and whole > self.depth
        slabs = Slabs(each.loop.variable, whole, self.depth, step, 2 if copied else 1, self.pairs.down * ACROSS)
        of_fact = Operand(kernel, each.fact, self.facts, slabs, tuple(shared[0]))
        of_negative = Operand(kernel, each.negative, self.negatives, slabs, tuple(shared[1]))
        of_all: dict[str, Atom] = {self.found.rows.variable: place.begin}
        of_fact.prepare(steps, {}, place.begin, place.last)
        of_negative.prepare(steps, of_all, place.first, self.count - 1)
        if step > 1:
            steps.did(f"vectorise {each.loop.variable} by {step}")
        operands = (of_fact, of_negative)

        def load(depth: Extent, stage: Extent) -> None:
            of_fact.load(steps, {}, depth, stage, copied=copied)
            of_negative.load(steps, of_all, depth, stage, copied=copied)

        if not copied:
            with ExitStack() as open_:
                slab: Extent = open_.enter_context(steps.loop("slab", slabs.count)) if slabs.count > 1 else 0
                depth = steps.index("depth", "mul", slab, self.depth)
                load(depth, 0)
                steps.barrier()
                self._add(each, operands, slabs, depth, 0)
                if slabs.count > 1:
                    steps.barrier()
            return
        with steps.loop("slab", slabs.count + 1) as turn:
            steps.barrier(copies=True)
            with steps.where(turn, "<", slabs.count):
                stage = steps.index("stage", "mod", turn, 2)
                load(steps.index("depth", "mul", turn, self.depth), stage)
            with steps.where(0, "<", turn):
                stage = steps.index("stage", "mod", steps.index("before", "add", turn, 1), 2)
                self._add(each, operands, slabs, 0, stage)

    def _add(self, each: Sum, operands: tuple[Operand, Operand], slabs: Slabs, depth: Extent, stage: Extent) -> None:
        """A slab's part of the sums: from `depth` on, where the last slab has fewer elements."""
        steps, (of_fact, of_negative) = self.steps, operands
        pairs = self.pairs
        with pairs.threads() as (down, across), steps.loop("d", slabs.depth, step=slabs.step) as along:
            at = steps.index("d", "add", depth, along) if slabs.ragged else along
            with steps.where(at, "<", slabs.whole, needed=slabs.ragged), steps.all("i", pairs.heights[0]) as i:
                left = of_fact.values(steps, stage, pairs.fact(i, down), along)
                with steps.all("k", pairs.heights[1]) as k:
                    right = of_negative.values(steps, stage, pairs.negative(k, across), along)
                    known = {**left, **right}
                    for statement in each.pairs:
                        if isinstance(statement, loops.Accumulate):
                            total = self.totals[statement.target]
                            steps.copy([replace(statement, target=total, indices=(down, i, across, k))], known)
                        else:
                            known = steps.copy([statement], known)

    def _store(self, place: _Place) -> None:
        """What is done with the sums of each pair."""
        steps, found, pairs = self.steps, self.found, self.pairs
        rows, negatives, ragged = found.rows.variable, found.negatives.variable, bool(self.count % self.negatives)
        with pairs.threads() as (down, across), steps.all("i", pairs.heights[0]) as i:
            position = steps.index("position", "add", place.begin, pairs.fact(i, down))
            of_fact = steps.copy(found.scalars[0], {rows: steps.index("place", "min", position, place.last)})
            with steps.all("k", pairs.heights[1]) as k:
                number = steps.index("n", "add", place.first, pairs.negative(k, across))
                there = steps.index("n", "min", number, self.count - 1) if ragged else number
                others = [s for s in found.scalars[1] if s not in found.scalars[0]]
                of_list = steps.copy(others, {**of_fact, rows: place.begin, negatives: there})
                sums = {name: steps.load(name, tile, down, i, across, k) for name, tile in self.totals.items()}
                known: dict[str, Atom] = {**of_list, **sums, rows: of_fact[rows]}
                for stored, statements in groupby(found.epilogue, lambda s: isinstance(s, loops.Store)):
                    with (
                        steps.where(position, "<", found.rows.extent, needed=stored),
                        steps.where(number, "<", self.count, needed=stored and ragged),
                    ):
                        own = {rows: position, negatives: number} if stored else {}
                        after = steps.copy(tuple(statements), {**known, **own})
                        known = {**after, rows: known[rows], negatives: known[negatives]}
