"""Every op of the examples on the emulator; some of the lists are empty."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer
from benchmarks.gpu_check import Case, Setting, check_rows, op_cases
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
