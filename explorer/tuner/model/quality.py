"""How good predictions are: in how far they follow the times, and whether the best points are among the first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]


def pearson(predicted: Times, times: Times) -> float:
    """Pearson's r of the logarithms, over the points that are valid; 0 where one of them is the same everywhere."""
    valid = np.isfinite(times)
    one, other = np.log(predicted[valid]), np.log(times[valid])
    one, other = one - one.mean(), other - other.mean()
    size = float(np.sqrt((one**2).sum() * (other**2).sum()))
    return float((one * other).sum()) / size if size > 1e-12 else 0.0


def recall(predicted: Times, times: Times, count: int) -> float:
    """The share of the `count` fastest points that are among the `count` that are predicted to be the fastest. Points
    that are as fast as the last of them may stand for it."""
    valid = np.flatnonzero(np.isfinite(times))
    first = valid[np.argsort(predicted[valid], kind="stable")[:count]]
    last = np.sort(times[valid])[min(count, len(valid)) - 1]
    return float((times[first] <= last).sum()) / min(count, len(valid))


def first_choice(predicted: Times, times: Times) -> float:
    """How much longer than the best the point takes that is predicted to be the best, as a factor."""
    valid = np.flatnonzero(np.isfinite(times))
    return float(times[valid[np.argmin(predicted[valid])]] / times[valid].min())
