"""How far times are off what is predicted, over all points of a space, by the few that were timed: ordinary kriging.

Errors of the logarithm are thought to be a Gaussian process over the genes. How far errors are alike (one of REACHES),
and how much of what is predicted is believed (one of BELIEFS), is what makes the times that were seen most likely.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.tuner.points import ABSENT, Points

Doubles = NDArray[np.float64]

REACHES = (0.3, 0.6, 1.2)
"""Distances in normalised ordinals over which errors are alike, for a gene that is looked at alone."""
BELIEFS = (0.0, 0.25, 0.5, 1.0)
"""Shares of what is predicted, in logarithms."""
NOISE = 0.1
"""Deviation of a time from what it would be in the mean, as a share of the errors' deviation."""
USUAL, WEIGHT = 0.1, 2.0
"""The errors' deviation before any was seen, and how many errors that counts as."""
MISSING = 0.75
"""Squared distance of a gene that one of two points does not have, beyond that to its middle."""


class Kriging:
    """What is known of all points by the `base`, the logarithms that are predicted [points], and the times so far."""

    def __init__(self, points: Points, base: Doubles | None) -> None:
        self.base = np.zeros(len(points)) if base is None else base
        self._beliefs = (0.0,) if base is None else BELIEFS
        self._grown = [_Grown.of(points, reach) for reach in REACHES]

    def add(self, point: int, logarithm: float) -> None:
        """The logarithm of a point's time."""
        for grown in self._grown:
            grown.add(point, np.array([1.0, logarithm, self.base[point]]))

    def expected(self) -> tuple[Doubles, Doubles]:
        """The mean and the deviation of the logarithms of all points, [points], of which one at least is known."""
        found = [(grown, belief) for grown in self._grown for belief in self._beliefs]
        grown, belief = max(found, key=lambda pair: _Fit.of(*pair).likelihood)
        fit = _Fit.of(grown, belief)
        mean = belief * self.base + fit.offset + fit.errors @ grown.solved
        return mean, np.sqrt(np.maximum(fit.variance * grown.left, 1e-12))


@dataclass(frozen=True)
class _Fit:
    """Errors of the known points, each without what those before it say of it, [known]; their offset and variance."""

    offset: float
    errors: Doubles
    variance: float
    likelihood: float

    @classmethod
    def of(cls, grown: _Grown, belief: float) -> _Fit:
        one, logarithms, base = grown.known.T
        found = logarithms - belief * base
        offset = float(one @ found) / float(one @ one)
        errors = found - offset * one
        variance = (float(errors @ errors) + WEIGHT * USUAL**2) / (len(errors) + WEIGHT)
        unlikely = (len(errors) + WEIGHT) / 2 * np.log(variance) + grown.volume
        return cls(offset, errors, variance, -unlikely - (1.0 - belief))


@dataclass(eq=False)
class _Grown:
    """A Cholesky factor of how alike the known points are, which grows by a row for each: `solved` [known, points] and
    `known` [known, 3] are what it makes of how alike all points are to them, and of what is known of them; `left` is
    the share of the variance that is left at each point, `volume` the logarithm of the factor's determinant."""

    at: Doubles
    reach: float
    solved: Doubles
    known: Doubles
    left: Doubles
    volume: float = 0.0

    @classmethod
    def of(cls, points: Points, reach: float) -> _Grown:
        count = len(points)
        reach *= np.sqrt(max(1, len(points.genes)))
        return cls(_places(points), reach, np.zeros((0, count)), np.zeros((0, 3)), np.ones(count))

    def add(self, point: int, told: Doubles) -> None:
        """Adds a row."""
        alike = np.exp(-((self.at - self.at[point]) ** 2).sum(1) / (2 * self.reach**2))
        before = self.solved[:, point].copy()
        pivot = float(np.sqrt(1.0 + NOISE**2 - before @ before))
        self.solved = np.vstack([self.solved, (alike - before @ self.solved) / pivot])
        self.known = np.vstack([self.known, (told - before @ self.known) / pivot])
        self.left = self.left - self.solved[-1] ** 2
        self.volume += np.log(pivot)


def _places(points: Points) -> Doubles:
    """Where points lie [points, axes]: an axis for a gene of numbers and one for each word, where two that differ are 1
    apart, and one that tells whether a gene is there; without it, it counts as in the middle."""
    columns = list[Doubles]()
    for number, gene in enumerate(points.genes):
        ordinals = points.ordinals[:, number]
        has = ordinals != ABSENT
        if any(isinstance(value, str) for value in gene.values):
            columns += [(ordinals == place) * np.sqrt(0.5) for place in range(len(gene.values))]
        else:
            columns.append(np.where(has, points.coordinates[:, number], 0.5).astype(np.float64))
        if not has.all():
            columns.append(has * np.sqrt(MISSING))
    return np.stack(columns, 1) if columns else np.zeros((len(points), 1))
