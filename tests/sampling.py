"""Which cases of a test of many `make test` runs: a part, in which every value of every parameter comes as evenly as
can be. Of the others the sweep runs a part that is drawn likewise, and `make exhaustive` the rest: the three together
run all."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random

import pytest

SWEPT = 2
"""The sweep runs one in so many of the cases that `make test` leaves out: all of them would take it over an hour."""


def mark_the_rest(items: list[pytest.Item]) -> None:
    """Marks with `sweep` or `exhaustive` what is not drawn of the cases of each test that is marked `sampled(N)`: one
    in N is drawn."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for name, cases in tests.items():
        marker = cases[0].get_closest_marker("sampled")
        assert marker is not None
        drawn = sample([_values(case) for case in cases], marker.args[0], name)
        rest = [case for number, case in enumerate(cases) if number not in drawn]
        swept = sample([_values(case) for case in rest], SWEPT, name)
        for number, case in enumerate(rest):
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
