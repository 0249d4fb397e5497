"""Kernels whose rows an inspector orders or marks reach their arrays by what it wrote, inside of them."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compiler.interpret.kernels import run_scheduled

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


LENGTHS = (0, 1, 5, 31, 1022, 1023, 1024, 1100, 1500, 8000, 8191, 8192, 8300, 65_535, 65_536, 10**6, 10**9)
"""Below and above what has a place of its own, and where lengths are divided once more."""


@pytest.mark.parametrize("lengths", [LENGTHS, (7, 2**31 - 2**21, 5)])
def test_rows_of_any_length_are_ordered(lengths):
    program = kernels_of("embedding/spmm", balance=True, split="rows").program.programs[0]
    drawn = np.random.default_rng(0).permutation(lengths)
    ptr = np.concatenate(([0], np.cumsum(drawn))).astype(np.int64)
    order = run_scheduled((program,), {"row_ptr": ptr, "rows": len(drawn)})["SpMM_0_balanced"]
    assert sorted(order) == list(range(len(drawn)))
    found = drawn[order].tolist()
    assert all(longer > 0.99 * other for longer, other in pairwise(found))
    assert [length for length in found if length < 1024] == sorted(drawn[drawn < 1024], reverse=True)


def test_no_rows_are_marked_where_what_is_staged_is_used_at_once():
    """A mark below 0 is no row: heads load a number of the row while its index is put into shared memory."""
    stage = kernels_of("rgnn/rgat_heads", split="nonzeros", preload=64, popular=True)
    assert stage.available, stage.reason
    assert "schedule guard" not in stage.text
