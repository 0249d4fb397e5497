"""Searches of a space: which points to time, one after another, until the budget is spent.

    trials = Trials(time, budget=32)          time(point) gives milliseconds, infinity for what is not valid
    genetic(points, trials, predicted)        fills it; `trials.best` is the fastest point

The usual schedule is timed first by each, so that what is found is never slower. All are deterministic by their seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from explorer.runtime.budget import own_time
from explorer.tuner.kriging import Kriging
from explorer.tuner.points import ABSENT, Mask, Points

Predicted = NDArray[np.float64] | None
"""What a model expects the points to take, [points], in any unit that grows with time; None without a model."""


class BudgetSpent(Exception):
    """No more trials are left."""


@dataclass
class Trials:
    """What was timed, in its order. A point is timed once; asking again costs nothing."""

    time: Callable[[int], float]
    budget: int
    over: Callable[[float], bool] = lambda longest: False
    """Whether there is no time left for another, by the seconds that the longest took, as the budget is of a number.
    One there is time for in any case."""
    coming: Callable[[list[int]], None] = lambda points: None
    """Told which points are likely to be asked for next, so that they can be compiled ahead."""
    order: list[int] = field(default_factory=list)
    times: dict[int, float] = field(default_factory=dict)
    longest: float = 0.0
    was_late: bool = False
    """Whether one was not begun because there was no time."""

    def take(self, point: int) -> float:
        """The time of a point. Raises BudgetSpent."""
        if point not in self.times:
            if self.order and len(self.order) >= self.budget:
                raise BudgetSpent
            if self.order and self.over(self.longest):
                self.was_late = True
                raise BudgetSpent
            self.order.append(point)
            began = own_time()
            self.times[point] = self.time(point)
            self.longest = max(self.longest, own_time() - began)
        return self.times[point]

    @property
    def best(self) -> int:
        """The fastest point, the first of several."""
        return min(self.order, key=self.times.__getitem__)

    @property
    def curve(self) -> NDArray[np.float64]:
        """The best time after each trial, float64 [trials]."""
        return np.minimum.accumulate([self.times[point] for point in self.order])

    def left(self, count: int) -> Mask:
        """Which of so many points were not timed yet."""
        mask = np.ones(count, np.bool_)
        mask[self.order] = False
        return mask


CONFIDENT = 1.2
"""How many times as fast as the usual point a model's first choice is predicted to be, at least, to be taken without a
trial: of the recorded spaces, left out alone or with their kernel, two are, and all of those gain (1.07 to 1.35)."""


def confident_choice(points: Points, predicted: Predicted) -> int:
    """The point that a model takes with no trial at all: what it expects to be the fastest, where it is CONFIDENT."""
    if predicted is None:
        return points.usual
    likely = int(np.argmin(predicted))
    return likely if predicted[points.usual] > CONFIDENT * predicted[likely] else points.usual


class Search(Protocol):
    """One of this module's."""

    def __call__(self, points: Points, trials: Trials, predicted: Predicted, seed: int = 0) -> None: ...


@dataclass(frozen=True)
class Breeding:
    """G-Sparse's numbers (§III-D): of the points that are predicted to be the best, `kept` are chosen from, 5 to 20; a
    population of 16 whose 6 fastest live on, 3 generations, and a mutation of one child in five. With `generations` 0,
    generations follow one another until the budget is spent."""

    kept: int = 20
    population: int = 16
    elite: int = 6
    generations: int = 3
    mutation: float = 0.2


SAMPLED = 3
"""Points that the random mode times."""


def at_random(points: Points, trials: Trials, predicted: Predicted = None, seed: int = 0) -> None:
    """Points at random, each once: the baseline. What is predicted is not looked at."""
    try:
        trials.take(points.usual)
        _take_all(trials, np.random.default_rng(seed).permutation(len(points)).tolist())
    except BudgetSpent:
        pass


def sampled(points: Points, trials: Trials, predicted: Predicted, seed: int = 0) -> None:
    """G-Sparse's random mode: three at random of the points that are predicted to be the best, and kept."""
    random = np.random.default_rng(seed)
    likely = _likely(points, predicted, random)[: Breeding.kept]
    try:
        trials.take(points.usual)
        _take_all(trials, random.permutation(likely)[:SAMPLED].tolist())
    except BudgetSpent:
        pass


def as_predicted(points: Points, trials: Trials, predicted: Predicted, seed: int = 0) -> None:
    """The points from what is predicted to be the best on; the model is believed."""
    try:
        trials.take(points.usual)
        _take_all(trials, _likely(points, predicted, np.random.default_rng(seed)).tolist())
    except BudgetSpent:
        pass


def genetic(
    points: Points, trials: Trials, predicted: Predicted, seed: int = 0, breeding: Breeding | None = None
) -> None:
    """G-Sparse's genetic search: children of two points that roulette picks by 1/time, a gene of either, some with one
    gene changed; what is not valid, or was timed, is repaired to the nearest point that was not."""
    how = breeding or Breeding()
    random = np.random.default_rng(seed)
    likely = _likely(points, predicted, random)
    first = likely[: how.kept][: how.population] if predicted is not None else likely[: how.population]
    try:
        trials.take(points.usual)
        population = [int(point) for point in first]
        generation = 0
        while generation < how.generations or not how.generations:
            times = np.array(_take_all(trials, population))
            ranked = [population[place] for place in np.argsort(times, kind="stable")]
            left = trials.left(len(points))
            children = list[int]()
            while len(children) < how.population - how.elite and left.any():
                child = _child(points, random, population, times, how.mutation)
                children.append(points.repaired(child, left))
                left[children[-1]] = False
            if not children:
                return
            population = [*ranked[: how.elite], *children]
            generation += 1
        _take_all(trials, population)
    except BudgetSpent:
        pass


def _take_all(trials: Trials, points: list[int]) -> list[float]:
    """The times of points, in turn. Raises BudgetSpent."""
    found = []
    for place, point in enumerate(points):
        trials.coming(points[place : place + AHEAD])
        found.append(trials.take(point))
    return found


def _likely(points: Points, predicted: Predicted, random: np.random.Generator) -> NDArray[np.intp]:
    """The points from the one that is predicted to be the best on; in any order without a model."""
    return random.permutation(len(points)) if predicted is None else np.argsort(predicted, kind="stable")


def _child(
    points: Points, random: np.random.Generator, population: list[int], times: NDArray[np.float64], mutation: float
) -> NDArray[np.int16]:
    """The ordinals [genes] of a child, valid or not."""
    fitness = np.where(np.isfinite(times), 1.0 / np.maximum(times, 1e-12), 0.0)
    shares = fitness / fitness.sum() if fitness.sum() else np.full(len(times), 1.0 / len(times))
    one, other = (points.ordinals[population[place]] for place in random.choice(len(population), 2, p=shares))
    child = np.where(random.random(len(one)) < 0.5, one, other)
    child = np.asarray(np.where(child == ABSENT, np.maximum(one, other), child), np.int16)
    if random.random() < mutation:
        gene = random.integers(len(child))
        child[gene] = random.integers(points.counts[gene])
    return child


AHEAD = 16
"""Points that are told as coming, the next one first."""


def guided(points: Points, trials: Trials, predicted: Predicted, seed: int = 0) -> None:
    """Ours: what is predicted is corrected by what was timed (`kriging`), and the point is taken next that is expected
    to improve on the best the most (Jones, Schonlau and Welch 1998). Of points that are as good the first is taken;
    without a model, where that is most of them at first, any."""
    base = None if predicted is None else np.log(np.maximum(predicted, 1e-12))
    known, random = Kriging(points, base), np.random.default_rng(seed)
    try:
        _take_known(trials, points.usual, known)
        while len(trials.order) < len(points):
            _take_known(trials, _most_promising(known, trials, random, predicted is not None), known)
    except BudgetSpent:
        pass


def _take_known(trials: Trials, point: int, known: Kriging) -> None:
    """Takes a point, and notes its time if it has one. Raises BudgetSpent."""
    if np.isfinite(time := trials.take(point)):
        known.add(point, float(np.log(time)))


def _most_promising(known: Kriging, trials: Trials, random: np.random.Generator, is_led: bool) -> int:
    """The point that was not timed with the largest expected improvement."""
    left = trials.left(len(known.base))
    valid = [trials.times[point] for point in trials.order if np.isfinite(trials.times[point])]
    if not valid and is_led:
        return int(np.argmin(np.where(left, known.base, np.inf)))
    if not valid:
        return int(random.choice(np.flatnonzero(left)))
    gain = np.where(left, _expected_improvement(float(np.log(min(valid))), *known.expected()), -np.inf)
    best = np.flatnonzero(gain >= gain.max() - 1e-15)
    found = int(best[0 if is_led else random.integers(len(best))])
    trials.coming([found, *np.argsort(-gain, kind="stable")[:AHEAD].tolist()])
    return found


def _expected_improvement(
    best: float, mean: NDArray[np.float64], deviation: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How much a normal variable lies below the best in the mean, what lies above counting as nothing."""
    z = (best - mean) / deviation
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(deviation * (z * _below(z) + density))


def _below(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of a standard normal variable below z, to 1e-7 (Abramowitz and Stegun 1964, 26.2.17)."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    terms = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
    tail = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * sum(c * t ** (n + 1) for n, c in enumerate(terms))
    return np.asarray(np.where(z >= 0, 1.0 - tail, tail))
