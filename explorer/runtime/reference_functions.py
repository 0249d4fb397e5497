"""The language's functions in float64 NumPy, for the reference.

Every array has `lead` leading axes, which number the rows (one for positives, two with negatives; an axis of
size 1 stands for rows that share the value), and behind them the dense shape that the language speaks of.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference_text import ReferenceFailure

Array = npt.NDArray[np.float64]

_erf = np.frompyfunc(math.erf, 1, 1)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)); the exponential of a negative number only, so that nothing overflows."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), which never overflows in this form."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def gelu(x: Array) -> Array:
    """x Φ(x) with the normal distribution's exact Φ, as PyTorch's default (`approximate="none"`)."""
    return 0.5 * x * (1 + np.asarray(_erf(x / math.sqrt(2)), dtype=np.float64))


ELEMENTWISE: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "gelu": gelu,
    "sin": np.sin,
    "cos": np.cos,
    "softplus": softplus,
    "logsigmoid": lambda x: -softplus(-x),
}
REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "sum": lambda x: x.sum(axis=-1),
    "mean": lambda x: x.mean(axis=-1),
    "max": lambda x: x.max(axis=-1),
    "min": lambda x: x.min(axis=-1),
}
PAIRWISE: dict[str, Callable[[Array, Array], Array]] = {"max": np.maximum, "min": np.minimum}


def leaky_relu(x: Array, slope: float = 0.01) -> Array:
    """x where it is positive, else slope times x."""
    return np.where(x >= 0, x, slope * x)


def norm(x: Array, p: float = 2) -> Array:
    """The 1- or 2-norm of the last dimension; 0 for a zero row."""
    if p not in (1, 2):
        raise ReferenceFailure(f"norm with p = {p}")
    return REDUCTIONS["sum"](np.abs(x)) if p == 1 else np.sqrt(REDUCTIONS["sum"](x * x))


def dense(x: Array, lead: int, rank: int) -> Array:
    """x itself, which must have a dense shape of at least `rank` dimensions."""
    if x.ndim < lead + rank:
        raise ReferenceFailure(f"shape {list(x.shape[lead:])}, where {rank} dimensions are needed")
    return x


def repeat(x: Array, count: int, lead: int) -> Array:
    """So many copies along a new first dense dimension."""
    return np.repeat(np.expand_dims(x, lead), count, axis=lead)


def align_prefix(x: Array, y: Array, lead: int) -> tuple[Array, Array]:
    """Makes the shorter dense shape broadcast; it must be the longer's prefix: [H] * [H, G] scales rows."""
    a, b = x.shape[lead:], y.shape[lead:]
    shorter = min(len(a), len(b))
    if a[:shorter] != b[:shorter]:
        raise ReferenceFailure(f"shapes {list(a)} and {list(b)}: neither is a prefix of the other")
    return x.reshape(x.shape + (1,) * (len(b) - shorter)), y.reshape(y.shape + (1,) * (len(a) - shorter))


def align_batches(x: Array, y: Array, lead: int, kept: int) -> tuple[Array, Array]:
    """Makes the dense dimensions before the last `kept` line up from the right: missing ones repeat."""
    a, b = x.shape[lead:-kept], y.shape[lead:-kept]
    shorter = min(len(a), len(b))
    if a[len(a) - shorter :] != b[len(b) - shorter :]:
        raise ReferenceFailure(f"batched dimensions {list(a)} and {list(b)} differ")
    return tuple(  # type: ignore[return-value]
        part.reshape(part.shape[:lead] + (1,) * (longest - len(own)) + part.shape[lead:])
        for part, own, longest in ((x, a, max(len(a), len(b))), (y, b, max(len(a), len(b))))
    )


def dot(x: Array, y: Array, lead: int) -> Array:
    """The inner product over the last dimension."""
    x, y = align_batches(dense(x, lead, 1), dense(y, lead, 1), lead, 1)
    if x.shape[-1] != y.shape[-1]:
        raise ReferenceFailure(f"dot of {list(x.shape[lead:])} and {list(y.shape[lead:])}")
    return np.asarray((x[..., None, :] @ y[..., :, None])[..., 0, 0])


def outer(x: Array, y: Array, lead: int) -> Array:
    """Every product of an element of one row and an element of the other: [D], [K] gives [D, K]."""
    x, y = align_batches(dense(x, lead, 1), dense(y, lead, 1), lead, 1)
    return x[..., :, None] * y[..., None, :]


def product(x: Array, y: Array, lead: int) -> Array:
    """`x @ y`: a row by a matrix, a matrix by a row, or two matrices; the row reading wins where both fit."""
    a, b = dense(x, lead, 1).shape[lead:], dense(y, lead, 1).shape[lead:]
    if len(a) == len(b) == 1:
        return dot(x, y, lead)
    row_left = len(b) >= 2 and (len(a) == 1 or a[:-1] == b[:-2])
    row_right = len(a) >= 2 and (len(b) == 1 or b[:-1] == a[:-2])
    if row_left and a[-1] == b[-2]:
        return multiply(x[..., None, :], y, lead)[..., 0, :]
    if row_right and a[-1] == b[-1]:
        return multiply(x, y[..., :, None], lead)[..., 0]
    return multiply(x, y, lead)


def multiply(x: Array, y: Array, lead: int) -> Array:
    """The matrix product over the last two dimensions, batched over those before."""
    if min(x.ndim, y.ndim) < lead + 2 or x.shape[-1] != y.shape[-2]:
        raise ReferenceFailure(f"'@' of {list(x.shape[lead:])} and {list(y.shape[lead:])}")
    x, y = align_batches(x, y, lead, 2)
    return np.asarray(np.matmul(x, y))


def concat(parts: list[Array], lead: int) -> Array:
    """The parts one after another along the last dimension."""
    rows = np.broadcast_shapes(*(dense(part, lead, 1).shape[:lead] for part in parts))
    return np.concatenate([np.broadcast_to(part, rows + part.shape[lead:]) for part in parts], axis=-1)
