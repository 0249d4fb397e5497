"""What each choice of a search is worth: the best that was tried without it."""

from __future__ import annotations

from explorer.compiler.decisions import printed_value
from explorer.tuner.points import Points
from explorer.tuner.search import Trials
from explorer.tuner.tune.bench import MACHINE

MOST = 4
"""Choices that are told of."""


def worth(points: Points, chosen: int, trials: Trials, unit: str, how: str) -> list[str]:
    """Of the choices that differ from the usual ones, those of queues apart, in sentences: the best value that was
    tried with the usual one. The most telling first."""
    own, found = points.at(chosen), list[tuple[float, str]]()
    for key, value in points.at(points.usual).items():
        if key.startswith(MACHINE) or own.get(key, value) == value:
            continue
        best = min(trials.times[point] for point in trials.order if points.at(point).get(key) == value)
        told = f"{key} is {printed_value(own[key])}: with {printed_value(value)}, the least that was {how} is"
        found.append((best, f"{told} {shown(best)} {unit}."))
    return [sentence for _, sentence in sorted(found, reverse=True)[:MOST]]


def shown(value: float) -> str:
    """Cycles are large, milliseconds are not whole."""
    return f"{value:,.0f}" if value >= 1e3 else f"{value:.4g}"
