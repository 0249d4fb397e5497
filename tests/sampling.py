"""Which cases of a test of many `make test` runs: a part, in which every value of every parameter comes as evenly as
can be. Of the others the sweep runs a part that is drawn likewise, and `make exhaustive` the rest: the three together
run all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random

import pytest

SWEPT = 6
"""The sweep runs one in so many of the cases that `make test` leaves out: all of them would take it over an hour."""


def mark_the_rest(items: list[pytest.Item]) -> None:
    """Marks with `sweep` or `exhaustive` what `make test` leaves out of each test of many: of one marked `sampled(N)`
    what is not among one in N, of one marked `swept(N)` all. Of the former the sweep has one in `SWEPT`, or in M
    where `sampled(N, M)` says so, of the latter one in N."""
    for name, (apart, *swept), cases in _of_many(items, "sampled"):
        drawn = sample([_values(case) for case in cases], apart, name)
        _divide([case for number, case in enumerate(cases) if number not in drawn], *(swept or [SWEPT]), name)
    for name, (apart,), cases in _of_many(items, "swept"):
        _divide(cases, apart, name)


def _of_many(items: list[pytest.Item], marker: str) -> Iterator[tuple[str, tuple[int, ...], list[pytest.Item]]]:
    """The tests with that marker: name, arguments, cases."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker(marker):
            tests[item.nodeid.partition("[")[0]].append(item)
    for name, cases in tests.items():
        found = cases[0].get_closest_marker(marker)
        assert found is not None
        yield name, found.args, cases


def _divide(cases: list[pytest.Item], apart: int, name: str) -> None:
    """One in `apart` cases is the sweep's."""
    swept = sample([_values(case) for case in cases], apart, name)
    for number, case in enumerate(cases):
        case.add_marker(pytest.mark.sweep if number in swept else pytest.mark.exhaustive)


def sample(cases: list[tuple[str, ...]], apart: int, seed: str) -> set[int]:
    """The numbers of one in `apart` cases, each the values of its parameters, the same for the same seed.

    Next comes one whose values have been drawn the least so far, the first such in a random order."""
    order = list(range(len(cases)))
    Random(seed).shuffle(order)
    seen: Counter[tuple[int, str]] = Counter()
    drawn: set[int] = set()
    for _ in range(-(-len(cases) // apart)):
        left = [number for number in order if number not in drawn]
        best = min(left, key=lambda number: sum(seen[pair] for pair in enumerate(cases[number])))
        drawn.add(best)
        seen.update(enumerate(cases[best]))
    return drawn


def _values(item: pytest.Item) -> tuple[str, ...]:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return tuple(repr(value) for _, value in sorted(params.items()))
