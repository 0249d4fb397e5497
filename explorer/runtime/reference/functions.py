"""The language's functions, for the reference.

Every array has `lead` leading axes, which number the rows (one for positives, two with negatives; an axis of
size 1 stands for rows that share the value), and behind them the dense shape that the language speaks of.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from explorer.runtime.reference.numbers import choices, primitives
from explorer.runtime.reference.numbers.primitives import Array, joined, matmul, moved, multiply, reshaped, spread
from explorer.runtime.reference.text import ReferenceFailure

ELEMENTWISE: dict[str, Callable[[Array], Array]] = {
    "stop_gradient": choices.stopped,
    "exp": primitives.exp,
    "log": primitives.log,
    "log1p": primitives.log1p,
    "softplus": primitives.softplus,
    "logsigmoid": lambda x: -primitives.softplus(-x),
    "silu": lambda x: x * primitives.sigmoid(x),
    "floor": choices.floor,
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


def softmax(x: Array) -> Array:
    """exp(x) over its sum along the last axis."""
    powers = primitives.exp(x - primitives.detached(primitives.largest(x))[..., None])
    return powers / primitives.total(powers)[..., None]


def logsumexp(x: Array) -> Array:
    """log(sum(exp(x))) along the last axis."""
    most = primitives.detached(primitives.largest(x))
    return most + primitives.log(primitives.total(primitives.exp(x - most[..., None])))


def product_of_all(x: Array) -> Array:
    """The product along the last axis, of one element after another."""
    found = x[..., 0]
    for place in range(1, x.shape[-1]):
        found = found * x[..., place]
    return found


REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "sum": primitives.total,
    "mean": lambda x: primitives.total(x) / x.shape[-1],
    "max": primitives.largest,
    "min": lambda x: -primitives.largest(-x),
    "logsumexp": logsumexp,
    "prod": product_of_all,
}
PAIRWISE: dict[str, Callable[[Array, Array], Array]] = {
    "max": primitives.maximum,
    "min": primitives.minimum,
    "masked": choices.masked,
    "atan2": primitives.atan2,
}
MOST_FACTORS = 16
"""Whole exponents up to this one are products, which are known where x is negative."""


def power(x: Array, exponent: float) -> Array:
    """x ** exponent."""
    if exponent == int(exponent) and 1 <= abs(exponent) <= MOST_FACTORS:
        product = x
        for _ in range(int(abs(exponent)) - 1):
            product = product * x
        return product if exponent > 0 else 1 / product
    return primitives.sqrt(x) if exponent == 0.5 else choices.power(x, exponent)


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


def align(x: Array, y: Array, lead: int) -> tuple[Array, Array]:
    """Makes the shorter dense shape broadcast: it is the longer's beginning, [H] * [H, G] scales rows, or its end."""
    a, b = x.shape[lead:], y.shape[lead:]
    shorter = min(len(a), len(b))
    if a[:shorter] != b[:shorter] and a[len(a) - shorter :] == b[len(b) - shorter :]:
        x = x.reshape(x.shape[:lead] + (1,) * (len(b) - shorter) + a)
        return x, y.reshape(y.shape[:lead] + (1,) * (len(a) - shorter) + b)
    if a[:shorter] != b[:shorter]:
        raise ReferenceFailure(f"shapes {list(a)} and {list(b)}: neither is the beginning or the end of the other")
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


def einsum(letters: str, values: list[Array], lead: int) -> Array:
    """The product of all values, each along its letters, summed over those that the result lacks: as soon as no later
    value has them, since all letters at once may be more than memory holds."""
    inputs, _, result = letters.replace(" ", "").partition("->")
    names = inputs.split(",")
    found, own = values[0], names[0]
    for at in range(1, len(names)):
        later = {*result, *"".join(names[at + 1 :])}
        found, own = _summed(found, own, {*names[at], *later}, lead)
        other, its = _summed(values[at], names[at], {*own, *later}, lead)
        found, own = _multiplied((found, own), (other, its), later, lead)
    found, own = _summed(found, own, set(result), lead)
    return _ordered(found, own, result, lead)


def _ordered(x: Array, letters: str, wanted: str, lead: int) -> Array:
    """A value whose dense dimensions are those letters, with its dimensions in the order of others."""
    return primitives.transposed(x, (*range(lead), *(lead + letters.index(letter) for letter in wanted)))


def _summed(x: Array, letters: str, kept: set[str], lead: int) -> tuple[Array, str]:
    """A value without the dimensions whose letters are not kept, and its letters."""
    left = "".join(letter for letter in letters if letter in kept)
    gone = "".join(letter for letter in letters if letter not in kept)
    x = _ordered(x, letters, left + gone, lead)
    for _ in gone:
        x = primitives.total(x)
    return x, left


def _multiplied(one: tuple[Array, str], other: tuple[Array, str], kept: set[str], lead: int) -> tuple[Array, str]:
    """Two values with their letters as one, summed over what both have and is not kept: a product of matrices."""
    (x, a), (y, b) = one, other
    rows = "".join(letter for letter in a if letter not in b)
    columns = "".join(letter for letter in b if letter not in a)
    both = "".join(letter for letter in a if letter in b and letter in kept)
    along = "".join(letter for letter in a if letter in b and letter not in kept)
    sizes = dict(zip(a + b, x.shape[lead:] + y.shape[lead:], strict=True))
    height, depth, width = (math.prod(sizes[letter] for letter in part) for part in (rows, along, columns))
    batch = tuple(sizes[letter] for letter in both)
    left = reshaped(_ordered(x, a, both + rows + along, lead), (*x.shape[:lead], *batch, height, depth))
    right = reshaped(_ordered(y, b, both + along + columns, lead), (*y.shape[:lead], *batch, depth, width))
    found, letters = matmul(left, right), both + rows + columns
    return reshaped(found, (*found.shape[:lead], *(sizes[letter] for letter in letters))), letters


def concat(parts: list[Array], lead: int, axis: int = -1) -> Array:
    """The parts one after another along a dense dimension."""
    rows = np.broadcast_shapes(*(dense(part, lead, 1).shape[:lead] for part in parts))
    return joined(axis if axis < 0 else axis + lead, *(spread(part, rows + part.shape[lead:]) for part in parts))


def stack(parts: list[Array], lead: int, axis: int = 0) -> Array:
    """The parts, which are alike, along a new dense dimension."""
    place = axis + lead if axis >= 0 else axis + parts[0].ndim + 1
    return concat([reshaped(part, (*part.shape[:place], 1, *part.shape[place:])) for part in parts], lead, place - lead)


def along_last(x: Array, axis: int, lead: int) -> Array:
    """x with a dense dimension as its last one."""
    return x if axis in (-1, x.ndim - lead - 1) else moved(x, axis + lead if axis >= 0 else axis + x.ndim, -1)


def roll(x: Array, count: int) -> Array:
    """The elements of the last dimension so many places on, in a ring."""
    places = np.roll(np.arange(x.shape[-1]), count)
    return joined(-1, *(x[..., place : place + 1] for place in places))


def windows(x: Array, length: int) -> Array:
    """All runs of so many neighbours of the last dimension, a row each."""
    count = x.shape[-1] - length + 1
    return joined(-2, *(x[..., None, place : place + length] for place in range(count)))


def circulant(x: Array) -> Array:
    """A row for each k: the last dimension from element k on, in a ring."""
    extent = x.shape[-1]
    return windows(joined(-1, x, x[..., : extent - 1]), extent) if extent > 1 else x[..., None, :]
