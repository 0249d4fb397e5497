"""A tile's sums in rectangles: each thread has some rows and some vectors of columns, and multiplies in float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from explorer.compiler.ir.kernels import Level
from explorer.compiler.ir.node import Extent
from explorer.compiler.schedule.grouping import GRANULE, HEIGHTS
from explorer.compiler.schedule.steps import ALL, Steps
from explorer.compiler.schedule.tiling import Tiling

UNROLLED = 4
"""Steps along the depth that stand side by side: enough to load ahead of the arithmetic, and little to compile."""


class ThreadSums:
    """Sums of `GRANULE` by `across` threads: a row of threads has as many rows as the tile's height says."""

    granule = GRANULE
    level: Level = "thread"
    parts = 1

    def __init__(self, tiling: Tiling) -> None:
        self._tiling = tiling
        self.lanes = tiling.across
        self.name = ""

    @property
    def schedule(self) -> tuple[str, ...]:
        """What a schedule says of it."""
        return (
            f"bind {GRANULE} x {self._tiling.across} @thread",
            f"keep {HEIGHTS} x {self._tiling.pieces * self._tiling.step} sums a thread in registers",
        )

    def height(self, steps: Steps, rows: Extent) -> Extent:
        """How many rows each row of threads has, of `rows` in the tile."""
        return steps.index("height", "div", steps.index("more", "add", rows, GRANULE - 1), GRANULE)

    def clear(self, steps: Steps, hint: str) -> None:
        """The sums, from 0."""
        tiling = self._tiling
        self.name = steps.tile(hint, [GRANULE, HEIGHTS, tiling.pieces, tiling.piece], "register")
        with (
            steps.loop("ty", GRANULE, "thread") as down,
            steps.loop("x", tiling.piece, "thread", step=tiling.step) as across,
            steps.loop("i", HEIGHTS, unroll=ALL) as row,
            steps.loop("piece", tiling.pieces, unroll=ALL) as piece,
        ):
            steps.store(self.name, [down, row, piece, across], 0.0)

    def multiply(self, steps: Steps, operands: tuple[str, str], stage: Extent, height: Extent) -> None:
        """A slab's part of the sums. For each height there is code of its own: rows that are not there cost nothing."""
        if isinstance(height, int):
            self._rectangle(steps, operands, stage, height)
            return
        for rows in range(1, HEIGHTS + 1):
            with steps.where(height, "==", rows):
                self._rectangle(steps, operands, stage, rows)

    def _rectangle(self, steps: Steps, operands: tuple[str, str], stage: Extent, height: int) -> None:
        tiling, (left, right) = self._tiling, operands
        with (
            steps.loop("ty", GRANULE, "thread") as down,
            steps.loop("x", tiling.piece, "thread", step=tiling.step) as across,
        ):
            first = steps.index("first", "mul", down, height)
            with (
                steps.loop("d", tiling.depth, unroll=UNROLLED) as depth,
                steps.loop("piece", tiling.pieces, unroll=ALL) as piece,
            ):
                column = steps.index("column", "add", steps.index("before", "mul", piece, tiling.piece), across)
                wide = steps.load("w", right, stage, depth, column)
                with steps.loop("i", height, unroll=ALL) as row:
                    tall = steps.load("u", left, stage, depth, steps.index("row", "add", first, row))
                    steps.accumulate(self.name, [down, row, piece, across], "mul", tall, wide)

    @contextmanager
    def rows(self, steps: Steps, height: Extent) -> Iterator[tuple[Extent, tuple[Extent, ...], Extent]]:
        """Each row: its place in the tile, where its sums are, and which part of the columns they are of."""
        with (
            steps.loop("ty", GRANULE, "thread") as down,
            steps.loop("i", HEIGHTS, unroll=ALL) as which,
            steps.where(which, "<", height, needed=not isinstance(height, int)),
        ):
            yield steps.index("row", "add", steps.index("first", "mul", down, height), which), (down, which), 0

    @contextmanager
    def columns(self, steps: Steps, part: Extent) -> Iterator[tuple[Extent, tuple[Extent, ...]]]:
        """Each vector of columns in a part of them: its place in the tile, and where in a row's sums it is."""
        tiling = self._tiling
        with (
            steps.loop("x", tiling.piece, "thread", step=tiling.step) as across,
            steps.loop("piece", tiling.pieces, unroll=ALL) as piece,
        ):
            inside = steps.index("column", "add", steps.index("before", "mul", piece, tiling.piece), across)
            yield inside, (piece, across)
