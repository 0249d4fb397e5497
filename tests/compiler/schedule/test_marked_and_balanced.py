"""Kernels whose rows an inspector orders or marks reach their arrays by what it wrote, inside of them."""

from pathlib import Path

import pytest

import explorer

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def kernels_of(model: str, **options: str | int | bool):
    compilation = explorer.compile((EXAMPLES / f"{model}.emb").read_text(), options=options, on_demand=True)
    return compilation.stages["kernels"]


@pytest.mark.parametrize("model", ["embedding/sls", "embedding/spmm", "rgnn/gcn"])
def test_rows_that_are_balanced_need_no_guard(model):
    """That a length is not below 0 rests on offsets that nowhere fall, which the host checks."""
    stage = kernels_of(model, balance=True, split="rows")
    assert stage.available, stage.reason
    assert "_balance" in stage.text
    assert "schedule guard" not in stage.text


def test_no_rows_are_marked_where_what_is_staged_is_used_at_once():
    """A mark below 0 is no row: heads load a number of the row while its index is put into shared memory."""
    stage = kernels_of("rgnn/rgat_heads", split="nonzeros", preload=64, popular=True)
    assert stage.available, stage.reason
    assert "schedule guard" not in stage.text
