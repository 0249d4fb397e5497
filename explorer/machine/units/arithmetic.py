"""f32 arithmetic of the execute unit. Outside their domain functions give NaN or infinity, as NumPy's do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from explorer.compiler.ir.functions import FUNCTIONS, callees
from explorer.machine.assembly import opcodes as op
from explorer.machine.compiled import called

FROM_MATH = {name: getattr(math, name) for name in callees("python") if hasattr(math, name)}


def _source(name: str, opcodes: Mapping[str, int]) -> str:
    """A Python function that tells functions by their opcodes; each one's text is the table's."""
    lines = [f"def {name}(function, left, right):"]
    for known, opcode in opcodes.items():
        text = FUNCTIONS[known].python.format("left", "right")
        lines += [f"    if function == {opcode}:", f"        return float32({text})"]
    return "\n".join((*lines, "    return left", ""))


SOURCES = {"binary": _source("binary", op.BINARY_FUNCTIONS), "unary": _source("unary", op.UNARY_FUNCTIONS)}
"""The functions of two operands and of one."""


def _compiled(name: str) -> Callable[[int, np.float32, np.float32], np.float32]:
    defined: dict[str, Any] = {"float32": np.float32, **FROM_MATH}
    exec(SOURCES[name], defined)
    function: Callable[[int, np.float32, np.float32], np.float32] = called(defined[name])
    return function


binary, unary = _compiled("binary"), _compiled("unary")


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
    return binary(function, left, right) if function < op.FIRST_UNARY else unary(function, left, right)
