"""How products by chunks have their edges' rows, on the emulator: no race, nothing read before it is written, the
reference's numbers."""

from __future__ import annotations

from itertools import cycle, product
from pathlib import Path

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
TEXTS = [*((EXAMPLES / f"{name}.emb").read_text() for name in ("transr", "rescal", "transh")), PASTED]
WAYS: tuple[dict[str, str], ...] = (
    {"inspect_reload": "true"},
    {"inspect_shuffle": "true"},
    {"inspect_reload": "true", "inspect_shuffle": "true"},
)
SETTINGS = (
    (72, {"inspect_group": "4", "inspect_edges": "64", "inspect_cached": "3"}),  # four edges a warp, vectors
    (33, {"inspect_group": "2", "inspect_edges": "2", "inspect_block": "32", "inspect_cached": "1"}),  # odd, ragged
    (70, {"inspect_group": "1", "inspect_edges": "6", "inspect_block": "32"}),  # three blocks of columns and of rows
)


def cases(grad: str, kinds: tuple[str, ...]) -> list[Case]:
    """Each way of each text in each setting; batches and negatives by turns."""
    turns = cycle(product(BATCHES, kinds))
    return [
        Case(text, size, batch, {"inspect": "chunks", "negatives": kind, "grad": grad, **way, **options})
        for size, options in SETTINGS
        for text in TEXTS
        for way in WAYS
        for batch, kind in (next(turns),)
    ]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", as_parameters(cases("false", ("none", "tail:5"))))
def test_scores(emulated: Setting, case: Case) -> None:
    assert "template chunks" in compiled(case).stages["kernels"].text
    outcome = check(emulated, case)
    assert outcome["agrees"], outcome


@pytest.mark.sampled(16)
@pytest.mark.parametrize("case", as_parameters(cases("true", ("none", "head:9"))))
def test_gradients(emulated: Setting, case: Case) -> None:
    assert "template chunks" in compiled(case).stages["kernels"].text
    outcome = check_gradients(emulated, case)
    assert outcome["agrees"], outcome


def with_product(text: str) -> str:
    """A random score, and what it makes of the product of a row, which it computes, and the relation's matrix."""
    *lines, last = text.rstrip().splitlines()
    value = last.strip().removeprefix("return ")
    params = ["    param Rows[entity, 40], Through[relation, 40, 37]", "    product = (Rows[h] * Rows[t]) @ Through[r]"]
    at = max(number for number, line in enumerate(lines) if line.strip().startswith(("param", "score"))) + 1
    return "\n".join([*lines[:at], *params, *lines[at:], f"    return ({value}) + sum(product * product)"]) + "\n"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "times", [1, pytest.param(4, marks=pytest.mark.sweep), pytest.param(12, marks=pytest.mark.exhaustive)]
)
def test_random_scores(emulated: Setting, times: int) -> None:
    few = {"inspect": "chunks", "inspect_edges": "6", "inspect_group": "2", "inspect_block": "32"}

    @settings(max_examples=8 * times)
    @given(model_texts().map(with_product), st.sampled_from(WAYS), st.sampled_from(("false", "true")))
    def agrees(text: str, way: dict[str, str], grad: str) -> None:
        note(text)
        case = Case(text, 0, 20, few | way | {"grad": grad})
        outcome = (check_gradients if grad == "true" else check)(emulated, case)
        assume(not np.isnan(outcome.get("error", 0.0)))  # where what is wanted is no number
        assert outcome["agrees"], outcome

    agrees()
