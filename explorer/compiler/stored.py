"""Numbers as they are stored, and what is stored as numbers: rounded to the nearest, ties to even."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.ir.storage import ROUNDED, STORAGES

Array = npt.NDArray[Any]

BLOCK = 1 << 20
"""Elements that are converted at a time: a table may be as large as memory lets it, and what is made on the way not."""


def packed(array: npt.ArrayLike, storage: str) -> Array:
    """The bits of the elements as they lie in memory, of the numbers rounded to the nearest, ties to even. What is of
    the type of the bits already, uint16 for both 16-bit floats, is taken as such."""
    given = np.asarray(array)
    if given.dtype == STORAGES[storage].bits:
        return given
    return _by_blocks(given, STORAGES[storage].bits, lambda part: _packed(part, storage))


def unpacked(bits: Array, storage: str) -> npt.NDArray[np.float32]:
    """The numbers that such bits are."""
    return _by_blocks(bits, np.float32, lambda part: _unpacked(part, storage))


def numbers(array: npt.ArrayLike, storage: str) -> npt.NDArray[np.float32]:
    """The numbers of an array, not rounded; where it is of the bits of 16-bit floats, those that these are."""
    given = np.asarray(array)
    if storage in ROUNDED and given.dtype == STORAGES[storage].bits:
        return unpacked(given, storage)
    return np.asarray(given, np.float32)


def rounded(array: npt.ArrayLike, storage: str) -> npt.NDArray[np.float32]:
    """The numbers nearest to those of an array that can be stored so, float32."""
    if storage == "f32":
        return np.asarray(array, np.float32)
    given = np.asarray(array)
    return _by_blocks(given, np.float32, lambda part: _unpacked(packed(part, storage), storage))


def _by_blocks(array: Array, made: npt.DTypeLike, convert: Callable[[Array], Array]) -> Array:
    found = np.empty(array.shape, made)
    flat, out = array.reshape(-1), found.reshape(-1)
    for first in range(0, flat.size, BLOCK):
        out[first : first + BLOCK] = convert(flat[first : first + BLOCK])
    return found


def _packed(array: Array, storage: str) -> Array:
    if storage == "bf16":
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        nearest = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
        return np.where((bits & 0x7FFFFFFF) > 0x7F800000, (bits >> 16) | 0x40, nearest)
    if storage == "f16":
        with np.errstate(over="ignore"):  # what is too large is infinite
            return np.ascontiguousarray(array, np.float16).view(np.uint16)
    return np.clip(np.rint(array), -128, 127) if storage == "i8" else array


def _unpacked(bits: Array, storage: str) -> Array:
    if storage == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(bits).view(np.float16) if storage == "f16" else bits
