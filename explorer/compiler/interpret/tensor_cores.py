"""What tensor cores make of float32 operands: TF32 has 11 bits of a number, the first of which is not stored."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.compiler.ir.kernels import Precision

Floats = npt.NDArray[np.float32]
CUT = np.int32(~0x1FFF)
"""The bits of a float32 that TF32 has."""
HALF = np.int32(0x1000)


def truncated(x: Floats) -> Floats:
    """The first 11 bits of each number, which is what the hardware reads."""
    kept: npt.NDArray[np.int32] = x.view(np.int32) & CUT
    return kept.view(np.float32)


def rounded(x: Floats) -> Floats:
    """The nearest TF32 number, away from zero where two are as near; NaN stays NaN."""
    bits = x.view(np.int32)
    return truncated(np.where(np.isnan(x), bits, bits + HALF).view(np.float32))


def below(x: Floats) -> Floats:
    """What is left of each number behind the bits that TF32 has."""
    rest: Floats = x - truncated(x)
    return rest


def product(left: Floats, right: Floats, precision: Precision, low: Floats | None = None) -> Floats:
    """`left` [depth, rows] transposed times `right` [depth, columns], with sums in float32; `low` is what is below the
    numbers of `left`, where that has been computed."""
    low = below(left) if low is None else low
    left, right, low = np.ascontiguousarray(left.T), np.ascontiguousarray(right), np.ascontiguousarray(low.T)
    if precision == "tf32":
        sums: Floats = rounded(left) @ rounded(right)
        return sums
    high, wide = truncated(left), truncated(right)
    low, narrow = truncated(low), truncated(below(right))
    sums = low @ wide + high @ narrow + high @ wide
    return sums
