"""Scores of many ids and tables, and of what a batch brings beside ids, and rows that are no single number."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from tests.runtime.trace.batch_modules import BATCHES, Margin  # noqa: E402
from tests.runtime.trace.held import hold, redraw  # noqa: E402


@pytest.mark.parametrize("made", BATCHES)
def test_a_batch_has_the_results_and_gradients_of_the_module(made) -> None:
    torch.manual_seed(0)
    module = made()
    found = explorer.trace(module, *made.inputs(7, 0))
    redraw(module, 3)
    for count in (13, 4, 1):
        hold(module, found.module(), made.inputs(count, count))


def test_ids_of_the_same_tables_are_of_the_same_sets() -> None:
    text = explorer.trace(Margin(), *Margin.inputs(7, 0)).text
    kinds = "h: entity, r: relation, t: entity, other_h: entity, other_r: relation, other_t: entity"
    assert text.startswith(f"score Margin({kinds}):")
