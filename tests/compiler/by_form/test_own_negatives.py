"""Reductions over a score's own negatives: every target gives what NumPy gives in float64, and its gradients."""

from __future__ import annotations

import pytest

from tests.compiler.by_form.facts import OWN
from tests.compiler.by_form.held import assert_module, assert_reference, assert_right
from tests.compiler.by_form.own_negatives import OWN_NEGATIVES

names = pytest.mark.parametrize("name", OWN_NEGATIVES)
OPTION = f"own:{OWN}"


@names
def test_a_reduction_on_the_interpreters(name: str) -> None:
    assert_right(OWN_NEGATIVES[name], OPTION, ("graph", "kernels"))


@pytest.mark.sampled(12)
@names
def test_a_reduction_on_every_target(name: str) -> None:
    assert_right(OWN_NEGATIVES[name], OPTION, ("loops", "slc.opt3", "dlc", "dae", "cpu"))


@names
def test_the_reference_of_a_reduction(name: str) -> None:
    assert_reference(OWN_NEGATIVES[name], OPTION)


@pytest.mark.sampled(6)
@names
def test_a_reduction_as_a_module_of_pytorch(name: str) -> None:
    assert_module(OWN_NEGATIVES[name], OPTION)
