"""Pasted scores whose products depend on a candidate, on the triple alone or on both, on the emulator."""

from __future__ import annotations

import pytest

from benchmarks.cases.checked import Case
from benchmarks.gpu_check import Setting, check, check_gradients
from tests.compiler.schedule.test_negatives import SCORES

SIZES = {"vectors": 20, "odd": 33}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["two matrices", "product of both", "own product", "one matrix"])
@pytest.mark.parametrize("end", ["tail:5", "head:3", "head:5/32"])
def test_the_backward_pass_of_a_score_with_negatives(emulated: Setting, name: str, end: str) -> None:
    size = SIZES["vectors" if end == "tail:5" else "odd"]
    outcome = check_gradients(emulated, Case(SCORES[name], size, 75, {"grad": "true", "negatives": end}))
    assert outcome["agrees"], outcome


@pytest.mark.parametrize("name", ["difference", "two matrices", "own product"])
@pytest.mark.parametrize("end", ["tail:5", "head:3", "tail:5/32"])
def test_a_score_with_negatives(emulated: Setting, name: str, end: str) -> None:
    outcome = check(emulated, Case(SCORES[name], SIZES["odd"], 75, {"negatives": end}))
    assert outcome["agrees"], outcome
