"""The baseline that the network is held against: trees, each of which corrects those before it, by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Example = tuple[NDArray[np.float32], NDArray[np.float64]]


class Boosted:
    """Trees trained on the logarithms of times relative to the best of their space. Raises ImportError without
    scikit-learn."""

    def __init__(self, spaces: Sequence[Example], seed: int = 0) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor

        valid = [(inputs[np.isfinite(times)], times[np.isfinite(times)]) for inputs, times in spaces]
        wanted = np.concatenate([np.log(times / times.min()) for _, times in valid])
        model = HistGradientBoostingRegressor(max_iter=300, learning_rate=0.05, random_state=seed)
        self._model: Any = model.fit(np.concatenate([inputs for inputs, _ in valid]), wanted)

    def predict(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """What points with these inputs, [points, inputs], take relative to the best of their space, [points]."""
        return np.asarray(np.exp(self._model.predict(inputs)), np.float64)
