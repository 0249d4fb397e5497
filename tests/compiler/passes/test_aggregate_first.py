"""Sums are taken before products where both commute."""

import pytest

from tests.compiler.layers import FEW_PAIRS, layer, report
from tests.compiler.models import compiled

TWO_LAYERS = """layer TwoLayers(g: graph):
    param W[etype, 8, 8], V[etype, 8, 8]
    input x[node, 8]
    for n in g.nodes():
        n["h"] = relu(sum(x[e.src] @ W[e.etype] for e in n.incoming_edges()))
    for n in g.nodes():
        n["o"] = sum(e.norm * (e.src["h"] @ V[e.etype]) for e in n.incoming_edges())
    return n["o"]
"""
WEIGHED = """layer Weighed(g: graph):
    param W[etype, 8, 8], w[etype, 8]
    input x[node, 8]
    for e in g.edges():
        e["att"] = {logit}
    for n in g.nodes():
        n["all"] = sum(exp(e["att"]) for e in n.incoming_edges())
    for n in g.nodes():
        n["h"] = sum({weight} * (x[e.src] @ W[e.etype]) for e in n.incoming_edges())
    return n["h"]
"""
LOGIT, SOFTMAX = "dot(x[e.src], w[e.etype])", 'exp(e["att"]) / e.dst["all"]'


def test_a_sum_of_products_by_type_is_taken_by_pair_first():
    compilation = layer("rgcn")
    said = report(compilation, "aggregate_first")
    assert said.changed
    assert "161,260 rows" in said.summary
    assert "GFLOP" in said.summary


def test_it_needs_the_pairs():
    said = report(layer("rgcn", compact=False), "aggregate_first")
    assert not said.changed
    assert said.refusals == ("products come first: the option compact is off",)


def test_the_option_switches_it_off():
    said = report(layer("rgcn", aggregate=False), "aggregate_first")
    assert not said.changed
    assert said.refusals == ("products come first: the option aggregate is off",)


@pytest.mark.parametrize("options", [{}, {"grad": True}])
def test_what_a_softmax_of_the_node_weighs_is_multiplied_first(options):
    said = report(layer("rgat", **options), "aggregate_first")
    assert not said.changed
    (reason,) = said.refusals
    assert "multiplies first, on every target: a softmax of the same node weighs its rows" in reason
    kernels = layer("rgat", **options).stages["kernels"].text
    assert "template gemm" in kernels  # rows times W in tiles


@pytest.mark.parametrize(
    ("logit", "weight", "first"),
    [
        (LOGIT, SOFTMAX, False),
        (LOGIT, 'exp(e["att"])', True),  # a gate of the edge's own waits for nothing
        (LOGIT, 'exp(e["att"]) / e.src["all"]', True),  # another node's sum is stored
        ("1", "e.norm", True),
    ],
)
def test_the_weight_decides_whatever_it_is_called(logit, weight, first):
    said = report(compiled(WEIGHED.format(logit=logit, weight=weight)), "aggregate_first")
    assert ("adds up by dst_pair before" in said.summary) == first
    assert any("a softmax of the same node" in each for each in said.refusals) != first


def test_so_few_pairs_are_worth_the_wait():
    said = report(layer("rgat", FEW_PAIRS), "aggregate_first")
    assert "adds up by dst_pair before it multiplies: 9,000 rows instead of 161,260" in said.summary


def test_a_layer_of_sums_behind_another_adds_up_first_too():
    said = report(compiled(TWO_LAYERS), "aggregate_first")
    assert said.summary.count("adds up by dst_pair before it multiplies") == 2
