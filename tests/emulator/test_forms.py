"""Forms of the language on the emulator, forward and with gradients, against the float64 reference."""

from __future__ import annotations

import pytest

from benchmarks.cases.checked import cases_of
from benchmarks.gpu_check import Setting, check_model
from tests.compiler.by_form.bag_forms import BAG_FORMS
from tests.compiler.by_form.facts import FACTS
from tests.compiler.by_form.forms import FORMS
from tests.compiler.by_form.own_negatives import OWN_NEGATIVES
from tests.compiler.by_form.paper_facts import PAPER_FACTS
from tests.compiler.by_form.set_forms import SET_FORMS

KNOWN = (BAG_FORMS, FORMS, SET_FORMS, FACTS, PAPER_FACTS, OWN_NEGATIVES)
TEXTS = {name: form.text for forms in KNOWN for name, form in forms.items()}
assert len(TEXTS) == sum(map(len, KNOWN)), "two forms have one name"


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", TEXTS)
def test_the_kernels_of_a_form(emulated: Setting, name: str) -> None:
    for case in cases_of(TEXTS[name]):
        outcome = check_model(emulated, case)
        assert outcome["agrees"], (case.options, outcome)
