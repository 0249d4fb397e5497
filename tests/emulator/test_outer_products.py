"""Sums of outer products of more rows than a slab and a piece have: slabs follow on one another, and on segments."""

from __future__ import annotations

import dataclasses

import pytest

import explorer
from benchmarks.gpu_check import CHECKOUT, Case, Setting, check_gradients
from explorer.runtime.data.graphs import GraphPreset, generate

MANY_EDGES = GraphPreset(num_nodes=31, num_edges=900, num_ntypes=2, num_etypes=5, reach=0.3)
MANY_PAIRS = GraphPreset(num_nodes=170, num_edges=700, num_ntypes=2, num_etypes=3, reach=1.0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("model", "size", "graph"),
    [
        ("rgnn/rgcn", 64, MANY_PAIRS),
        ("rgnn/rgat", 20, MANY_EDGES),
        ("rgnn/hgt", 8, MANY_PAIRS),
        ("kge/transr", 20, MANY_EDGES),
    ],
)
def test_slabs_that_are_loaded_ahead_sum_to_the_gradients(
    emulated: Setting, model: str, size: int, graph: GraphPreset
) -> None:
    text = (CHECKOUT / "examples" / f"{model}.emb").read_text()
    setting = dataclasses.replace(emulated, graph=generate("many", graph))
    outcome = check_gradients(setting, Case(text, size, 75, {"grad": "true"}))
    assert outcome["agrees"], outcome


OF_ROWS = """
dim D = 16, K = 16
op OfRows(A: coo[user, item]):
    param X[item, D], P[user, D, K]
    for i in A.rows():
        i["y"] = sum(X[j] @ P[i] for j in A.row(i))
    return i["y"]
"""


@pytest.mark.parametrize("size", [16, 20])
def test_matrices_of_rows_without_entries_have_gradients_too(emulated: Setting, size: int) -> None:
    """Of 0: nonzeros say which matrix they add to, and some matrices have none."""
    case = Case(OF_ROWS, size, 0, {"grad": "true"})
    outcome = check_gradients(emulated, case)
    assert outcome["agrees"], outcome
    kernels = explorer.compile(OF_ROWS, options=case.options).stages["kernels"].text
    assert "template outer_products" in kernels
