"""A tile's sums in rectangles: each thread has some rows and some vectors of columns, and multiplies in float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from explorer.compiler.ir.kernels import Level
from explorer.compiler.ir.node import Extent
from explorer.compiler.ir.sharing import LANES
from explorer.compiler.schedule.grouping import GRANULE, HEIGHTS
from explorer.compiler.schedule.steps import ALL, Steps
from explorer.compiler.schedule.tiling import Tiling

TOGETHER = 4
"""Steps along the depth that are taken together: a thread loads a vector of each row, and holds the matrix's part."""
SIDE = 8
"""Threads of a warp beside each other, at most: a load of the warp is then of few addresses of both operands."""
ROWS_A_VARIANT = 2
"""Rows a thread that code is shared by: only the last of them may be missing."""


class ThreadSums:
    """Sums of `GRANULE` by `across` threads, of which a thread has every `GRANULE`th row. A warp has neighbours in both
    directions: `parts` warps share a row, and `lanes` of each."""

    granule = GRANULE
    level: Level = "thread"

    def __init__(self, tiling: Tiling) -> None:
        self._tiling = tiling
        self.lanes = min(tiling.across, SIDE)
        self.parts = tiling.across // self.lanes
        self._down = min(GRANULE, LANES // self.lanes)
        self.name = ""

    @property
    def schedule(self) -> tuple[str, ...]:
        """What a schedule says of it."""
        tiling = self._tiling
        return (
            f"bind {GRANULE} x {tiling.across} @thread, {self._down} x {self.lanes} of them a warp",
            f"keep {HEIGHTS} x {tiling.pieces * tiling.step} sums a thread in registers",
        )

    def height(self, steps: Steps, rows: Extent) -> Extent:
        """How many rows each row of threads has, of `rows` in the tile."""
        return steps.index("height", "div", steps.index("more", "add", rows, GRANULE - 1), GRANULE)

    def clear(self, steps: Steps, hint: str) -> None:
        """The sums, from 0."""
        tiling, above = self._tiling, GRANULE // self._down
        width = self.lanes * tiling.step
        extents = [above, self.parts, self._down, HEIGHTS, tiling.pieces, width]
        self.name = steps.tile(hint, extents, "register")
        with (
            self._threads(steps) as (rows, across),
            steps.loop("i", HEIGHTS, unroll=ALL) as row,
            steps.loop("piece", tiling.pieces, unroll=ALL) as piece,
        ):
            steps.store(self.name, [*rows, row, piece, across], 0.0)

    @contextmanager
    def _row_threads(self, steps: Steps) -> Iterator[tuple[Extent, Extent, Extent]]:
        """The loops over the threads that have different rows or parts of columns: the rows above, the part beside, and
        the row in the warp."""
        with (
            steps.member("above", GRANULE // self._down, "thread") as above,
            steps.member("beside", self.parts, "thread") as beside,
            steps.loop("ty", self._down, "thread") as down,
        ):
            yield above, beside, down

    @contextmanager
    def _threads(self, steps: Steps) -> Iterator[tuple[tuple[Extent, Extent, Extent], Extent]]:
        """The loops over all threads."""
        with self._row_threads(steps) as rows, self._across(steps) as across:
            yield rows, across

    def _across(self, steps: Steps) -> AbstractContextManager[str]:
        return steps.loop("x", self.lanes * self._tiling.step, "thread", step=self._tiling.step)

    def multiply(self, steps: Steps, operands: tuple[str, str], stage: Extent, height: Extent) -> None:
        """A slab's part of the sums. For each two heights there is code of its own: rows that are not there cost
        nothing, and of the others but one is asked for."""
        if isinstance(height, int):
            self._rectangle(steps, operands, stage, (height, height))
            return
        variant = steps.index("variant", "div", steps.index("more", "add", height, ROWS_A_VARIANT - 1), ROWS_A_VARIANT)
        for most in range(ROWS_A_VARIANT, HEIGHTS + 1, ROWS_A_VARIANT):
            with steps.where(variant, "==", most // ROWS_A_VARIANT):
                surely = most - ROWS_A_VARIANT + 1
                self._rectangle(steps, operands, stage, (most, steps.index("there", "max", height, surely)))

    def _rectangle(
        self, steps: Steps, operands: tuple[str, str], stage: Extent, rows: tuple[int, Extent]
    ) -> None:
        """The sums of at most so many rows a thread, of those that are there."""
        tiling, (left, right), (most, there) = self._tiling, operands, rows
        with self._threads(steps) as (place, across), steps.loop("group", tiling.depth // TOGETHER) as group:
            above, beside, down = place
            first = steps.index("first", "mul", group, TOGETHER)
            held = steps.tile("w", [self.parts, TOGETHER, tiling.pieces, self.lanes * tiling.step], "register")
            with (
                steps.loop("q", TOGETHER, unroll=ALL) as following,
                steps.loop("piece", tiling.pieces, unroll=ALL) as piece,
            ):
                depth = steps.index("d", "add", first, following)
                wide = steps.load("w", right, stage, depth, self._column(steps, piece, beside, across))
                steps.store(held, [beside, following, piece, across], wide)
            with (
                steps.loop("i", most, unroll=ALL) as which,
                steps.where(which, "<", there, needed=not isinstance(there, int)),
            ):
                row = self._row(steps, which, above, down)
                with steps.loop("q", TOGETHER, unroll=ALL) as following:
                    tall = steps.load("u", left, stage, row, steps.index("d", "add", first, following))
                    with steps.loop("piece", tiling.pieces, unroll=ALL) as piece:
                        wide = steps.load("w", held, beside, following, piece, across)
                        steps.accumulate(self.name, [*place, which, piece, across], "mul", tall, wide)

    def _row(self, steps: Steps, which: Extent, above: Extent, down: Extent) -> Extent:
        first = steps.index("first", "mul", which, GRANULE)
        first = steps.index("first", "add", first, steps.index("above", "mul", above, self._down))
        return steps.index("row", "add", first, down)

    def _column(self, steps: Steps, piece: Extent, beside: Extent, across: Extent) -> Extent:
        first = steps.index("first", "mul", piece, self._tiling.piece)
        before = steps.index("before", "mul", beside, self.lanes * self._tiling.step)
        return steps.index("column", "add", steps.index("first", "add", first, before), across)

    @contextmanager
    def rows(self, steps: Steps) -> Iterator[tuple[Extent, tuple[Extent, ...], Extent]]:
        """Each row: its place in the tile, where its sums are, and which part of the columns they are of."""
        with self._row_threads(steps) as place, steps.loop("i", HEIGHTS, unroll=ALL) as which:
            above, beside, down = place
            yield self._row(steps, which, above, down), (*place, which), beside

    @contextmanager
    def columns(self, steps: Steps, part: Extent) -> Iterator[tuple[Extent, tuple[Extent, ...]]]:
        """Each vector of columns in a part of them: its place in the tile, and where in a row's sums it is."""
        with (
            self._across(steps) as across,
            steps.loop("piece", self._tiling.pieces, unroll=ALL) as piece,
        ):
            yield self._column(steps, piece, part, across), (piece, across)
