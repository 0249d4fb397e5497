"""Features of data: how long its lists are, and how often the rows that they pick are picked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

CAPACITIES = tuple(1 << power for power in range(8, 21, 2))
"""Rows of a cache, for which the share of picks that it serves is told."""
ENDS = "ptr"
"""What the names of arrays end in that say where lists begin."""
STEPS = 40
"""Halvings in which the time that a row stays in a cache is found."""


def data_features(arrays: Mapping[str, Any]) -> dict[str, float]:
    """By name what is told of each number, and of each array of indices (int, one or two dimensions), that a program
    reads.

    Of an array that says where lists begin (ENDS): the number of lists, the mean, the largest and the spread
    (deviation over mean) of their lengths. Of others: how many picks there are, of how many rows, the share of the
    busiest row, the spread of how often rows are picked, and the share of picks that a cache of CAPACITIES rows would
    serve. Of ends that descend, and of an array with numbers below 0, which are no rows, nothing is told."""
    found = {name: float(value) for name, value in arrays.items() if isinstance(value, int)}
    for name, array in arrays.items():
        if isinstance(array, np.ndarray) and array.dtype.kind in "iu" and array.size > 1:
            told = _of_lists(array) if name.endswith(ENDS) else _of_picks(array)
            found.update({f"{name}.{what}": value for what, value in told.items()})
    return found


def _of_lists(ends: NDArray[Any]) -> dict[str, float]:
    lengths = np.diff(ends.astype(np.int64))
    if (lengths < 0).any():
        return {}
    mean, longest = float(lengths.mean()), float(lengths.max())
    spread = float(lengths.std()) / mean if mean else 0.0  # lists that are all empty are as long as one another
    return {"lists": float(lengths.size), "mean": mean, "longest": longest, "spread": spread}


def _of_picks(ids: NDArray[Any]) -> dict[str, float]:
    rows, counts = np.unique(ids, return_counts=True)
    if rows[0] < 0:
        return {}
    served = served_shares(counts)
    return {
        "picks": float(ids.size),
        "rows": float(counts.size),
        "busiest": float(counts.max()) / ids.size,
        "spread": float(counts.std()) / float(counts.mean()),
        **{f"served by {rows}": share for rows, share in zip(CAPACITIES, served, strict=True)},
    }


def served_shares(counts: NDArray[Any]) -> list[float]:
    """The share of picks that a cache of each of CAPACITIES rows serves, which keeps what was used last, where rows are
    picked so often, in any order: Che's approximation (Che, Tung and Wang 2002). Rows with the same number of picks are
    thought of together. It leaves out what comes by neighbours in time, which `runtime.data.locality` counts."""
    picks, rows = np.unique(counts, return_counts=True)
    rate = picks / counts.sum()
    shares = []
    for capacity in CAPACITIES:
        if capacity >= counts.size:
            shares.append(1.0 - counts.size / float(counts.sum()))  # each row is missed once
            continue
        low, high = 0.0, 1e3 / float(rate.min())
        for _ in range(STEPS):
            middle = (low + high) / 2
            kept = float((rows * -np.expm1(-rate * middle)).sum())
            low, high = (middle, high) if kept < capacity else (low, middle)
        shares.append(float((rows * rate * -np.expm1(-rate * low)).sum()))
    return shares
