"""What the reference's evaluators compute with: NumPy's functions, which what carries more than numbers may take over.

An evaluator calls these alone on its values, so the same walk over a text gives numbers (float64, or float32 to see
what that can give at best), numbers with bounds of their rounding errors (`reference_bounds`), and either of these with
what is needed for gradients (`reference_adjoint`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt

Array = Any
"""An array of floats, or a Carrier."""
Numbers = npt.NDArray[np.int64]
Index = tuple[Any, ...]


class Carrier:
    """A value that carries more than its numbers: `call` computes each of this module's functions on it."""

    __array_ufunc__ = None  # so that NumPy leaves operators with an array on their left to this class
    level = 0
    shape: tuple[int, ...]
    nbytes: int

    def call(self, name: str, arguments: tuple[Any, ...]) -> Array:
        """The function of that name; among the arguments there are carriers of no higher level."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __add__(self, other: Array) -> Array:
        return add(self, other)

    def __radd__(self, other: Array) -> Array:
        return add(other, self)

    def __sub__(self, other: Array) -> Array:
        return subtract(self, other)

    def __rsub__(self, other: Array) -> Array:
        return subtract(other, self)

    def __mul__(self, other: Array) -> Array:
        return multiply(self, other)

    def __rmul__(self, other: Array) -> Array:
        return multiply(other, self)

    def __truediv__(self, other: Array) -> Array:
        return divide(self, other)

    def __rtruediv__(self, other: Array) -> Array:
        return divide(other, self)

    def __neg__(self) -> Array:
        return negative(self)

    def __getitem__(self, index: Any) -> Array:
        index = index if isinstance(index, tuple) else (index,)
        return pick(self, index) if isinstance(index[0], np.ndarray) else part(self, index)

    def reshape(self, *shape: Any) -> Array:
        extents = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        return reshaped(self, _extents(self.size, extents))


class Foreign:
    """An array that is not NumPy's own and that NumPy's functions take by its protocols, as one on a device."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def astype(self, dtype: npt.DTypeLike, copy: bool = True) -> Foreign:
        raise NotImplementedError

    def fetched(self) -> npt.NDArray[Any]:
        """The same in this process's memory, as NumPy's own."""
        raise NotImplementedError

    def erf(self) -> Foreign:
        """The error function of each element, which is none of NumPy's."""
        raise NotImplementedError


def as_array(x: Any, dtype: npt.DTypeLike | None = None) -> Any:
    """Numbers as an array, of a type where one is given: where they are."""
    if isinstance(x, Foreign):
        return x if dtype is None else x.astype(dtype, copy=False)
    return np.asarray(x, dtype)


class OneByOne(np.ndarray[Any, np.dtype[np.float32]]):
    """Numbers whose sums are taken one term after another, as a single lane does; NumPy adds in pairs."""


FUNCTIONS: dict[str, Callable[..., Array]] = {}


def primitive(plain: Callable[..., Array]) -> Callable[..., Array]:
    """Makes a function of arrays one that carriers take over."""

    @wraps(plain)
    def function(*arguments: Any) -> Array:
        carriers = [argument for argument in arguments if isinstance(argument, Carrier)]
        if not carriers:
            result = plain(*arguments)
            one_by_one = any(isinstance(argument, OneByOne) for argument in arguments)
            return np.asarray(result).view(OneByOne) if one_by_one else result
        return max(carriers, key=lambda carrier: carrier.level).call(plain.__name__, arguments)

    FUNCTIONS[plain.__name__] = function
    return function


def _extents(size: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with the extent that -1 stands for."""
    known = math.prod(extent for extent in shape if extent != -1)
    return tuple(size // max(1, known) if extent == -1 else extent for extent in shape)


# Element by element


@primitive
def add(x: Array, y: Array) -> Array:
    return x + y


@primitive
def subtract(x: Array, y: Array) -> Array:
    return x - y


@primitive
def multiply(x: Array, y: Array) -> Array:
    return x * y


@primitive
def divide(x: Array, y: Array) -> Array:
    return x / y


@primitive
def divide_or_zero(x: Array, y: Array) -> Array:
    """x / y, and 0 where y is 0: the slope of a norm."""
    return np.where(y == 0, np.zeros_like(y), x / np.where(y == 0, np.ones_like(y), y))


@primitive
def negative(x: Array) -> Array:
    return -x


@primitive
def maximum(x: Array, y: Array) -> Array:
    return np.maximum(x, y)


@primitive
def minimum(x: Array, y: Array) -> Array:
    return np.minimum(x, y)


@primitive
def exp(x: Array) -> Array:
    return np.exp(x)


@primitive
def log(x: Array) -> Array:
    return np.log(x)


@primitive
def log1p(x: Array) -> Array:
    return np.log1p(x)


@primitive
def softplus(x: Array) -> Array:
    """log(1 + exp(x)), which never overflows in this form."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@primitive
def sqrt(x: Array) -> Array:
    return np.sqrt(x)


@primitive
def absolute(x: Array) -> Array:
    return np.abs(x)


@primitive
def sign(x: Array) -> Array:
    return np.sign(x)


@primitive
def relu(x: Array) -> Array:
    return np.maximum(x, 0)


@primitive
def leaky_relu(x: Array, slope: float) -> Array:
    """x where it is positive, else slope times x."""
    return np.where(x >= 0, x, slope * x).astype(x.dtype, copy=False)


@primitive
def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)); the exponential of a negative number only, so that nothing overflows."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


@primitive
def tanh(x: Array) -> Array:
    return np.tanh(x)


@primitive
def sin(x: Array) -> Array:
    return np.sin(x)


@primitive
def cos(x: Array) -> Array:
    return np.cos(x)


@primitive
def atan2(x: Array, y: Array) -> Array:
    """The angle of the point whose ordinate is x and whose abscissa is y."""
    return np.arctan2(x, y)


_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x: Array) -> Array:
    """The error function of an array."""
    if isinstance(x, Foreign):
        return x.erf()
    return np.asarray(_erf(x), dtype=np.float64).astype(x.dtype, copy=False)


@primitive
def gelu(x: Array) -> Array:
    """x Φ(x) with the normal distribution's exact Φ, as PyTorch's default (`approximate="none"`)."""
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


@primitive
def gelu_slope(x: Array) -> Array:
    """Φ(x) + x φ(x)."""
    return 0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


# Slopes at corners: where both sides are equally right, these are in the middle.


@primitive
def step(x: Array) -> Array:
    """The slope of relu: 0 up to 0, then 1."""
    return (x > 0).astype(x.dtype)


@primitive
def leaky_step(x: Array, slope: float) -> Array:
    """The slope of leaky_relu."""
    return np.where(x > 0, np.ones_like(x), np.full_like(x, slope))


@primitive
def above(x: Array, y: Array) -> Array:
    """The slope of max(x, y) by x: 1 where x is larger, a half where they are alike."""
    return 0.5 * (1 + np.sign(x - y))


@primitive
def shares(x: Array) -> Array:
    """The slope of the largest along the last axis by each; those that are the largest alike share it."""
    largest = x == x.max(axis=-1, keepdims=True)
    return largest.astype(x.dtype) / largest.sum(axis=-1, keepdims=True).astype(x.dtype)


@primitive
def segment_shares(x: Array, places: Numbers, count: int) -> Array:
    """The same among the rows of each place."""
    largest = (x == segment_max(x, places, count)[places]).astype(x.dtype)
    return largest / segment_sum(largest, places, count)[places]


@primitive
def detached(x: Array) -> Array:
    """The same numbers, where any near them would do: what a softmax subtracts and divides out again."""
    return x


# Sums and products


@primitive
def total(x: Array) -> Array:
    """The sum along the last axis."""
    if isinstance(x, OneByOne):
        return np.add.accumulate(x, axis=-1)[..., -1] if x.shape[-1] else x.sum(axis=-1)
    return x.sum(axis=-1)


@primitive
def norm(x: Array) -> Array:
    """The root of the sum of squares along the last axis."""
    return np.sqrt(total(x * x))


@primitive
def largest(x: Array) -> Array:
    """The maximum along the last axis."""
    return x.max(axis=-1)


@primitive
def matmul(x: Array, y: Array) -> Array:
    """The matrix product over the last two axes, batched over those before."""
    if isinstance(x, OneByOne):
        result = np.zeros_like(x, shape=(*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1]))
        for index in range(x.shape[-1]):
            result += x[..., :, index, None] * y[..., index, None, :]
        return result
    if x.shape[-2] == y.shape[-1] == 1:
        return np.einsum("...k,...k->...", x[..., 0, :], y[..., 0])[..., None, None]
    if y.ndim == x.ndim and x.size and y.size:  # one matrix for all: a product of two large ones
        if math.prod(y.shape[:-2]) == 1:
            return (x.reshape(-1, x.shape[-1]) @ y.reshape(y.shape[-2:])).reshape(*x.shape[:-1], y.shape[-1])
        if math.prod(x.shape[:-2]) == 1 and y.shape[-1] == 1:
            rows = y.reshape(-1, y.shape[-2]) @ x.reshape(x.shape[-2:]).T
            return rows.reshape(*y.shape[:-2], x.shape[-2], 1)
    return np.matmul(x, y)


@primitive
def grouped_matmul(x: Array, y: Array, starts: Numbers) -> Array:
    """Every row of x times its group's matrix: [..., rows, k] by [groups, ..., k, n] to [..., rows, n].

    A group's rows stand together, and `starts` has where each begins."""
    if isinstance(x, Foreign) or isinstance(y, Foreign):
        ends = [*starts[1:], x.shape[-2]]
        parts = zip(y, starts, ends, strict=True)
        return np.concatenate([matmul(x[..., start:end, :], matrix) for matrix, start, end in parts], axis=-2)
    rows, leading = x.shape[-2], np.broadcast_shapes(x.shape[:-2], y.shape[1:-2])
    # Laid out row by row, as what follows goes through it.
    result = np.moveaxis(np.empty((rows, *leading, y.shape[-1]), np.result_type(x, y)), 0, -2)
    for matrix, start, end in zip(y, starts, [*starts[1:], rows], strict=True):
        factor = x[..., start:end, :]
        if isinstance(x, OneByOne):
            result[..., start:end, :] = matmul(factor, matrix)
        else:
            np.matmul(factor, matrix, out=result[..., start:end, :])
    return result


@primitive
def segment_sum(values: Array, places: Numbers, count: int) -> Array:
    """The sum of the rows of each of `count` places, 0 where there is none; `places` is sorted."""
    result = np.zeros_like(values, shape=(count, *values.shape[1:]))
    if isinstance(values, OneByOne):
        np.add.at(result, places, values)
    else:
        reduce_runs(np.add, values, places, result)
    return result


@primitive
def segment_max(values: Array, places: Numbers, count: int) -> Array:
    """The largest of the rows of each place, 0 where there is none; `places` is sorted."""
    result = np.zeros_like(values, shape=(count, *values.shape[1:]))
    reduce_runs(np.maximum, values, places, result)
    return result


def reduce_runs(function: np.ufunc, values: Array, places: Numbers, result: Array) -> None:
    """Puts the values of each run of equal places, reduced, at that place of the result."""
    if len(places):
        starts = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
        result[places[starts]] = function.reduceat(values, starts, axis=0)


# Shapes and places


@primitive
def reshaped(x: Array, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


@primitive
def transposed(x: Array, axes: tuple[int, ...]) -> Array:
    return x.transpose(axes)


@primitive
def spread(x: Array, shape: tuple[int, ...]) -> Array:
    """x repeated along the axes where it has one element."""
    return np.broadcast_to(x, shape)


@primitive
def part(x: Array, index: Index) -> Array:
    """x at slices and numbers, with new axes where there is None."""
    return x[index]


@primitive
def pick(x: Array, ids: tuple[npt.NDArray[np.integer], ...]) -> Array:
    """The rows that ids along the first axes name."""
    return x[ids]


@primitive
def joined(axis: int, *parts: Array) -> Array:
    """The parts one after another along an axis."""
    return np.concatenate(parts, axis=axis)


@primitive
def placed(x: Array, shape: tuple[int, ...], index: Index) -> Array:
    """An array of 0 with x at this index: what `part` takes, given back."""
    result = np.zeros_like(x, shape=shape)
    result[index] = x
    return result


@primitive
def blank(like: Array, count: int) -> Array:
    """So many rows of 0, of the shape that `like` has."""
    return np.zeros_like(like, shape=(count, *like.shape[1:]))


@primitive
def put(array: Array, ids: npt.NDArray[np.integer], values: Array) -> Array:
    """The array with other rows at these places, which differ; it may be changed itself."""
    array[ids] = values
    return array


@primitive
def accumulate(array: Array, ids: npt.NDArray[np.integer], values: Array) -> Array:
    """The array with rows added at these places, which may repeat; it may be changed itself."""
    if isinstance(array, OneByOne):
        np.add.at(array, ids, values)
    elif len(ids):
        order = np.argsort(ids, kind="stable")
        places = ids[order]
        starts = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
        array[places[starts]] += np.add.reduceat(values[order], starts, axis=0)
    return array


def swapped(x: Array) -> Array:
    """The last two axes exchanged."""
    axes = list(range(x.ndim))
    axes[-2:] = axes[-1], axes[-2]
    return transposed(x, tuple(axes))


def moved(x: Array, source: int, target: int) -> Array:
    """One axis moved to another place."""
    axes = list(range(x.ndim))
    axis = axes.pop(source)
    axes.insert(target if target >= 0 else x.ndim + target, axis)
    return transposed(x, tuple(axes))


def widened(values: Array, rank: int) -> Array:
    """With axes of size 1 behind, so that a prefix shape repeats."""
    return values.reshape(values.shape + (1,) * (rank - values.ndim))
