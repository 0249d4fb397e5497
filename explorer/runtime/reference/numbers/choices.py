"""Comparisons, which are 0 or 1, what they choose, and what jumps: primitives that carriers take over."""

from __future__ import annotations

import numpy as np

from explorer.runtime.reference.numbers.primitives import Array, primitive


@primitive
def masked(x: Array, y: Array) -> Array:
    """y where x is not 0, else 0."""
    return np.where(x != 0, y, np.zeros_like(y))


@primitive
def greater(x: Array, y: Array) -> Array:
    """1 where x > y, else 0."""
    return (x > y).astype(x.dtype)


@primitive
def at_least(x: Array, y: Array) -> Array:
    """1 where x >= y, else 0."""
    return (x >= y).astype(x.dtype)


@primitive
def equal(x: Array, y: Array) -> Array:
    """1 where x == y, else 0."""
    return (x == y).astype(x.dtype)


@primitive
def floor(x: Array) -> Array:
    return np.floor(x)


@primitive
def stopped(x: Array) -> Array:
    """The same numbers, whose gradient is 0."""
    return x


@primitive
def power(x: Array, exponent: float) -> Array:
    """x to the power of a number."""
    return x**exponent
