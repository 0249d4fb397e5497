"""A tile's sums on tensor cores where each warp multiplies alone."""

from __future__ import annotations

from contextlib import AbstractContextManager

from explorer.compiler.ir.node import Extent
from explorer.compiler.ir.sharing import LANES
from explorer.compiler.ir.verify.products import COLUMNS_OF_LANES, DEEP, ROWS_OF_LANES, TALL, WIDE
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.gemm.fragments import FragmentSums
from explorer.compiler.schedule.gemm.on_cuda_cores import OTHER_REGISTERS
from explorer.compiler.schedule.inspect.group_by_matrix import GRANULE, ROWS_A_TILE
from explorer.compiler.target import VECTOR, GpuTarget


class TensorSums(FragmentSums):
    """Sums that come by `TALL` rows and `WIDE` columns."""

    tall, wide, warps = TALL, WIDE, 1
    granule = TALL
    lanes = COLUMNS_OF_LANES.members
    apart = COLUMNS_OF_LANES.stride

    @property
    def schedule(self) -> tuple[str, ...]:
        """What a schedule says of it."""
        return (
            f"bind strips of {self._strip} columns @warp, pairs of rows and vectors of {VECTOR} columns @lane",
            f"multiply fragments of 16 x 8 x 8 in {self._precision} on tensor cores",
        )

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
