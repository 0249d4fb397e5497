"""What the functions of the language compute, on NumPy arrays and scalars alike."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.compiler.interpret.tensor_cores import below, rounded
from explorer.compiler.ir import functions

Number = Any
"""A NumPy array or scalar; the function keeps its type."""

_NAMES = {"np": np, "math": math, "erf": np.vectorize(math.erf, otypes=[np.float64])}
"""What the table's expressions are written in."""

FUNCTIONS: dict[str, Callable[..., Number]] = {
    **{function.name: eval(function.numpy, _NAMES) for function in functions.TABLE},
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

REDUCTIONS: dict[str, np.ufunc] = {
    "sum": np.add,
    "product": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}

INDEX_ARRAY_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.floor_divide,
    "mod": np.remainder,
    "less": lambda a, b: np.less(a, b).astype(np.int64),
    "at_most": lambda a, b: np.less_equal(a, b).astype(np.int64),
    "equal": lambda a, b: np.equal(a, b).astype(np.int64),
    "min": np.minimum,
    "max": np.maximum,
    "select": np.where,
}
"""The arithmetic of indices, of many iterations' at once: `INDEX_FUNCTIONS` are those of one."""
