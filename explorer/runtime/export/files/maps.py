"""The maps that a model's text declares, `map when: edge -> time`, and those that it computes of ids, `when // 24`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import add, floordiv, mul, sub
from typing import Union

from .indices import Indices, Tensor, highest

STEPS: Mapping[str, Callable[[int, int], int]] = {"//": floordiv, "*": mul, "+": add, "-": sub}
"""What is computed of ids, besides a remainder."""
Steps = tuple[tuple[str, Union[int, "Steps"]], ...]
MOST_ROWS = 2**31 - 1
"""That ids of 32 bits are of."""


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
    """A map of ids that are computed of others, which are of the sets `ends`: of the first in steps one after another,
    each with a number, or with what further steps make of the next."""

    name: str
    ends: tuple[str, ...]
    codomain: str
    computed: Steps

    def count(self, counts: Mapping[str, int]) -> int:
        """How many elements such ids may be of, where there are so many of the others."""
        reach = _reach((counts[each] for each in self.ends), self.computed)
        return 0 if reach is None else reach[1] + 1

    def check(self, counts: Mapping[str, int], tables: Mapping[str, str]) -> None:
        """Raises ValueError where the tensor that they pick from, by set one of `tables`, lacks a row for an id that
        there may be, or that 32 bits do not hold."""
        wanted, rows = self.count(counts), counts[self.codomain]
        if wanted > MOST_ROWS:
            raise ValueError(f"{self.name} may lead to {wanted:,} rows, and an id has 32 bits, for {MOST_ROWS:,}.")
        if rows < wanted:
            raise ValueError(f"{self.name} leads to {wanted:,} rows, but {tables[self.codomain]} has {rows:,}.")


def _reach(counts: Iterator[int], steps: Steps) -> tuple[int, int] | None:
    """The least and the greatest id that may be computed where there are so many of the others; None of no ids."""
    count = next(counts)
    found = (0, count - 1) if count else None
    for operator, operand in steps:
        other = (operand, operand) if isinstance(operand, int) else _reach(counts, operand)
        if operator == "%" and isinstance(operand, int):
            found = (0, operand - 1)
        elif found is None or other is None:
            found = None
        else:
            ends = [STEPS[operator](one, another) for one in found for another in other]
            found = (min(ends), max(ends))
    return found


def add_declared(made: Indices, maps: Iterable[DeclaredMap], found: Mapping[str, Tensor], checked: bool) -> None:
    """Adds all that a text declares."""
    for entry in maps:
        entry.add(made, found, checked)
