"""Whether gradients are right: derivatives along random directions, against differences of the float64 reference.

For a direction v of a tensor's size, <gradient, v> must be the slope of sum(upstream * result) along v. A few
directions tell a wrong entry anywhere, at two evaluations of the reference each.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

DIRECTIONS = 3
"""For each tensor."""
STEP = 1e-6
"""How far a difference goes to either side, in multiples of the direction, whose entries are of a size about 1."""
_SMALLEST = 1e-30

Evaluate = Callable[[Mapping[str, npt.NDArray[np.float64]]], npt.NDArray[np.float64]]
"""The reference's result with some tensors replaced."""


@dataclass(frozen=True)
class GradientCheck:
    """The largest error of the slopes along the directions, relative to the largest slope (or to what the gradient
    makes likely, where all of them happen to be small)."""

    max_relative_error: float
    directions: int

    def to_json(self) -> dict[str, Any]:
        error = self.max_relative_error
        return {"max_relative_error": error if np.isfinite(error) else None, "directions": self.directions}


def check_tensor(
    name: str,
    gradient: npt.NDArray[np.float32],
    tensor: npt.NDArray[np.float32],
    upstream: npt.NDArray[np.float32],
    evaluate: Evaluate,
    seed: int = 0,
) -> GradientCheck:
    """Holds one tensor's gradient against DIRECTIONS differences."""
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    directions = [random.standard_normal(tensor.shape) for _ in range(DIRECTIONS)]
    slopes = [
        (float(np.sum(gradient.astype(np.float64) * v)), _difference({name: tensor}, {name: v}, upstream, evaluate))
        for v in directions
    ]
    return GradientCheck(_error(slopes, float(np.sqrt(np.sum(gradient.astype(np.float64) ** 2)))), DIRECTIONS)


def check_together(
    gradients: Mapping[str, npt.NDArray[np.float32]],
    tensors: Mapping[str, npt.NDArray[np.float32]],
    upstream: npt.NDArray[np.float32],
    evaluate: Evaluate,
    seed: int = 0,
) -> GradientCheck:
    """Holds all gradients against one difference, along one direction of all tensors together."""
    random = np.random.default_rng(seed)
    direction = {name: random.standard_normal(gradient.shape) for name, gradient in gradients.items()}
    got = sum(float(np.sum(gradients[name].astype(np.float64) * v)) for name, v in direction.items())
    want = _difference({name: tensors[name] for name in gradients}, direction, upstream, evaluate)
    likely = sum(float(np.sum(gradient.astype(np.float64) ** 2)) for gradient in gradients.values()) ** 0.5
    return GradientCheck(_error([(got, want)], likely), 1)


def _difference(
    tensors: Mapping[str, npt.NDArray[np.float32]],
    direction: Mapping[str, npt.NDArray[np.float64]],
    upstream: npt.NDArray[np.float32],
    evaluate: Evaluate,
) -> float:
    """The central difference of sum(upstream * result) along a direction."""
    above, below = (
        evaluate({name: tensors[name].astype(np.float64) + step * v for name, v in direction.items()})
        for step in (STEP, -STEP)
    )
    return float(np.sum(upstream * (above - below))) / (2 * STEP)


def _error(slopes: list[tuple[float, float]], likely: float) -> float:
    scale = max(_SMALLEST, likely, *(abs(want) for _, want in slopes))
    error = max(abs(got - want) for got, want in slopes) / scale
    return error if np.isfinite(error) else np.inf
