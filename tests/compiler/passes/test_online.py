"""A maximum and the sums that wait for it are taken in one loop: where, with what numbers, and where not and why."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import walk
from explorer.runtime.reference import evaluate as reference
from tests.compiler.layers import FEW_PAIRS, layer, report
from tests.compiler.models import compiled
from tests.compiler.random_layers import graphs

ATTENTION = """dim F = 3, H = 2
layer Model(g: graph):
    input x[node{heads}, F], logit[edge{heads}]
    for e in g.edges():
        e["att"] = {logit}
    edge_softmax(g, "att")
    for n in g.dst_nodes():
        for e in n.incoming_edges():
            n["h"] += {term}
    return n["h"]
"""
ONE_HEAD = ATTENTION.format(heads="", logit="logit[e] * 1", term='e["att"] * x[e.src]')
HEADS = ATTENTION.format(heads=", H", logit="logit[e] * 1", term='e["att"] * x[e.src]')
BY_TYPE = """dim F = 3, G = 2
layer Model(g: graph):
    input x[node, F], logit[node]
    param W[etype, F, G]
    for e in g.edges():
        e["att"] = logit[e.src] + logit[e.dst]
    edge_softmax(g, "att")
    for n in g.dst_nodes():
        for e in n.incoming_edges():
            n["h"] += e["att"] * (x[e.src] @ W[e.etype])
    return n["h"]
"""
STAGES = ("loops", "slc", "dlc")


def segment_loops(compilation) -> list[loops.For]:
    """The loops over segments of the last kernel."""
    kernel = compilation.stages["loops"].program.programs[-1]
    return [node for node in walk(kernel) if isinstance(node, loops.For) and node.lower != 0]


def star(logits: Any) -> dict[str, Any]:
    """Edges from nodes 1, 2, ... to node 0; the last node is isolated."""
    count = len(logits)
    src = np.arange(1, count + 1, dtype=np.int32)
    ends = {"src": src, "dst": np.zeros(count, np.int32), "etype": np.arange(count, dtype=np.int32) % 2}
    counts = {"num_nodes": count + 2, "num_etypes": 2, "num_ntypes": 1}
    return {**ends, **counts, "ntype": np.zeros(count + 2, np.int32), "logit": np.array(logits, np.float32)}


def drawn(compilation, graph: dict[str, Any], seed: int, size: float) -> dict[str, Any]:
    """The graph with values for the tensors that it lacks; logits up to `size`."""
    random = np.random.default_rng(seed)
    counts = {name[4:-1]: count for name, count in graph.items() if name.startswith("num_")}
    counts["edge"] = len(graph["src"])
    program, inputs = compilation.stages["graph"].program, dict(graph)
    for tensor in program.tensors:
        shape = [*(counts[name] for name in tensor.sets), *map(program.size, tensor.dims)]
        scale = size if tensor.name == "logit" else 1.0
        inputs.setdefault(tensor.name, (scale * random.uniform(-1, 1, shape)).astype(np.float32))
    return inputs


@pytest.mark.parametrize(("name", "counts"), [("rgat", None), ("rgat", FEW_PAIRS), ("rgat_heads", None), ("hgt", None)])
def test_a_softmax_and_what_it_weighs_visit_the_edges_once(name, counts):
    merged, apart = layer(name, counts), layer(name, counts, online=False)
    said = report(merged, "online", "loops")
    assert said.changed
    assert "3 visits of the elements -> 1" in said.summary
    # Where sums are taken by pair first, a node's edges are visited pair by pair.
    assert len(segment_loops(merged)) == (2 if counts else 1)
    assert len(segment_loops(apart)) == len(segment_loops(merged)) + 2


def test_it_can_be_left_off():
    said = report(layer("rgat", online=False), "online", "loops")
    assert not said.changed
    assert said.refusals == ("s5 is found before its sums: the option online is off",)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", [ONE_HEAD, HEADS, BY_TYPE], ids=["one head", "heads", "by type"])
@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("on", ["graph", *STAGES])
def test_random_graphs_and_large_logits(text, online, on):
    compilation = compiled(text, counts=FEW_PAIRS, options={"online": online}, on_demand=True)
    assert report(compilation, "online", "loops").changed == online

    @settings(max_examples=25, derandomize=True, deadline=None)
    @given(graphs(), st.integers(0, 1000), st.sampled_from([0.0, 1.0, 300.0, 1e30]))
    def agrees(graph: dict[str, Any], seed: int, size: float) -> None:
        note(str(graph))
        inputs = drawn(compilation, graph, seed, size)
        want = reference.layer(text, inputs, {})
        np.testing.assert_allclose(compilation.run(inputs, on=on), want, rtol=1e-5, atol=1e-6)

    agrees()


@pytest.mark.parametrize("on", ["cpu", "dae", *STAGES])
@pytest.mark.parametrize(
    "logits",
    [[500.0, -500.0, 499.0], [-500.0, 1.0, 500.0], [-3e38, 3e38], [7.0, 7.0, 7.0], [-1e4], [-np.inf, 2.0, 1.0]],
    ids=["falling", "rising", "the ends of f32", "ties", "far below 0", "first -inf"],
)
def test_what_exp_alone_would_not_survive(on, logits):
    compilation = compiled(ONE_HEAD)
    inputs = drawn(compilation, star(logits), 0, 1.0)
    weights = np.exp(np.array(logits, np.float64) - max(logits))
    want = (weights / weights.sum()) @ inputs["x"][1 : len(logits) + 1]
    got = compilation.run(inputs, on=on)
    np.testing.assert_allclose(got[0], want, rtol=1e-5, atol=1e-6)
    assert not got[1:].any()  # nothing comes in: 0, not 0 / 0


def test_a_sum_that_is_not_proportional_stays_behind():
    term = 'exp(e["att"]) * x[e.src]'
    compilation = compiled(ATTENTION.format(heads="", logit="logit[e] * 1", term=term))
    inputs = drawn(compilation, star([3.0, -1.0, 2.0]), 0, 1.0)
    # The sum of exponentials goes with the maximum; the other sum needs all of it first.
    assert "2 visits of the elements -> 1" in report(compilation, "online", "loops").summary
    want = reference.layer(compilation.text, inputs, {})
    np.testing.assert_allclose(compilation.run(inputs, on="loops"), want, rtol=1e-5)


def test_a_sum_in_which_the_maximum_appears_otherwise_is_refused():
    text = """layer Model(g: graph):
    input x[node]
    for n in g.nodes():
        n["m"] = max(x[e.src] for e in n.incoming_edges())
        n["h"] = sum(tanh(x[e.src] - n["m"]) for e in n.incoming_edges())
    return n["h"]
"""
    said = report(compiled(text), "online", "loops")
    assert not said.changed
    assert len(said.refusals) == 1
    assert "is not proportional to exp(-" in said.refusals[0]


def test_a_maximum_that_nothing_waits_for_is_left_alone():
    text = """layer Model(g: graph):
    input x[node]
    for n in g.nodes():
        n["m"] = max(x[e.src] for e in n.incoming_edges())
    return n["m"]
"""
    said = report(compiled(text), "online", "loops")
    assert not said.changed
    assert not said.refusals


@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("interchange", [False, True])
def test_a_product_of_what_was_summed_starts_anew(interchange, online):
    """`s += y[f] * W[f, g]`, a sum within an iteration, is of one maximum, and does not shrink with the others."""
    compilation = compiled(BY_TYPE, counts=FEW_PAIRS, options={"interchange": interchange, "online": online})
    graph = star([0.0] * 6)
    graph["logit"] = np.array([5, -3, 2, 9, 4, 8, 7, 1], np.float32)
    inputs = drawn(compilation, graph, 0, 1.0)
    want = reference.layer(BY_TYPE, inputs, {})
    for stage in STAGES:
        np.testing.assert_allclose(compilation.run(inputs, stage), want, rtol=1e-5, atol=1e-5, err_msg=stage)
