"""Forms of the language on the emulator, forward and with gradients, against the float64 reference."""

from __future__ import annotations

import pytest

from benchmarks.gpu_check import Setting, cases_of, check_model
from tests.compiler.forms import FORMS


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FORMS)
def test_the_kernels_of_a_form(emulated: Setting, name: str) -> None:
    for case in cases_of(FORMS[name].text):
        outcome = check_model(emulated, case)
        assert outcome["agrees"], (case.options, outcome)
