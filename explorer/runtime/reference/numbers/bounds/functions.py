"""Bounds of functions of one number: their slope times its errors, and what their evaluation rounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explorer.runtime.reference.numbers import primitives as plain
from explorer.runtime.reference.numbers.bounds.bounded import Bounded, reach_of
from explorer.runtime.reference.numbers.bounds.elementwise import made
from explorer.runtime.reference.numbers.bounds.parts import ROUNDOFF, Floats, cast, root, size_of, times
from explorer.runtime.reference.numbers.primitives import as_array


def _of_slope(x: Bounded, value: Floats, slope: Any, own: Any) -> Bounded:
    """A function's result: its slope times the argument's errors, and `own`, in units of u, for its evaluation."""
    return made(value, root(cast(times(x.own, slope)), size_of(own)), times(x.shared, slope))


def exp(x: Bounded) -> Bounded:
    value, reach = np.exp(x.value), np.minimum(reach_of(x), 700.0)
    slope = value * np.where(reach > 0, np.expm1(reach) / np.where(reach > 0, reach, 1.0), 1.0)
    return _of_slope(x, value, slope, value * np.abs(x.value))  # kernels may take exp2(x log2 e)


def power(x: Bounded, exponent: float) -> Bounded:
    """The slope is steepest at one of the ends that the argument may lie at."""
    reach, value = reach_of(x), np.power(x.value, exponent)
    least, most = np.abs(x.value) - reach, np.abs(x.value) + reach
    ends = [abs(exponent) * np.power(np.where(end > 0, end, 0.0), exponent - 1) for end in (least, most)]
    slope = np.where((least > 0) | (exponent >= 1), np.maximum(*ends), np.inf)
    exact = np.broadcast_to(as_array(x.scale) == 0, value.shape)
    return _of_slope(x, value, np.where(exact, 0.0, slope), 4 * np.abs(value))  # CUDA's powf: 4 ulp


def log(x: Bounded) -> Bounded:
    least = x.value - reach_of(x)
    slope = np.where(least > 0, 1 / np.where(least > 0, least, 1.0), np.inf)
    exact = np.broadcast_to((x.scale == 0) & (x.value <= 0), x.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(x.value)
    return _of_slope(x, value, np.where(exact, 0.0, slope), np.abs(value))  # kernels may take log2(x) ln 2


def log1p(x: Bounded) -> Bounded:
    least = 1 + x.value - reach_of(x)
    slope = np.where(least > 0, 1 / np.where(least > 0, least, 1.0), np.inf)
    value = np.log1p(x.value)
    return _of_slope(x, value, slope, np.abs(value))


def softplus(x: Bounded) -> Bounded:
    value, small = plain.softplus(x.value), np.exp(-np.abs(x.value))
    slope = np.minimum(1.0, plain.sigmoid(x.value) * np.exp(np.minimum(reach_of(x), 50.0)))
    return _of_slope(x, value, slope, np.abs(value) + np.abs(x.value) * small)


def sqrt(x: Bounded) -> Bounded:
    value, scale = np.sqrt(x.value), as_array(x.scale)
    root = np.where(scale > 0, np.sqrt(scale / ROUNDOFF) / np.where(scale > 0, scale, 1.0), np.inf)
    slope = np.minimum(0.5 / np.where(value > 0, value, 1e-300), root)
    return _of_slope(x, value, np.where(scale > 0, slope, 0.0), 0.0)


def sigmoid(x: Bounded) -> Bounded:
    value = plain.sigmoid(x.value)
    least = plain.sigmoid(-np.abs(x.value)) * plain.sigmoid(np.abs(x.value))  # s (1 - s), without cancellation
    slope = np.minimum(0.25, least * np.exp(np.minimum(reach_of(x), 50.0)))
    return _of_slope(x, value, slope, least * (1 + np.abs(x.value)))


def tanh(x: Bounded) -> Bounded:
    value, size = np.tanh(x.value), np.minimum(np.abs(x.value), 350.0)
    slope = np.minimum(1.0, np.exp(np.minimum(2 * reach_of(x), 50.0)) / np.cosh(size) ** 2)
    return _of_slope(x, value, slope, 2 * np.abs(value))


def gelu(x: Bounded) -> Bounded:
    reach = np.abs(_slope_of_gelu(x.value)) + 0.8 * reach_of(x)
    return _of_slope(x, plain.gelu(x.value), np.minimum(1.13, reach), np.abs(x.value))  # 1 + erf cancels below 0


def _slope_of_gelu(x: Floats) -> Floats:
    found: Floats = as_array(plain.gelu_slope(x))
    return found


def gelu_slope(x: Bounded) -> Bounded:
    density = np.exp(-0.5 * x.value**2) / math.sqrt(2 * math.pi)
    slope = np.abs(density * (2 - x.value**2)) + 1.6 * reach_of(x)
    return _of_slope(x, _slope_of_gelu(x.value), np.minimum(0.8, slope), 1 + np.abs(x.value) ** 3 * density)


def sin(x: Bounded) -> Bounded:
    value = np.sin(x.value)
    return _of_slope(x, value, np.minimum(1.0, np.abs(np.cos(x.value)) + reach_of(x)), 2 * np.abs(value))


def cos(x: Bounded) -> Bounded:
    value = np.cos(x.value)
    return _of_slope(x, value, np.minimum(1.0, np.abs(np.sin(x.value)) + reach_of(x)), 2 * np.abs(value))
