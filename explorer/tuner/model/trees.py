"""Boosted trees: each corrects those before it, and asks the same question of all points at a depth.

Such trees (oblivious ones, Prokhorenkova et al. 2018) are tables of 2 ** depth numbers: small, fast to look up all at
once, and slow to learn what is of a single space.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
PART = 512
"""Points that are looked up at once: what they are asked takes this times trees times depth bytes."""


@dataclass(frozen=True, eq=False)
class Trees:
    """`places` int16 and `limits` float32 [trees, depth] are which input is asked whether it is above what; `leaves`
    float32 [trees, 2 ** depth] what each answer adds to the `base`."""

    base: float
    places: NDArray[np.int16]
    limits: Floats
    leaves: Floats

    def predict(self, inputs: Floats) -> Doubles:
        """What points with these inputs [points, inputs] come to, [points]."""
        parts = [self._predict(inputs[begin : begin + PART]) for begin in range(0, len(inputs), PART)]
        return np.concatenate(parts) if parts else np.zeros(0)

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
