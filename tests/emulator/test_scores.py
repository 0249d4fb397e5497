"""Every score of the examples on the emulator, with negatives and without, against the float64 reference."""

from __future__ import annotations

import pytest

from benchmarks.cases.checked import Case, all_cases
from benchmarks.gpu_check import Setting, check
from tests.emulator.cases import SIZES, as_parameters


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", as_parameters(all_cases(SIZES)))
def test_the_kernels_of_a_score(emulated: Setting, case: Case) -> None:
    outcome = check(emulated, case)
    assert outcome["agrees"], outcome
