"""Forms of the language over elements: every target gives what NumPy gives in float64, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.runtime.reference import evaluate
from tests.compiler.by_form.set_forms import SET_FORMS, SetForm, inputs_of
from tests.compiler.by_form.set_structures import SHAPES, Inputs
from tests.compiler.models import compiled
from tests.compiler.slopes import assert_gives, slopes

names = pytest.mark.parametrize("name", SET_FORMS)


def exact(inputs: Inputs) -> Inputs:
    """The inputs with their tensors in float64."""
    return {
        name: value.astype(np.float64) if getattr(value, "dtype", None) == np.float32 else value
        for name, value in inputs.items()
    }


def learnt(form: SetForm) -> list[str]:
    return [name for name in SHAPES[form.header] if name not in ("x", "y")]


def gradients_of(form: SetForm, inputs: Inputs, upstream: Any) -> dict[str, Any]:
    """The gradient of each parameter."""
    return slopes(lambda given: form.means(exact(given)), inputs, learnt(form), upstream)


def assert_right(form: SetForm, targets: tuple[str, ...]) -> None:
    inputs = inputs_of(form)
    want = form.means(exact(inputs))
    upstream = np.random.default_rng(2).normal(size=want.shape).astype(np.float32)
    gradients = gradients_of(form, inputs, upstream)
    forward = compiled(form.text, on_demand=True)
    compilation = compiled(form.text, options={"grad": True}, on_demand=True)
    for target in targets:
        assert_gives((forward.run(inputs, target), {}), want, {}, target)
        assert_gives(compilation.run(inputs, target, grad=upstream), want, gradients, target)


@pytest.mark.sampled(3)
@names
def test_a_form_on_the_interpreters(name: str) -> None:
    assert_right(SET_FORMS[name], ("graph", "kernels"))


@pytest.mark.sampled(20)
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
    for tensor, values in gradients_of(form, inputs, upstream).items():
        np.testing.assert_allclose(gradients[tensor], values, rtol=1e-5, atol=1e-6, err_msg=tensor)
