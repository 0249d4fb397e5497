"""Products that are cut out of what surrounds them, on the emulator, forward and with gradients."""

from __future__ import annotations

import pytest

from benchmarks.cases.checked import cases_of
from benchmarks.gpu_check import Setting, check_model
from tests.compiler.schedule.product_models import MODELS

BRIEF = frozenset({"views", "edge_mlp"})
"""What every run of the tests has: views of matrices, and products inside a loop over edges."""
KEPT = [pytest.param(name, marks=() if name in BRIEF else pytest.mark.sweep) for name in MODELS]


@pytest.mark.parametrize("name", KEPT)
def test_the_kernels_of_a_model(emulated: Setting, name: str) -> None:
    for case in cases_of(MODELS[name]):
        outcome = check_model(emulated, case)
        assert outcome["agrees"], (case.options, outcome)
