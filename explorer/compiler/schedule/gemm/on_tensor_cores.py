"""A tile's sums on tensor cores: each warp has a strip of columns of all rows, as its lanes' fragments.

Each warp multiplies alone (mma), or four warps together (wgmma)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from explorer.compiler.ir.kernels import Multiply, Precision
from explorer.compiler.ir.node import Extent, Origin
from explorer.compiler.ir.verify.products import (
    COLUMNS_OF_LANES,
    DEEP,
    GRANULES_OF_LANES,
    PAIR,
    ROWS_OF_LANES,
    STRIP,
    STRIP_OF_LANES,
    TALL,
    WARPS,
    WIDE,
)
from explorer.compiler.ir.verify.products import GRANULE as TOGETHER
from explorer.compiler.ir.verify.sharing import LANES
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.gemm.on_cuda_cores import OTHER_REGISTERS
from explorer.compiler.schedule.gemm.tiling import Tiling
from explorer.compiler.schedule.inspect.group_by_matrix import GRANULE, ROWS_A_TILE
from explorer.compiler.target import VECTOR, GpuTarget

RESIDENT_THREADS = {128: 384, 256: 512}
"""Threads that a multiprocessor is to have, by those of a block where four warps multiply together: half of a thread's
registers are sums."""


class FragmentSums(ABC):
    """Sums of `parts` warps: rows come by `tall`, of which a lane has `PAIR`, and columns by `wide`. `warps` of them
    multiply together, by a `fragment` of rows, columns and depth."""

    tall: int
    wide: int
    warps: int
    fragment: str
    multiplying = ""

    def __init__(self, tiling: Tiling, precision: Precision, origin: Origin) -> None:
        self._tiling, self._precision, self._origin = tiling, precision, origin
        self.parts = tiling.threads // LANES
        self._strip = tiling.columns // self.parts
        self.name = ""

    @property
    def row_extents(self) -> list[int]:
        """The extents of a tile that has an element for each row, by its place among the sums."""
        return [self.parts, ROWS_A_TILE // self.tall, self.tall // PAIR, PAIR]

    @abstractmethod
    def _down(self, steps: Steps) -> AbstractContextManager[str]:
        """The lanes that have other rows."""

    @abstractmethod
    def _across(self, steps: Steps) -> AbstractContextManager[str]:
        """The lanes that have other columns."""

    @property
    def schedule(self) -> tuple[str, ...]:
        """What a schedule says of it."""
        shared = f"bind strips of {self._strip} columns @warp, pairs of rows and vectors of {VECTOR} columns @lane"
        return shared, f"multiply fragments of {self.fragment} in {self._precision} on tensor cores{self.multiplying}"

    def clear(self, steps: Steps, hint: str) -> None:
        """The sums, from 0."""
        self.name = steps.tile(hint, [*self.row_extents, self._strip // self.wide, self.wide], "register")
        with (
            steps.loop("strip", self.parts, "warp") as strip,
            self._down(steps) as down,
            self._across(steps) as across,
            steps.all("tall", ROWS_A_TILE // self.tall) as tall,
            steps.all("i", PAIR) as which,
            steps.all("piece", self._strip // self.wide) as piece,
        ):
            steps.store(self.name, [strip, tall, down, which, piece, across], 0.0)

    def _product(
        self, steps: Steps, operands: tuple[str, str], stage: Extent, strip: tuple[Extent, Extent], rows: int
    ) -> None:
        """A slab's part of a warp's sums; `strip` is which warp's, and its first column."""
        (left, right), (part, column) = operands, strip
        steps.add(
            Multiply(
                target=self.name,
                indices=(part,),
                left=left,
                left_indices=(stage,),
                right=right,
                right_indices=(stage,),
                column=column,
                rows=rows,
                columns=self._strip,
                depth=self._tiling.depth,
                precision=self._precision,
                warps=self.warps,
                origin=self._origin,
            )
        )

    @contextmanager
    def rows(self, steps: Steps) -> Iterator[tuple[Extent, tuple[Extent, ...], Extent]]:
        """Each row: its place in the tile, where its sums are, and which part of the columns they are of."""
        with (
            steps.loop("strip", self.parts, "warp") as strip,
            self._down(steps) as down,
            steps.all("tall", ROWS_A_TILE // self.tall) as tall,
            steps.all("i", PAIR) as which,
        ):
            first = steps.index("first", "add", steps.index("first", "mul", down, PAIR), which)
            row = steps.index("row", "add", steps.index("above", "mul", tall, self.tall), first)
            yield row, (strip, tall, down, which), strip

    @contextmanager
    def columns(self, steps: Steps, part: Extent) -> Iterator[tuple[Extent, tuple[Extent, ...]]]:
        """Each vector of columns in a part of them: its place in the tile, and where in a row's sums it is."""
        before = steps.index("strip", "mul", part, self._strip)
        with self._across(steps) as across, steps.all("piece", self._strip // self.wide) as piece:
            first = steps.index("first", "add", before, steps.index("first", "mul", piece, self.wide))
            yield steps.index("column", "add", first, across), (piece, across)


class TensorSums(FragmentSums):
    """Sums of warps that multiply alone: they come by `TALL` rows and `WIDE` columns."""

    tall, wide, warps = TALL, WIDE, 1
    fragment = "16 x 8 x 8"
    granule = TALL
    lanes = COLUMNS_OF_LANES.members
    apart = COLUMNS_OF_LANES.stride

    def resident(self, staged: int, target: GpuTarget) -> int:
        """Blocks that a multiprocessor is to have at a time, where a thread keeps so many registers of operands that
        are on their way."""
        own = ROWS_A_TILE * (self._strip + DEEP) // LANES + OTHER_REGISTERS
        return target.resident(self._tiling.threads, own + staged)

    def height(self, steps: Steps, rows: Extent) -> Extent:
        """`rows` in units of GRANULE, of which fragments take two at a time."""
        tall = steps.index("tall", "div", steps.index("more", "add", rows, TALL - 1), TALL)
        return steps.index("height", "mul", tall, TALL // GRANULE)

    def _down(self, steps: Steps) -> AbstractContextManager[str]:
        return steps.loop("y", ROWS_OF_LANES.members, "lane")

    def _across(self, steps: Steps) -> AbstractContextManager[str]:
        return steps.loop("x", WIDE, "lane", step=VECTOR)

    def each_lane(self, steps: Steps) -> AbstractContextManager[str]:
        """The lanes that share a row."""
        return steps.loop("lane", self.lanes, "lane")

    def multiply(self, steps: Steps, operands: tuple[str, str], stage: Extent, height: Extent) -> None:
        """A slab's part of the sums. For each height there is code of its own: fragments of rows that are not there
        cost nothing."""
        with steps.loop("strip", self.parts, "warp") as strip:
            column = steps.index("column", "mul", strip, self._strip)
            if isinstance(height, int):
                self._product(steps, operands, stage, (strip, column), height * GRANULE)
                return
            for rows in range(TALL, ROWS_A_TILE + 1, TALL):
                with steps.where(height, "==", rows // GRANULE):
                    self._product(steps, operands, stage, (strip, column), rows)


class WarpgroupSums(FragmentSums):
    """Sums of four warps that multiply together: they come by `TOGETHER` rows and `STRIP` columns; all tiles are
    multiplied as high ones."""

    tall, wide, warps = TOGETHER, STRIP, WARPS
    fragment = f"64 x {ROWS_A_TILE} x 8"
    multiplying = f", by {WARPS} warps"
    granule = ROWS_A_TILE
    lanes = STRIP_OF_LANES.members
    apart = STRIP_OF_LANES.stride

    def resident(self, staged: int, target: GpuTarget) -> int:
        """Blocks that a multiprocessor is to have at a time: what a thread keeps of operands is the same for all."""
        threads = self._tiling.threads
        return RESIDENT_THREADS[threads] // threads

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
        with steps.loop("strip", self.parts, "warp") as strip:
            column = steps.index("column", "mul", strip, self._strip)
            self._product(steps, operands, stage, (strip, column), ROWS_A_TILE)
