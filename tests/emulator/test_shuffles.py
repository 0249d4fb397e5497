"""Dot products whose lanes join their parts in shared memory, not by shuffles: a switch of G-Sparse's search space."""

from __future__ import annotations

import numpy as np
import pytest

import explorer
from benchmarks.gpu_check import Setting

ROWS, COLS, EDGES = 13, 9, 75
TEXTS = {
    "sum": """op Dots(A: csr[row, col]):
    param X[row, H, D], Y[col, H, D]
    for z in A.nonzeros():
        z["y"] = sum(X[z.row] * Y[z.col], axis=-1)
    return z["y"]
""",
    "max": """op Dots(A: csr[row, col]):
    param X[row, H, D], Y[col, H, D]
    for z in A.nonzeros():
        z["y"] = max(X[z.row] * Y[z.col], axis=-1)
    return z["y"]
""",
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("size", [3, 32, 100])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("reduction", TEXTS)
def test_lanes_join_in_shared_memory(emulated: Setting, reduction: str, heads: int, size: int, lanes: int) -> None:
    """Edges are no multiple of what a warp has at a time (traps of lane widths below a warp's)."""
    text = f"dim H = {heads}, D = {size}\n{TEXTS[reduction]}"
    schedule = f"Dots_0: strategy = dots, lanes = {lanes}, shuffle = false"
    compilation = explorer.compile(text, schedule=schedule, on_demand=True)
    assert compilation.schedule["Dots_0.shuffle"] is False, "lanes share a row of this size"
    assert "__shfl" not in compilation.stages["cuda"].text
    random = np.random.default_rng(3)
    row, col = np.sort(random.integers(0, ROWS, EDGES)), random.integers(0, COLS, EDGES)
    x, y = (random.standard_normal((count, heads, size)).astype(np.float32) for count in (ROWS, COLS))
    given = {"row": row, "col": col, "num_rows": ROWS, "num_cols": COLS, "X": x, "Y": y}
    arrays, finish = compilation.encode(compilation, given, None)
    result, _ = finish(*emulated.launch(compilation, arrays))
    products = x[row].astype(float) * y[col].astype(float)
    wanted = products.sum(-1) if reduction == "sum" else products.max(-1)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6 * size)
