"""The language's functions, for the reference.

Every array has `lead` leading axes, which number the rows (one for positives, two with negatives; an axis of
size 1 stands for rows that share the value), and behind them the dense shape that the language speaks of.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from explorer.runtime.reference.numbers import primitives
from explorer.runtime.reference.numbers.primitives import Array, joined, matmul, multiply, reshaped, spread
from explorer.runtime.reference.text import ReferenceFailure

ELEMENTWISE: dict[str, Callable[[Array], Array]] = {
    "exp": primitives.exp,
    "log": primitives.log,
    "log1p": primitives.log1p,
    "softplus": primitives.softplus,
    "logsigmoid": lambda x: -primitives.softplus(-x),
    "silu": lambda x: x * primitives.sigmoid(x),
    "sqrt": primitives.sqrt,
    "abs": primitives.absolute,
    "sign": primitives.sign,
    "relu": primitives.relu,
    "sigmoid": primitives.sigmoid,
    "tanh": primitives.tanh,
    "gelu": primitives.gelu,
    "sin": primitives.sin,
    "cos": primitives.cos,
}
REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "sum": primitives.total,
    "mean": lambda x: primitives.total(x) / x.shape[-1],
    "max": primitives.largest,
    "min": lambda x: -primitives.largest(-x),
}
PAIRWISE: dict[str, Callable[[Array, Array], Array]] = {"max": primitives.maximum, "min": primitives.minimum}


def leaky_relu(x: Array, slope: float = 0.01) -> Array:
    """x where it is positive, else slope times x."""
    return primitives.leaky_relu(x, slope)


def norm(x: Array, p: float = 2) -> Array:
    """The 1- or 2-norm of the last dimension; 0 for a zero row."""
    if p not in (1, 2):
        raise ReferenceFailure(f"norm with p = {p}")
    return primitives.total(primitives.absolute(x)) if p == 1 else primitives.norm(x)


def dense(x: Array, lead: int, rank: int) -> Array:
    """x itself, which must have a dense shape of at least `rank` dimensions."""
    if x.ndim < lead + rank:
        raise ReferenceFailure(f"shape {list(x.shape[lead:])}, where {rank} dimensions are needed")
    return x


def repeat(x: Array, count: int, lead: int) -> Array:
    """So many copies along a new first dense dimension."""
    shape = (*x.shape[:lead], 1, *x.shape[lead:])
    return spread(reshaped(x, shape), (*x.shape[:lead], count, *x.shape[lead:]))


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
    return tuple(
        part.reshape(part.shape[:lead] + (1,) * (longest - len(own)) + part.shape[lead:])
        for part, own, longest in ((x, a, max(len(a), len(b))), (y, b, max(len(a), len(b))))
    )


def dot(x: Array, y: Array, lead: int) -> Array:
    """The inner product over the last dimension."""
    x, y = align_batches(dense(x, lead, 1), dense(y, lead, 1), lead, 1)
    if x.shape[-1] != y.shape[-1]:
        raise ReferenceFailure(f"dot of {list(x.shape[lead:])} and {list(y.shape[lead:])}")
    return matmul(x[..., None, :], y[..., :, None])[..., 0, 0]


def outer(x: Array, y: Array, lead: int) -> Array:
    """Every product of an element of one row and an element of the other: [D], [K] gives [D, K]."""
    x, y = align_batches(dense(x, lead, 1), dense(y, lead, 1), lead, 1)
    return multiply(x[..., :, None], y[..., None, :])


def product(x: Array, y: Array, lead: int) -> Array:
    """`x @ y`: a row by a matrix, a matrix by a row, or two matrices; the row reading wins where both fit."""
    a, b = dense(x, lead, 1).shape[lead:], dense(y, lead, 1).shape[lead:]
    if len(a) == len(b) == 1:
        return dot(x, y, lead)
    row_left = len(b) >= 2 and (len(a) == 1 or a[:-1] == b[:-2])
    row_right = len(a) >= 2 and (len(b) == 1 or b[:-1] == a[:-2])
    if row_left and a[-1] == b[-2]:
        return product_of_matrices(x[..., None, :], y, lead)[..., 0, :]
    if row_right and a[-1] == b[-1]:
        return product_of_matrices(x, y[..., :, None], lead)[..., 0]
    return product_of_matrices(x, y, lead)


def product_of_matrices(x: Array, y: Array, lead: int) -> Array:
    """The matrix product over the last two dimensions, batched over those before."""
    if min(x.ndim, y.ndim) < lead + 2 or x.shape[-1] != y.shape[-2]:
        raise ReferenceFailure(f"'@' of {list(x.shape[lead:])} and {list(y.shape[lead:])}")
    x, y = align_batches(x, y, lead, 2)
    return matmul(x, y)


def concat(parts: list[Array], lead: int) -> Array:
    """The parts one after another along the last dimension."""
    rows = np.broadcast_shapes(*(dense(part, lead, 1).shape[:lead] for part in parts))
    return joined(-1, *(spread(part, rows + part.shape[lead:]) for part in parts))
