"""Bounds of sums, products and quotients of two numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explorer.runtime.reference.numbers.bounds.bounded import Bounded, bounded
from explorer.runtime.reference.numbers.bounds.parts import (
    NEAR,
    NONE,
    ROUNDOFF,
    Floats,
    Part,
    absent,
    cast,
    full,
    kept_where,
    lost,
    plus,
    root,
    size_of,
    times,
)


def made(value: Floats, own: Part, shared: Part) -> Bounded:
    """A result that is rounded and may be flushed or overflow; `own` is without its own rounding."""
    return Bounded(value, root(own, size_of(value)), plus(shared, lost(value)))


def pair(x: Any, y: Any) -> tuple[Bounded, Bounded]:
    """Both operands; the errors of one that is repeated for the other are shared."""
    x, y = bounded(x), bounded(y)
    size = math.prod(np.broadcast_shapes(x.shape, y.shape))
    return (x if x.size == size else x.repeated()), (y if y.size == size else y.repeated())


def add(x: Any, y: Any) -> Bounded:
    """What cancels counts, since a product with a sum may be computed as a sum of products: `q * (a - b)` as
    `q * a - q * b`, as where `interchange` takes out what several scores share."""
    x, y = pair(x, y)
    value = x.value + y.value
    cancelled = 2 * np.minimum(size_of(x.value), size_of(y.value))
    cancelled *= np.signbit(x.value) != np.signbit(y.value)
    return Bounded(value, root(x.own, y.own, size_of(value)), plus(x.shared, y.shared, cancelled))


def multiply(x: Any, y: Any) -> Bounded:
    x, y = pair(x, y)
    a, b = size_of(x.value), size_of(y.value)
    own = root(times(x.own, b), times(y.own, a))
    return made(x.value * y.value, own, plus(times(x.shared, b), times(y.shared, a), _both(x, y)))


def _both(x: Bounded, y: Bounded) -> Part:
    """The product of both operands' errors."""
    return NONE if absent(x.scale) or absent(y.scale) else x.scale * np.float32(ROUNDOFF) * y.scale


def divide(x: Any, y: Any) -> Bounded:
    x, y = pair(x, y)
    value = x.value / y.value
    least = np.abs(y.value) - NEAR * ROUNDOFF * y.scale
    over = np.where(least > 0, 1 / np.where(least > 0, least, 1.0), np.inf)
    by = np.abs(value) * over
    own = root(cast(times(x.own, over)), cast(times(y.own, by)))
    return made(value, own, plus(times(x.shared, over), times(y.shared, by)))


def divide_or_zero(x: Bounded, y: Bounded) -> Bounded:
    x, y = bounded(x), bounded(y)
    shape = np.broadcast_shapes(x.shape, y.shape)
    found = divide(x, Bounded(np.where(y.value == 0, 1.0, y.value), y.own, y.shared))
    unknown = np.broadcast_to((y.value == 0) & (y.scale != 0), shape)
    kept = np.broadcast_to(y.value != 0, shape)
    shared = np.where(unknown, np.inf, kept_where(kept, full(found.shared, shape)))
    return Bounded(np.where(kept, found.value, 0.0), kept_where(kept, full(found.own, shape)), shared)


def negative(x: Bounded) -> Bounded:
    return Bounded(-x.value, x.own, x.shared)
