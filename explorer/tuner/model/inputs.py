"""What the model is given of each point of a space: a vector of numbers, whatever the model's kernels and data are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.tuner.features.data import CAPACITIES
from explorer.tuner.features.launches import NAMES, total
from explorer.tuner.recorded import Recorded

OF_LISTS = ("lists", "mean", "longest", "spread")
OF_PICKS = ("picks", "rows", "busiest", "spread", *(f"served by {rows}" for rows in CAPACITIES))
WIDTH = 2 * len(NAMES) + 1 + len(OF_LISTS) + len(OF_PICKS)
"""Numbers of a point: the sums and the largest of its launches' features, how many launches there are, and of the
data the arrays with the most lists and the most rows that are picked."""


def inputs_of(launches: Sequence[NDArray[np.float32]], data: Mapping[str, float]) -> NDArray[np.float32]:
    """What the model is given of points with these launches, each float32 [launches, NAMES], on this data, float32
    [points, WIDTH]."""
    told = of_data(data)
    return np.concatenate([total(launches), np.broadcast_to(told, (len(launches), len(told)))], axis=1)


def of_data(data: Mapping[str, float]) -> NDArray[np.float32]:
    """What is told of the data: of the arrays with the most lists and with the most rows that are picked."""
    return np.array([*_largest(data, "lists", OF_LISTS), *_largest(data, "rows", OF_PICKS)], np.float32)


def recorded_inputs(space: Recorded) -> NDArray[np.float32]:
    """The same of all points of a recorded space. Raises ValueError where its features are others."""
    if space.feature_names != NAMES:
        raise ValueError(f"{space.name} was recorded with other features: record it again")
    return inputs_of([space.features_of(point) for point in range(len(space.points))], space.data)


def _largest(data: Mapping[str, float], by: str, names: Iterable[str]) -> list[float]:
    """What is told of the array with the most of something; zeros where there is none."""
    arrays = {key.rpartition(".")[0]: value for key, value in data.items() if key.rpartition(".")[::2][1] == by}
    arrays.pop("", None)  # numbers of that name
    if not arrays:
        return [0.0 for _ in names]
    first = max(arrays, key=arrays.__getitem__)
    return [data[f"{first}.{name}"] for name in names]
