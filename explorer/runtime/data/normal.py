"""Normal numbers for the tensors of a run."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from explorer.runtime.data.blocks import blocks_of

DRAWN = 1 << 20
"""The numbers that are drawn with one seed."""


def standard_normal(seed: list[int], shape: tuple[int, ...], divisor: float = 1.0) -> npt.NDArray[np.float32]:
    """Normal numbers in float32 of a deviation of 1 / divisor, the same for the same arguments on any machine.

    The first DRAWN are of the seed, each DRAWN behind them of the seed and their number, on as many threads as there
    are processors."""
    values = np.empty(shape, dtype=np.float32)
    flat = values.reshape(-1)

    def draw(number: int, rows: slice) -> None:
        random = np.random.default_rng(seed if number == 0 else [*seed, number])
        random.standard_normal(dtype=np.float32, out=flat[rows])
        if divisor != 1:
            flat[rows] /= np.float32(divisor)

    parts = list(blocks_of(flat.size, DRAWN))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(draw, range(len(parts)), parts))
    return values


def whole(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Drawn numbers as whole ones of 8 bits, as large as these may be: what quantising a table makes of it."""
    largest = np.abs(values).max(initial=0.0)
    return np.rint(values * np.float32(127 / largest)) if largest else values
