"""What kernels store in arrays and tiles of indices, and what is said of it to those that read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.compiler.frozen import replace
from explorer.compiler.ir.facts import Fact
from explorer.compiler.ir.node import Extent

STORED = "all that kernels store there is"
"""Why a fact holds of an array that kernels have made."""
LEAST_CONTENTS = (1, 0, -1)
"""What the elements of a tile of indices may be at least: places, or one that says that there is none."""


@dataclass(frozen=True)
class Contents:
    """What all elements of a tile are: `least` or more, if that is known, less than each of some extents, and `above`
    some mirrored below 0, `-nodes <= -1 - n`, as what is 0 or more is of all."""

    least: int | None = None
    most: int | None = None
    less_than: frozenset[Extent] = frozenset()
    at_most: frozenset[Extent] = frozenset()
    above: frozenset[Extent] = frozenset()
    rank: int = 0

    def meet(self, other: Contents) -> Contents:
        """What holds of both."""
        least = None if self.least is None or other.least is None else min(self.least, other.least)
        most = None if self.most is None or other.most is None else max(self.most, other.most)
        return Contents(
            least,
            most,
            self.less_than & other.less_than,
            self.at_most & other.at_most,
            frozenset(each for each in self.above | other.above if self.is_above(each) and other.is_above(each)),
            max(self.rank, other.rank),
        )

    def widened(self, other: Contents) -> Contents:
        """What holds of both, without numbers that go on falling or growing, so that it ends: in a loop, what is stored
        may come from what was there before."""
        both = self.meet(other)
        least = both.least if both.least == self.least or both.least in LEAST_CONTENTS else None
        return replace(both, least=least, most=both.most if both.most == self.most else None)

    def is_above(self, extent: Extent) -> bool:
        """Whether all elements are above an extent mirrored below 0."""
        return extent in self.above or (self.least is not None and self.least >= 0)

    def within(self, rank: int) -> Contents:
        """The same, of an array of so many dimensions."""
        return replace(self, rank=rank)

    def facts(self, array: str) -> Iterator[Fact]:
        """The same, said of an array."""
        element = f"{array}[{', '.join(f'_{place}' for place in range(self.rank))}]"
        if self.least is not None:
            yield Fact(f"{self.least} <= {element}", STORED)
        if self.most is not None:
            yield Fact(f"{element} <= {self.most}", STORED)
        for extent in sorted(self.less_than, key=str):
            yield Fact(f"{element} < {extent}", STORED)
        for extent in sorted(self.above, key=str):
            yield Fact(f"-{extent} <= {element}", STORED)
        for extent in sorted(self.at_most - self.less_than, key=str):
            yield Fact(f"{element} <= {extent}", STORED)
