"""f32 arithmetic of the execute unit. Outside their domain functions give NaN or infinity, as NumPy's do."""

from __future__ import annotations

import math

import numpy as np

from explorer.machine import opcodes as op
from explorer.machine.compiled import called


@called
def binary(function: int, left: np.float32, right: np.float32) -> np.float32:
    """Functions of two operands; minimum and maximum keep NaN."""
    result = left + right
    if function == op.MUL:
        result = left * right
    elif function == op.SUB:
        result = left - right
    elif function == op.DIV:
        result = left / right
    elif function == op.MIN:
        result = left if left <= right or left != left else right
    elif function == op.MAX:
        result = left if left >= right or left != left else right
    elif function == op.EQUAL:
        result = np.float32(1.0) if left == right else np.float32(0.0)
    elif function == op.DIV_OR_ZERO:
        result = np.float32(0.0) if right == 0 else left / right
    elif function == op.LEAKY_RELU:
        result = left if left > 0 else left * right
    return result


@called
def unary(function: int, value: np.float32) -> np.float32:
    """Functions of one operand."""
    one = np.float32(1.0)
    result = value
    if function == op.NEG:
        result = -value
    elif function == op.ABS:
        result = abs(value)
    elif function == op.SIGN:
        result = np.sign(value)
    elif function == op.RELU:
        result = value if value > 0 or value != value else np.float32(0.0)
    elif function == op.SQRT:
        result = np.sqrt(value)
    elif function == op.EXP:
        result = np.exp(value)
    elif function == op.LOG:
        result = np.log(value)
    elif function == op.LOG1P:
        result = np.log1p(value)
    elif function == op.SIGMOID:
        # Of the two forms, the one whose exponential cannot overflow.
        small = np.exp(-abs(value))
        result = one / (one + small) if value >= 0 else small / (one + small)
    elif function == op.TANH:
        result = np.tanh(value)
    elif function == op.GELU:
        result = np.float32(0.5) * value * (one + np.float32(math.erf(value * np.float32(math.sqrt(0.5)))))
    elif function == op.STEP:
        result = one if value > 0 else np.float32(0.0)
    elif function == op.GELU_SLOPE:
        density = np.exp(np.float32(-0.5) * value * value) * np.float32(1.0 / math.sqrt(2.0 * math.pi))
        result = np.float32(0.5) * (one + np.float32(math.erf(value * np.float32(math.sqrt(0.5))))) + value * density
    elif function == op.SIN:
        result = np.sin(value)
    elif function == op.COS:
        result = np.cos(value)
    return result


@called
def segment(function: int, value: np.float32, begin: int, end: int) -> np.float32:
    """What a segment's reduction ends in: its sum divided by its length, or 0 where it is empty."""
    result = value
    if function == op.SEGMENT_MEAN:
        result = value / np.float32(max(end - begin, 1))
    elif begin >= end:
        result = np.float32(0.0)
    return result


@called
def compute(function: int, left: np.float32, right: np.float32) -> np.float32:
    """A function of one operand, the left one, or of two."""
    return binary(function, left, right) if function <= op.LEAKY_RELU else unary(function, left)
