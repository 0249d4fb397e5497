"""Which numbers a text has: those of 32 bits, and none that is infinity."""

from __future__ import annotations

from math import isfinite, isinf
from typing import Any

import torch

from explorer.runtime.trace.tapes.tape import Call, tensors_in
from explorer.runtime.trace.values.tensors import Unsayable, Value

_TYPES = torch.float32, torch.bool, torch.int64
"""Of tensors that depend on floats; whole numbers count what is true."""


def is_infinite(each: Any) -> bool:
    """Whether a tensor is one number, which is infinity."""
    return each.numel() == 1 and each.is_floating_point() and isinf(float(each))


def hold_numbers(call: Call, values: list[Value | None]) -> None:
    """Raises Unsayable for numbers that the language has not: infinities that are written, and other types."""
    for tensor, value in zip(tensors_in(call.returned), values, strict=False):
        if value is None:
            continue
        written = [each for each in value.node.operands if each.operator == "number"]
        if not all(isfinite(float(str(each.data[0]))) for each in written):
            raise Unsayable("infinity has no name in the model language: write a large number")
        if tensor.dtype not in _TYPES and value.node.operator != "number":
            raise Unsayable(f"it makes {tensor.dtype}: the language computes in 32-bit floats")
