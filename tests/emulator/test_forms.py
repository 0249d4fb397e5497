"""Forms of the language on the emulator, forward and with gradients, against the float64 reference."""

from __future__ import annotations

import pytest

from benchmarks.gpu_check import Setting, cases_of, check_model
from tests.compiler.forms import FORMS
from tests.compiler.set_forms import SET_FORMS

TEXTS = {name: form.text for name, form in (*FORMS.items(), *SET_FORMS.items())}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", TEXTS)
def test_the_kernels_of_a_form(emulated: Setting, name: str) -> None:
    for case in cases_of(TEXTS[name]):
        outcome = check_model(emulated, case)
        assert outcome["agrees"], (case.options, outcome)
