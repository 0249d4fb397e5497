"""Layers in the reference: beside oracles written by hand, forward and by differences, and worked in small numbers."""

import tracemalloc

import numpy as np
import pytest

from explorer.runtime import reference, reference_layers
from explorer.runtime.graphs import graph_from_edges, load_graph
from explorer.runtime.reference_text import ReferenceFailure
from tests.oracles import kge, rgnn

F, G, H, D = 5, 4, 2, 3  # all different, so that a transposed matrix or swapped heads cannot fit

GRAPH = graph_from_edges(
    # Parallel edges of one type and of two, a loop, relation 2 unused, node 5 alone, types of nodes in no order.
    [(0, 0, 1), (0, 0, 1), (2, 0, 1), (2, 1, 1), (0, 1, 3), (3, 3, 3), (1, 1, 2), (4, 3, 1), (4, 0, 3), (2, 1, 4)],
    [0, 1, 2, 0, 2, 1],
    num_etypes=4,
)

RGCN = """
dim F = 5, G = 4

layer RGCN(g: graph):
    input x[node, F]
    param W[etype, F, G], W0[F, G], b[G]
    for n in g.dst_nodes():
        n["h"] = n.x @ W0 + b
        for e in n.incoming_edges():
            n["h"] += e.norm * (e.src.x @ W[e.etype])
        n["h"] = relu(n["h"])
    return n["h"]
"""
RGAT = """
dim F = 5, D = 3

layer RGAT(g: graph):
    "Busbridge et al. 2019"
    input x[node, F]
    param W[etype, F, D]
    param w_s[etype, D], w_t[etype, D]
    for e in g.edges():
        hs = e.src.x @ W[e.etype]
        ht = e.dst.x @ W[e.etype]
        e["att"] = leaky_relu(dot(hs, w_s[e.etype]) + dot(ht, w_t[e.etype]), 0.2)
        e["msg"] = hs
    edge_softmax(g, "att")
    for n in g.dst_nodes():
        for e in n.incoming_edges():
            n["h"] += e["att"] * e["msg"]
    return n["h"]
"""
RGAT_HEADS = (
    RGAT.replace("dim F = 5", "dim F = 5, H = 2")
    .replace("[etype, F, D]", "[etype, H, F, D]")
    .replace("e, D]", "e, H, D]")
)
HGT = """
dim F = 5, H = 2, D = 3

layer HGT(g: graph):
    input x[node, F]
    param K[ntype, H, F, D], Q[ntype, H, F, D], V[ntype, H, F, D]
    param A[etype, H, D, D], M[etype, H, D, D], mu[etype, H]
    for n in g.nodes():
        n["k"] = x[n] @ K[n.ntype]
        n["q"] = x[n] @ Q[n.ntype]
        n["v"] = x[n] @ V[n.ntype]
    for e in g.edges():
        e["att"] = dot(e.src["k"] @ A[e.etype], e.dst["q"]) * mu[e.etype] / sqrt(D)
    edge_softmax(g, "att")
    for n in g.dst_nodes():
        n["h"] = sum(e["att"] * (e.src["v"] @ M[e.etype]) for e in n.incoming_edges())
    return n["h"]
"""
GCN = """
dim F = 5, G = 4

layer GCN(g: graph):
    input x[node, F]
    param W[F, G], b[G]
    for n in g.nodes():
        n["d"] = 1 / sqrt(n.in_degree + 1)
        n["z"] = n["d"] * (n.x @ W)
    for n in g.nodes():
        n["h"] = n["d"] * (n["z"] + sum(e.src["z"] for e in n.incoming_edges())) + b
    return n["h"]
"""
SHAPES = {
    "RGCN": {"W": ("R", F, G), "W0": (F, G), "b": (G,)},
    "RGAT": {"W": ("R", F, D), "w_s": ("R", D), "w_t": ("R", D)},
    "RGAT_HEADS": {"W": ("R", H, F, D), "w_s": ("R", H, D), "w_t": ("R", H, D)},
    "HGT": {
        **dict.fromkeys("KQV", ("T", H, F, D)),
        **dict.fromkeys("AM", ("R", H, D, D)),
        "mu": ("R", H),
    },
    "GCN": {"W": (F, G), "b": (G,)},
}
TEXTS = {"RGCN": RGCN, "RGAT": RGAT, "RGAT_HEADS": RGAT_HEADS, "HGT": HGT, "GCN": GCN}


def one_head(graph, x, W, w_s, w_t):
    """RGAT's oracle with a single head, whose axis the text does not have."""
    result, backward = rgnn.rgat(graph, x, W[:, None], w_s[:, None], w_t[:, None])

    def without_heads(upstream):
        gradients = backward(upstream[:, None])
        return {name: value if name == "x" else value[:, 0] for name, value in gradients.items()}

    return result[:, 0], without_heads


ORACLES = {"RGCN": rgnn.rgcn, "RGAT": one_head, "RGAT_HEADS": rgnn.rgat, "HGT": rgnn.hgt, "GCN": rgnn.gcn}


def structure(graph):
    """A graph's inputs by the names of the contract."""
    counts = {"num_nodes": graph.num_nodes, "num_etypes": graph.num_etypes, "num_ntypes": graph.num_ntypes}
    return {**graph.arrays(), **counts}


def draw(name, graph=GRAPH, seed=0):
    """float64 values for a model's tensors."""
    random = np.random.default_rng(seed)
    counts = {"R": graph.num_etypes, "T": graph.num_ntypes}
    shapes = {"x": (graph.num_nodes, F), **SHAPES[name]}
    return {
        tensor: random.standard_normal([counts.get(extent, extent) for extent in shape])
        for tensor, shape in shapes.items()
    }


def oracle(name, tensors, graph=GRAPH):
    """A model's result by hand, and its gradients."""
    arrays = (graph.src, graph.dst, graph.etype, graph.ntype)
    return ORACLES[name](arrays, **tensors)


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
def test_gradients_of_the_oracle_are_the_differences_of_the_layer(name):
    """Trap 5: every entry of every tensor, with isolated nodes, parallel edges and an unused relation."""
    tensors = draw(name)
    result, backward = oracle(name, tensors)
    upstream = np.random.default_rng(1).standard_normal(result.shape)
    gradients = backward(upstream)
    inputs = {**structure(GRAPH), **tensors}
    slopes = reference.finite_difference(TEXTS[name], inputs, {}, upstream, list(tensors), 10_000)
    assert len(slopes) == sum(array.size for array in tensors.values())
    want = [gradients[slope.tensor][slope.index] for slope in slopes]
    np.testing.assert_allclose([slope.value for slope in slopes], want, rtol=1e-6, atol=1e-7)


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
        monkeypatch.setattr(reference_layers, "CHUNK_BYTES", 1)
        monkeypatch.setattr(reference_layers, "FIRST_CHUNK", first)
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
    "subtraction": (
        -7,
        """
for n in g.nodes():
    for e in n.incoming_edges():
        n["y"] -= x[e.src]
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
    "sums at the end of an edge": (
        14,
        """
for e in g.edges():
    e.dst["y"] += x[e.src]
for n in g.nodes():
    n["y"] *= 2.0
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
    "what other nodes get in the same loop": (
        14,
        """
for n in g.nodes():
    n["z"] = 2 * x[n]
    for e in n.incoming_edges():
        n["y"] += e.src["z"]
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
    monkeypatch.setattr(reference_layers, "FIRST_CHUNK", chunk)
    monkeypatch.setattr(reference_layers, "CHUNK_BYTES", chunk)
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
        ["for n in g.nodes():", '    n["y"] = sum(x[m] for m in g.nodes())', 'return n["y"]'],
        ["while 1: pass"],
        ["print(x)"],
        ["return __import__('os')"],
    ],
)
def test_what_is_not_the_language_is_refused(body):
    with pytest.raises(ReferenceFailure):
        run(["param x[node, F]", *body], x=X)


# Differences


def test_differences_of_a_score_are_its_gradient():
    """TransR, cuKE Table II: the gradient of P[r] is (h - t) outer u / |u|."""
    text = """
dim D = 3, K = 2

score TransR(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, K], P[relation, D, K]
    return norm((E[h] - E[t]) @ P[r] + R[r], 2)
"""
    random = np.random.default_rng(0)
    tables = {
        name: random.standard_normal(shape).astype(np.float32)
        for name, shape in {"E": (4, 3), "R": (2, 2), "P": (2, 3, 2)}.items()
    }
    ids = {"h": np.array([0, 0, 2]), "r": np.array([1, 1, 0]), "t": np.array([1, 1, 3])}
    upstream = np.array([1.0, 2.0, -1.0])
    slopes = reference.finite_difference(text, {**tables, **ids}, {}, upstream, ["P", "R"], 100)
    E, R, P = (tables[name].astype(np.float64) for name in "ERP")
    e = E[ids["h"]] - E[ids["t"]]
    u = np.einsum("bd,bdk->bk", e, P[ids["r"]]) + R[ids["r"]]
    du = (upstream / kge.transr(E[ids["h"]], R[ids["r"]], E[ids["t"]], P[ids["r"]]))[:, None] * u
    want = {"P": rgnn.scatter(e[:, :, None] * du[:, None, :], ids["r"], 2), "R": rgnn.scatter(du, ids["r"], 2)}
    assert len(slopes) == 16
    for slope in slopes:
        assert slope.value == pytest.approx(want[slope.tensor][slope.index], rel=1e-7)


@pytest.mark.parametrize("name", TEXTS)
def test_a_direction_checks_all_entries_at_once(name):
    tensors = draw(name)
    result, backward = oracle(name, tensors)
    upstream = np.random.default_rng(1).standard_normal(result.shape)
    gradients = backward(upstream)
    slopes = reference.directional_difference(
        TEXTS[name], {**structure(GRAPH), **tensors}, {}, upstream, list(tensors), seed=3
    )
    assert [slope.tensor for slope in slopes] == list(tensors)
    for slope in slopes:
        assert slope.value == pytest.approx(np.sum(slope.direction * gradients[slope.tensor]), rel=1e-6)


def test_differences_take_some_entries_of_each_tensor_and_change_nothing():
    inputs = {**structure(GRAPH), **draw("GCN")}
    before = {name: np.array(value) for name, value in inputs.items()}
    upstream = np.ones((GRAPH.num_nodes, G))
    drawn = [reference.finite_difference(GCN, inputs, {}, upstream, ["W", "b"], 3, seed=seed) for seed in (0, 0, 1)]
    assert [slope.tensor for slope in drawn[0]] == ["W"] * 3 + ["b"] * 3
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({(slope.tensor, slope.index) for slope in drawn[0]}) == 6
    for name, value in inputs.items():
        np.testing.assert_array_equal(value, before[name])
