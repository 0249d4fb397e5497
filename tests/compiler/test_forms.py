"""Forms of the language, one a score: every target gives what NumPy gives in float64, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.runtime.reference import evaluate
from tests.compiler.forms import FORMS, Form, rows_of
from tests.compiler.models import compiled, draw_inputs

OFFSET = 1e-6
"""How far a difference goes to either side, in float64."""
BATCH = 4
names = pytest.mark.parametrize("name", FORMS)


def drawn(form: Form) -> tuple[Any, dict[str, Any], Any]:
    """The compilation with gradients, inputs, and the gradient of its scores."""
    compilation = compiled(form.text, options={"grad": True}, on_demand=True)
    inputs = draw_inputs(compiled(form.text, on_demand=True), batch=BATCH, entities=5, relations=2)
    return compilation, inputs, np.array([1.0, -0.5, 2.0, 0.25], np.float32)


def slopes(form: Form, inputs: dict[str, Any], upstream: Any) -> dict[str, Any]:
    """The gradient of each tensor, by differences of the oracle."""
    found = {}
    for name in ("E", "R", "P", "w", "M", "gamma"):
        values = np.asarray(inputs[name], np.float64)
        found[name] = slope = np.zeros_like(values)
        for place in np.ndindex(values.shape):
            ends = []
            for by in (OFFSET, -OFFSET):
                moved = values.copy()
                moved[place] += by
                ends.append((form.means(rows_of({**inputs, name: moved})) * upstream).sum())
            slope[place] = (ends[0] - ends[1]) / (2 * OFFSET)
    return found


def assert_right(form: Form, targets: tuple[str, ...]) -> None:
    compilation, inputs, upstream = drawn(form)
    with np.errstate(all="ignore"):
        want, gradients = form.means(rows_of(inputs)), slopes(form, inputs, upstream)
    for target in targets:
        got, found = compilation.run(inputs, target, grad=upstream)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=target)
        for name, slope in gradients.items():
            made = found.get(name, np.zeros_like(slope))
            np.testing.assert_allclose(made, slope, rtol=1e-3, atol=1e-4, err_msg=f"{target} {name}")


@names
def test_a_form_on_the_interpreters(name: str) -> None:
    assert_right(FORMS[name], ("graph", "kernels"))


@pytest.mark.sampled(3)
@names
def test_a_form_on_every_target(name: str) -> None:
    assert_right(FORMS[name], ("loops", "slc.opt3", "dlc", "dae", "cpu"))


@names
def test_the_reference_of_a_form(name: str) -> None:
    """What runs are checked against shares no code with the compiler, nor with these oracles."""
    form = FORMS[name]
    _, inputs, upstream = drawn(form)
    with np.errstate(all="ignore"):
        want, slope = form.means(rows_of(inputs)), slopes(form, inputs, upstream)
    score, gradients = evaluate.gradients(form.text, inputs, {}, upstream, list(slope), arithmetic=evaluate.FLOAT64)
    np.testing.assert_allclose(score, want, rtol=1e-9)
    for tensor, values in slope.items():
        np.testing.assert_allclose(gradients[tensor], values, rtol=1e-5, atol=1e-6, err_msg=tensor)
