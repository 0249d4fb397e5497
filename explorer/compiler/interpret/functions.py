"""What the functions of the language compute, on NumPy arrays and scalars alike."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.compiler.interpret.tensor_cores import below, rounded

Number = Any
"""A NumPy array or scalar; the function keeps its type."""

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(x: Number) -> Number:
    """x times the normal distribution's Phi(x): the exact form, PyTorch's default."""
    return (x * 0.5 * (1.0 + _erf(x / math.sqrt(2.0)))).astype(x.dtype)


def _gelu_slope(x: Number) -> Number:
    """The derivative of gelu: Phi(x) + x phi(x)."""
    density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return (0.5 * (1.0 + _erf(x / math.sqrt(2.0))) + x * density).astype(x.dtype)


def _divide_or_zero(x: Number, y: Number) -> Number:
    """x / y, and 0 where y is 0: the gradient of a norm at 0, the share of an empty segment."""
    zero = np.equal(y, 0)
    return np.where(zero, 0, np.divide(x, np.where(zero, 1, y))).astype(np.result_type(x))


def _sigmoid(x: Number) -> Number:
    """1 / (1 + exp(-x)), without overflow: both branches take exp of a number below zero."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small)).astype(x.dtype)


FUNCTIONS: dict[str, Callable[..., Number]] = {
    "copy": lambda x: x,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
    "neg": np.negative,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "leaky_relu": lambda x, slope: np.where(x >= 0, x, x * x.dtype.type(slope)).astype(x.dtype),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "gelu": _gelu,
    "sin": np.sin,
    "cos": np.cos,
    "step": lambda x: (x > 0).astype(x.dtype),
    "equal": lambda x, y: (x == y).astype(x.dtype),
    "div_or_zero": _divide_or_zero,
    "gelu_slope": _gelu_slope,
    "unless_empty": lambda x, begin, end: x if begin < end else x.dtype.type(0),
    "segment_mean": lambda x, begin, end: x / x.dtype.type(max(end - begin, 1)),
    "as_tf32": rounded,
    "below_tf32": below,
}

OPERATORS: dict[str, Callable[..., Number]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
}
"""The same as the NumPy functions of these names, and several times as fast on single numbers."""

SCALAR_FUNCTIONS = FUNCTIONS | OPERATORS
"""The functions for interpreters that compute one number at a time."""

REDUCTIONS: dict[str, Callable[[Number, Number], Number]] = {
    "sum": np.add,
    "product": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
