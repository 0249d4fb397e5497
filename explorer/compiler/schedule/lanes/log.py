"""What was done to put rows on lanes: the lines of a kernel's schedule, noted where it is done."""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.compiler.ir.node import Atom


@dataclass
class LaneLog:
    """How loops over rows were bound, which rows are tiles in registers, and how segments are walked; each once."""

    bound: dict[str, None] = field(default_factory=dict)
    kept: dict[str, None] = field(default_factory=dict)
    walked: dict[str, None] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """A primitive a line."""
        kept = [f"keep in registers: {', '.join(self.kept)}"] if self.kept else []
        return [*self.bound, *kept, *self.walked]

    def add(self, other: LaneLog) -> None:
        """What was done there was done here."""
        self.bound |= other.bound
        self.kept |= other.kept
        self.walked |= other.walked

    def bind(self, width: int, step: int, rounds: int) -> None:
        """A loop over a row's elements is shared by lanes, which go round `rounds` times."""
        self.bound[f"bind a row's elements to {width} lanes"] = None
        if step > 1:
            self.bound[f"vectorise by {step}"] = None
        if rounds > 1:
            stride = f"stride: a lane has kNRegTile = {rounds} vectors of a row, {width} lanes apart"
            self.bound[stride] = None

    def keep(self, row: str) -> None:
        """A row is a tile in registers."""
        self.kept[row] = None

    def load_ahead(self, variable: str, tile: int, lower: Atom, upper: Atom) -> None:
        """So many iterations of a segment have their loads first."""
        last = f"min({lower} + {tile} t + {tile}, {upper}) - 1"
        self.walked[f"load {variable} ahead, {tile} at a time: [{lower} + {tile} t, {last}]"] = None

    def unroll(self, variable: str, times: int) -> None:
        """So many iterations of a segment stand side by side."""
        self.walked[f"unroll {variable} by {times}"] = None
