"""Scalars as columns of the vectors that are read with them: what kernels with arrays of their own compute."""

from __future__ import annotations

import pytest

from benchmarks.cases.checked import Case
from benchmarks.gpu_check import Setting, check_gradients, check_rows
from tests.compiler.layers import FOLDER
from tests.emulator.cases import SIZES


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rgat", {}),
        ("rgat", {"compact": "false"}),
        ("rgat", {"grad": "true"}),
        ("rgat_heads", {"reorder": "false"}),
        ("hgt", {"compact": "false"}),
        ("hgt", {"grad": "true"}),
    ],
)
def test_packed_kernels(emulated: Setting, name: str, size: int, options: dict[str, str]) -> None:
    """Against float64; some nodes have no edges, and rows of 33 numbers are as little aligned packed as before."""
    check = check_gradients if "grad" in options else check_rows
    outcome = check(emulated, Case((FOLDER / f"{name}.emb").read_text(), size, 0, {**options, "pack": "true"}))
    assert outcome["agrees"], outcome
