"""The left operand of a product whose rows are sums over segments: taken on the way into shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Extent
from explorer.compiler.schedule.grouping import GRANULE, ROWS_A_TILE
from explorer.compiler.schedule.operands import PADDING
from explorer.compiler.schedule.products import Product, Segment
from explorer.compiler.schedule.steps import Steps
from explorer.compiler.schedule.tiling import TilePlace, Tiling

IN_FLIGHT = 4
"""Elements of a segment that are loaded side by side: their rows are short (D / 4 lanes each)."""


class SegmentOperand:
    """The rows: each has as many threads as there are vectors in a slab, and those walk its segment."""

    copied = False

    def __init__(self, product: Product, segment: Segment, tiling: Tiling, depth: int) -> None:
        self._product, self._segment, self._tiling, self._depth = product, segment, tiling, depth
        self._down = tiling.threads // (tiling.depth // tiling.depth_step)
        self._passes = ROWS_A_TILE // self._down
        self.registers = 2 * self._passes
        stop = next(s for s in product.head if loops.result_of(s) == segment.stop)
        assert isinstance(stop, loops.Load)
        self._stop = stop
        self._begins = self._stops = self.name = ""

    def declare(self, steps: Steps) -> None:
        """The slab in shared memory, and where the segments of a thread's rows begin and stop."""
        self.name = steps.tile("left", self._tiling.left_extents, "shared", padding=PADDING)
        rows = [self._passes, self._down]
        self._begins, self._stops = (steps.tile(hint, rows, "register", type="i32") for hint in ("begins", "stops"))

    def prepare(self, steps: Steps, place: TilePlace) -> None:
        """Where each row's segment begins and stops: looked up for all rows of a thread before the first is summed."""
        product, stop = self._product, self._stop
        with self._each(steps) as (which, down, _):
            row = steps.index("row", "add", steps.index("first", "mul", which, self._down), down)
            begin = place.row(steps, row)
            known = steps.copy([stop], {**place.known, product.rows.variable: begin})
            steps.store(self._begins, [which, down], begin)
            steps.store(self._stops, [which, down], known[stop.result])

    def load(self, steps: Steps, place: TilePlace, slab: Extent, stage: Extent) -> None:
        """Nothing: a sum is not a load that could wait in registers."""

    @contextmanager
    def _each(self, steps: Steps) -> Iterator[tuple[Extent, str, str]]:
        """Each element of a slab: the pass, the row in it, and the place along the depth."""
        tiling = self._tiling
        with (
            steps.loop("row", self._down, "thread") as down,
            steps.loop("q", tiling.depth, "thread", step=tiling.depth_step) as along,
            steps.all("pass", self._passes) as which,
        ):
            yield which, down, along

    def store(self, steps: Steps, place: TilePlace, slab: Extent, stage: Extent) -> None:
        """Takes the sums and stores them; what lies behind the depth is 0."""
        product, tiling = self._product, self._tiling
        with self._each(steps) as (which, down, along):
            first = steps.index("first", "mul", which, self._down)
            rows = steps.index("rows", "mul", place.height, GRANULE)
            row, depth = steps.index("row", "add", first, down), steps.index("d", "add", slab, along)
            at = tiling.left_place(stage, row, along)
            with steps.where(first, "<", rows):
                with steps.where(depth, "<", product.depth_extent, needed=bool(self._depth % tiling.depth)):
                    begin = steps.load("begin", self._begins, which, down)
                    stop = steps.load("stop", self._stops, which, down)
                    steps.store(self.name, at, self._sum(steps, place, (begin, stop), depth))
                if self._depth % tiling.depth:
                    with steps.where(product.depth_extent, "<=", depth):
                        steps.store(self.name, at, 0.0)

    def _sum(self, steps: Steps, place: TilePlace, bounds: tuple[str, str], depth: Extent) -> str:
        product, segment = self._product, self._segment
        begin, stop = bounds
        known = {**place.known, product.rows.variable: begin, product.depth: depth}
        total = steps.names.new("s")
        steps.add(loops.Accumulator(name=total, start=0.0, origin=product.origin))
        *before, added = product.prologue
        assert isinstance(added, loops.Accumulate)
        with steps.segment(segment.variable, begin, stop, IN_FLIGHT) as element:
            known = steps.copy([*segment.scalars, *before], {**known, segment.variable: element})
            part = loops.Accumulate(
                target=added.target,
                indices=(),
                reduction=added.reduction,
                function=added.function,
                operands=added.operands,
                origin=added.origin,
            )
            steps.copy([part], {**known, added.target: total})
        return total
