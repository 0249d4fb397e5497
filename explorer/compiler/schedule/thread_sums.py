"""A tile's sums in rectangles: each thread has some rows and some vectors of columns, and multiplies in float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from explorer.compiler.ir.kernels import Level
from explorer.compiler.ir.node import Extent
from explorer.compiler.schedule.grouping import GRANULE, HEIGHTS
from explorer.compiler.schedule.steps import ALL, Steps
from explorer.compiler.schedule.tiling import Tiling

HELD = 16
"""Elements of the matrix that a thread holds while it multiplies rows with them: with more, fewer blocks have room on a
multiprocessor."""


class ThreadSums:
    """Sums of `GRANULE` by `across` threads: a row of threads has every `GRANULE`th row."""

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
        """A slab's part of the sums, some steps along the depth at a time: what a thread needs of the matrix is held in
        registers, and rows, which lie along the depth, come one after another. Those that are not there cost nothing.
        """
        tiling, (left, right) = self._tiling, operands
        together = max(1, HELD // (tiling.pieces * tiling.step))
        with (
            steps.loop("ty", GRANULE, "thread") as down,
            steps.loop("x", tiling.piece, "thread", step=tiling.step) as across,
            steps.loop("together", tiling.depth // together) as which,
        ):
            first = steps.index("first", "mul", which, together)
            held = steps.tile("w", [together, tiling.pieces, tiling.piece], "register")
            with (
                steps.loop("q", together, unroll=ALL) as next_step,
                steps.loop("piece", tiling.pieces, unroll=ALL) as piece,
            ):
                depth = steps.index("d", "add", first, next_step)
                wide = steps.load("w", right, stage, depth, self._column(steps, piece, across))
                steps.store(held, [next_step, piece, across], wide)
            with (
                steps.loop("i", HEIGHTS, unroll=ALL) as which_row,
                steps.where(which_row, "<", height, needed=not isinstance(height, int)),
            ):
                row = self._row(steps, which_row, down)
                with steps.loop("q", together, unroll=ALL) as next_step:
                    tall = steps.load("u", left, stage, row, steps.index("d", "add", first, next_step))
                    with steps.loop("piece", tiling.pieces, unroll=ALL) as piece:
                        wide = steps.load("w", held, next_step, piece, across)
                        steps.accumulate(self.name, [down, which_row, piece, across], "mul", tall, wide)

    def _row(self, steps: Steps, which: Extent, down: Extent) -> Extent:
        return steps.index("row", "add", steps.index("above", "mul", which, GRANULE), down)

    def _column(self, steps: Steps, piece: Extent, across: Extent) -> Extent:
        return steps.index("column", "add", steps.index("before", "mul", piece, self._tiling.piece), across)

    @contextmanager
    def rows(self, steps: Steps, height: Extent) -> Iterator[tuple[Extent, tuple[Extent, ...], Extent]]:
        """Each row: its place in the tile, where its sums are, and which part of the columns they are of."""
        with (
            steps.loop("ty", GRANULE, "thread") as down,
            steps.loop("i", HEIGHTS, unroll=ALL) as which,
            steps.where(which, "<", height, needed=not isinstance(height, int)),
        ):
            yield self._row(steps, which, down), (down, which), 0

    @contextmanager
    def columns(self, steps: Steps, part: Extent) -> Iterator[tuple[Extent, tuple[Extent, ...]]]:
        """Each vector of columns in a part of them: its place in the tile, and where in a row's sums it is."""
        tiling = self._tiling
        with (
            steps.loop("x", tiling.piece, "thread", step=tiling.step) as across,
            steps.loop("piece", tiling.pieces, unroll=ALL) as piece,
        ):
            yield self._column(steps, piece, across), (piece, across)
