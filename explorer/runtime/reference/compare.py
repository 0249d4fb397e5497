"""Whether what a target gives is what the reference gives, up to the rounding errors that float32 makes on the way.

Every element is held against its own bound (`reference_bounds`). Beside that, the root mean square of error over bound
is held against that of float32 computed plainly: a bound that is wide, where errors mostly cancel, hides what is a
little wrong everywhere, and the mean does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.returned import each_returned
from explorer.runtime.reference.numbers.bounds import CONSTANT, LARGEST, ROUNDOFF, Bounded

MOST_ROOT = 3.0
"""How many times the root mean square of plain float32, NumPy's or one by one, a target's may be. Lawful runs reach
1.2; products of TF32 numbers 100."""
FEWEST = 64
"""Of fewer different elements, a mean says nothing that the elements do not."""
SHARED = 0.5
"""How much of the bounds that elements share is no alarm: such an error is one draw, however many elements have it."""
VANISHING = 1e-12
"""A result as small may be what underflow left of it; of a larger one only 0 is suspected."""
NORMAL = 2.0**-126
"""The least normal number of float32: a smaller result may itself be 0."""
_SMALLEST = 1e-300

Floats = npt.NDArray[np.floating]
Plain = Callable[[], npt.NDArray[np.floating]]
"""The reference's text in float32: as NumPy has it, or one by one."""
Unflushed = Callable[[], Bounded]
"""The reference's text with bounds that allow no underflow."""
Overflows = Callable[[], bool]
"""Whether a value on the way, of the result or of gradients, is too large for float32."""


@dataclass(frozen=True)
class Check:
    """The comparison of all rows that were checked.

    `ratio` is the largest of error over what it may be: above 1, an element is wrong; infinite where it is no number
    and should be one, or where shapes differ. `root` is the root mean square of error over bound, `plain_root` that of
    plain float32 where it was needed, and `drifts` says that the first is too far above the second. `beyond_float32`
    says that all that is wrong are numbers that float32 cannot hold on the way. `max_relative_error` is for show. Of
    several results it is the check of the worst, and `each` has all, in their order.
    """

    ratio: float
    rows: int
    root: float = 0.0
    plain_root: float | None = None
    drifts: bool = False
    beyond_float32: bool = False
    max_relative_error: float = 0.0
    each: tuple[Check, ...] = ()

    @property
    def matches(self) -> bool:
        return self.ratio <= 1 and not self.drifts

    def to_json(self) -> dict[str, Any]:
        """The figures, None where one is no number; of several results those of `each` besides."""
        several = {"results": [check.to_json() for check in self.each]} if self.each else {}
        return {
            **several,
            "error_over_bound": _number(self.ratio),
            "root_mean_square": _number(self.root),
            "plain_root_mean_square": None if self.plain_root is None else _number(self.plain_root),
            "max_relative_error": _number(self.max_relative_error),
        }


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def compare(
    got: Floats,
    want: Bounded,
    plain: Sequence[Plain] = (),
    unflushed: Unflushed | None = None,
    overflows: Overflows | None = None,
) -> Check:
    """Hold a result or a gradient against the reference's, of the same elements, in any shape.

    A NaN or an infinity matches only the same, or anything where float32 has no bound: there, what is no number is told
    as beyond float32, and a number passes. So is what no digit is right of where underflow on the way alone explains
    it, and what is no number where anything on the way overflows: an infinity times 0 is none, as where a factor is
    taken out of a sum of nothing. The other evaluations are made only where they may decide.
    """
    if got.shape != want.shape:
        return Check(np.inf, want.shape[0] if want.shape else 0)
    flat_got, flat = got.reshape(-1), _flat(want)
    lazily = unflushed and cache(lambda: _flat(unflushed()))
    found = _Comparison(_typical(flat.value), lazily, overflows and cache(overflows))
    for part in _parts(want.size):
        found.add(part, flat_got[part], _some(flat, part))
    ratio = np.inf if found.any_unheld else found.ratio
    root, shared = _root(found.squares, want.size), _root(found.shared_squares, want.size)
    drifts = ratio <= 1 and _suspicious(root, shared, want)
    plain_root: float | None = None
    for evaluate in plain if drifts else ():
        plain_root = max(plain_root or 0.0, _root(_squares(error_over_bound(evaluate(), want)), want.size))
        drifts = root > MOST_ROOT * max(plain_root, shared)
        if not drifts:
            break
    drifts = drifts and plain_root is not None
    beyond = found.any_unheld and found.ratio <= 1
    return Check(ratio, len(got) if got.ndim else 1, root, plain_root, drifts, beyond, found.relative)


PART = 1 << 15
"""Elements that are compared at once: what is computed of so many stays in a core's cache."""


def _parts(size: int) -> Iterator[slice]:
    return (slice(first, first + PART) for first in range(0, size, PART))


def _flat(x: Bounded) -> Bounded:
    """The elements in one row."""

    def of(part: Any) -> Any:
        return part if not np.ndim(part) else np.broadcast_to(part, x.shape).reshape(-1)

    return Bounded(x.value.reshape(-1), of(x.own), of(x.shared))


def _some(row: Bounded, part: slice) -> Bounded:
    own, shared = (each[part] if np.ndim(each) else each for each in (row.own, row.shared))
    return Bounded(row.value[part], own, shared)


@dataclass
class _Comparison:
    """What is known of the parts that were compared: the largest ratio of elements that are held, whether any are not,
    the sums of squares of the ratios and of what elements share of their bounds, and the largest relative error."""

    typical: float
    unflushed: Unflushed | None
    overflows: Overflows | None
    ratio: float = 0.0
    any_unheld: bool = False
    squares: float = 0.0
    shared_squares: float = 0.0
    relative: float = 0.0

    def add(self, part: slice, got: Floats, want: Bounded) -> None:
        """Compares a part's elements."""
        ratios = error_over_bound(got, want)
        unheld = self._unheld(part, got, want, ratios)
        self.ratio = max(self.ratio, float(np.max(np.where(unheld, 0.0, ratios))))
        self.any_unheld |= bool(unheld.any())
        self.squares += _squares(ratios)
        self.shared_squares += _shared_squares(want)
        # What is no number stays so.
        self.relative = float(np.maximum(self.relative, _relative(got, want.value, self.typical)))

    def _unheld(self, part: slice, got: Floats, want: Bounded, ratios: Floats) -> npt.NDArray[np.bool_]:
        """Which elements are wrong whatever their bound allows."""
        no_number = np.isfinite(want.value) & ~np.isfinite(got)
        unheld = ~np.isfinite(want.error) & no_number if no_number.any() else no_number
        if self.overflows is not None and (no_number & ~unheld).any() and self.overflows():
            unheld = no_number
        if self.unflushed is not None and (suspected := _may_have_vanished(got, want) & (ratios <= 1)).any():
            unheld = unheld | suspected & (error_over_bound(got, _some(self.unflushed(), part)) > 1)
        return unheld


def error_over_bound(got: Floats, want: Bounded) -> npt.NDArray[np.float64]:
    """How many times the error that it may have each element has."""
    with np.errstate(all="ignore"):
        bound = CONSTANT * ROUNDOFF * want.error
        value = np.asarray(got, dtype=np.float64)
        error = np.abs(value - want.value)
        if not error.any():
            return error
        if np.isfinite(error).all() and np.isfinite(bound).all() and (bound > 0).all():
            return np.asarray(error / bound)  # as most results are, in a third of the time
        ratios = np.where(bound > 0, error / np.where(bound > 0, bound, 1.0), np.where(error == 0, 0.0, np.inf))
        same = (value == want.value) | (np.isnan(value) & np.isnan(want.value))
        overflows = np.isinf(value) & (np.abs(want.value) >= LARGEST) & (np.sign(value) == np.sign(want.value))
        ratios = np.where(np.isinf(bound) & np.isfinite(want.value), 0.0, ratios)
    return np.where(same | overflows, 0.0, np.nan_to_num(ratios, nan=np.inf, posinf=np.inf))


def same_bits(one: Floats | tuple[Floats, ...], other: Floats | tuple[Floats, ...]) -> bool:
    """Whether two results of float32, or all of several, are the same in every bit, NaNs and signs of zeros too."""
    pairs = zip(each_returned(one), each_returned(other), strict=True)
    return all(a.shape == b.shape and np.array_equal(a.view(np.uint32), b.view(np.uint32)) for a, b in pairs)


def _may_have_vanished(got: Floats, want: Bounded) -> npt.NDArray[np.bool_]:
    """Where a result is wrong in its first digits within a bound that is as large as itself, and is small or 0."""
    with np.errstate(all="ignore"):
        size = np.abs(want.value)
        small = (got == 0) | (size < VANISHING)
        if not small.any():
            return np.asarray(small)
        wrong = np.abs(np.asarray(got, np.float64) - want.value) > size / 1024
        within = (size >= NORMAL) & (CONSTANT * ROUNDOFF * want.error >= size)
    return np.asarray(wrong & within & small)


def _squares(ratios: npt.NDArray[np.float64]) -> float:
    return float(np.sum(np.square(np.minimum(ratios, 1e100))))


def _root(squares: float, count: int) -> float:
    """The root mean square of so many; 0 of none."""
    return float(np.sqrt(squares / count)) if count else 0.0


def _shared_squares(want: Bounded) -> float:
    """Of the parts of the bounds that elements may share."""
    with np.errstate(all="ignore"):
        part = np.broadcast_to(np.nan_to_num(SHARED * want.shared / (want.error + _SMALLEST), nan=1.0), want.shape)
    return _squares(np.minimum(part, 1.0))


def _suspicious(root: float, shared: float, want: Bounded) -> bool:
    """Whether a mean is worth an evaluation in plain float32."""
    return root > MOST_ROOT * shared and want.size >= FEWEST and len(np.unique(want.value)) >= FEWEST


def _typical(want: npt.NDArray[np.float64]) -> float:
    """A tenth of the median of the elements that are there."""
    counted = np.abs(want[np.isfinite(want) & (want != 0)])
    return 0.1 * float(np.median(counted, overwrite_input=True)) if counted.size else 0.0


def _relative(got: Floats, want: npt.NDArray[np.float64], typical: float) -> float:
    """The largest relative error, relative to what is typical where elements are smaller."""
    with np.errstate(all="ignore"):
        errors = np.abs(got.astype(np.float64) - want) / np.maximum(np.abs(want), typical + _SMALLEST)
    return float(np.max(np.where(np.isfinite(want), errors, 0.0), initial=0.0))


def of_several(checks: Sequence[Check]) -> Check:
    """The check of all results of a definition."""
    if len(checks) == 1:
        return checks[0]
    far = max(checks, key=lambda check: (not check.matches, not check.beyond_float32, check.ratio))
    return replace(far, rows=checks[0].rows, each=tuple(checks))


def worst(checks: Mapping[str, Check]) -> str:
    """The name of the check with the largest ratio, those that drift last."""
    return max(checks, key=lambda name: (not checks[name].matches, checks[name].ratio))
