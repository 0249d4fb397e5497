"""Rows are multiplied before matrices are combined, where that is less work, and mean the same."""

from __future__ import annotations

import pytest

import explorer
from explorer.compiler.ir.graph import Contract

SPLINE = """
dim F = 16, G = 8, K = 5
layer Spline(g: graph):
    input x[node, F], b[edge, K]
    param W[K, F, G]
    for n in g.nodes():
        n["h"] = sum(x[e.src] @ reshape(b[e] @ reshape(W, K, F * G), F, G) for e in n.incoming_edges())
    return n["h"]
"""
BIAS = """
dim F = 16, G = 8, K = 5
layer Bias(g: graph):
    input x[node, F], b[edge, K]
    param W[K, F * G], c[F * G]
    for n in g.nodes():
        n["h"] = sum(x[e.src] @ reshape(b[e] @ W + c, F, G) for e in n.incoming_edges())
    return n["h"]
"""


def matrices_of_edges(text: str, **options: object) -> list[str]:
    graph = explorer.compile(text, options=options, on_demand=True).stages["graph"].program
    return [v.name for v in graph.values if v.index_set == "edge" and graph.size(v.shape[0] if v.shape else 1) == 16]


@pytest.mark.parametrize("text", [SPLINE, BIAS])
def test_no_edge_has_a_matrix_of_its_own(text: str) -> None:
    assert not matrices_of_edges(text)


def test_a_matrix_that_something_else_reads_stays() -> None:
    both = "(x[e.src] + 0.5 * x[e.dst]) @ m[e] * (x[e.dst] @ m[e])"
    text = SPLINE.replace("x[e.src] @ reshape(b[e] @ reshape(W, K, F * G), F, G)", both.replace("m[e]", 'e["m"]'))
    made = '    for e in g.edges():\n        e["m"] = reshape(b[e] @ reshape(W, K, F * G), F, G)\n    for n'
    graph = explorer.compile(text.replace("    for n", made), on_demand=True).stages["graph"].program
    contractions = [v for v in graph.values if isinstance(v.operator, Contract) and len(v.shape) == 2]
    assert [v.index_set for v in contractions] == ["edge"]


def test_few_columns_of_a_combination_come_first() -> None:
    """Where each row of many is used once, more matrices than a row has elements are combined first."""
    text = SPLINE.replace("K = 5", "K = 40").replace("x[e.src]", "(x[e.src] * x[e.dst])")
    graph = explorer.compile(text, on_demand=True).stages["graph"].program
    contractions = [v for v in graph.values if isinstance(v.operator, Contract) and len(v.shape) == 2]
    assert [graph.size(v.shape[0]) for v in contractions] == [16]
