"""The strategies of Hypothesis that the random programs are drawn with, over a seed: a program for every number, on
machines where Hypothesis is not installed, and without its time."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

Strategy = Callable[[random.Random], Any]


def integers(least: int = 0, most: int = 1 << 30) -> Strategy:
    return lambda source: source.randint(least, most)


def booleans() -> Strategy:
    return lambda source: source.random() < 0.5


def sampled_from(choices: Any) -> Strategy:
    choices = list(choices)
    return lambda source: source.choice(choices)


def tuples(*parts: Strategy) -> Strategy:
    return lambda source: tuple(part(source) for part in parts)


def lists(part: Strategy, min_size: int = 0, max_size: int = 10, unique: bool = False) -> Strategy:
    def drawn(source: random.Random) -> list[Any]:
        found: list[Any] = []
        count = source.randint(min_size, max_size)
        while len(found) < count:
            value = part(source)
            if not (unique and value in found):
                found.append(value)
        return found

    return drawn


def sets(part: Strategy, min_size: int = 0, max_size: int = 10) -> Strategy:
    """Sets of up to so many; of fewer where the values repeat."""

    def drawn(source: random.Random) -> set[Any]:
        found = {part(source) for _ in range(source.randint(min_size, max_size))}
        while len(found) < min_size:
            found.add(part(source))
        return found

    return drawn


def fixed_dictionaries(fields: dict[str, Strategy], optional: dict[str, Strategy] | None = None) -> Strategy:
    def drawn(source: random.Random) -> dict[str, Any]:
        found = {name: part(source) for name, part in fields.items()}
        return found | {name: part(source) for name, part in (optional or {}).items() if source.random() < 0.5}

    return drawn


def composite(function: Callable[..., Any]) -> Callable[..., Strategy]:
    def strategy(*arguments: Any, **keywords: Any) -> Strategy:
        return lambda source: function(lambda part: part(source), *arguments, **keywords)

    return strategy


def stand_in() -> None:
    """Takes the place of Hypothesis for modules that are imported from now on."""
    package, strategies = ModuleType("hypothesis"), ModuleType("hypothesis.strategies")
    for each in (integers, booleans, sampled_from, tuples, lists, sets, fixed_dictionaries, composite):
        setattr(strategies, each.__name__, each)
    package.strategies = strategies  # type: ignore[attr-defined]
    strategies.SearchStrategy = Any  # type: ignore[attr-defined]
    sys.modules |= {"hypothesis": package, "hypothesis.strategies": strategies}
