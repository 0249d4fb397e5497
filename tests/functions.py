"""What the elementwise functions of the compiler's table mean, in float64: the oracle for every target, a line each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.compiler.ir.functions import FUNCTIONS


def share_below(x: Any) -> Any:
    """The normal distribution's Phi."""
    return np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)), otypes=[np.float64])(x)


EXACT: dict[str, Callable[..., Any]] = {
    "copy": lambda x: x,
    "stop_gradient": lambda x: x,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
    "equal": lambda x, y: np.where(x == y, 1.0, 0.0),
    "not_equal": lambda x, y: np.where(x != y, 1.0, 0.0),
    "greater": lambda x, y: np.where(x > y, 1.0, 0.0),
    "at_least": lambda x, y: np.where(x >= y, 1.0, 0.0),
    "masked": lambda x, y: np.where(x != 0, y, 0.0),
    "div_or_zero": lambda x, y: np.where(y == 0, 0, x / np.where(y == 0, 1, y)),
    "neg": np.negative,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "pow": lambda x, exponent: np.power(x, exponent),
    "floor": np.floor,
    "abs": np.abs,
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x, slope: np.where(x < 0, slope * x, x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "gelu": lambda x: x * share_below(x),
    "sin": np.sin,
    "cos": np.cos,
    "atan2": np.arctan2,
    "step": lambda x: np.where(x > 0, 1.0, 0.0),
    "gelu_slope": lambda x: share_below(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
}

OPERANDS = {name: function.operand_count for name, function in FUNCTIONS.items()}
SLOPE = 0.2
"""What stands for a parameter."""
