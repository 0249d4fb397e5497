"""Sums of quotients become quotients of sums, where the divisor is the segment's and cannot be 0."""

import numpy as np

from explorer.compiler.ir.graph import Elementwise
from explorer.runtime.reference import evaluate as reference
from tests.compiler.layers import FEW_PAIRS, layer, report, values_on
from tests.compiler.models import compiled

QUOTIENTS = """layer Model(g: graph):
    input x[node], y[node]
    for n in g.nodes():
        n["z"] = {divisor}
        n["h"] = sum(x[e.src] / n["z"] for e in n.incoming_edges())
    return n["h"]
"""


def divisions(compilation, index_set):
    """The divisions on a set."""
    operators = [value.operator for value in values_on(compilation, index_set)]
    return [o for o in operators if isinstance(o, Elementwise) and o.function in ("div", "div_or_zero")]


def test_a_node_divides_once_and_not_its_edges():
    for name in ("rgat", "rgat_heads", "hgt"):
        compilation = layer(name)
        assert report(compilation, "divide_last").changed
        assert [o.function for o in divisions(compilation, "node")] == ["div_or_zero"]
        assert not [o for o in divisions(compilation, "edge") if o.function == "div_or_zero"]


def test_it_goes_behind_sums_by_pair_and_their_products():
    compilation = layer("rgat", FEW_PAIRS)
    said = report(compilation, "divide_last")
    assert said.summary.count("divides its sum by") == 2
    assert not divisions(compilation, "dst_pair")


def test_a_divisor_that_may_be_0_stays_with_the_terms():
    text = QUOTIENTS.format(divisor="sum(y[e.src] for e in n.incoming_edges())")
    compilation = compiled(text)
    said = report(compilation, "divide_last")
    assert not said.changed
    assert "may be 0 where the segment is not empty" in said.refusals[0]


def test_weights_that_are_the_result_stay():
    text = """layer Model(g: graph):
    input x[edge]
    for e in g.edges():
        e["att"] = x[e] * 1
    edge_softmax(g, "att")
    return e["att"]
"""
    compilation = compiled(text)
    assert not report(compilation, "divide_last").changed
    assert len(divisions(compilation, "edge")) == 1


def test_gradients_go_through_the_quotient_of_sums():
    compilation = layer("rgat", grad=True)
    graph = {name: np.array(ends, np.int32) for name, ends in (("src", [1, 2, 2]), ("dst", [0, 0, 1]))}
    graph |= {"etype": np.array([0, 1, 1], np.int32), "ntype": np.zeros(4, np.int32)}
    graph |= {"num_nodes": 4, "num_etypes": 2, "num_ntypes": 1}
    random = np.random.default_rng(0)
    shapes = {"feature": (4, 64), "W": (2, 64, 64), "w_s": (2, 64), "w_t": (2, 64)}
    inputs = graph | {name: (random.normal(size=s) / 8).astype(np.float32) for name, s in shapes.items()}
    upstream = random.normal(size=(4, 64)).astype(np.float32)
    _, gradients = compilation.run(inputs, on="graph", grad=upstream)
    for slope in reference.directional_difference(compilation.text, inputs, {}, upstream, list(shapes)[1:]):
        assert np.isclose((gradients[slope.tensor] * slope.direction).sum(), slope.value, rtol=1e-3, atol=1e-4)
