"""Edge values live on the smallest set that their dependencies allow (Hector §3.2.2, trap 9)."""

import numpy as np
import pytest

from tests.compiler.layers import buffers, layer, report, values_on
from tests.compiler.models import compiled


def test_what_depends_on_source_and_type_is_stored_once_a_pair():
    compilation = layer("rgat_heads")
    stored = buffers(compilation)
    assert not any("edges" in extents for extents in stored.values())
    assert any(extents == ("src_pairs", "H", "G") for extents in stored.values())


def test_without_it_the_rows_are_edges():
    stored = buffers(layer("rgat_heads", compact=False, reorder=False))
    assert any(extents == ("edges", "H", "G") for extents in stored.values())
    assert not any("src_pairs" in extents for extents in stored.values())


def test_what_depends_on_both_ends_stays_and_the_report_says_why():
    said = report(layer("hgt"), "compact")
    assert any("stays on edge: it depends on src and dst" in refusal for refusal in said.refusals)


def test_keys_queries_and_values_are_computed_once_a_node():
    written_by_edge = """dim F = 4, D = 4
layer Model(g: graph):
    input x[node, F]
    param K[ntype, F, D], Q[ntype, F, D]
    for e in g.edges():
        e["a"] = dot(x[e.src] @ K[e.src.ntype], x[e.dst] @ Q[e.dst.ntype])
    for n in g.nodes():
        n["h"] = sum(e["a"] for e in n.incoming_edges())
    return n["h"]
"""
    compilation = compiled(written_by_edge)
    said = report(compilation, "compact")
    assert said.summary.count("from edge to node") == 2
    products = [v for v in values_on(compilation, "node") if v.shape == ("D",)]
    assert len(products) == 2


def test_no_array_of_edges_times_features_in_rgcn():
    for compact in (False, True):
        stored = buffers(layer("rgcn", compact=compact))
        assert list(stored.values()) == [("nodes", "G")]


@pytest.mark.parametrize("term", ["exp(w[e.etype])", "1 / w[e.etype]", "log(w[e.etype])", "sqrt(w[e.etype])"])
def test_what_no_edge_reads_has_no_gradient(term):
    """Of a type or a node without edges: 0, and not 0 times the slope of what would be computed for it."""
    text = f"""dim F = 2
layer Model(g: graph):
    param x[node, F], w[etype, F]
    for e in g.edges():
        e["m"] = sum({term})
    for n in g.nodes():
        n["h"] = sum(e["m"] for e in n.incoming_edges())
    return n["h"]
"""
    w = np.array([[0.5, 0.25], [-1e30, 0], [1e30, np.inf]], np.float32)  # no edge has the last two types
    maps = {"src": [0, 1], "dst": [1, 1], "etype": [0, 0], "ntype": [0, 0, 0]}
    inputs = {name: np.array(ids, np.int32) for name, ids in maps.items()}
    inputs |= {"num_nodes": 3, "num_etypes": 3, "num_ntypes": 1, "x": np.ones((3, 2), np.float32), "w": w}
    _, gradients = compiled(text, options={"grad": True}).run(inputs, "loops", grad=np.ones(3, np.float32))
    np.testing.assert_array_equal(gradients["w"][1:], 0)
    assert np.all(np.isfinite(gradients["w"][0]))
