"""Holds scores of ids against what they mean: on targets, in the reference, and as modules of PyTorch. `negatives` is
the option."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.runtime.reference import evaluate
from tests.compiler.by_form.facts import COUNTS, Array, Fact, Inputs, exact, inputs_of
from tests.compiler.models import compiled
from tests.compiler.slopes import assert_gives, slopes


def oracle(fact: Fact, negatives: str) -> tuple[Inputs, Array, Array, dict[str, Array]]:
    """The inputs, their scores, a gradient of these, and the gradients of what is learnt."""
    inputs = inputs_of(fact, negatives)

    def means(given: Inputs) -> Any:
        return fact.means(exact(fact, given, negatives))

    want = means(inputs)
    upstream = np.random.default_rng(2).normal(size=want.shape).astype(np.float32)
    return inputs, want, upstream, slopes(means, inputs, fact.learnt, upstream)


def assert_right(fact: Fact, negatives: str, targets: tuple[str, ...]) -> None:
    """Its scores and gradients on targets."""
    inputs, want, upstream, gradients = oracle(fact, negatives)
    forward = compiled(fact.text, options={"negatives": negatives}, on_demand=True)
    backward = compiled(fact.text, options={"negatives": negatives, "grad": True}, on_demand=True)
    for target in targets:
        assert_gives((forward.run(inputs, target), {}), want, {}, target)
        assert_gives(backward.run(inputs, target, grad=upstream), want, gradients, target)


def assert_reference(fact: Fact, negatives: str) -> None:
    """Its scores and gradients in the reference."""
    inputs, want, upstream, gradients = oracle(fact, negatives)
    asked = fact.text, inputs, {}, upstream, fact.learnt, None, negatives
    scores, found = evaluate.gradients(*asked, arithmetic=evaluate.FLOAT64)
    np.testing.assert_allclose(scores, want, rtol=1e-9, atol=1e-9)
    for tensor, slope in gradients.items():
        np.testing.assert_allclose(found[tensor], slope, rtol=1e-5, atol=1e-6)


def assert_module(fact: Fact, negatives: str) -> None:
    """Its scores and gradients as a module of PyTorch, where that is there."""
    torch = pytest.importorskip("torch")
    inputs, want, upstream, gradients = oracle(fact, negatives)
    sizes = {each: COUNTS[each] for each in COUNTS if each in str(fact.tensors)}
    module = compiled(fact.text, options={"negatives": negatives}).torch(**sizes)
    with torch.no_grad():
        for tensor, parameter in module.named_parameters():
            parameter.copy_(torch.from_numpy(inputs[tensor]))
    ids = [torch.from_numpy(inputs[each]) for each in (*fact.ids, *fact.maps)]
    given = {each: torch.from_numpy(inputs[each]) for each in fact.tensors if each not in fact.learnt}
    scores = module(*ids, **given)
    scores.backward(torch.from_numpy(upstream))
    found = {tensor: parameter.grad.numpy() for tensor, parameter in module.named_parameters()}
    assert_gives((scores.detach().numpy(), found), want, gradients, "torch")
