"""Long arrays made block by block, so that what is made on the way stays in cache.

An array of 20 million numbers is 160 MB: made afresh for each step of a sum, most of the time is spent on the pages
that the system clears for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Row = TypeVar("Row", bound=np.generic)

BLOCK = 1 << 18
"""The rows of a block."""


def blocks_of(count: int, size: int = BLOCK) -> Iterator[slice]:
    """Slices of at most `size` rows that cover 0 to count - 1, in order."""
    for start in range(0, count, size):
        yield slice(start, min(count, start + size))


def taken(rows: npt.NDArray[Row], ids: npt.NDArray[Any]) -> npt.NDArray[Row]:
    """rows[ids] of one dimension: NumPy copies 32-bit ids to 64 bits, here a block at a time."""
    found = np.empty(len(ids), dtype=rows.dtype)
    for block in blocks_of(len(ids)):
        found[block] = rows[ids[block]]
    return found


def scattered(rows: npt.NDArray[Row], ids: npt.NDArray[Any]) -> npt.NDArray[Row]:
    """What `taken` with the same ids makes these rows of, for ids that are all the numbers up to their own."""
    found = np.empty_like(rows)
    for block in blocks_of(len(ids)):
        found[ids[block]] = rows[block]
    return found
