"""The network, in NumPy: G-Sparse's layers (§III-D), a logarithm, batch normalisation and three dense ones.

It is trained with PyTorch (`training`), and what it has learnt is an .npz file of some tens of kilobytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Target = Literal["reciprocal", "logarithm"]
"""What the last layer gives: the best time over the point's, in 0 to 1 (G-Sparse's, on 1/time), or the logarithm of the
point's time over the best."""
LEAST = 1e-3
"""Of a reciprocal, below which it is cut: a thousand times the best."""


@dataclass(frozen=True, eq=False)
class Network:
    """`shift` and `scale` float32 [inputs] are those of the batch normalisation; `layers` its weights [from, to] and
    biases [to], with ReLU between them, the last to one number."""

    target: Target
    shift: Floats
    scale: Floats
    layers: tuple[tuple[Floats, Floats], ...]

    def predict(self, inputs: Floats) -> NDArray[np.float64]:
        """What points with these inputs, float32 [points, inputs], take, relative to the best of their space: [points],
        1 or more but for errors."""
        found = (logarithms(inputs) - self.shift) * self.scale
        *hidden, (weights, biases) = self.layers
        for each, bias in hidden:
            found = np.maximum(found @ each + bias, np.float32(0))
        last = (found @ weights + biases)[:, 0].astype(np.float64)
        return np.exp(last) if self.target == "logarithm" else 1.0 / np.maximum(last, LEAST)

    def save(self, path: Path) -> None:
        """Writes an .npz file."""
        parts: dict[str, Any] = {f"w{number}": weights for number, (weights, _) in enumerate(self.layers)}
        parts |= {f"b{number}": biases for number, (_, biases) in enumerate(self.layers)}
        np.savez_compressed(path, target=np.array(self.target), shift=self.shift, scale=self.scale, **parts)

    @classmethod
    def load(cls, path: Path) -> Network:
        """Reads one."""
        with np.load(path) as found:
            count = sum(name.startswith("w") for name in found.files)
            layers = tuple((found[f"w{number}"], found[f"b{number}"]) for number in range(count))
            target: Target = "logarithm" if str(found["target"]) == "logarithm" else "reciprocal"
            return cls(target, found["shift"], found["scale"], layers)


def logarithms(inputs: Floats) -> Floats:
    """The first layer: log(1 + x), of numbers that are counts, bytes and shares, and so never below 0."""
    return np.log1p(np.maximum(inputs, np.float32(0)))
