"""On the CPU: floats of the bits of narrower elements, in operations that a loop does for several at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

uint32, float32 = np.uint32, np.float32
WIDER = np.float32(2.0**112)
"""What the exponents of float32 are above those of float16, as a factor."""


def from_bf16(bits: Any) -> Any:
    """The float whose upper half these 16 bits are."""
    return uint32(uint32(bits) << 16).view(float32)


def from_f16(bits: Any) -> Any:
    """The float that these 16 bits are in IEEE 754: moved to where float32 has them, and made as large. Small ones,
    below 2**-14, are so too; infinities and what is no number have the largest exponent of either."""
    moved = uint32((uint32(bits) & 0x7FFF) << 13)
    made = float32(uint32(moved).view(float32) * WIDER).view(uint32)
    largest = 0x7F800000 if moved >= 0x0F800000 else 0
    return uint32(made | largest | (uint32(bits) & 0x8000) << 16).view(float32)


@functools.cache
def from_bits() -> Mapping[str, Callable[[Any], Any]]:
    """By name, the functions that texts for the CPU call, as Numba compiles them into what calls them."""
    import numba

    njit: Any = numba.njit
    return {function.__name__: njit(function) for function in (from_bf16, from_f16)}
