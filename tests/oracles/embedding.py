"""The ops of the embedding papers, written entry by entry as the papers' listings have them; float64."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def bag(T: Array, ptr: Array, idx: Array, weight: Array | None = None, mode: str = "sum") -> Array:
    """SLS: bag b reduces the rows idx[ptr[b]:ptr[b+1]] of T; 0 where there are none."""
    out = np.zeros((len(ptr) - 1, T.shape[1]))
    for b in range(len(ptr) - 1):
        rows = [
            (1.0 if weight is None else float(weight[p])) * T[idx[p]].astype(float) for p in range(ptr[b], ptr[b + 1])
        ]
        if rows:
            out[b] = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode](rows, axis=0)
    return out


def dense(rowptr: Array, col: Array, value: Array, shape: tuple[int, int]) -> Array:
    """The matrix itself; nonzeros at one place add up."""
    matrix = np.zeros(shape)
    for i in range(shape[0]):
        for z in range(rowptr[i], rowptr[i + 1]):
            matrix[i, col[z]] += value[z]
    return matrix


def message_passing(x: Array, rowptr: Array, col: Array, value: Array) -> Array:
    """Ember's Table 1: z_v = sum of a_vu <x_v, x_u> x_v."""
    out = np.zeros_like(x, dtype=float)
    for v in range(len(x)):
        for z in range(rowptr[v], rowptr[v + 1]):
            out[v] += value[z] * float(x[v] @ x[col[z]]) * x[v]
    return out


def sigmoid_embedding(x: Array, rowptr: Array, col: Array) -> Array:
    """FusedMM's sigmoid form: z_v = sum of (1 - s(<x_v, x_u>)) x_u."""
    out = np.zeros_like(x, dtype=float)
    for v in range(len(x)):
        for z in range(rowptr[v], rowptr[v + 1]):
            out[v] += (1 - 1 / (1 + np.exp(-float(x[v] @ x[col[z]])))) * x[col[z]]
    return out
