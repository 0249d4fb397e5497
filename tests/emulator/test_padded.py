"""Padded rows of what kernels make for one another: what the generated CUDA computes of them, at every address."""

from __future__ import annotations

import pytest

from benchmarks.cases.checked import Case
from benchmarks.gpu_check import Setting, check_gradients, check_rows
from tests.compiler.layers import FOLDER


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [20, 41])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rgat", {"pad": "4"}),
        ("rgat", {"pad": "32", "grad": "true"}),
        ("rgat", {"pad": "8", "pack": "true", "compact": "false"}),
        ("rgat_heads", {"pad": "16"}),
        ("hgt", {"pad": "8", "compact": "false"}),
        ("hgt", {"pad": "8", "grad": "true"}),
    ],
)
def test_padded_kernels(emulated: Setting, name: str, size: int, options: dict[str, str]) -> None:
    """Against float64; some nodes have no edges."""
    check = check_gradients if "grad" in options else check_rows
    outcome = check(emulated, Case((FOLDER / f"{name}.emb").read_text(), size, 0, options))
    assert outcome["agrees"], outcome
