"""Every layer of the examples on the emulator, under the four settings of its passes."""

from __future__ import annotations

import pytest

from benchmarks.cases.checked import Case, layer_cases
from benchmarks.gpu_check import Setting, check_rows
from tests.emulator.cases import SIZES, as_parameters


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", as_parameters(layer_cases(SIZES)))
def test_the_kernels_of_a_layer(emulated: Setting, case: Case) -> None:
    outcome = check_rows(emulated, case)
    assert outcome["agrees"], outcome
