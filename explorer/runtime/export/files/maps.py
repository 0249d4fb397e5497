"""The maps that a model's text declares, `map when: edge -> time`, and those that it computes of ids, `when // 24`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import add, floordiv, mul, sub

from .indices import Indices, Tensor, highest

STEPS: Mapping[str, Callable[[int, int], int]] = {"//": floordiv, "*": mul, "+": add, "-": sub}
"""What is computed of ids with a number, besides a remainder."""


@dataclass(frozen=True)
class DeclaredMap:
    """A map that a call brings: an id in `codomain` for each of the `elements` of `domain`."""

    name: str
    domain: str
    codomain: str
    elements: str

    def add(self, made: Indices, found: Mapping[str, Tensor], checked: bool) -> None:
        """Adds the ids, narrowed, where the kernels have their elements. Raises ValueError for what is no such map."""
        if self.name not in found:
            raise ValueError(f"There is no tensor for {self.name}.")
        ids = found[self.name]
        length = made.counts.setdefault(self.domain, len(ids) if ids.ndim else 0)
        if tuple(ids.shape) != (length,):
            raise ValueError(f"{self.name} has the shape {list(ids.shape)}, but there are {length:,} {self.elements}.")
        most = highest(ids, checked)
        if made.order is not None and self.codomain == made.ordered:
            if most >= len(made.order):
                raise ValueError(f"{self.name} holds {most:,}, but there are {len(made.order):,}.")
            ids = made.leave(made.every(len(made.order)), self.codomain).index_select(0, ids)
        made.arrays[self.name] = made.enter(ids, self.domain)
        made.highest[self.name] = most


@dataclass(frozen=True)
class ComputedMap:
    """A map of ids that are computed of others, which are of the set `end`, with one number after another."""

    name: str
    end: str
    codomain: str
    computed: tuple[tuple[str, int], ...]

    def count(self, rows: int) -> int:
        """How many elements such ids may be of, where there are so many of the others."""
        highest = rows - 1
        for operator, number in self.computed:
            if operator == "%":
                highest, rows = number - 1, number
            elif rows:  # of none there is none
                highest = STEPS[operator](highest, number)
        return max(0, highest + 1)

    def check(self, counts: Mapping[str, int], tables: Mapping[str, str]) -> None:
        """Raises ValueError where the tensor that they pick from, by set one of `tables`, lacks a row for an id that
        there may be."""
        wanted, rows = self.count(counts[self.end]), counts[self.codomain]
        if rows < wanted:
            raise ValueError(f"{self.name} leads to {wanted:,} rows, but {tables[self.codomain]} has {rows:,}.")


def add_declared(made: Indices, maps: Iterable[DeclaredMap], found: Mapping[str, Tensor], checked: bool) -> None:
    """Adds all that a text declares."""
    for entry in maps:
        entry.add(made, found, checked)
