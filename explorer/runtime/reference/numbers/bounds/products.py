"""Bounds of matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.runtime.reference.numbers import primitives as plain
from explorer.runtime.reference.numbers.bounds.bounded import Bounded, bounded
from explorer.runtime.reference.numbers.bounds.parts import (
    ROUNDOFF,
    Part,
    absent,
    full,
    lost,
    root,
    scaled_down,
    size_of,
)
from explorer.runtime.reference.numbers.bounds.sums import summed
from explorer.runtime.reference.numbers.primitives import Numbers

CUT_OFF = 16.0
"""Tensor cores add eight products at a time and cut off what does not fit, where others round: the sum loses half a
unit of its last place a step, always towards 0, so that such errors do not cancel (Fasi, Higham, Mikaitis and Pranesh,
Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7, 2021). On the way a sum is about half as large as
in the end, or as sums that take a walk are."""
_coarser = [1.0]


@contextmanager
def products_coarser(times: float) -> Iterator[None]:
    """Inside, the factors of matrix products have a unit roundoff so many times that of float32."""
    _coarser.append(times)
    yield
    _coarser.pop()


MANY = 16
"""Of so many terms, the roundings of products are counted by the least that they can be, magnitude / sqrt(n) in all:
3 % of what their additions lose, at most."""


@dataclass(frozen=True)
class _Product:
    """A product of rows and matrices: of two arrays, and of what scales the matrices' columns the scales of the
    result's elements."""

    of: Callable[[Any, Any], Any]
    columns: Callable[[Part], Part]


def matmul(x: Any, y: Any) -> Bounded:
    return _bounds(bounded(x), bounded(y), _Product(plain.matmul, lambda columns: columns))


def grouped_matmul(x: Any, y: Any, starts: Numbers) -> Bounded:
    group = np.repeat(np.arange(len(starts)), np.diff(starts, append=x.shape[-2]))

    def of(x: Any, y: Any) -> Any:
        return plain.grouped_matmul(x, y, starts)

    return _bounds(bounded(x), bounded(y), _Product(of, lambda columns: np.moveaxis(columns[group, ..., 0, :], 0, -2)))


def _bounds(x: Bounded, y: Bounded, product: _Product) -> Bounded:
    """The product of x's rows, its last axis, and y's columns, its last but one."""
    value, a, b, count = product.of(x.value, y.value), size_of(x.value), size_of(y.value), x.shape[-1]
    magnitude, additions, owns = product.of(a, b), count - 1.0, []
    if count >= MANY and _coarser[-1] == 1:
        additions += 1 / count
    else:
        owns.append(np.float32(_rounding_of_factors()) * _squared(product, a, b))
    shared: Part = lost(value)
    if _coarser[-1] > 1:
        shared = shared + np.float32(count / CUT_OFF) * (size_of(value) + _squared(product, a, b))
    if not absent(x.own):
        owns.append(_squared(product, full(x.own, x.shape), b))
    if not absent(y.own):
        owns.append(_squared(product, a, full(y.own, y.shape)))
    if not absent(x.shared):
        shared = shared + product.of(full(x.shared, x.shape), b)
    if not absent(y.shared):
        shared = shared + product.of(a, full(y.shared, y.shape))
    if not absent(x.scale) and not absent(y.scale):
        shared = shared + product.of(np.float32(ROUNDOFF) * full(x.scale, x.shape), full(y.scale, y.shape))
    return Bounded(value, summed(additions, magnitude, root(*owns)), shared)


def _rounding_of_factors() -> float:
    """What a product rounds by, and its factors where they are coarser."""
    return math.sqrt(1 + 2 * _coarser[-1] ** 2) if _coarser[-1] > 1 else 1.0


def _squared(product: _Product, x: Part, y: Part) -> Part:
    """The root of the product of the squares."""
    (x, most), (y, largest) = scaled_down(x, -1), scaled_down(y, -2)
    x *= x
    y *= y
    found = product.of(x, y)
    np.sqrt(found, out=found)
    found *= most
    found *= product.columns(largest)
    return found
