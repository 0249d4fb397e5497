"""Numbers with bounds of the rounding errors that float32 makes on the way to them: running error analysis.

Beside every float64 value stands the scale of its error in float32, in multiples of the unit roundoff u = 2^-24, as it
is computed (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002, section 3.3). A computed
element is wrong where it differs by more than CONSTANT u scale. The scale has two parts:

- `own`: errors that are independent of those of other elements, added as the root of squares. A sum of n terms has
  sqrt(n) times the sum of their magnitudes, as is likely for any order of additions (Higham and Mary, A new approach to
  probabilistic rounding error analysis, SIAM J. Sci. Comput. 41(5), 2019), where the worst case has n.
- `shared`: errors that several elements may share, as where one row is used by many; these are added up as they are,
  since they do not cancel. An operand that is repeated has all of its error moved here.

Equal terms of a sum round alike, so they lose n and not sqrt(n): their number over that of different ones multiplies n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.numbers import primitives as plain
from explorer.runtime.reference.numbers.primitives import Array, Carrier, Index, Numbers

ROUNDOFF = 2.0**-24
"""The unit roundoff of float32."""
CONSTANT = 3.0
"""How many times u scale an element may differ. The largest lawful ratio seen is 1.5, of a one-pass deviation."""
NEAR = 4.0
"""An argument that is within so many times u scale of a corner, a pole or another argument may be beyond it: above
CONSTANT, so that what is told to be on one side is."""
EITHER = 1 / (CONSTANT * ROUNDOFF)
"""The scale that allows an error of 1: what takes either of two slopes may differ by their difference."""
FLUSHED = 2.0**-126 / ROUNDOFF
"""What is lost where a result below the normal numbers becomes 0, as a scale."""
CUT_OFF = 16.0
"""Tensor cores add eight products at a time and cut off what does not fit, where others round: the sum loses half a
unit of its last place a step, always towards 0, so that such errors do not cancel (Fasi, Higham, Mikaitis and Pranesh,
Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7, 2021). On the way a sum is about half as large as
in the end, or as sums that take a walk are."""
LARGEST = 2.0**128
"""What is as large overflows, and has no bound."""

Floats = npt.NDArray[np.float64]
Part = Any
"""A part of a scale: 0.0 where there is none, else float32 of a shape that broadcasts to the values'."""
_NONE = 0.0
_TINY = np.float32(2.0**-126)
_MOST = np.finfo(np.float32).max


@dataclass(frozen=True, eq=False)
class Bounded(Carrier):
    """Values with the two parts of their scale, which need no more than the digits and the range of float32: what it
    cannot hold has no bound, and what it loses is less than what a kernel does. They are 0.0 for exact numbers."""

    value: Floats
    own: Part = _NONE
    shared: Part = _NONE

    level = 1

    def __post_init__(self) -> None:
        for name, part in (("own", self.own), ("shared", self.shared)):
            if not _absent(part) and getattr(part, "dtype", None) != np.float32:
                with np.errstate(over="ignore"):
                    object.__setattr__(self, name, np.asarray(part).astype(np.float32))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.value.shape

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """The bytes of the values: chunks are those of float64, since each costs what is done a chunk."""
        return self.value.nbytes

    @property
    def scale(self) -> Part:
        """Both parts together."""
        return _plus(self.own, self.shared)

    @property
    def error(self) -> Floats:
        """The scale of every value; infinite where there is no bound."""
        scale = np.broadcast_to(np.asarray(self.scale, dtype=np.float64), self.shape)
        return np.where(np.isnan(scale) | (np.abs(self.value) >= LARGEST), np.inf, scale)

    def call(self, name: str, arguments: tuple[Any, ...]) -> Array:
        rule = RULES[name]
        arrays = [bounded(a) if isinstance(a, np.ndarray) and name not in RAW else a for a in arguments]
        return rule(*arrays)

    def copy(self) -> Bounded:
        """A copy that may be changed."""
        return Bounded(self.value.copy(), _full(self.own, self.shape).copy(), _full(self.shared, self.shape).copy())

    def repeated(self) -> Bounded:
        """The same, its elements used by several of the result's."""
        return self if _absent(self.own) else Bounded(self.value, _NONE, self.scale)


def bounded(x: Array) -> Bounded:
    """Exact numbers, or what has bounds already."""
    return x if isinstance(x, Bounded) else Bounded(np.asarray(x, dtype=np.float64))


def rounded(x: npt.NDArray[np.floating]) -> Bounded:
    """Numbers that a kernel has in float32: constants and what is computed of counts."""
    value = np.asarray(x, dtype=np.float64)
    inexact = value != value.astype(np.float32)
    return Bounded(value, _NONE, np.where(inexact, np.abs(value), 0.0))


# Parts of scales


def _absent(part: Part) -> bool:
    return isinstance(part, float) and part == 0.0


def _plus(*parts: Part) -> Part:
    """The sum of parts."""
    found: Part = _NONE
    for part in parts:
        if not _absent(part):
            found = part if _absent(found) else found + part
    return found


def _times(part: Part, factor: Any) -> Part:
    """A part scaled by the slope of what it is an argument of."""
    return part if _absent(part) else part * factor


def _root(*parts: Part) -> Part:
    """The root of the sum of the squares of parts, which themselves may leave the range of float32."""
    found: Part = _NONE
    for part in parts:
        if not _absent(part):
            found = part if _absent(found) else _hypotenuse(found, part)
    return found


def _hypotenuse(x: Part, y: Part) -> Part:
    most = np.maximum(x, y)
    found = np.asarray(np.minimum(x, y))
    np.minimum(found, _MOST, out=found)
    found /= np.maximum(most, _TINY)
    found *= found
    found += np.float32(1)
    np.sqrt(found, out=found)
    found *= most
    return found


def _size(values: Floats) -> Part:
    """The magnitudes of values, in float32."""
    with np.errstate(over="ignore"):
        found = np.asarray(np.asarray(values).astype(np.float32))
    return np.abs(found, out=found)


_coarser = [1.0]
_flushes = [True]


@contextmanager
def products_coarser(times: float) -> Iterator[None]:
    """Inside, the factors of matrix products have a unit roundoff so many times that of float32."""
    _coarser.append(times)
    yield
    _coarser.pop()


@contextmanager
def flushing(allowed: bool) -> Iterator[None]:
    """Inside, what lies below the normal numbers may become 0, or may not."""
    _flushes.append(allowed)
    yield
    _flushes.pop()


def _full(part: Any, shape: tuple[int, ...]) -> Any:
    if np.shape(part) == shape:
        return part
    return np.broadcast_to(np.asarray(part, dtype=np.float32), shape)


def _lost(value: Floats) -> Part:
    """What may be flushed."""
    return (value != 0) * np.float32(FLUSHED) if _flushes[-1] else _NONE


def _made(value: Floats, own: Part, shared: Part) -> Bounded:
    """A result that is rounded and may be flushed or overflow; `own` is without its own rounding."""
    return Bounded(value, _root(own, _size(value)), _plus(shared, _lost(value)))


def _pair(x: Any, y: Any) -> tuple[Bounded, Bounded]:
    """Both operands; the errors of one that is repeated for the other are shared."""
    x, y = bounded(x), bounded(y)
    size = math.prod(np.broadcast_shapes(x.shape, y.shape))
    return (x if x.size == size else x.repeated()), (y if y.size == size else y.repeated())


def _add(x: Any, y: Any) -> Bounded:
    """What cancels counts, since a product with a sum may be computed as a sum of products: `q * (a - b)` as
    `q * a - q * b`, as where `interchange` takes out what several scores share."""
    x, y = _pair(x, y)
    value = x.value + y.value
    cancelled = 2 * np.minimum(_size(x.value), _size(y.value))
    cancelled *= np.signbit(x.value) != np.signbit(y.value)
    return Bounded(value, _root(x.own, y.own, _size(value)), _plus(x.shared, y.shared, cancelled))


def _multiply(x: Any, y: Any) -> Bounded:
    x, y = _pair(x, y)
    a, b = _size(x.value), _size(y.value)
    own = _root(_times(x.own, b), _times(y.own, a))
    return _made(x.value * y.value, own, _plus(_times(x.shared, b), _times(y.shared, a), _both(x, y)))


def _both(x: Bounded, y: Bounded) -> Part:
    """The product of both operands' errors."""
    return _NONE if _absent(x.scale) or _absent(y.scale) else x.scale * np.float32(ROUNDOFF) * y.scale


def _divide(x: Any, y: Any) -> Bounded:
    x, y = _pair(x, y)
    value = x.value / y.value
    least = np.abs(y.value) - NEAR * ROUNDOFF * y.scale
    over = np.where(least > 0, 1 / np.where(least > 0, least, 1.0), np.inf)
    by = np.abs(value) * over
    own = _root(_cast(_times(x.own, over)), _cast(_times(y.own, by)))
    return _made(value, own, _plus(_times(x.shared, over), _times(y.shared, by)))


def _cast(part: Part) -> Part:
    return part if _absent(part) else part.astype(np.float32)


def _divide_or_zero(x: Bounded, y: Bounded) -> Bounded:
    x, y = bounded(x), bounded(y)
    shape = np.broadcast_shapes(x.shape, y.shape)
    found = _divide(x, Bounded(np.where(y.value == 0, 1.0, y.value), y.own, y.shared))
    unknown = np.broadcast_to((y.value == 0) & (y.scale > 0), shape)
    kept = np.broadcast_to(y.value != 0, shape)
    shared = np.where(unknown, np.inf, _where(kept, _full(found.shared, shape)))
    return Bounded(np.where(kept, found.value, 0.0), _where(kept, _full(found.own, shape)), shared)


def _of_slope(x: Bounded, value: Floats, slope: Any, own: Any) -> Bounded:
    """A function's result: its slope times the argument's errors, and `own`, in units of u, for its evaluation."""
    return _made(value, _root(_cast(_times(x.own, slope)), _size(own)), _times(x.shared, slope))


def _reach(x: Bounded) -> Any:
    """How far an argument may lie from its value, with room to spare."""
    return _times(x.scale, NEAR * ROUNDOFF)


def _exp(x: Bounded) -> Bounded:
    value, reach = np.exp(x.value), np.minimum(_reach(x), 700.0)
    slope = value * np.where(reach > 0, np.expm1(reach) / np.where(reach > 0, reach, 1.0), 1.0)
    return _of_slope(x, value, slope, value * np.abs(x.value))  # kernels may take exp2(x log2 e)


def _log(x: Bounded) -> Bounded:
    least = x.value - _reach(x)
    slope = np.where(least > 0, 1 / np.where(least > 0, least, 1.0), np.inf)
    exact = np.broadcast_to((x.scale == 0) & (x.value <= 0), x.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(x.value)
    return _of_slope(x, value, np.where(exact, 0.0, slope), np.abs(value))  # kernels may take log2(x) ln 2


def _log1p(x: Bounded) -> Bounded:
    least = 1 + x.value - _reach(x)
    slope = np.where(least > 0, 1 / np.where(least > 0, least, 1.0), np.inf)
    value = np.log1p(x.value)
    return _of_slope(x, value, slope, np.abs(value))


def _softplus(x: Bounded) -> Bounded:
    value, small = plain.softplus(x.value), np.exp(-np.abs(x.value))
    slope = np.minimum(1.0, plain.sigmoid(x.value) * np.exp(np.minimum(_reach(x), 50.0)))
    return _of_slope(x, value, slope, np.abs(value) + np.abs(x.value) * small)


def _sqrt(x: Bounded) -> Bounded:
    value, scale = np.sqrt(x.value), np.asarray(x.scale)
    root = np.where(scale > 0, np.sqrt(scale / ROUNDOFF) / np.where(scale > 0, scale, 1.0), np.inf)
    slope = np.minimum(0.5 / np.where(value > 0, value, 1e-300), root)
    return _of_slope(x, value, np.where(scale > 0, slope, 0.0), 0.0)


def _sigmoid(x: Bounded) -> Bounded:
    value = plain.sigmoid(x.value)
    least = plain.sigmoid(-np.abs(x.value)) * plain.sigmoid(np.abs(x.value))  # s (1 - s), without cancellation
    slope = np.minimum(0.25, least * np.exp(np.minimum(_reach(x), 50.0)))
    return _of_slope(x, value, slope, least * (1 + np.abs(x.value)))


def _tanh(x: Bounded) -> Bounded:
    value, size = np.tanh(x.value), np.minimum(np.abs(x.value), 350.0)
    slope = np.minimum(1.0, np.exp(np.minimum(2 * _reach(x), 50.0)) / np.cosh(size) ** 2)
    return _of_slope(x, value, slope, 2 * np.abs(value))


def _gelu(x: Bounded) -> Bounded:
    reach = np.abs(_slope_of_gelu(x.value)) + 0.8 * _reach(x)
    return _of_slope(x, plain.gelu(x.value), np.minimum(1.13, reach), np.abs(x.value))  # 1 + erf cancels below 0


def _slope_of_gelu(x: Floats) -> Floats:
    return np.asarray(plain.gelu_slope(x))


def _gelu_slope(x: Bounded) -> Bounded:
    density = np.exp(-0.5 * x.value**2) / math.sqrt(2 * math.pi)
    slope = np.abs(density * (2 - x.value**2)) + 1.6 * _reach(x)
    return _of_slope(x, _slope_of_gelu(x.value), np.minimum(0.8, slope), 1 + np.abs(x.value) ** 3 * density)


def _sin(x: Bounded) -> Bounded:
    value = np.sin(x.value)
    return _of_slope(x, value, np.minimum(1.0, np.abs(np.cos(x.value)) + _reach(x)), 2 * np.abs(value))


def _cos(x: Bounded) -> Bounded:
    value = np.cos(x.value)
    return _of_slope(x, value, np.minimum(1.0, np.abs(np.sin(x.value)) + _reach(x)), 2 * np.abs(value))


# Corners


def _sign(x: Bounded) -> Bounded:
    value = np.sign(x.value)
    near = np.broadcast_to((np.abs(x.value) <= _reach(x)) & (np.asarray(x.scale) > 0), x.shape)
    return Bounded(value, 0.0, np.where(near, (1 + np.abs(value)) * EITHER, 0.0))


def _relu(x: Bounded) -> Bounded:
    near = x.value >= -_reach(x)
    return Bounded(np.maximum(x.value, 0), _where(near, x.own), _where(near, x.shared))


def _where(condition: Any, part: Part) -> Part:
    """A part where this holds, else nothing; also of what has no bound."""
    return part if _absent(part) else np.where(condition, part, np.float32(0))


def _leaky_relu(x: Bounded, slope: float) -> Bounded:
    value, reach = plain.leaky_relu(x.value, slope), _reach(x)
    most = np.where(x.value > reach, 1.0, np.where(x.value < -reach, abs(slope), max(1.0, abs(slope))))
    own = np.where(x.value > reach, 0.0, value)
    return Bounded(value, _root(_cast(_times(x.own, most)), _size(math.sqrt(2) * own)), _times(x.shared, most))


def _step(x: Bounded) -> Bounded:
    near = np.abs(x.value) <= _reach(x)
    value = np.where(near, 0.5, plain.step(x.value))
    return Bounded(value, 0.0, np.where(near, 0.5 * EITHER, 0.0))


def _leaky_step(x: Bounded, slope: float) -> Bounded:
    found = _step(x)
    return Bounded(slope + (1 - slope) * found.value, 0.0, abs(slope) + abs(1 - slope) * found.shared)


def _above(x: Any, y: Any) -> Bounded:
    x, y = bounded(x), bounded(y)
    return _step(Bounded(x.value - y.value, 0.0, x.scale + y.scale))


def _maximum(x: Any, y: Any) -> Bounded:
    x, y = _pair(x, y)
    apart, reach = x.value - y.value, _reach(x) + _reach(y)

    def either(one: Any, other: Any) -> Any:
        return np.where(apart > reach, one, np.where(apart < -reach, other, np.maximum(one, other)))

    return Bounded(np.maximum(x.value, y.value), either(x.own, y.own), either(x.shared, y.shared))


def _minimum(x: Any, y: Any) -> Bounded:
    return _negative(_maximum(_negative(bounded(x)), _negative(bounded(y))))


def _negative(x: Bounded) -> Bounded:
    return Bounded(-x.value, x.own, x.shared)


def _largest(x: Bounded) -> Bounded:
    candidates = _candidates(x)
    own, shared = (part if _absent(part) else _where(candidates, part).max(axis=-1) for part in (x.own, x.shared))
    return Bounded(x.value.max(axis=-1), own, shared)


def _candidates(x: Bounded) -> npt.NDArray[np.bool_]:
    """What may be the largest along the last axis."""
    reach = _reach(x)
    return np.asarray(x.value + reach >= (x.value - reach).max(axis=-1, keepdims=True))


def _shares(x: Bounded) -> Bounded:
    return _share(_candidates(x), lambda found: found.sum(axis=-1, keepdims=True))


def _share(candidates: npt.NDArray[np.bool_], count: Callable[[Floats], Floats]) -> Bounded:
    """An even share to each candidate; where there are several, each may get all or nothing."""
    found = candidates.astype(np.float64)
    value = found / np.maximum(1, count(found))
    several = candidates & (value < 1)
    return Bounded(value, 0.0, np.where(several, (1 - value) * EITHER, 0.0))


def _segment_candidates(x: Bounded, places: Numbers, count: int) -> npt.NDArray[np.bool_]:
    reach = _full(_reach(x), x.shape)
    return np.asarray(x.value + reach >= plain.segment_max(x.value - reach, places, count)[places])


def _segment_max(x: Bounded, places: Numbers, count: int) -> Bounded:
    candidates = _segment_candidates(x, places, count)
    own, shared = (
        part if _absent(part) else plain.segment_max(_where(candidates, part), places, count)
        for part in (x.own, x.shared)
    )
    return Bounded(plain.segment_max(x.value, places, count), own, shared)


def _segment_shares(x: Bounded, places: Numbers, count: int) -> Bounded:
    candidates = _segment_candidates(x, places, count)
    return _share(candidates, lambda found: plain.segment_sum(found, places, count)[places])


# Sums and products


def _summed(additions: Any, magnitude: Part, own: Part) -> Part:
    """What is a sum's own: of its terms', and of so many independent additions of terms of these magnitudes."""
    return _root(own, magnitude * np.sqrt(additions, dtype=np.float32))


def _additions(count: Any, different: Any) -> Any:
    """How many times additions round, for a sum of `count` terms of which some are alike."""
    return np.maximum(count - 1.0, 0.0) * (count / np.maximum(1.0, different))


def _total(x: Bounded) -> Bounded:
    count = x.shape[-1]
    changes = np.count_nonzero(x.value[..., 1:] != x.value[..., :-1], axis=-1)
    shared = x.shared if _absent(x.shared) else _full(x.shared, x.shape).sum(axis=-1)
    magnitude = _size(x.value).sum(axis=-1)
    own = _summed(_additions(float(count), changes + 1.0), magnitude, _root_of_squares(x))
    return Bounded(x.value.sum(axis=-1), own, shared)


def _root_of_squares(x: Bounded) -> Part:
    """The root of the sum of squares of what is its own, along the last axis."""
    if _absent(x.own):
        return x.own
    scaled, most = _scaled(_full(x.own, x.shape), -1)
    return np.sqrt(np.einsum("...k,...k->...", scaled, scaled)) * most[..., 0]


def _scaled(part: Part, axis: int) -> tuple[Part, Part]:
    """A part over the largest along an axis, and that: so its squares stay in the range of float32."""
    most = np.maximum(part.max(axis=axis, keepdims=True, initial=0), _TINY)
    return np.minimum(part, _MOST) / most, most


MANY = 16
"""Of so many terms, the roundings of products are counted by the least that they can be, magnitude / sqrt(n) in all:
3 % of what their additions lose, at most."""


def _matmul(x: Any, y: Any) -> Bounded:
    x, y = bounded(x), bounded(y)
    value, a, b, count = plain.matmul(x.value, y.value), _size(x.value), _size(y.value), x.shape[-1]
    magnitude, additions, owns = plain.matmul(a, b), count - 1.0, []
    if count >= MANY and _coarser[-1] == 1:
        additions += 1 / count
    else:
        owns.append(np.float32(_rounding_of_factors()) * _squared_product(a, b))
    shared: Part = _lost(value)
    if _coarser[-1] > 1:
        shared = shared + np.float32(count / CUT_OFF) * (_size(value) + _squared_product(a, b))
    if not _absent(x.own):
        owns.append(_squared_product(_full(x.own, x.shape), b))
    if not _absent(y.own):
        owns.append(_squared_product(a, _full(y.own, y.shape)))
    if not _absent(x.shared):
        shared = shared + plain.matmul(_full(x.shared, x.shape), b)
    if not _absent(y.shared):
        shared = shared + plain.matmul(a, _full(y.shared, y.shape))
    if not _absent(x.scale) and not _absent(y.scale):
        shared = shared + plain.matmul(np.float32(ROUNDOFF) * _full(x.scale, x.shape), _full(y.scale, y.shape))
    return Bounded(value, _summed(additions, magnitude, _root(*owns)), shared)


def _rounding_of_factors() -> float:
    """What a product rounds by, and its factors where they are coarser."""
    return math.sqrt(1 + 2 * _coarser[-1] ** 2) if _coarser[-1] > 1 else 1.0


def _squared_product(x: Part, y: Part) -> Part:
    """The root of the product of the squares."""
    (x, most), (y, largest) = _scaled(x, -1), _scaled(y, -2)
    x *= x
    y *= y
    found = plain.matmul(x, y)
    np.sqrt(found, out=found)
    found *= most
    found *= largest
    return found


@dataclass(frozen=True, eq=False)
class Accumulated(Bounded):
    """Sums that more may be added to: how many terms and different ones they have, of what magnitude, and the squares
    of what is their own of the terms' errors."""

    terms: Any = 0.0
    different: Any = 0.0
    magnitude: Any = 0.0
    squares: Any = 0.0

    def add(self, rows: Numbers, other: Accumulated) -> None:
        """Puts the terms of another, which has a row for each of these, into these sums themselves."""
        self.value[rows] += other.value
        self.shared[rows] += _full(other.shared, other.shape)
        for name in ("terms", "different", "magnitude", "squares"):
            getattr(self, name)[rows] += getattr(other, name)
        terms = (self.terms[rows], self.different[rows], self.magnitude[rows], self.squares[rows])
        self.own[rows] = _own_of(*terms)


def _own_of(terms: Any, different: Any, magnitude: Part, squares: Floats) -> Part:
    return _summed(_additions(terms, different), magnitude, np.sqrt(squares).astype(np.float32))


def _segment_sum(x: Bounded, places: Numbers, count: int) -> Accumulated:
    terms, different = (plain.widened(number, x.value.ndim) for number in _distinct(x.value, places, count))
    value, magnitude = (plain.segment_sum(part, places, count) for part in (x.value, _size(x.value)))
    shared = x.shared if _absent(x.shared) else plain.segment_sum(_full(x.shared, x.shape), places, count)
    squares = np.zeros(value.shape)
    if not _absent(x.own):
        squares = plain.segment_sum(np.square(_full(x.own, x.shape), dtype=np.float64), places, count)
    own = _own_of(terms, different, magnitude, squares)
    return Accumulated(value, own, shared, terms, different, magnitude, squares)


SAMPLED_COLUMNS = 3
"""By so many columns it is decided which rows of a sum are alike."""


def _distinct(values: Floats, places: Numbers, count: int) -> tuple[Floats, Floats]:
    """How many terms there are at each place, and how many of them differ in float32 and are not 0: by a few columns,
    the fewest of them."""
    terms = np.bincount(places, minlength=count).astype(np.float64)
    flat = values.reshape(len(values), math.prod(values.shape[1:]))
    different = terms
    for column in np.unique(np.linspace(0, flat.shape[1] - 1, SAMPLED_COLUMNS).astype(int)) if flat.size else ():
        taken = flat[:, column].astype(np.float32) + np.float32(0)
        keys = np.sort((places.astype(np.int64) << 32) | taken.view(np.uint32).astype(np.int64))
        first = np.concatenate([[True], keys[1:] != keys[:-1]]) & (keys & 0xFFFFFFFF != 0)
        zeros = np.bincount(places[taken == 0], minlength=count)
        found = np.bincount(keys[first] >> 32, minlength=count)
        # Zeros are no error; counted as different terms, they leave the share of those that are alike.
        different = np.minimum(different, found + zeros)
    return terms, different


# Shapes and places


def _moved(x: Bounded, function: Callable[[Any], Any], repeats: bool = True) -> Bounded:
    """A function that moves elements, of the values and of both parts; it may repeat them."""
    value = function(x.value)
    x = x.repeated() if repeats and value.size > x.size else x
    own, shared = (part if _absent(part) else function(_full(part, x.shape)) for part in (x.own, x.shared))
    return Bounded(value, own, shared)


def _moving(name: str) -> Callable[..., Bounded]:
    function = plain.FUNCTIONS[name]
    return lambda x, *arguments: _moved(x, lambda values: function(values, *arguments), repeats=name != "placed")


def _pick(x: Bounded, ids: Index) -> Bounded:
    return _moved(x, lambda values: values[ids])


def _joined(axis: int, *parts: Any) -> Bounded:
    arrays = [bounded(part) for part in parts]
    own, shared = (
        _NONE
        if all(_absent(part) for part in taken)
        else np.concatenate([_full(part, array.shape) for part, array in zip(taken, arrays, strict=True)], axis=axis)
        for taken in ([array.own for array in arrays], [array.shared for array in arrays])
    )
    return Bounded(np.concatenate([array.value for array in arrays], axis=axis), own, shared)


def _blank(like: Bounded, count: int) -> Bounded:
    shape = (count, *like.shape[1:])
    return Bounded(np.zeros(shape), np.zeros(shape, np.float32), np.zeros(shape, np.float32))


def _put(array: Bounded, ids: npt.NDArray[np.integer], values: Any) -> Bounded:
    rows = bounded(values)
    for target, source in ((array.value, rows.value), (array.own, rows.own), (array.shared, rows.shared)):
        target[ids] = source
    return array


def _accumulate(array: Any, ids: npt.NDArray[np.integer], values: Any) -> Bounded:
    """One sum however often it is added to, as where a loop's elements come in chunks."""
    rows, places = np.unique(ids, return_inverse=True)
    order = np.argsort(places, kind="stable")
    added = _segment_sum(_pick(bounded(values), (order,)), places[order], len(rows))
    found = array if isinstance(array, Accumulated) else _begun(bounded(array))
    found.add(rows, added)
    return found


def _begun(base: Bounded) -> Accumulated:
    """A sum whose first term is what there is; its arrays may be changed."""
    one = (base.value != 0).astype(np.float64)
    own, shared = (_full(part, base.shape) for part in (base.own, base.shared))
    squares = np.square(own, dtype=np.float64)
    return Accumulated(base.value, own, shared, one, one.copy(), _size(base.value), squares)


def _detached(x: Bounded) -> Bounded:
    return Bounded(x.value)


RAW = frozenset({"segment_sum", "segment_max", "segment_shares", "pick", "put", "accumulate"})
"""Functions whose arguments include ids, which have no bounds."""
RULES: dict[str, Callable[..., Bounded]] = {
    "add": _add,
    "subtract": lambda x, y: _add(x, _negative(bounded(y))),
    "multiply": _multiply,
    "divide": _divide,
    "divide_or_zero": _divide_or_zero,
    "negative": _negative,
    "maximum": _maximum,
    "minimum": _minimum,
    "exp": _exp,
    "log": _log,
    "log1p": _log1p,
    "softplus": _softplus,
    "sqrt": _sqrt,
    "absolute": lambda x: Bounded(np.abs(x.value), x.own, x.shared),
    "sign": _sign,
    "relu": _relu,
    "leaky_relu": _leaky_relu,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "gelu": _gelu,
    "gelu_slope": _gelu_slope,
    "sin": _sin,
    "cos": _cos,
    "step": _step,
    "leaky_step": _leaky_step,
    "above": _above,
    "shares": _shares,
    "segment_shares": _segment_shares,
    "detached": _detached,
    "total": _total,
    "norm": lambda x: _sqrt(_total(_multiply(x, x))),
    "largest": _largest,
    "matmul": _matmul,
    "segment_sum": _segment_sum,
    "segment_max": _segment_max,
    **{name: _moving(name) for name in ("reshaped", "transposed", "spread", "part", "placed")},
    "pick": _pick,
    "joined": _joined,
    "blank": _blank,
    "put": _put,
    "accumulate": _accumulate,
}
"""How the bounds of each of the primitives follow from those of its operands."""
