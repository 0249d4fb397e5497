"""Bounds at corners, where either of two slopes is right, and of what is largest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.numbers import primitives as plain
from explorer.runtime.reference.numbers.bounds.bounded import Bounded, bounded, reach_of
from explorer.runtime.reference.numbers.bounds.elementwise import made, negative, pair
from explorer.runtime.reference.numbers.bounds.parts import (
    EITHER,
    Floats,
    absent,
    cast,
    full,
    kept_where,
    plus,
    root,
    size_of,
    times,
)
from explorer.runtime.reference.numbers.primitives import Numbers, as_array


def sign(x: Bounded) -> Bounded:
    value = np.sign(x.value)
    reach = reach_of(x)
    near = np.broadcast_to((np.abs(x.value) <= reach) & (as_array(x.scale) != 0), x.shape)
    return Bounded(value, 0.0, _either(near, reach, 1 + np.abs(value)))


def _either(near: npt.NDArray[np.bool_], reach: Any, apart: Any) -> Floats:
    """The scale of what is one of two numbers that lie so far apart near a corner; where its argument has no bound, it
    has none: of what is no number there, a slope is none either."""
    return np.where(near, np.where(np.isinf(reach), np.inf, apart * EITHER), 0.0)


def relu(x: Bounded) -> Bounded:
    near = x.value >= -reach_of(x)
    return Bounded(np.maximum(x.value, 0), kept_where(near, x.own), kept_where(near, x.shared))


def leaky_relu(x: Bounded, slope: float) -> Bounded:
    value, reach = plain.leaky_relu(x.value, slope), reach_of(x)
    most = np.where(x.value > reach, 1.0, np.where(x.value < -reach, abs(slope), max(1.0, abs(slope))))
    own = np.where(x.value > reach, 0.0, value)
    return Bounded(value, root(cast(times(x.own, most)), size_of(math.sqrt(2) * own)), times(x.shared, most))


def step(x: Bounded) -> Bounded:
    reach = reach_of(x)
    near = np.abs(x.value) <= reach
    value = np.where(near, 0.5, plain.step(x.value))
    return Bounded(value, 0.0, _either(near, reach, 0.5))


def leaky_step(x: Bounded, slope: float) -> Bounded:
    found = step(x)
    return Bounded(slope + (1 - slope) * found.value, 0.0, abs(slope) + abs(1 - slope) * found.shared)


def above(x: Any, y: Any) -> Bounded:
    x, y = bounded(x), bounded(y)
    return step(Bounded(x.value - y.value, 0.0, x.scale + y.scale))


def _compared(x: Any, y: Any, holds: Callable[[Any, Any], Any]) -> Bounded:
    """A comparison of two numbers: either answer is right where their errors reach as far as they are apart."""
    x, y = bounded(x), bounded(y)
    reach = as_array(reach_of(x) + reach_of(y))
    near = (np.abs(x.value - y.value) <= reach) & (reach > 0)
    value = holds(x.value, y.value).astype(np.float64)
    return Bounded(value, 0.0, _either(np.broadcast_to(near, value.shape), reach, 1.0))


def greater(x: Any, y: Any) -> Bounded:
    return _compared(x, y, lambda one, other: one > other)


def at_least(x: Any, y: Any) -> Bounded:
    return _compared(x, y, lambda one, other: one >= other)


def equal(x: Any, y: Any) -> Bounded:
    return _compared(x, y, lambda one, other: one == other)


def masked(x: Any, y: Any) -> Bounded:
    """What is chosen keeps its errors; where the condition may go either way, the result may be 0 or y."""
    x, y = pair(x, y)
    chosen = x.value != 0
    value = np.where(chosen, y.value, 0.0)
    unsure = np.broadcast_to(as_array(x.scale) != 0, value.shape)
    either = _either(unsure, 0.0, size_of(np.broadcast_to(y.value, value.shape)))
    kept = np.broadcast_to(chosen, value.shape)
    own, shared = kept_where(kept, full(y.own, value.shape)), kept_where(kept, full(y.shared, value.shape))
    return Bounded(value, own, shared + either)


def floor(x: Bounded) -> Bounded:
    """Within reach of a whole number, it may be that one or the one below."""
    value, reach = np.floor(x.value), reach_of(x)
    near = np.floor(x.value + reach) != np.floor(x.value - reach)
    apart = np.floor(x.value + reach) - np.floor(x.value - reach)
    return Bounded(value, 0.0, _either(np.broadcast_to(near, value.shape), reach, np.where(near, apart, 0.0)))


def atan2(x: Any, y: Any) -> Bounded:
    """The slopes at the nearest that the point may lie to the origin; a whole turn either way where it may lie on the
    negative axis of y or on the other side of it, as even the sign of a zero decides."""
    x, y = pair(x, y)
    value = np.arctan2(x.value, y.value)
    by_x, by_y = np.broadcast_to(reach_of(x), value.shape), np.broadcast_to(reach_of(y), value.shape)
    turns = (np.abs(x.value) <= by_x) & (y.value <= by_y)
    nearest = np.maximum(np.abs(x.value) - by_x, 0.0) ** 2 + np.maximum(np.abs(y.value) - by_y, 0.0) ** 2
    steepest = np.where(nearest > 0, 1 / np.sqrt(np.where(nearest > 0, nearest, 1.0)), 0.0)

    def slope(other: Any, by: Any) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(nearest > 0, np.minimum((np.abs(other) + by) * steepest**2, steepest), 0.0)

    slope_x, slope_y = slope(y.value, by_y), slope(x.value, by_x)
    own = root(cast(times(x.own, slope_x)), cast(times(y.own, slope_y)), size_of(2 * value))  # CUDA's atan2f: 3 ulp
    shared = plus(times(x.shared, slope_x), times(y.shared, slope_y), _either(turns, by_x + by_y, 2 * math.pi))
    return made(value, own, shared)


def maximum(x: Any, y: Any) -> Bounded:
    x, y = pair(x, y)
    apart, reach = x.value - y.value, reach_of(x) + reach_of(y)

    def either(one: Any, other: Any) -> Any:
        return np.where(apart > reach, one, np.where(apart < -reach, other, np.maximum(one, other)))

    return Bounded(np.maximum(x.value, y.value), either(x.own, y.own), either(x.shared, y.shared))


def minimum(x: Any, y: Any) -> Bounded:
    return negative(maximum(negative(bounded(x)), negative(bounded(y))))


def largest(x: Bounded) -> Bounded:
    candidates = _candidates(x)
    own, shared = (part if absent(part) else kept_where(candidates, part).max(axis=-1) for part in (x.own, x.shared))
    return Bounded(x.value.max(axis=-1), own, shared)


def _candidates(x: Bounded) -> Any:
    """What may be the largest along the last axis."""
    reach = reach_of(x)
    return as_array(x.value + reach >= (x.value - reach).max(axis=-1, keepdims=True))


def shares(x: Bounded) -> Bounded:
    return _share(_candidates(x), x, lambda found: found.sum(axis=-1, keepdims=True))


def _share(candidates: npt.NDArray[np.bool_], x: Bounded, count: Callable[[Floats], Floats]) -> Bounded:
    """An even share to each candidate; where there are several, each may get all or nothing, and where one of those
    that share has no bound, nobody knows."""
    found = candidates.astype(np.float64)
    value = found / np.maximum(1, count(found))
    several = candidates & (value < 1)
    unbounded = np.isinf(full(reach_of(x), x.shape))
    unknown = count(unbounded.astype(np.float64)) > 0 if unbounded.any() else False
    return Bounded(value, 0.0, np.where(unknown, np.inf, np.where(several, (1 - value) * EITHER, 0.0)))


def _segment_candidates(x: Bounded, places: Numbers, count: int) -> Any:
    reach = full(reach_of(x), x.shape)
    return as_array(x.value + reach >= plain.segment_max(x.value - reach, places, count)[places])


def segment_max(x: Bounded, places: Numbers, count: int) -> Bounded:
    candidates = _segment_candidates(x, places, count)
    own, shared = (
        part if absent(part) else plain.segment_max(kept_where(candidates, part), places, count)
        for part in (x.own, x.shared)
    )
    return Bounded(plain.segment_max(x.value, places, count), own, shared)


def segment_shares(x: Bounded, places: Numbers, count: int) -> Bounded:
    candidates = _segment_candidates(x, places, count)
    return _share(candidates, x, lambda found: plain.segment_sum(found, places, count)[places])
