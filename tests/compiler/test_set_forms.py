"""Forms of the language over elements: every target gives what NumPy gives in float64, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.runtime.reference import evaluate
from tests.compiler.models import compiled
from tests.compiler.set_forms import SET_FORMS, SHAPES, Inputs, SetForm, inputs_of

OFFSET = 1e-6
"""How far a difference goes to either side, in float64."""
names = pytest.mark.parametrize("name", SET_FORMS)


def exact(inputs: Inputs) -> Inputs:
    """The inputs with their tensors in float64."""
    return {
        name: value.astype(np.float64) if getattr(value, "dtype", None) == np.float32 else value
        for name, value in inputs.items()
    }


def learnt(form: SetForm) -> list[str]:
    return [name for name in SHAPES[form.header] if name != "x"]


def slopes(form: SetForm, inputs: Inputs, upstream: Any) -> dict[str, Any]:
    """The gradient of each parameter, by differences of the oracle."""
    found = {}
    for name in learnt(form):
        found[name] = slope = np.zeros(inputs[name].shape)
        for place in np.ndindex(slope.shape):
            ends = []
            for by in (OFFSET, -OFFSET):
                moved = inputs[name].astype(np.float64)
                moved[place] += by
                ends.append((form.means({**exact(inputs), name: moved}) * upstream).sum())
            slope[place] = (ends[0] - ends[1]) / (2 * OFFSET)
    return found


def assert_right(form: SetForm, targets: tuple[str, ...]) -> None:
    inputs = inputs_of(form)
    want = form.means(exact(inputs))
    upstream = np.random.default_rng(2).normal(size=want.shape).astype(np.float32)
    gradients = slopes(form, inputs, upstream)
    forward = compiled(form.text, on_demand=True)
    compilation = compiled(form.text, options={"grad": True}, on_demand=True)
    for target in targets:
        np.testing.assert_allclose(forward.run(inputs, target), want, rtol=1e-4, atol=1e-5, err_msg=target)
        got, found = compilation.run(inputs, target, grad=upstream)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=target)
        for name, slope in gradients.items():
            made = found.get(name, np.zeros_like(slope))
            np.testing.assert_allclose(made, slope, rtol=1e-3, atol=1e-4, err_msg=f"{target} {name}")


@names
def test_a_form_on_the_interpreters(name: str) -> None:
    assert_right(SET_FORMS[name], ("graph", "kernels"))


@pytest.mark.sampled(3)
@names
def test_a_form_on_every_target(name: str) -> None:
    assert_right(SET_FORMS[name], ("loops", "slc.opt3", "dlc", "dae", "cpu"))


@names
def test_the_reference_of_a_form(name: str) -> None:
    form = SET_FORMS[name]
    inputs = inputs_of(form)
    want = form.means(exact(inputs))
    upstream = np.random.default_rng(2).normal(size=want.shape)
    got, gradients = evaluate.gradients(form.text, inputs, {}, upstream, learnt(form), arithmetic=evaluate.FLOAT64)
    np.testing.assert_allclose(np.broadcast_to(got, want.shape), want, rtol=1e-9, atol=1e-12)
    for tensor, values in slopes(form, inputs, upstream).items():
        np.testing.assert_allclose(gradients[tensor], values, rtol=1e-5, atol=1e-6, err_msg=tensor)
