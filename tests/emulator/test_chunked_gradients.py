"""Chunks of edges with candidates and with gradients on the emulator: no race, nothing read before it is written, the
reference's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from benchmarks.cases.checked import BATCHES, Case
from benchmarks.gpu_check import Setting, check, check_gradients, compiled
from tests.compiler.random_models import model_texts
from tests.compiler.schedule.test_chunks import PASTED
from tests.emulator.cases import as_parameters

EXAMPLES = Path(__file__).parents[2] / "examples" / "kge"
TEXTS = [*((path).read_text() for path in sorted(EXAMPLES.glob("*.emb"))), PASTED]
SETTINGS = (
    (8, {"inspect_group": "1", "inspect_edges": "6"}),
    (33, {"inspect_group": "2", "inspect_edges": "2", "inspect_block": "32", "inspect_cached": "1"}),
    (72, {"inspect_group": "4", "inspect_edges": "64", "inspect_cached": "3"}),
)
NEGATIVES = ("tail:1", "tail:5", "head:9")


def cases(grad: str, kinds: tuple[str, ...]) -> list[Case]:
    return [
        Case(text, size, batch, {"inspect": "chunks", "negatives": kind, "grad": grad, **options})
        for text in TEXTS
        for size, options in SETTINGS
        for batch in BATCHES
        for kind in kinds
    ]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", as_parameters(cases("false", NEGATIVES)))
def test_candidates(emulated: Setting, case: Case) -> None:
    program: Any = compiled(case).stages["kernels"].program
    assert "template chunks" in compiled(case).stages["kernels"].text, program
    outcome = check(emulated, case)
    assert outcome["agrees"], outcome


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", as_parameters(cases("true", ("none", *NEGATIVES))))
def test_gradients(emulated: Setting, case: Case) -> None:
    assert "template chunks" in compiled(case).stages["kernels"].text
    outcome = check_gradients(emulated, case)
    assert outcome["agrees"], outcome


FEW = {"inspect": "chunks", "inspect_edges": "6", "inspect_group": "2", "inspect_block": "32"}


SCALAR = """
dim D = 2
score Model(h: entity, r: relation, t: entity):
    "the gradient of E multiplies a matrix's rows by what is no element of a row"
    param E[entity, 1], R[entity, 1, D]
    return sum(sign(E[h]) @ R[h]) + sum(E[t])
"""


@pytest.mark.parametrize("negatives", ["none", "tail:5"])
def test_a_factor_that_is_a_number_of_the_edge(emulated: Setting, negatives: str) -> None:
    outcome = check_gradients(emulated, Case(SCALAR, 0, 20, FEW | {"negatives": negatives, "grad": "true"}))
    assert outcome["agrees"], outcome


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "times", [1, pytest.param(4, marks=pytest.mark.sweep), pytest.param(12, marks=pytest.mark.exhaustive)]
)
def test_random_scores(emulated: Setting, times: int) -> None:
    @settings(max_examples=8 * times)
    @given(model_texts(), st.sampled_from(("none", *NEGATIVES)), st.sampled_from(("false", "true")))
    def agrees(text: str, negatives: str, grad: str) -> None:
        note(text)
        case = Case(text, 0, 20, FEW | {"negatives": negatives, "grad": grad})
        outcome = (check_gradients if grad == "true" else check)(emulated, case)
        assume(not np.isnan(outcome.get("error", 0.0)))  # where what is wanted is no number
        assert outcome["agrees"], outcome

    agrees()
