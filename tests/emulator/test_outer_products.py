"""Sums of outer products of more rows than a slab and a piece have: slabs follow on one another, and on segments."""

from __future__ import annotations

import dataclasses

import pytest

import explorer
from benchmarks.cases.checked import Case
from benchmarks.gpu_check import Setting, check_gradients
from explorer.checkout import CHECKOUT
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


BOTH_ENDS = """
dim F = 64, G = 64
layer BothEnds(g: graph):
    input x[node, F], y[node, F]
    param W[etype, F, G], a[etype, G]
    for n in g.dst_nodes():
        n["h"] = sum(dot(x[e.src] @ W[e.etype] + %s, a[e.etype]) * x[e.src] for e in n.incoming_edges())
    return n["h"]
"""
ENDS = {2: "y[e.dst] @ W[e.etype]", 3: "y[e.dst] @ W[e.etype] - y[e.src] @ W[e.etype]"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [20, 64])
@pytest.mark.parametrize("ends", ENDS)
def test_products_that_both_ends_of_an_edge_take_of_a_matrix_have_tiles_in_its_gradient(
    emulated: Setting, ends: int, size: int
) -> None:
    text = BOTH_ENDS % ENDS[ends]
    case = Case(text, size, 75, {"grad": "true", "compact": "false", "reorder": "false"})
    outcome = check_gradients(dataclasses.replace(emulated, graph=generate("many", MANY_EDGES)), case)
    assert outcome["agrees"], outcome


@pytest.mark.parametrize("model", ["rgnn/rgat"])
def test_plain_rgat_has_a_sum_of_tiles_for_each_end(emulated: Setting, model: str) -> None:
    text = (CHECKOUT / "examples" / f"{model}.emb").read_text()
    options = {"grad": "true", "compact": "false", "reorder": "false"}
    kernels = explorer.compile(text, options=options).stages["kernels"].text
    assert kernels.count("template outer_products") == 2
    outcome = check_gradients(
        dataclasses.replace(emulated, graph=generate("many", MANY_EDGES)), Case(text, 20, 75, options)
    )
    assert outcome["agrees"], outcome


LINEAR = """
dim D = 20, K = 24
score Linear(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D], W[K, 3 * D], w[K]
    return dot(tanh(W @ concat(E[h], R[r], E[t])), w)
"""


def test_a_matrix_that_is_transposed_behind_a_concat_has_its_gradient_by_tiles(emulated: Setting) -> None:
    case = Case(LINEAR, 20, 150, {"grad": "true"})
    kernels = explorer.compile(LINEAR, options=case.options).stages["kernels"].text
    assert "template outer_products" in kernels
    outcome = check_gradients(emulated, case)
    assert outcome["agrees"], outcome
