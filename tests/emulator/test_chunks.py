"""Scores by chunks of edges on the emulator: no race, nothing read before it is written, the reference's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.cases.checked import BATCHES, Case
from benchmarks.gpu_check import Setting, check, compiled
from tests.compiler.schedule.test_chunks import PASTED
from tests.emulator.cases import as_parameters

EXAMPLES = Path(__file__).parents[2] / "examples" / "kge"
NAMES = ("transr", "rescal", "transh", "transf", "distmult")
SETTINGS = (
    (8, {"inspect_group": "1", "inspect_edges": "6"}),  # chunks of no power of two, rows of less than a vector a lane
    (33, {"inspect_group": "2", "inspect_edges": "2", "inspect_block": "32", "inspect_cached": "1"}),  # odd, ragged
    (72, {"inspect_group": "4", "inspect_edges": "64", "inspect_cached": "3"}),  # four edges a warp, vectors
)


def cases() -> list[Case]:
    texts = [*((EXAMPLES / f"{name}.emb").read_text() for name in NAMES), PASTED]
    return [
        Case(text, size, batch, {"inspect": "chunks", **options})
        for text in texts
        for size, options in SETTINGS
        for batch in BATCHES
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", as_parameters(cases()))
def test_the_kernel_of_a_score(emulated: Setting, case: Case) -> None:
    compilation = compiled(case)
    program: Any = compilation.stages["kernels"].program
    assert program.template == "chunks"
    outcome = check(emulated, case)
    assert outcome["agrees"], outcome


ALIKE = """
dim D = 7
score Alike(h: entity, r: relation, t: entity):
    "one score for all negatives: lanes share them, in place of the elements of a row"
    param E[entity, D]
    return sum(-sign(E[h]))
"""


@pytest.mark.parametrize("batch", BATCHES)
def test_a_score_for_all_negatives_is_stored_once(emulated: Setting, batch: int) -> None:
    """Places of a chunk that have no edge compute what the last one does, and store nothing."""
    case = Case(ALIKE, 7, batch, {"inspect": "chunks", "negatives": "tail:3"})
    assert "template chunks" in compiled(case).stages["kernels"].text
    outcome = check(emulated, case)
    assert outcome["agrees"], outcome
