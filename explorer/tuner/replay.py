"""Searches replayed on spaces that were measured whole, and scored against random search.

The score is that of the autotuning community's methodology (Willemsen et al., "A methodology for comparing optimization
algorithms for auto-tuning", 2024): 0 is the best time that random search is expected to have by then, a formula; 1 is
the optimum at once; the mean of that over a budget, which goes to where random search is expected to have come 95 % of
the way from the median to the optimum. Random search draws from the points that are valid, each once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.tuner.points import Points
from explorer.tuner.search import Predicted, Search, Trials

CUTOFF = 0.95
"""The share of the way from the median to the optimum at which a budget ends."""
REPLAYS = 500

Times = NDArray[np.float64]


def expected_random(times: Times, budget: int) -> Times:
    """The best time that random search is expected to have after each of so many draws without replacement, float64
    [budget].

    Of N times in order, the i-th is the best of k with probability C(N - i, k - 1) / C(N, k)."""
    ordered = np.sort(times[np.isfinite(times)])
    count = len(ordered)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])  # of factorials
    found = np.full(budget, ordered[0])
    for k in range(1, min(budget, count) + 1):
        above = np.arange(count - 1, k - 2, -1)  # how many are slower than the i-th, where those suffice for the rest
        chosen = logs[above] - logs[k - 1] - logs[above - k + 1]
        every = logs[count] - logs[k] - logs[count - k]
        found[k - 1] = float(np.exp(chosen - every) @ ordered[: len(above)])
    return found


def budget_of(times: Times, cutoff: float = CUTOFF) -> int:
    """How many draws random search is expected to need to the cut-off between the median and the optimum."""
    valid = times[np.isfinite(times)]
    best, median = float(valid.min()), float(np.median(valid))
    goal = best + (median - best) * (1 - cutoff)
    most = 64
    while True:
        reached = np.flatnonzero(expected_random(times, most) <= goal)
        if reached.size:
            return int(reached[0]) + 1
        if most >= len(valid):
            return len(valid)
        most = min(4 * most, len(valid))


@dataclass(frozen=True, eq=False)
class Replays:
    """Best times after each trial, float64 [replays, budget], of a space with these times [points]."""

    curves: NDArray[np.float64]
    times: Times

    @property
    def score(self) -> float:
        """The methodology's: 0 as random search, 1 the optimum at once, below 0 worse than random."""
        optimum = float(self.times.min())
        expected = expected_random(self.times, self.curves.shape[1])
        room = expected > optimum
        if not room.any():
            return 0.0
        gained = (expected - self.curves.mean(0))[room] / (expected - optimum)[room]
        return float(gained.mean())

    def within(self, share: float) -> float:
        """The share of replays whose best is at most so much slower than the optimum."""
        return float((self.curves[:, -1] <= (1 + share) * float(self.times.min())).mean())


def replayed(
    points: Points,
    times: Times,
    search: Search,
    predicted: Predicted,
    budget: int,
    seeds: Iterable[int] = range(REPLAYS),
) -> Replays:
    """A search run once for each seed, on times that are known. A search that ends early keeps what it has found; until
    a valid point is found, the slowest one stands for it."""
    slowest = float(times[np.isfinite(times)].max())
    curves = []
    for seed in seeds:
        trials = Trials(lambda point: float(times[point]), budget)
        search(points, trials, predicted, seed=seed)
        curve = np.minimum(trials.curve, slowest)
        curves.append(np.concatenate([curve, np.full(budget - len(curve), curve[-1])]))
    return Replays(np.array(curves), times)
