"""Layers with an oracle each: their texts, a graph that has every oddity, and values for their tensors."""

import numpy as np

from explorer.runtime.data.graphs import graph_from_edges
from tests.oracles import rgnn

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
