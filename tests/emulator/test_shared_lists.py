"""Scores of chunks of facts that share their negatives, by tiles of both, on the emulator."""

from __future__ import annotations

import pytest

from benchmarks.cases.checked import Case
from benchmarks.gpu_check import Setting, check, check_gradients, compiled
from tests.compiler.schedule.test_shared_lists import SCORES, is_tiled, text_of


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(
    ("D", "batch", "negatives"), [(64, 75, "tail:70/32"), (33, 75, "head:5/20"), (36, 9, "tail:16/1024")]
)
def test_tiles_of_a_score(emulated: Setting, name: str, D: int, batch: int, negatives: str) -> None:
    case = Case(text_of(SCORES[name], D), 0, batch, {"negatives": negatives})
    assert is_tiled(compiled(case))
    outcome = check(emulated, case)
    assert outcome["agrees"], outcome


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(("D", "negatives"), [(36, "tail:20/32"), (7, "head:5/20")])
def test_tiles_of_a_score_with_its_backward_pass(emulated: Setting, name: str, D: int, negatives: str) -> None:
    case = Case(text_of(SCORES[name], D), 0, 75, {"negatives": negatives, "grad": "true"})
    assert is_tiled(compiled(case))
    outcome = check_gradients(emulated, case)
    assert outcome["agrees"], outcome
