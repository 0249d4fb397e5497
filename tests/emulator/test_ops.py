"""Every op of the examples on the emulator; some of the lists are empty."""

from __future__ import annotations

import pytest

from benchmarks.gpu_check import Case, Setting, check_op, op_cases
from tests.emulator.cases import SIZES, as_parameters


@pytest.mark.parametrize("case", as_parameters(op_cases(SIZES)))
def test_the_kernels_of_an_op(emulated: Setting, case: Case) -> None:
    outcome = check_op(emulated, case)
    assert outcome["agrees"], outcome
