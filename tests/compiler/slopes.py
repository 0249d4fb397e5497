"""What an oracle in float64 says of gradients, by differences, and whether a target has the oracle's numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

OFFSET = 1e-6
"""How far a difference goes to either side, in float64."""


def slopes(
    means: Callable[[dict[str, Any]], Any], inputs: Mapping[str, Any], names: Iterable[str], upstream: Any
) -> dict[str, Any]:
    """The gradient of each input that is named, by differences of what the inputs mean."""
    found = {}
    for name in names:
        values = np.asarray(inputs[name], np.float64)
        found[name] = slope = np.zeros_like(values)
        for place in np.ndindex(values.shape):
            ends = []
            for by in (OFFSET, -OFFSET):
                moved = values.copy()
                moved[place] += by
                ends.append((means({**inputs, name: moved}) * upstream).sum())
            slope[place] = (ends[0] - ends[1]) / (2 * OFFSET)
    return found


def assert_gives(outcome: tuple[Any, Mapping[str, Any]], want: Any, gradients: Mapping[str, Any], target: str) -> None:
    """A target's result and gradients in float32 are those of the oracle; a gradient that it leaves out is zero."""
    got, found = outcome
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=target)
    for name, slope in gradients.items():
        made = found.get(name, np.zeros_like(slope))
        np.testing.assert_allclose(made, slope, rtol=1e-3, atol=1e-4, err_msg=f"{target} {name}")
