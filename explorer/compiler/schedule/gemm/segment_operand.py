"""The left operand of a product whose rows are sums over segments: taken on the way into shared memory.

A thread sums several of its rows at once: each step takes the next element of every one, so that as many loads
are under way, whatever the segments' lengths, and what a step looks up, such as where elements' rows are, is loaded a
step ahead. Rows of unlike lengths wait for the longest: whoever groups them sorts them by length.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Extent
from explorer.compiler.ir.statements import names_read
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.edit.nests import element_type
from explorer.compiler.schedule.gemm.operands import PADDING
from explorer.compiler.schedule.gemm.tiling import TilePlace, Tiling
from explorer.compiler.schedule.inspect.group_by_matrix import ROWS_A_TILE
from explorer.compiler.schedule.match.matrix_products import Product, Segment

SIDE_BY_SIDE, DISTANT_SIDE_BY_SIDE = 4, 8
"""Rows of a thread that are summed at once, of elements that a cache has or memory."""

Row = tuple[Extent, Extent, str]
"""A row of a thread: the group of those that are summed at once, which of them it is, and its row of threads."""


@dataclass(frozen=True)
class _Group:
    """Rows that a thread sums at once, in the row of threads `down`, at the place `along` in a slab. `found` are the
    registers of what a step looks up, by its names."""

    place: TilePlace
    group: Extent
    down: str
    along: str
    sums: str
    found: dict[str, str]


class SegmentOperand:
    """The rows: each has as many threads as there are vectors in a slab, and those walk its segment."""

    copied = False

    def __init__(self, kernel: loops.Kernel, product: Product, segment: Segment, tiling: Tiling, depth: int) -> None:
        self._kernel, self._product, self._segment, self._tiling = kernel, product, segment, tiling
        self._depth = depth
        self._down = tiling.threads // (tiling.depth // tiling.depth_step)
        passes = ROWS_A_TILE // self._down
        self._side = min(DISTANT_SIDE_BY_SIDE if segment.distant else SIDE_BY_SIDE, passes)
        self._groups = passes // self._side
        self.registers = 2 * passes
        read = names_read(product.prologue)
        self._looked_up = [s for s in segment.scalars if loops.result_of(s) in read]
        self._begins = self._stops = self.name = ""

    @property
    def schedule(self) -> tuple[str, ...]:
        """What a schedule says of it."""
        return (f"sum {self._side} rows a thread side by side, look their elements up a step ahead",)

    def declare(self, steps: Steps, slab: str = "") -> None:
        """The slab in shared memory, if that is not there yet, and where a thread's segments begin and stop."""
        self.name = slab or steps.tile("left", self._tiling.left_extents, "shared", padding=PADDING)
        rows = [self._groups, self._side, self._down]
        self._begins, self._stops = (steps.tile(hint, rows, "register", type="i32") for hint in ("begins", "stops"))

    def prepare(self, steps: Steps, place: TilePlace) -> None:
        """Where each row's segment begins and stops: looked up for all rows of a thread before the first is summed."""
        product, bounds = self._product, (self._segment.begin, self._segment.stop)
        wanted = [statement for statement in product.head if loops.result_of(statement) in bounds]
        with self._threads(steps) as (down, _), steps.all("group", self._groups) as group, self._sides(steps) as side:
            own = place.row(steps, self._row(steps, (group, side, down)))
            known = steps.copy(wanted, {**place.known, product.rows.variable: own})
            for tile, bound in zip((self._begins, self._stops), bounds, strict=True):
                steps.store(tile, [group, side, down], known[bound])

    def load(self, steps: Steps, place: TilePlace, slab: Extent, stage: Extent) -> None:
        """Nothing: a sum is not a load that could wait in registers."""

    @contextmanager
    def _threads(self, steps: Steps) -> Iterator[tuple[str, str]]:
        """What all threads do: the row of threads, and the place along the depth."""
        tiling = self._tiling
        with (
            steps.loop("row", self._down, "thread") as down,
            steps.loop("q", tiling.depth, "thread", step=tiling.depth_step) as along,
        ):
            yield down, along

    def _sides(self, steps: Steps) -> AbstractContextManager[Extent]:
        return steps.all("side", self._side)

    def _row(self, steps: Steps, row: Row) -> Extent:
        """A row's place in the tile."""
        group, side, down = row
        above = steps.index("above", "add", steps.index("above", "mul", group, self._side), side)
        return steps.index("row", "add", steps.index("above", "mul", above, self._down), down)

    def store(self, steps: Steps, place: TilePlace, slab: Extent, stage: Extent) -> None:
        """Takes the sums and stores them; what lies behind the depth is 0."""
        tiling = self._tiling
        sums = steps.tile("sums", [self._side, self._down, tiling.depth], "register")
        names = {str(loops.result_of(scalar)): element_type(self._kernel, scalar) for scalar in self._looked_up}
        rows = [self._side, self._down]
        found = {name: steps.tile(f"{name}_ahead", rows, "register", type=kind) for name, kind in names.items()}
        with self._threads(steps) as (down, along), steps.all("group", self._groups) as group:
            with self._sides(steps) as side:
                steps.store(sums, [side, down, along], 0.0)
            depth = steps.index("d", "add", slab, along)
            with steps.where(depth, "<", self._product.depth_extent, needed=bool(self._depth % tiling.depth)):
                self._sum(steps, _Group(place, group, down, along, sums, found), depth)
            with self._sides(steps) as side:
                total = steps.load("s", sums, side, down, along)
                steps.store(self.name, tiling.left_place(stage, self._row(steps, (group, side, down)), along), total)

    def _sum(self, steps: Steps, rows: _Group, depth: Extent) -> None:
        """Adds all elements of a group of rows."""
        self._find(steps, rows, 0)
        with steps.segment("step", 0, self._longest(steps, rows), 1) as step:
            self._add(steps, rows, step, depth)
            self._find(steps, rows, steps.index("next", "add", step, 1))

    def _longest(self, steps: Steps, rows: _Group) -> Extent:
        """The most elements that a row of a group has."""
        longest: Extent = 0
        for side in range(self._side):
            begin, stop = self._bounds(steps, rows, side)
            longest = steps.index("longest", "max", longest, steps.index("length", "sub", stop, begin))
        return longest

    def _bounds(self, steps: Steps, rows: _Group, side: Extent) -> tuple[str, str]:
        """Where a row's segment begins and stops."""
        row = rows.group, side, rows.down
        return steps.load("begin", self._begins, *row), steps.load("stop", self._stops, *row)

    def _element(self, steps: Steps, rows: _Group, side: Extent, step: Extent) -> tuple[Extent, Extent, str]:
        """A row's element of a step, that or the last one there is, and where the row's segment stops."""
        begin, stop = self._bounds(steps, rows, side)
        element = steps.index("e", "add", begin, step)
        return element, steps.index("e", "min", element, steps.index("last", "sub", stop, 1)), stop

    def _find(self, steps: Steps, rows: _Group, step: Extent) -> None:
        """What a step looks up for a group of rows, into registers."""
        with self._sides(steps) as side:
            _, own, _ = self._element(steps, rows, side, step)
            known = steps.copy(self._segment.scalars, {**rows.place.known, self._segment.variable: own})
            for name, tile in rows.found.items():
                steps.store(tile, [side, rows.down], known[name])

    def _add(self, steps: Steps, rows: _Group, step: Extent, depth: Extent) -> None:
        """Adds each row's next element: where there is none, its last is loaded again, so that loads have no
        condition."""
        *before, added = self._product.prologue
        with self._sides(steps) as side:
            element, own, stop = self._element(steps, rows, side, step)
            known = {**rows.place.known, self._segment.variable: own, self._product.depth: depth}
            known |= {name: steps.load(name, tile, side, rows.down) for name, tile in rows.found.items()}
            known = steps.copy(before, known)
            with steps.where(element, "<", stop):
                assert isinstance(added, loops.Accumulate)
                operands = tuple(known[name] if isinstance(name, str) else name for name in added.operands)
                steps.add(replace(added, target=rows.sums, indices=(side, rows.down, rows.along), operands=operands))
