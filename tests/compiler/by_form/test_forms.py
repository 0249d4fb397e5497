"""Forms of the language, one a score: every target gives what NumPy gives in float64, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.runtime.reference import evaluate
from tests.compiler.by_form.forms import FORMS, Form, rows_of
from tests.compiler.models import compiled, draw_inputs
from tests.compiler.slopes import assert_gives, slopes

LEARNT = ("E", "R", "P", "w", "M", "gamma")
BATCH = 4
names = pytest.mark.parametrize("name", FORMS)


def drawn(form: Form) -> tuple[Any, dict[str, Any], Any]:
    """The compilation with gradients, inputs, and the gradient of its scores."""
    compilation = compiled(form.text, options={"grad": True}, on_demand=True)
    inputs = draw_inputs(compiled(form.text, on_demand=True), batch=BATCH, entities=5, relations=2)
    return compilation, inputs, np.array([1.0, -0.5, 2.0, 0.25], np.float32)


def oracle(form: Form, inputs: dict[str, Any], upstream: Any) -> tuple[Any, dict[str, Any]]:
    """The scores, and the gradient of each tensor."""

    def means(given: dict[str, Any]) -> Any:
        return form.means(rows_of(given))

    with np.errstate(all="ignore"):
        return means(inputs), slopes(means, inputs, LEARNT, upstream)


def assert_right(form: Form, targets: tuple[str, ...]) -> None:
    compilation, inputs, upstream = drawn(form)
    want, gradients = oracle(form, inputs, upstream)
    for target in targets:
        assert_gives(compilation.run(inputs, target, grad=upstream), want, gradients, target)


@names
def test_a_form_on_the_interpreters(name: str) -> None:
    assert_right(FORMS[name], ("graph", "kernels"))


@pytest.mark.sampled(8)
@names
def test_a_form_on_every_target(name: str) -> None:
    assert_right(FORMS[name], ("loops", "slc.opt3", "dlc", "dae", "cpu"))


@names
def test_the_reference_of_a_form(name: str) -> None:
    """What runs are checked against shares no code with the compiler, nor with these oracles."""
    form = FORMS[name]
    _, inputs, upstream = drawn(form)
    want, slope = oracle(form, inputs, upstream)
    score, gradients = evaluate.gradients(form.text, inputs, {}, upstream, list(slope), arithmetic=evaluate.FLOAT64)
    np.testing.assert_allclose(score, want, rtol=1e-9)
    for tensor, values in slope.items():
        np.testing.assert_allclose(gradients[tensor], values, rtol=1e-5, atol=1e-6, err_msg=tensor)
