"""Ids that are computed of ids, on the way to the programs: how many rows they lead to, and in a module of PyTorch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.compiler.models import compiled

TEXT = """dim D = 4, M = 10
op QR(b: bag of row):
    param Q[quotient, D], R[remainder, D]
    return sum(Q[i // M] * R[i % M] for i in b)
"""
PTR, IDX = np.array([0, 2, 2, 5]), np.array([3, 0, 31, 17, 25])


def inputs(quotients: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    tables = {"Q": (quotients, 4), "R": (10, 4)}
    drawn = {name: random.normal(size=shape).astype(np.float32) for name, shape in tables.items()}
    return {"ptr": PTR, "idx": IDX, "num_rows": 32, **drawn}


@pytest.mark.parametrize("quotients", [3, 5])
def test_a_table_has_a_row_for_each_id_that_may_be(quotients: int) -> None:
    with pytest.raises(ValueError, match=rf"Q has the shape \[{quotients}, 4\], but is declared \[4, 4\]"):
        compiled(TEXT, on_demand=True).run(inputs(quotients), "cpu")


def test_a_module_of_pytorch_has_them_and_their_gradients() -> None:
    torch = pytest.importorskip("torch")
    given = {name: torch.from_numpy(np.asarray(value)) for name, value in inputs(5).items() if name != "num_rows"}
    module = compiled(TEXT, options={"grad": True}, on_demand=True).torch()
    found = []
    for eager in (False, True):
        tables = {name: given[name].clone().requires_grad_() for name in "QR"}
        rows = tables["Q"][given["idx"] // 10] * tables["R"][given["idx"] % 10]
        want = torch.stack([rows[begin:end].sum(0) for begin, end in pairwise(PTR)])
        result = want if eager else module(ptr=given["ptr"], idx=given["idx"], **tables)
        result.square().sum().backward()
        found.append([result.detach(), tables["Q"].grad, tables["R"].grad])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
    with pytest.raises(ValueError, match="idx_div_10 leads to 4 rows, but Q has 3"):
        module(ptr=given["ptr"], idx=given["idx"], Q=given["Q"][:3], R=given["R"])
