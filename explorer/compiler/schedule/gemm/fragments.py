"""What sums on tensor cores have in common: each warp has a strip of columns of all rows, as its lanes' fragments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from explorer.compiler.ir.kernels import Multiply, Precision
from explorer.compiler.ir.node import Extent, Origin
from explorer.compiler.ir.sharing import LANES
from explorer.compiler.ir.verify.products import PAIR
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.gemm.tiling import Tiling
from explorer.compiler.schedule.inspect.group_by_matrix import ROWS_A_TILE


class FragmentSums(ABC):
    """Sums of `parts` warps: rows come by `tall`, of which a lane has `PAIR`, and columns by `wide`. `warps` of them
    multiply together."""

    tall: int
    wide: int
    warps: int

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
