"""Whether a target's scores are the reference's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TOLERANCE = 1e-5
"""The largest relative error that float32 arithmetic is allowed against the float64 reference."""

FLOOR_SHARE = 0.1
"""An element smaller than this share of the median counts as that large: `compare` says why."""

RELATIVE_TO = "the score's magnitude, or a tenth of the batch's median magnitude where that is larger"
"""What errors are relative to, in words."""

PLAIN_SHARE = 4.0
"""How many times the error of plain float32 a target may have, where that alone comes near the tolerance: NumPy adds
up in pairs, a target that adds one by one (the simulated machine) loses more, 2.4 times as much for RESCAL."""
WIDEST = 10.0
"""How many times the tolerance plain float32 may excuse at most."""

_VANISHING = 1e-15
"""A norm below this may be 0 in float32 and a third of its digits lost: its squares leave the range of float32."""
_SMALLEST = 1e-30
"""Keeps the division defined where every score is 0."""

Floats = npt.NDArray[np.float32]
Plain = Callable[[], npt.NDArray[np.floating]]
"""The reference's text evaluated by NumPy in float32."""


@dataclass(frozen=True)
class Check:
    """The comparison of all rows: the largest relative error (infinite where a row is NaN and should not be).

    `median_magnitude` times FLOOR_SHARE is the least that an error was divided by. `beyond_float32` says that all that
    is wrong are scores that overflow or vanish in plain float32 too. `plain_error`, the largest error of plain
    float32, is there where the tolerance did not hold by itself; where it widened `tolerance`, that says so.
    """

    max_relative_error: float
    rows: int
    tolerance: float = TOLERANCE
    median_magnitude: float = 0.0
    beyond_float32: bool = False
    plain_error: float | None = None

    @property
    def matches(self) -> bool:
        return self.max_relative_error < self.tolerance


def compare(
    got: Floats, want: npt.NDArray[np.float64], tolerance: float = TOLERANCE, plain: Plain | None = None
) -> Check:
    """Hold results against the reference, element by element: scores [B] or [B, N], or a layer's rows.

    An error is relative to the element or, where that is larger, to FLOOR_SHARE of the median magnitude of those that
    are not 0. An element that cancels to nearly nothing (a dot product of signed numbers) keeps the rounding errors of
    its terms, so its error relative to itself says nothing about the kernel. The scale is the median and not the
    largest: one huge row must not excuse the others. A NaN or an infinity matches only the same one.

    Where an error exceeds the tolerance, `plain` decides whether float32 can do better: the tolerance becomes
    PLAIN_SHARE times its error if that is larger, but no more than WIDEST times the one asked for.
    """
    if got.shape != want.shape:
        return Check(np.inf, want.shape[0], tolerance)
    counted = np.abs(want[np.isfinite(want) & (want != 0)])
    typical = float(np.median(counted)) if counted.size else 0.0
    errors = _errors(got, want, typical)
    largest = float(np.max(errors, initial=0.0))
    if largest < tolerance or plain is None:
        return Check(largest, want.shape[0], tolerance, typical)
    rounded = plain()
    plain_errors = _errors(rounded, want, typical)
    plain_error = float(np.max(plain_errors, initial=0.0))
    overflows = ~np.isfinite(got) & ~np.isfinite(rounded) & np.isfinite(want)
    vanishes = (np.abs(want) < _VANISHING) & (plain_errors >= tolerance)
    beyond = bool(np.all((overflows | vanishes)[errors >= tolerance]))
    excused = PLAIN_SHARE * plain_error
    if np.isfinite(excused):
        tolerance = max(tolerance, min(excused, WIDEST * tolerance))
    return Check(largest, want.shape[0], tolerance, typical, beyond, plain_error)


def _errors(got: npt.NDArray[np.floating], want: npt.NDArray[np.float64], typical: float) -> npt.NDArray[np.float64]:
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got.astype(np.float64) - want) / np.maximum(np.abs(want), _SMALLEST + FLOOR_SHARE * typical)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
    error = np.where(same, 0.0, np.where(np.isfinite(want), error, np.inf))
    return np.nan_to_num(error, nan=np.inf, posinf=np.inf)
