"""How evenly a class's waits are shared out among its students, and how unevenly the same waits would be by chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

DEALS = 2_000


def uneven(waits: Sequence[Sequence[float]]) -> float:
    """The longest mean wait of a student over the median one; `waits` [students][runs], in s, none of them empty."""
    return _uneven(np.concatenate(waits), _starts(waits))


def uneven_by_chance(waits: Sequence[Sequence[float]]) -> tuple[float, float]:
    """What the middle 95 % of that is where the same waits are dealt to the students at random, to each as many as
    there were: a queue that looks at nobody shares them out like this."""
    every, starts, random = np.concatenate(waits), _starts(waits), np.random.default_rng(0)
    found = [_uneven(random.permutation(every), starts) for _ in range(DEALS)]
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


def _starts(waits: Sequence[Sequence[float]]) -> np.ndarray:
    """Where each student's begin among all."""
    return np.cumsum([0, *map(len, waits)])[:-1]


def _uneven(every: np.ndarray, starts: np.ndarray) -> float:
    means = np.add.reduceat(every, starts) / np.diff([*starts, len(every)])
    return float(means.max() / np.median(means))
