"""Layers in the reference: beside oracles written by hand, and worked in small numbers."""

import tracemalloc

import numpy as np
import pytest

from explorer.runtime.data.graphs import graph_from_edges, load_graph
from explorer.runtime.reference import evaluate as reference
from explorer.runtime.reference import rows as reference_rows
from explorer.runtime.reference.text import ReferenceFailure
from tests.runtime.reference.layer_models import (
    GCN,
    GRAPH,
    RGAT,
    RGAT_HEADS,
    RGCN,
    TEXTS,
    D,
    H,
    draw,
    oracle,
    structure,
)


def run(lines, edges=((0, 0, 1), (1, 0, 2), (0, 1, 2), (3, 1, 2)), nodes=5, sizes=(), helpers="", **tensors):
    """What a layer of these statements gives on a small graph; node 4 is alone, and node 3 has no in-edges."""
    text = "\n".join([helpers, "dim F = 2", "", "layer Model(g: graph):", *("    " + line for line in lines)])
    graph = graph_from_edges(edges, [0] * nodes, num_etypes=2)
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in tensors.items()}
    return reference.layer(text, {**structure(graph), **arrays}, dict(sizes))


# Models


@pytest.mark.parametrize("name", TEXTS)
def test_layers_equal_the_oracle(name):
    tensors = draw(name)
    got = reference.layer(TEXTS[name], {**structure(GRAPH), **tensors}, {})
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, oracle(name, tensors)[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", TEXTS)
def test_larger_random_graphs_equal_the_oracle(name):
    graph = load_graph("small")
    tensors = draw(name, graph)
    got = reference.layer(TEXTS[name], {**structure(graph), **tensors}, {})
    np.testing.assert_allclose(got, oracle(name, tensors, graph)[0], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", TEXTS)
def test_chunks_change_nothing(name, monkeypatch):
    inputs = {**structure(GRAPH), **draw(name)}
    whole = reference.layer(TEXTS[name], inputs, {})
    for first in (1, 3):
        monkeypatch.setattr(reference_rows, "CHUNK_BYTES", 1)
        monkeypatch.setattr(reference_rows, "FIRST_CHUNK", first)
        np.testing.assert_allclose(reference.layer(TEXTS[name], inputs, {}), whole, rtol=1e-13)


def test_two_heads_are_two_layers_of_one_head_each():
    """Trap 8."""
    tensors = draw("RGAT_HEADS")
    got = reference.layer(RGAT_HEADS, {**structure(GRAPH), **tensors}, {})
    for head in range(H):
        alone = {name: values if name == "x" else values[:, head] for name, values in tensors.items()}
        want = reference.layer(RGAT, {**structure(GRAPH), **alone}, {})
        np.testing.assert_allclose(got[:, head], want, rtol=1e-13)


def test_a_definition_is_picked_by_name():
    text = RGCN + GCN.split("\n\n", 1)[1]
    tensors = draw("RGCN")
    got = reference.layer(text, {**structure(GRAPH), **tensors}, {}, name="RGCN")
    np.testing.assert_allclose(got, oracle("RGCN", tensors)[0], rtol=1e-12)


def test_a_matrix_an_edge_is_never_in_memory():
    """Gathered for each of aifb's 48,810 edges, W would take 1.6 GB in float64."""
    graph, random = load_graph("aifb"), np.random.default_rng(0)
    shapes = {"x": (graph.num_nodes, 64), "W": (graph.num_etypes, 64, 64), "W0": (64, 64), "b": (64,)}
    inputs = {name: random.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    tracemalloc.start()
    reference.layer(RGCN, {**structure(graph), **inputs}, {"F": 64, "G": 64})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 << 20


# Worked in small numbers: a graph of 0 -> 1 (type 0), 1 -> 2 (type 0), 0 -> 2 (type 1), 3 -> 2 (type 1).

X = [[1, 10], [2, 20], [3, 30], [4, 40], [5, 50]]


def test_norm_counts_parallel_edges_of_a_type_and_the_self_loop_is_once_a_node():
    """Trap 6: relation 0 has two parallel edges and one more into node 1, relation 1 one; node 2 has no edge."""
    edges = [(0, 0, 1), (0, 0, 1), (1, 0, 1), (0, 1, 1)]
    body = [
        "param x[node], w[etype], w0",
        "for n in g.nodes():",
        "    n['h'] = x[n] * w0 + sum(e.norm * x[e.src] * w[e.etype] for e in n.incoming_edges())",
        "return n['h']",
    ]
    got = run([line.replace("'", '"') for line in body], edges, 3, x=[6, 12, 5], w=[1, 100], w0=2)
    assert got.tolist() == [12, 24 + (6 + 6 + 12) / 3 + 600, 10]


def test_softmax_is_over_all_in_edges_of_a_node():
    """Trap 7: within relations, node 2's three edges would get 1, 1/2, 1/2."""
    body = ["param w[edge]", "for e in g.edges():", '    e["a"] = w[e]', 'edge_softmax(g, "a")', 'return e["a"]']
    third = pytest.approx(1 / 3)
    assert run(body, w=[5, 7, 7, 7]).tolist() == [1, third, third, third]
    assert run(body, w=[-1e4, 1e4, 1e4, -1e4]).tolist() == [1, 0.5, 0.5, 0]
    assert run(body, w=[-1e4, -1e4, -1e4 - 5, -1e4 - 5])[0] == 1  # a maximum that starts at 0 would give NaN
    assert run(body, w=[-1e4] * 4).tolist() == [1, third, third, third]


def test_a_text_may_define_its_own_softmax():
    """Hector's Listing 1, which divides by sums kept on the nodes."""
    defined = """
def edge_softmax(g, att):
    for e in g.edges():
        e[att] = exp(e[att])
    for n in g.dst_nodes():
        n["total"] = 0.0
        for e in n.incoming_edges():
            n["total"] += e[att]
    for e in g.edges():
        e[att] /= e.dst["total"]
"""
    tensors = draw("RGAT")
    got = reference.layer(defined + RGAT, {**structure(GRAPH), **tensors}, {})
    np.testing.assert_allclose(got, oracle("RGAT", tensors)[0], rtol=1e-12)
    doubled = reference.layer(
        defined.replace("exp(e[att])", "exp(2 * e[att])") + RGAT, {**structure(GRAPH), **tensors}, {}
    )
    assert not np.allclose(got, doubled)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("sum(x[e.src] for e in n.incoming_edges())", [[0, 0], [1, 10], [7, 70], [0, 0], [0, 0]]),
        ("mean(x[e.src] for e in n.incoming_edges())", [[0, 0], [1, 10], [7 / 3, 70 / 3], [0, 0], [0, 0]]),
        ("max(-x[e.src] for e in n.incoming_edges())", [[0, 0], [-1, -10], [-1, -10], [0, 0], [0, 0]]),
        ("min(e.src.x for e in n.incoming_edges())", [[0, 0], [1, 10], [1, 10], [0, 0], [0, 0]]),
        ("sum(x[e.dst] for e in n.outgoing_edges())", [[5, 50], [3, 30], [0, 0], [3, 30], [0, 0]]),
        ("sum(x[n] for e in n.incoming_edges())", [[0, 0], [2, 20], [9, 90], [0, 0], [0, 0]]),
        ("sum(1.0 for e in n.incoming_edges())", [0, 1, 3, 0, 0]),
        ("n.in_degree", [0, 1, 3, 0, 0]),
        ("sum(w[e] for e in n.incoming_edges())", [0, 1, 14, 0, 0]),
        ("sum(w[e.id] * k[e.etype] for e in n.incoming_edges())", [0, 10, 1220, 0, 0]),
        ("sum(e.src.in_degree for e in n.incoming_edges())", [0, 0, 1, 0, 0]),
        ("sum(P[n.ntype, e.etype] for e in n.incoming_edges())", [0, 3, 11, 0, 0]),
        ("x[n][0:1] @ M[n.ntype].T[0:1]", None),
        ("max(x[n.id])", [10, 20, 30, 40, 50]),
    ],
)
def test_expressions_of_nodes(expression, want):
    tensors = {"x": X, "w": [1, 2, 4, 8], "k": [10, 100], "P": [[3, 4]], "M": [[[1, 2], [3, 4]]]}
    body = [
        "param x[node, F], w[edge], k[etype], P[ntype, etype], M[ntype, F, F]",
        "for n in g.nodes():",
        f'    n["y"] = {expression}',
        'return n["y"]',
    ]
    if want is None:  # [1] @ [2, 1] fits neither reading
        with pytest.raises(ReferenceFailure):
            run(body, **tensors)
    else:
        np.testing.assert_allclose(run(body, **tensors), want)


STATEMENTS = {
    "an explicit zero": (
        7,
        """
for n in g.nodes():
    n["y"] = 0.0
    for e in n.incoming_edges():
        n["y"] += x[e.src]
""",
    ),
    "what an earlier loop left is added to": (
        10,
        """
for n in g.nodes():
    n["y"] = x[n]
for n in g.nodes():
    for e in n.incoming_edges():
        n["y"] += x[e.src]
""",
    ),
    "data of an element changed in place": (
        20.4,
        """
for n in g.nodes():
    n["y"] = 2 * x[n]
    n["y"] *= 9.0
    n["y"] -= x[n]
    n["y"] += n["y"]
    n["y"] /= 2 + n.in_degree
""",
    ),
    "a local of the node on its edges, and one of the edge changed in place": (
        250,
        """
for n in g.nodes():
    s = 2 * x[n]
    for e in n.incoming_edges():
        v = s + x[e.src]
        v *= 10.0
        n["y"] += v
""",
    ),
    "data of edges written and read from the node, then from the edge": (
        28,
        """
for n in g.nodes():
    for e in n.incoming_edges():
        e["a"] = x[e.src]
    for e in n.incoming_edges():
        n["t"] += e["a"]
for e in g.edges():
    e["a"] = e["a"] + e.dst["t"]
for n in g.nodes():
    n["y"] = sum(e["a"] for e in n.incoming_edges())
""",
    ),
    "data whose shape changes": (
        231,
        """
for n in g.nodes():
    for e in n.incoming_edges():
        n["y"] += x[e.src]
    n["y"] = sum(n["y"])
    n["y"] = n["y"] * x[n]
""",
    ),
    "helpers of values": (
        4,
        """
y = 3.0
for n in g.nodes():
    n["y"] = twice(twice(n.x)) / y
""",
    ),
    "a helper with a reduction": (
        7,
        """
for n in g.nodes():
    n["y"] = neighbours(n)
""",
    ),
}
HELPERS = """
def twice(v):
    return 2 * v

def neighbours(n):
    return sum(e.src.x for e in n.incoming_edges())
"""


@pytest.mark.parametrize("case", STATEMENTS)
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_statements(case, chunk, monkeypatch):
    """Node 2, whose neighbours' rows sum to 7 times [1, 10]."""
    monkeypatch.setattr(reference_rows, "FIRST_CHUNK", chunk)
    monkeypatch.setattr(reference_rows, "CHUNK_BYTES", chunk)
    want, body = STATEMENTS[case]
    lines = ["param x[node, F]", *body.strip().split("\n"), 'return n["y"]']
    assert run(lines, helpers=HELPERS, x=X)[2].tolist() == [want, 10 * want]


def test_hectors_star_between_given_features_and_learnt_weights_is_a_product():
    """Listing 1 writes `e.src.feature * W[e.etype]`; every other star scales rows or goes element by element."""
    tensors = {"x": X, "y": X, "W": np.arange(8).reshape(2, 2, 2), "s": [[1, 2], [3, 4]]}
    body = ["input x[node, F]", "param y[node, F], W[etype, F, F], s[etype, F]", "for e in g.edges():"]
    etype, src = [0, 0, 1, 1], np.array(X)[[0, 1, 0, 3]]
    matrices = tensors["W"][etype]
    for expression, want in (
        ("e.src.x * W[e.etype]", np.einsum("ef,efg->eg", src, matrices)),
        ("x[e.src] * W[e.etype]", np.einsum("ef,efg->eg", src, matrices)),
        ("(x[e.src] + 0) * W[e.etype]", src[:, :, None] * matrices),
        ("y[e.src] * W[e.etype]", src[:, :, None] * matrices),
        ("x[e.src] * s[e.etype]", src * np.array(tensors["s"])[etype]),
    ):
        np.testing.assert_allclose(run([*body, f'    e["y"] = {expression}', 'return e["y"]'], **tensors), want)


def test_every_product_with_gathered_matrices_has_numpys_meaning():
    random = np.random.default_rng(0)
    v, x, W = random.standard_normal(3), random.standard_normal((5, 2)), random.standard_normal((2, 4, 2, 3))
    body = ["param v[D], x[node, F], W[etype, H, F, D]", "for e in g.edges():"]
    etype, src = [0, 0, 1, 1], [0, 1, 0, 3]
    for expression, subscripts, other in (
        ("x[e.src] @ W[e.etype]", "ehfd,ef->ehd", x[src]),
        ("W[e.etype].T @ x[e.src]", "ehfd,ef->ehd", x[src]),
        ("x[e.src] @ W[e.etype] * 1", "ehfd,ef->ehd", x[src]),
        ("W[e.etype] @ v", "ehfd,ed->ehf", np.stack([v] * 4)),
        ("linear(v, W[e.etype].T)", "ehfd,ed->ehf", np.stack([v] * 4)),
    ):
        got = run([*body, f'    e["y"] = {expression}', 'return e["y"]'], sizes={"H": 4, "D": 3}, v=v, x=x, W=W)
        np.testing.assert_allclose(got, np.einsum(subscripts, W[etype], other), rtol=1e-12)


def test_a_graph_without_edges_gives_zeros_of_the_right_shape():
    none = graph_from_edges([], [0, 1], 3)
    tensors = draw("RGAT_HEADS", none)
    got = reference.layer(RGAT_HEADS, {**structure(none), **tensors}, {})
    np.testing.assert_array_equal(got, np.zeros((2, H, D)))


@pytest.mark.parametrize(
    "body",
    [
        ["for n in g.nodes():", '    n["y"] = n["z"]', 'return n["y"]'],
        ["for n in g.nodes():", "    for e in n.incoming_edges():", '        n["y"] = x[e.src]', 'return n["y"]'],
        ["for e in g.edges():", '    e.dst["y"] = x[e.src]', 'return e["y"]'],
        ["for n in g.nodes():", '    n["y"] = n.weight', 'return n["y"]'],
        ["for n in g.neighbours():", '    n["y"] = x[n]', 'return n["y"]'],
        ["for n in g.nodes():", '    n["y"] = x[n]'],
        ["for n in g.nodes():", "    n[x] = x[n]", 'return n["y"]'],
        ["for n in g.nodes():", '    n["y"] = sum(x[m] for m in g.pairs())', 'return n["y"]'],
        ["while 1: pass"],
        ["print(x)"],
        ["return __import__('os')"],
    ],
)
def test_what_is_not_the_language_is_refused(body):
    with pytest.raises(ReferenceFailure):
        run(["param x[node, F]", *body], x=X)


def test_the_variable_of_an_ended_loop_may_be_one_of_a_loop_in_a_loop():
    """Of more nodes than edges, the first loop's edges are too few for them."""
    text = """dim F = 1
layer f(g: graph):
    input w[edge]
    for e in g.edges():
        e["a"] = 2 * w[e]
    for n in g.nodes():
        for r in n.incoming_etypes():
            n["h"] += sum(e["a"] for e in n.incoming_edges(r))
    return n["h"]
"""
    graph = {"src": [0], "dst": [8], "etype": [1], "ntype": [0] * 9}
    counts = {"num_nodes": 9, "num_etypes": 2, "num_ntypes": 1}
    inputs = {name: np.array(ids) for name, ids in graph.items()} | counts | {"w": np.array([3.0])}
    assert reference.layer(text, inputs, {}).tolist() == [0] * 8 + [6]
