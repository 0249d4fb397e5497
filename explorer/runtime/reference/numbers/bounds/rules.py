"""How the bounds of each of the primitives follow from those of its operands."""

from __future__ import annotations

import numpy as np

from explorer.runtime.reference.numbers.bounds import corners, elementwise, functions, places, products, sums
from explorer.runtime.reference.numbers.bounds.bounded import RULES, Bounded, bounded

__all__ = ["RULES"]

RULES |= {
    "add": elementwise.add,
    "subtract": lambda x, y: elementwise.add(x, elementwise.negative(bounded(y))),
    "multiply": elementwise.multiply,
    "divide": elementwise.divide,
    "divide_or_zero": elementwise.divide_or_zero,
    "negative": elementwise.negative,
    "maximum": corners.maximum,
    "minimum": corners.minimum,
    "greater": corners.greater,
    "at_least": corners.at_least,
    "equal": corners.equal,
    "masked": corners.masked,
    "floor": corners.floor,
    "stopped": lambda x: x,
    "power": functions.power,
    "exp": functions.exp,
    "log": functions.log,
    "log1p": functions.log1p,
    "softplus": functions.softplus,
    "sqrt": functions.sqrt,
    "absolute": lambda x: Bounded(np.abs(x.value), x.own, x.shared),
    "sign": corners.sign,
    "relu": corners.relu,
    "leaky_relu": corners.leaky_relu,
    "sigmoid": functions.sigmoid,
    "tanh": functions.tanh,
    "gelu": functions.gelu,
    "gelu_slope": functions.gelu_slope,
    "sin": functions.sin,
    "cos": functions.cos,
    "atan2": corners.atan2,
    "step": corners.step,
    "leaky_step": corners.leaky_step,
    "above": corners.above,
    "shares": corners.shares,
    "segment_shares": corners.segment_shares,
    "detached": places.detached,
    "total": sums.total,
    "norm": lambda x: functions.sqrt(sums.total(elementwise.multiply(x, x))),
    "largest": corners.largest,
    "matmul": products.matmul,
    "grouped_matmul": products.grouped_matmul,
    "segment_sum": sums.segment_sum,
    "segment_max": corners.segment_max,
    **{name: places.moving(name) for name in ("reshaped", "transposed", "spread", "part", "placed")},
    "pick": places.pick,
    "joined": places.joined,
    "blank": places.blank,
    "put": places.put,
    "accumulate": sums.accumulate,
}
