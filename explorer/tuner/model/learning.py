"""Trains what predicts by choices, on recorded spaces: for those who make the weights, and not for users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.tuner.model.choices import NUMBERS, WORDS
from explorer.tuner.model.growing import Growing, grow
from explorer.tuner.model.trees import Floats, Trees

GROWING = Growing(trees=100, depth=6, rate=0.1, rows=0.6, columns=0.4, bins=16)
Example = tuple[Floats, NDArray[np.float64]]
"""Of a space, what the model is given of its points [points, inputs], and their times [points]."""


def learn(spaces: Sequence[Example]) -> Trees:
    """Trees trained on spaces, each a usual point and its like with their times; the others of no valid time are left
    out. Spaces count alike, however many points they have."""
    parts = [(inputs[valid], logs[valid]) for inputs, times in spaces for logs, valid in [_relative(inputs, times)]]
    weights = np.concatenate([np.full(len(logs), 1.0 / len(logs)) for _, logs in parts])
    wanted = np.concatenate([logs for _, logs in parts])
    return grow(np.concatenate([inputs for inputs, _ in parts]), wanted, weights, GROWING)


def _relative(inputs: Floats, times: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The logarithms of times over the usual point's, which is the first that is apart from it in nothing."""
    count = len(NUMBERS) + len(WORDS)
    usual = int(np.flatnonzero((inputs[:, count : 2 * count] == 0).all(1))[0])
    logs = np.log(times) - np.log(times[usual])
    return logs, np.isfinite(logs)
