"""Ops of several bags: every target gives what NumPy gives in float64, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.runtime.reference import evaluate
from tests.compiler.by_form.bag_forms import BAG_FORMS, BagForm, Inputs, exact, inputs_of
from tests.compiler.models import compiled
from tests.compiler.slopes import assert_gives, slopes

names = pytest.mark.parametrize("name", BAG_FORMS)


def oracle(form: BagForm) -> tuple[Inputs, Any, Any, dict[str, Any]]:
    """The inputs, what the form means, a gradient of that, and those of what is learnt, weights too."""
    inputs = inputs_of(form)

    def means(given: Inputs) -> Any:
        return form.means(exact(form, given))

    want = means(inputs)
    upstream = np.random.default_rng(2).normal(size=want.shape).astype(np.float32)
    learnt = [*form.learnt, *(name for name in inputs if name.endswith("_weight"))]
    return inputs, want, upstream, slopes(means, inputs, learnt, upstream)


def assert_right(form: BagForm, targets: tuple[str, ...]) -> None:
    inputs, want, upstream, gradients = oracle(form)
    forward = compiled(form.text, on_demand=True)
    backward = compiled(form.text, options={"grad": True}, on_demand=True)
    for target in targets:
        assert_gives((forward.run(inputs, target), {}), want, {}, target)
        assert_gives(backward.run(inputs, target, grad=upstream), want, gradients, target)


@names
def test_several_bags_on_the_interpreters(name: str) -> None:
    assert_right(BAG_FORMS[name], ("graph", "kernels"))


@pytest.mark.sampled(6)
@names
def test_several_bags_on_every_target(name: str) -> None:
    assert_right(BAG_FORMS[name], ("loops", "slc", "slc.opt3", "dlc", "dae", "cpu"))


@names
def test_the_reference_of_several_bags(name: str) -> None:
    form = BAG_FORMS[name]
    inputs, want, upstream, gradients = oracle(form)
    got, found = evaluate.gradients(form.text, inputs, {}, upstream, [*gradients], arithmetic=evaluate.FLOAT64)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
    for tensor, slope in gradients.items():
        np.testing.assert_allclose(found[tensor], slope, rtol=1e-5, atol=1e-6, err_msg=tensor)


@pytest.mark.sampled(5)
@names
def test_several_bags_as_a_module_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    form = BAG_FORMS[name]
    inputs, want, upstream, gradients = oracle(form)
    given = {each: torch.from_numpy(np.ascontiguousarray(array)) for each, array in inputs.items()}
    for each in gradients:
        given[each].requires_grad_()
    result = compiled(form.text).torch()(**given)
    result.backward(torch.from_numpy(upstream))
    found = {each: given[each].grad.numpy() for each in gradients}
    assert_gives((result.detach().numpy(), found), want, gradients, "torch")
