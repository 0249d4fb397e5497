"""Every example with its backward pass on the emulator, against the graph's interpreter."""

from __future__ import annotations

import pytest

from benchmarks.cases.checked import Case, gradient_cases
from benchmarks.gpu_check import Setting, check_gradients
from tests.emulator.cases import SIZES, as_parameters


@pytest.mark.sampled(16)
@pytest.mark.parametrize("case", as_parameters(gradient_cases(SIZES)))
def test_the_kernels_of_a_backward_pass(emulated: Setting, case: Case) -> None:
    outcome = check_gradients(emulated, case)
    assert outcome["agrees"], outcome
