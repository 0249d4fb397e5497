"""A tile's sums on tensor cores: a warp has a strip of columns of all rows, as fragments of its lanes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from explorer.compiler.ir.kernels import Level, Multiply, Precision
from explorer.compiler.ir.node import Extent, Origin
from explorer.compiler.ir.sharing import LANES
from explorer.compiler.ir.verify_products import COLUMNS_OF_LANES, DEEP, PAIR, ROWS_OF_LANES, TALL, WIDE
from explorer.compiler.schedule.grouping import GRANULE, ROWS_A_TILE
from explorer.compiler.schedule.steps import Steps
from explorer.compiler.schedule.thread_sums import OTHER_REGISTERS, REGISTERS
from explorer.compiler.schedule.tiling import VECTOR, Tiling


class TensorSums:
    """Sums of `parts` warps: rows come by `TALL`, of which a lane has `PAIR`, and columns by `WIDE`."""

    granule = TALL
    level: Level = "lane"
    lanes = COLUMNS_OF_LANES.members

    def __init__(self, tiling: Tiling, precision: Precision, origin: Origin) -> None:
        self._tiling, self._precision, self._origin = tiling, precision, origin
        self.parts = tiling.threads // LANES
        self._strip = tiling.columns // self.parts
        self.name = ""

    @property
    def row_extents(self) -> list[int]:
        """The extents of a tile that has an element for each row, by its place among the sums."""
        return [self.parts, ROWS_A_TILE // TALL, ROWS_OF_LANES.members, PAIR]

    @property
    def schedule(self) -> tuple[str, ...]:
        """What a schedule says of it."""
        return (
            f"bind strips of {self._strip} columns @warp, pairs of rows and vectors of {VECTOR} columns @lane",
            f"multiply fragments of 16 x 8 x 8 in {self._precision} on tensor cores",
        )

    def resident(self, staged: int) -> int:
        """Blocks that a multiprocessor is to have at a time, where a thread keeps so many registers of operands that
        are on their way."""
        own = ROWS_A_TILE * (self._strip + DEEP) // LANES + OTHER_REGISTERS
        return max(1, REGISTERS // (self._tiling.threads * (own + staged)))

    def height(self, steps: Steps, rows: Extent) -> Extent:
        """`rows` in units of GRANULE, of which fragments take two at a time."""
        tall = steps.index("tall", "div", steps.index("more", "add", rows, TALL - 1), TALL)
        return steps.index("height", "mul", tall, TALL // GRANULE)

    def clear(self, steps: Steps, hint: str) -> None:
        """The sums, from 0."""
        self.name = steps.tile(hint, [*self.row_extents, self._strip // WIDE, WIDE], "register")
        with (
            steps.loop("strip", self.parts, "warp") as strip,
            steps.loop("y", ROWS_OF_LANES.members, "lane") as down,
            steps.loop("x", WIDE, "lane", step=VECTOR) as across,
            steps.all("tall", ROWS_A_TILE // TALL) as tall,
            steps.all("i", PAIR) as which,
            steps.all("piece", self._strip // WIDE) as piece,
        ):
            steps.store(self.name, [strip, tall, down, which, piece, across], 0.0)

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

    def _product(
        self, steps: Steps, operands: tuple[str, str], stage: Extent, strip: tuple[Extent, Extent], rows: int
    ) -> None:
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
                origin=self._origin,
            )
        )

    @contextmanager
    def rows(self, steps: Steps) -> Iterator[tuple[Extent, tuple[Extent, ...], Extent]]:
        """Each row: its place in the tile, where its sums are, and which part of the columns they are of."""
        with (
            steps.loop("strip", self.parts, "warp") as strip,
            steps.loop("y", ROWS_OF_LANES.members, "lane") as down,
            steps.all("tall", ROWS_A_TILE // TALL) as tall,
            steps.all("i", PAIR) as which,
        ):
            first = steps.index("first", "add", steps.index("first", "mul", down, PAIR), which)
            row = steps.index("row", "add", steps.index("above", "mul", tall, TALL), first)
            yield row, (strip, tall, down, which), strip

    @contextmanager
    def columns(self, steps: Steps, part: Extent) -> Iterator[tuple[Extent, tuple[Extent, ...]]]:
        """Each vector of columns in a part of them: its place in the tile, and where in a row's sums it is."""
        before = steps.index("strip", "mul", part, self._strip)
        with (
            steps.loop("x", WIDE, "lane", step=VECTOR) as across,
            steps.all("piece", self._strip // WIDE) as piece,
        ):
            first = steps.index("first", "add", before, steps.index("first", "mul", piece, WIDE))
            yield steps.index("column", "add", first, across), (piece, across)
