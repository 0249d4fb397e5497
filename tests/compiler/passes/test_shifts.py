"""A maximum that only keeps exp from overflowing has no gradient; one that the result depends on has."""

import numpy as np
import pytest

from explorer.compiler.ir.graph import Elementwise, Segment
from explorer.compiler.passes.gradients.shifts import shifts
from explorer.runtime.reference import evaluate as reference
from tests.compiler.layers import layer, report
from tests.compiler.models import compiled

LAYER = """dim F = 3

layer Model(g: graph):
    param x[node, F], a[etype]
    for e in g.edges():
        e["s"] = a[e.etype] * sum(x[e.src])
    for n in g.dst_nodes():
        n["m"] = max(e["s"] for e in n.incoming_edges())
    for n in g.dst_nodes():
        n["z"] = sum(exp(e["s"] - n["m"]) for e in n.incoming_edges())
        n["h"] = {result}
    return n["h"]
"""
WEIGHED = "sum(exp(e['s'] - n['m']) * x[e.src] for e in n.incoming_edges())".replace("'", '"')
QUOTIENT = f'{WEIGHED} / n["z"]'


def graph_of(result):
    return compiled(LAYER.format(result=result)).stages["graph"].program


def maxima(graph):
    return {v.name for v in graph.values if isinstance(v.operator, Segment) and v.operator.function == "max"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["rgat", "rgat_heads", "hgt"])
@pytest.mark.parametrize("aggregate", [True, False])
def test_the_maximum_of_a_softmax_has_no_gradient(name, aggregate):
    graph = layer(name, aggregate=aggregate).stages["graph"].program
    assert shifts(graph) == maxima(graph) != set()
    backward = layer(name, aggregate=aggregate, grad=True)
    assert "gets no gradient" in report(backward, "differentiate").summary
    operators = [value.operator for value in backward.stages["graph"].program.values]
    assert not [o for o in operators if isinstance(o, Elementwise) and o.function == "equal"]


def test_a_quotient_of_sums_does_not_change_with_the_maximum():
    graph = graph_of(QUOTIENT)
    assert shifts(graph) == maxima(graph) != set()


@pytest.mark.parametrize(
    "result",
    [
        WEIGHED,  # proportional to exp(-m)
        f'{WEIGHED} / (n["z"] * n["z"])',
        f'{WEIGHED} / (n["z"] + 1)',
        f'{WEIGHED} / n["z"] * n["m"]',
        f'{WEIGHED} / relu(n["z"])',
        'sum(exp(n["m"] - e["s"]) * x[e.src] for e in n.incoming_edges()) / n["z"]',
        'sum(exp(e["s"] - e.src["m"]) * x[e.src] for e in n.incoming_edges()) / n["z"]',  # another node's maximum
    ],
)
def test_any_other_use_of_a_maximum_keeps_its_gradient(result):
    graph = graph_of(result)
    assert maxima(graph)
    assert shifts(graph) == set()


@pytest.mark.parametrize("result", [QUOTIENT, WEIGHED, f'{WEIGHED} / (n["z"] + 1)'])
def test_gradients_are_those_of_differences(result):
    compilation = compiled(LAYER.format(result=result), options={"grad": True})
    graph = {
        name: np.array(ends, np.int32) for name, ends in (("src", [1, 2, 2, 3, 0, 1]), ("dst", [0, 0, 1, 0, 2, 3]))
    }
    graph |= {"etype": np.array([0, 1, 1, 0, 1, 0], np.int32), "ntype": np.zeros(4, np.int32)}
    graph |= {"num_nodes": 4, "num_etypes": 2, "num_ntypes": 1}
    random = np.random.default_rng(0)
    inputs = graph | {n: random.normal(size=s).astype(np.float32) for n, s in (("x", (4, 3)), ("a", (2,)))}
    upstream = random.normal(size=(4, 3)).astype(np.float32)
    _, gradients = compilation.run(inputs, on="graph", grad=upstream)
    for slope in reference.directional_difference(compilation.text, inputs, {}, upstream, ["x", "a"]):
        assert np.isclose((gradients[slope.tensor] * slope.direction).sum(), slope.value, rtol=1e-3, atol=1e-4)
