"""Trains what predicts by choices, on recorded spaces: for those who make the weights, and not for users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from explorer.tuner.model.choices import CHOSEN, Model
from explorer.tuner.model.growing import Growing, grow, grow_together
from explorer.tuner.model.trees import Floats, Trees

GROWING = Growing(trees=100, depth=6, rate=0.1, rows=0.6, columns=0.4, bins=16)
FORESTS = 2
"""Grown of other shares of points and inputs each, and taken in the mean: one alone is now and then far off on a space,
as any drawing is."""
MOST_POINTS = 400
"""Of a space that the forest of kernels learns from, drawn from all: spaces count alike, and it has several rows of
each point."""
Example = tuple[Floats, NDArray[np.float64]]
"""Of a space, what the model is given of its points [points, 1 + kernels, inputs], and their times [points]."""


def learn(spaces: Sequence[Example]) -> Model:
    """A model trained on spaces, each a usual point and its like with their times; the others of no valid time are left
    out. Spaces count alike, however many points they have."""
    most = max(inputs.shape[1] for inputs, _ in spaces)
    whole = [_relative(inputs[:, :1], times) for inputs, times in spaces]
    kernels = [_some(*_relative(_padded(inputs, most)[:, 1:], times)) for inputs, times in spaces]
    return Model(_forest(grow, [(inputs[:, 0], logs) for inputs, logs in whole]), _forest(grow_together, kernels))


def _forest(grown: Callable[..., Trees], spaces: Sequence[Example]) -> Trees:
    """Trees that are grown of spaces."""
    weights = np.concatenate([np.full(len(logs), 1.0 / len(logs)) for _, logs in spaces])
    every, wanted = (np.concatenate([space[place] for space in spaces]) for place in (0, 1))
    return Trees.mean([grown(every, wanted, weights, replace(GROWING, seed=seed)) for seed in range(FORESTS)])


def _some(inputs: Floats, logs: NDArray[np.float64]) -> Example:
    if len(logs) <= MOST_POINTS:
        return inputs, logs
    drawn = np.sort(np.random.default_rng(0).choice(len(logs), MOST_POINTS, replace=False))
    return inputs[drawn], logs[drawn]


def _padded(inputs: Floats, kernels: int) -> Floats:
    """The same with so many kernels, of which points have none but their own."""
    wider = np.full((len(inputs), kernels, inputs.shape[2]), np.nan, np.float32)
    wider[:, : inputs.shape[1]] = inputs
    return wider


def _relative(inputs: Floats, times: NDArray[np.float64]) -> Example:
    """What is given of points that have a time, and the logarithms of that over the usual point's: of the first that is
    apart from it in nothing that is given."""
    differing = np.nan_to_num(inputs[:, :, CHOSEN : 2 * CHOSEN])
    usual = int(np.flatnonzero((differing == 0).all((1, 2)))[0])
    logs = np.log(times) - np.log(times[usual])
    return inputs[np.isfinite(logs)], logs[np.isfinite(logs)]
