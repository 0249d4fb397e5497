"""Boosted trees: each corrects those before it, and asks the same question of all points at a depth.

Such trees (oblivious ones, Prokhorenkova et al. 2018) are tables of 2 ** depth numbers: small, fast to look up all at
once, and slow to learn what is of a single space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
PART = 512
"""Kernels that are looked up at once: what they are asked takes this times trees times depth bytes."""


@dataclass(frozen=True, eq=False)
class Trees:
    """`places` int16 and `limits` float32 [trees, depth] are which input is asked whether it is above what; `leaves`
    float32 [trees, 2 ** depth] what each answer adds to the `base`."""

    base: float
    places: NDArray[np.int16]
    limits: Floats
    leaves: Floats

    @classmethod
    def mean(cls, forests: Sequence[Trees]) -> Trees:
        """Trees that say what others of one depth say in the mean."""
        places, limits = (np.concatenate([getattr(f, name) for f in forests]) for name in ("places", "limits"))
        leaves = np.asarray(np.concatenate([forest.leaves for forest in forests]) / len(forests), np.float32)
        return cls(float(np.mean([forest.base for forest in forests])), places, limits, leaves)

    def predict(self, inputs: Floats) -> Doubles:
        """What points, or kernels, with these inputs [points, inputs] come to, [points]."""
        parts = [self._predict(inputs[begin : begin + PART]) for begin in range(0, len(inputs), PART)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def predict_together(self, inputs: Floats) -> Doubles:
        """What points with these inputs of their kernels [points, kernels, inputs], NaN for one that a point does not
        have, come to, [points]: the logarithm of the mean of what each kernel's come to the logarithm of."""
        present = ~np.isnan(inputs[:, :, 0])
        return together(self.predict(inputs[present]), np.nonzero(present)[0], len(inputs))[0]

    def _predict(self, inputs: Floats) -> Doubles:
        above = inputs[:, self.places] > self.limits
        leaf = above @ (1 << np.arange(self.places.shape[1])[::-1])
        added = self.leaves[np.arange(len(self.leaves)), leaf].astype(np.float64)
        return np.asarray(self.base + added.sum(1))

    def save(self, path: Path) -> None:
        """Writes an .npz file."""
        np.savez_compressed(path, base=self.base, places=self.places, limits=self.limits, leaves=self.leaves)

    @classmethod
    def load(cls, path: Path) -> Trees:
        """Reads one."""
        with np.load(path) as found:
            return cls(float(found["base"]), found["places"], found["limits"], found["leaves"])


def together(each: Doubles, of: NDArray[np.intp], count: int) -> tuple[Doubles, Doubles]:
    """What kernels `of` so many points come to together, [points], each logarithms [kernels]: the logarithm of their
    mean; and which share of its point's each has, [kernels]."""
    taken = np.exp(each)
    sums = np.bincount(of, taken, count)
    return np.log(sums / np.bincount(of, minlength=count)), taken / sums[of]
