"""Whether a target's scores are the reference's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TOLERANCE = 1e-5
"""The largest relative error that float32 arithmetic is allowed against the float64 reference."""

RELATIVE_TO = "the score's magnitude, or the median magnitude of the batch where that is larger"
"""What errors are relative to, in words: `compare` says why."""

_VANISHING = 1e-15
"""A norm below this may be 0 in float32 and a third of its digits lost: its squares leave the range of float32."""
_SMALLEST = 1e-30
"""Keeps the division defined where every score is 0."""


@dataclass(frozen=True)
class Check:
    """The comparison of all rows: the largest relative error (infinite where a row is NaN and should not be).

    `median_magnitude` is the least that an error was divided by. `beyond_float32` says that all that is wrong are
    scores that overflowed or vanished in float32 where the reference's did not.
    """

    max_relative_error: float
    rows: int
    tolerance: float = TOLERANCE
    median_magnitude: float = 0.0
    beyond_float32: bool = False

    @property
    def matches(self) -> bool:
        return self.max_relative_error < self.tolerance


def compare(got: npt.NDArray[np.float32], want: npt.NDArray[np.float64], tolerance: float = TOLERANCE) -> Check:
    """Hold results against the reference, element by element: scores [B] or [B, N], or a layer's rows.

    An error is relative to the element or, where that is larger, to the median magnitude of those that are not 0. An
    element that cancels to nearly nothing (a dot product of signed numbers) keeps the rounding errors of its terms,
    so its error relative to itself says nothing about the kernel. The scale is the median and not the largest:
    one huge row must not excuse the others. A NaN or an infinity matches only the same one.
    """
    if got.shape != want.shape:
        return Check(np.inf, want.shape[0], tolerance)
    finite = np.isfinite(want)
    magnitude = np.abs(want)
    counted = magnitude[finite & (want != 0)]
    typical = float(np.median(counted)) if counted.size else 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got.astype(np.float64) - want) / np.maximum(magnitude, _SMALLEST + typical)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
    error = np.where(same, 0.0, np.where(finite, error, np.inf))
    largest = float(np.max(np.nan_to_num(error, nan=np.inf, posinf=np.inf), initial=0.0))
    wrong = ~(error < tolerance)
    beyond = bool(np.all(finite[wrong] & (~np.isfinite(got[wrong]) | (magnitude[wrong] < _VANISHING))))
    return Check(largest, want.shape[0], tolerance, typical, bool(wrong.any()) and beyond)
