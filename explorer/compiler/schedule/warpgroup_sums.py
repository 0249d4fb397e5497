"""A tile's sums where four warps multiply together: each warp has strips of columns of all rows, as its lanes'
fragments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from explorer.compiler.ir.kernels import Multiply, Precision
from explorer.compiler.ir.node import Extent, Origin
from explorer.compiler.ir.sharing import LANES
from explorer.compiler.ir.verify_products import GRANULE as BY_ROWS
from explorer.compiler.ir.verify_products import GRANULES_OF_LANES, PAIR, STRIP, STRIP_OF_LANES, WARPS
from explorer.compiler.schedule.grouping import ROWS_A_TILE
from explorer.compiler.schedule.steps import Steps
from explorer.compiler.schedule.tiling import VECTOR, Tiling

RESIDENT_THREADS = {128: 384, 256: 512}
"""Threads that a multiprocessor is to have, by those of a block: half of a thread's registers are sums."""


class WarpgroupSums:
    """Sums of `parts` warps: rows come by `BY_ROWS`, of which a lane has `PAIR`, and columns by `STRIP`."""

    granule = ROWS_A_TILE
    lanes = STRIP_OF_LANES.members
    apart = STRIP_OF_LANES.stride

    def __init__(self, tiling: Tiling, precision: Precision, origin: Origin) -> None:
        self._tiling, self._precision, self._origin = tiling, precision, origin
        self.parts = tiling.threads // LANES
        self._strip = tiling.columns // self.parts
        self.name = ""

    @property
    def row_extents(self) -> list[int]:
        """The extents of a tile that has an element for each row, by its place among the sums."""
        return [self.parts, ROWS_A_TILE // BY_ROWS, GRANULES_OF_LANES.members, PAIR]

    @property
    def schedule(self) -> tuple[str, ...]:
        """What a schedule says of it."""
        return (
            f"bind strips of {self._strip} columns @warp, pairs of rows and vectors of {VECTOR} columns @lane",
            f"multiply fragments of 64 x {ROWS_A_TILE} x 8 in {self._precision} on tensor cores, by {WARPS} warps",
        )

    def resident(self, staged: int) -> int:
        """Blocks that a multiprocessor is to have at a time: what a thread keeps of operands is the same for all."""
        threads = self._tiling.threads
        return RESIDENT_THREADS[threads] // threads

    def clear(self, steps: Steps, hint: str) -> None:
        """The sums, from 0."""
        self.name = steps.tile(hint, [*self.row_extents, self._strip // STRIP, STRIP], "register")
        with (
            steps.loop("strip", self.parts, "warp") as strip,
            self._down(steps) as down,
            self._across(steps) as across,
            steps.all("tall", ROWS_A_TILE // BY_ROWS) as tall,
            steps.all("i", PAIR) as which,
            steps.all("piece", self._strip // STRIP) as piece,
        ):
            steps.store(self.name, [strip, tall, down, which, piece, across], 0.0)

    def _down(self, steps: Steps) -> AbstractContextManager[str]:
        share = GRANULES_OF_LANES
        return steps.loop("y", share.members, "lane", width=share.members, apart=share.stride)

    def _across(self, steps: Steps) -> AbstractContextManager[str]:
        share = STRIP_OF_LANES
        return steps.loop("x", STRIP, "lane", step=VECTOR, width=share.members, apart=share.stride)

    def each_lane(self, steps: Steps) -> AbstractContextManager[str]:
        """The lanes that share a row."""
        return steps.loop("lane", self.lanes, "lane", width=self.lanes, apart=self.apart)

    def multiply(self, steps: Steps, operands: tuple[str, str], stage: Extent, height: Extent) -> None:
        """A slab's part of the sums."""
        left, right = operands
        with steps.loop("strip", self.parts, "warp") as strip:
            steps.add(
                Multiply(
                    target=self.name,
                    indices=(strip,),
                    left=left,
                    left_indices=(stage,),
                    right=right,
                    right_indices=(stage,),
                    column=steps.index("column", "mul", strip, self._strip),
                    rows=ROWS_A_TILE,
                    columns=self._strip,
                    depth=self._tiling.depth,
                    precision=self._precision,
                    warps=WARPS,
                    origin=self._origin,
                )
            )

    @contextmanager
    def rows(self, steps: Steps) -> Iterator[tuple[Extent, tuple[Extent, ...], Extent]]:
        """Each row: its place in the tile, where its sums are, and which part of the columns they are of."""
        with (
            steps.loop("strip", self.parts, "warp") as strip,
            self._down(steps) as down,
            steps.all("tall", ROWS_A_TILE // BY_ROWS) as tall,
            steps.all("i", PAIR) as which,
        ):
            first = steps.index("first", "add", steps.index("first", "mul", down, PAIR), which)
            row = steps.index("row", "add", steps.index("above", "mul", tall, BY_ROWS), first)
            yield row, (strip, tall, down, which), strip

    @contextmanager
    def columns(self, steps: Steps, part: Extent) -> Iterator[tuple[Extent, tuple[Extent, ...]]]:
        """Each vector of columns in a part of them: its place in the tile, and where in a row's sums it is."""
        before = steps.index("strip", "mul", part, self._strip)
        with self._across(steps) as across, steps.all("piece", self._strip // STRIP) as piece:
            first = steps.index("first", "add", before, steps.index("first", "mul", piece, STRIP))
            yield steps.index("column", "add", first, across), (piece, across)
