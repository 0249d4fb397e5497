"""Bounds of numbers that are moved, repeated, joined and put in places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.numbers import primitives as plain
from explorer.runtime.reference.numbers.bounds.bounded import Bounded, bounded
from explorer.runtime.reference.numbers.bounds.parts import NONE, absent, full
from explorer.runtime.reference.numbers.primitives import Index


def _moved(x: Bounded, function: Callable[[Any], Any], repeats: bool = True) -> Bounded:
    """A function that moves elements, of the values and of both parts; it may repeat them."""
    value = function(x.value)
    x = x.repeated() if repeats and value.size > x.size else x
    own, shared = (part if absent(part) else function(full(part, x.shape)) for part in (x.own, x.shared))
    return Bounded(value, own, shared)


def moving(name: str) -> Callable[..., Bounded]:
    function = plain.FUNCTIONS[name]
    return lambda x, *arguments: _moved(x, lambda values: function(values, *arguments), repeats=name != "placed")


def pick(x: Bounded, ids: Index) -> Bounded:
    return _moved(x, lambda values: values[ids])


def joined(axis: int, *parts: Any) -> Bounded:
    arrays = [bounded(part) for part in parts]
    own, shared = (
        NONE
        if all(absent(part) for part in taken)
        else np.concatenate([full(part, array.shape) for part, array in zip(taken, arrays, strict=True)], axis=axis)
        for taken in ([array.own for array in arrays], [array.shared for array in arrays])
    )
    return Bounded(np.concatenate([array.value for array in arrays], axis=axis), own, shared)


def blank(like: Bounded, count: int) -> Bounded:
    shape = (count, *like.shape[1:])
    own, shared = (np.zeros_like(like.value, np.float32, shape=shape) for _ in range(2))
    return Bounded(np.zeros_like(like.value, shape=shape), own, shared)


def put(array: Bounded, ids: npt.NDArray[np.integer], values: Any) -> Bounded:
    rows = bounded(values)
    for target, source in ((array.value, rows.value), (array.own, rows.own), (array.shared, rows.shared)):
        target[ids] = source
    return array


def detached(x: Bounded) -> Bounded:
    return Bounded(x.value)
