"""A tile's sums in rectangles: each thread has some rows and some vectors of columns, and multiplies in float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from explorer.compiler.ir.kernels import ROLLED
from explorer.compiler.ir.node import Extent
from explorer.compiler.schedule.edit.builder import ALL, Steps
from explorer.compiler.schedule.gemm.tiling import Tiling
from explorer.compiler.schedule.inspect.group_by_matrix import GRANULE, HEIGHTS
from explorer.compiler.target import GpuTarget

OTHER_REGISTERS = 35
"""Registers that a thread takes besides sums and operands, as the assembler needs them."""


class ThreadSums:
    """Sums of `GRANULE` by `across` threads, of which a thread has every `GRANULE`th row."""

    granule = GRANULE
    parts = 1

    def __init__(self, tiling: Tiling) -> None:
        self._tiling = tiling
        self.lanes = tiling.across
        self.apart = tiling.neighbours
        self.name = ""

    @property
    def row_extents(self) -> list[int]:
        """The extents of a tile that has an element for each row, by its place among the sums."""
        return [GRANULE // self.apart, self.apart, HEIGHTS]

    @property
    def column_extents(self) -> list[int]:
        """The extents of a tile that has an element for each column, by its place in a row's sums."""
        return [self._tiling.pieces, self._tiling.piece]

    @property
    def schedule(self) -> tuple[str, ...]:
        """What a schedule says of it."""
        return (
            f"bind {GRANULE // self.apart} x {self.lanes} x {self.apart} @thread",
            f"keep {HEIGHTS} x {self._tiling.pieces * self._tiling.step} sums a thread in registers",
        )

    def resident(self, staged: int, target: GpuTarget) -> int:
        """Blocks that a multiprocessor is to have at a time, where a thread keeps so many registers of operands that
        are on their way. There is room for more, but then threads spill, or take their loads apart."""
        tiling = self._tiling
        own = (HEIGHTS + tiling.along) * tiling.pieces * tiling.step + OTHER_REGISTERS
        return target.resident(tiling.threads, own + staged)

    def height(self, steps: Steps, rows: Extent) -> Extent:
        """How many rows each row of threads has, of `rows` in the tile."""
        return steps.index("height", "div", steps.index("more", "add", rows, GRANULE - 1), GRANULE)

    def clear(self, steps: Steps, hint: str) -> None:
        """The sums, from 0."""
        tiling = self._tiling
        self.name = steps.tile(hint, [*self.row_extents, *self.column_extents], "register")
        with (
            self._down(steps) as down,
            self._across(steps) as across,
            steps.all("i", HEIGHTS) as row,
            steps.all("piece", tiling.pieces) as piece,
        ):
            steps.store(self.name, [*down, row, piece, across], 0.0)

    @contextmanager
    def _down(self, steps: Steps) -> Iterator[tuple[Extent, Extent]]:
        """The rows of threads: the group of neighbours, and the place among them."""
        groups, _, _ = self.row_extents
        with steps.loop("ty", groups, "thread", width=groups, apart=self.apart * self.lanes) as group:
            if self.apart == 1:
                yield group, 0
                return
            with steps.loop("near", self.apart, "thread", width=self.apart, apart=1) as near:
                yield group, near

    def _across(self, steps: Steps) -> AbstractContextManager[str]:
        tiling = self._tiling
        return steps.loop("x", tiling.piece, "thread", step=tiling.step, width=self.lanes, apart=self.apart)

    def each_lane(self, steps: Steps) -> AbstractContextManager[str]:
        """The threads that share a row."""
        return steps.loop("lane", self.lanes, "thread", width=self.lanes, apart=self.apart)

    def multiply(self, steps: Steps, operands: tuple[str, str], stage: Extent, height: Extent) -> None:
        """A slab's part of the sums. Each two heights are code of their own when the loop over pairs of rows is
        unrolled: rows that are not there cost nothing, and only the last of the others is asked for."""
        if isinstance(height, int):
            self._rectangle(steps, operands, stage, (HEIGHTS, height))
            return
        above = steps.index("more", "add", height, 1)
        pairs, even = steps.index("pairs", "div", above, 2), steps.index("even", "mod", above, 2)
        with steps.segment("pair", 1, HEIGHTS // 2 + 1, unroll=ALL) as pair, steps.where(pair, "==", pairs):
            # Both tell the compiler what it would not see of the height: which rows are surely there, or surely not.
            rows = steps.index("rows", "mul", pair, 2)
            there = steps.index("there", "add", even, steps.index("fewest", "sub", rows, 1))
            self._rectangle(steps, operands, stage, (rows, there))

    def _rectangle(self, steps: Steps, operands: tuple[str, str], stage: Extent, height: tuple[Extent, Extent]) -> None:
        """The sums of at most so many rows a thread, of those that are there."""
        tiling, (left, right), (rows, there) = self._tiling, operands, height
        together = tiling.along
        with (
            self._down(steps) as down,
            self._across(steps) as across,
            steps.loop("group", tiling.depth // together, unroll=ROLLED) as group,
        ):
            first = steps.index("first", "mul", group, together)
            held = steps.tile("w", [together, tiling.pieces, tiling.piece], "register")
            with steps.all("q", together) as following, steps.all("piece", tiling.pieces) as piece:
                depth = steps.index("d", "add", first, following)
                wide = steps.load("w", right, stage, depth, self._column(steps, piece, across))
                steps.store(held, [following, piece, across], wide)
            with (
                steps.all("i", HEIGHTS) as which,
                steps.where(which, "<", rows, needed=rows != HEIGHTS),
                steps.where(which, "<", there, needed=there != HEIGHTS),
            ):
                row = self._row(steps, which, down)
                with steps.all("q", together) as following:
                    tall = steps.load("u", left, stage, row, steps.index("d", "add", first, following))
                    with steps.all("piece", tiling.pieces) as piece:
                        wide = steps.load("w", held, following, piece, across)
                        steps.accumulate(self.name, [*down, which, piece, across], "mul", tall, wide)

    def _row(self, steps: Steps, which: Extent, down: tuple[Extent, Extent]) -> Extent:
        group, near = down
        first = steps.index("row", "add", steps.index("before", "mul", group, self.apart), near)
        return steps.index("row", "add", steps.index("above", "mul", which, GRANULE), first)

    def _column(self, steps: Steps, piece: Extent, across: Extent) -> Extent:
        return steps.index("column", "add", steps.index("before", "mul", piece, self._tiling.piece), across)

    @contextmanager
    def rows(self, steps: Steps) -> Iterator[tuple[Extent, tuple[Extent, ...], Extent]]:
        """Each row: its place in the tile, where its sums are, and which part of the columns they are of."""
        with self._down(steps) as down, steps.all("i", HEIGHTS) as which:
            yield self._row(steps, which, down), (*down, which), 0

    @contextmanager
    def columns(self, steps: Steps, part: Extent) -> Iterator[tuple[Extent, tuple[Extent, ...]]]:
        """Each vector of columns in a part of them: its place in the tile, and where in a row's sums it is."""
        with self._across(steps) as across, steps.all("piece", self._tiling.pieces) as piece:
            yield self._column(steps, piece, across), (piece, across)
