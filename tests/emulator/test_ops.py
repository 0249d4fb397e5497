"""Every op of the examples on the emulator; some of the lists are empty."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer
from benchmarks.cases.checked import Case, op_cases
from benchmarks.gpu_check import Setting, check_rows
from tests.emulator.cases import SIZES, as_parameters


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", as_parameters(op_cases(SIZES)))
def test_the_kernels_of_an_op(emulated: Setting, case: Case) -> None:
    outcome = check_rows(emulated, case)
    assert outcome["agrees"], outcome


@pytest.mark.parametrize(
    ("size", "options"),
    [
        (64, {"block_rows": "32"}),
        (64, {"block_rows": "1024", "lane_vectors": "1"}),
        (100, {"popular": "true"}),
        (32, {"popular": "true", "lanes": "4"}),
    ],
)
def test_dot_products_of_blocks_of_any_size(emulated: Setting, size: int, options: dict[str, str]) -> None:
    text = (Path(explorer.__file__).parents[1] / "examples" / "embedding" / "sddmm.emb").read_text()
    outcome = check_rows(emulated, Case(text, size, 0, options))
    assert outcome["agrees"], outcome


LINEAR_ATTENTION = """dim H = 3, D = 32
op LinearAttention(A: csr[q, k]):
    param Q[q, H, D], K[k, H, D], V[k, H, D]
    for i in A.rows():
        s = sum(outer(relu(K[j]) + 0.1, V[j]) for j in A.row(i))
        z = sum(relu(K[j]) + 0.1 for j in A.row(i))
        f = relu(Q[i]) + 0.1
        i["o"] = (f @ s) / (max(f, z) + 0.001)
    return i["o"]
"""
"""Behind its heads a row has a loop that lanes share already when columns of blocks are looked for."""
ROWS_CALLED_AS = """dim D = 20
op SpMM(A: csr[a, i]):
    param X[i, D]
    for r in A.rows():
        r["y"] = sum(v * X[c] for c, v in A.row(r))
    return r["y"]
"""
"""The rows are `as` and the columns `is`, words of Python's."""


@pytest.mark.parametrize("text", [LINEAR_ATTENTION, ROWS_CALLED_AS])
def test_ops_that_mutated_texts_found(emulated: Setting, text: str) -> None:
    outcome = check_rows(emulated, Case(text, 0, 0, {}))
    assert outcome["agrees"], outcome
