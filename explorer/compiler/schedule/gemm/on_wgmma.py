"""A tile's sums on tensor cores where four warps multiply together."""

from __future__ import annotations

from contextlib import AbstractContextManager

from explorer.compiler.ir.node import Extent
from explorer.compiler.ir.verify.products import GRANULE, GRANULES_OF_LANES, STRIP, STRIP_OF_LANES, WARPS
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.gemm.fragments import FragmentSums
from explorer.compiler.schedule.inspect.group_by_matrix import ROWS_A_TILE
from explorer.compiler.target import VECTOR, GpuTarget

RESIDENT_THREADS = {128: 384, 256: 512}
"""Threads that a multiprocessor is to have, by those of a block: half of a thread's registers are sums."""


class WarpgroupSums(FragmentSums):
    """Sums that come by `GRANULE` rows and `STRIP` columns; all tiles are multiplied as high ones."""

    tall, wide, warps = GRANULE, STRIP, WARPS
    granule = ROWS_A_TILE
    lanes = STRIP_OF_LANES.members
    apart = STRIP_OF_LANES.stride

    @property
    def schedule(self) -> tuple[str, ...]:
        """What a schedule says of it."""
        return (
            f"bind strips of {self._strip} columns @warp, pairs of rows and vectors of {VECTOR} columns @lane",
            f"multiply fragments of 64 x {ROWS_A_TILE} x 8 in {self._precision} on tensor cores, by {WARPS} warps",
        )

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
