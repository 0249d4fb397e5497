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
STEP = 1e-9
"""How far a difference goes to either side, in multiples of the direction, whose entries are of a size about 1. It is
so short that hardly any element passes a corner of a relu on the way; float64 leaves seven digits of it."""
PROBE = 1e-7
"""The same for the difference that finds corners: an element that is so near to one may be on its other side in
float32, where its gradient is another one, rightly."""
BENT = 1e-2
"""An element is at a corner where its differences to both sides differ by this share of their sum."""
ROUNDING = 1e-12
"""What differences of results of a size about 1 may have of rounding errors: less is no corner."""
CANCELLED = 1e-2
"""The share of all gradients' size below which a tensor's cannot be told to the last digits: float32 leaves 1e-6 of
what went into it, and terms may cancel to nearly nothing, as where a quotient's two parts grow alike."""
_SMALLEST = 1e-30

Floats = npt.NDArray[np.float32]
Evaluate = Callable[[Mapping[str, npt.NDArray[np.float64]]], npt.NDArray[np.float64]]
"""The reference's result with some tensors replaced."""


@dataclass(frozen=True)
class GradientCheck:
    """The largest error of the slopes along the directions, relative to the largest slope (or to what the gradient
    makes likely, where all of them happen to be small)."""

    max_relative_error: float
    directions: int

    def to_json(self) -> dict[str, Any]:
        """The error, None where it is no number, and the number of directions."""
        error = self.max_relative_error
        return {"max_relative_error": error if np.isfinite(error) else None, "directions": self.directions}


@dataclass(frozen=True, eq=False)
class Probe:
    """How the result changes along one direction of all learnt tensors together."""

    direction: dict[str, npt.NDArray[np.float64]]
    slopes: npt.NDArray[np.float64]  # of each element of the result
    corners: npt.NDArray[np.bool_]  # the elements whose gradient no difference can tell

    def check(self, gradients: Mapping[str, Floats], upstream: Floats) -> GradientCheck:
        """Holds all gradients together against the slope. `upstream` must be 0 at the corners."""
        got = sum(_along(gradients[name], v) for name, v in self.direction.items())
        likely = float(np.sqrt(sum(_along(gradient, gradient) for gradient in gradients.values())))
        return GradientCheck(_error([(got, float(np.sum(upstream * self.slopes)))], likely), 1)


def probe(tensors: Mapping[str, Floats], want: npt.NDArray[np.float64], evaluate: Evaluate, seed: int = 0) -> Probe:
    """Moves the learnt `tensors` along a random direction; `want` is the result where they are."""
    random = np.random.default_rng(seed)
    direction = {name: random.standard_normal(tensor.shape) for name, tensor in tensors.items()}
    above, below = _moved(tensors, direction, PROBE, evaluate)
    rounding = ROUNDING * np.maximum(1.0, np.abs(want))
    bent = np.abs(above - want - (want - below)) > BENT * np.abs(above - below) + rounding
    return Probe(direction, (above - below) / (2 * PROBE), bent)


def size_of(gradients: Mapping[str, Floats]) -> float:
    """The root of the sum of the squares of all gradients; of those alone that are numbers."""
    sizes = [_along(gradient, gradient) for gradient in gradients.values()]
    return float(np.sqrt(sum(size for size in sizes if np.isfinite(size))))


def check_tensor(
    name: str,
    gradient: Floats,
    tensor: Floats,
    upstream: Floats,
    evaluate: Evaluate,
    seed: int = 0,
    *,
    beside: float = 0.0,
) -> GradientCheck:
    """Holds one tensor's gradient against DIRECTIONS differences. `upstream` must be 0 at the corners; `beside` is the
    size of all gradients together."""
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    slopes = []
    for _ in range(DIRECTIONS):
        v = random.standard_normal(tensor.shape)
        above, below = _moved({name: tensor}, {name: v}, STEP, evaluate)
        slopes.append((_along(gradient, v), float(np.sum(upstream * (above - below))) / (2 * STEP)))
    likely = float(np.sqrt(_along(gradient, gradient)))
    return GradientCheck(_error(slopes, max(likely, CANCELLED * beside)), DIRECTIONS)


def _moved(
    tensors: Mapping[str, Floats], direction: Mapping[str, npt.NDArray[np.float64]], step: float, evaluate: Evaluate
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The results a step ahead and a step back along a direction."""
    ahead, back = (
        evaluate({name: tensors[name].astype(np.float64) + signed * v for name, v in direction.items()})
        for signed in (step, -step)
    )
    return ahead, back


def _along(gradient: npt.NDArray[Any], direction: npt.NDArray[Any]) -> float:
    return float(np.sum(gradient.astype(np.float64) * direction))


def _error(slopes: list[tuple[float, float]], likely: float) -> float:
    scale = max(_SMALLEST, likely, *(abs(want) for _, want in slopes))
    error = max(abs(got - want) for got, want in slopes) / scale
    return error if np.isfinite(error) else np.inf
