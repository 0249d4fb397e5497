"""Layers that users write, from their text to numbers: the graph's meaning is that of the independent reference."""

from pathlib import Path

import numpy as np
import pytest

from explorer.compiler.interpret.graph import run_graph
from explorer.runtime.reference.evaluate import layer as reference

from .helpers import check
from .layers import LISTING_1

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples" / "rgnn").glob("*.emb"))
NODES, ETYPES, NTYPES = 7, 3, 2
SRC = np.array([0, 1, 1, 2, 0, 4, 5, 5, 3, 3, 6, 0], dtype=np.int32)
DST = np.array([1, 0, 2, 2, 1, 4, 1, 1, 0, 5, 2, 0], dtype=np.int32)
ETYPE = np.array([0, 1, 2, 0, 0, 1, 1, 1, 2, 0, 1, 2], dtype=np.int32)
NTYPE = np.array([0, 1, 1, 0, 1, 0, 0], dtype=np.int32)
"""With parallel edges, loops, and nodes without edges in, out, or both."""

MODELS = {
    "GAT": """
        param W[F, G], a[G], b[G]
        for n in g.nodes():
            n["z"] = x[n] @ W
        for e in g.edges():
            e["s"] = leaky_relu(dot(e.src["z"], a) + dot(e.dst["z"], b), 0.2)
        edge_softmax(g, "s")
        for n in g.nodes():
            n["h"] = sum(e["s"] * e.src["z"] for e in n.incoming_edges())
        return n["h"]""",
    "GraphSAGE": """
        param own[F, G], others[F, G]
        for n in g.nodes():
            m = mean(x[e.src] for e in n.incoming_edges())
            h = x[n] @ own + m @ others
            n["h"] = h / (norm(h) + 1)
        return n["h"]""",
    "GIN": """
        param w1[F, G], w2[G, G]
        for n in g.nodes():
            n["t"] = 1.1 * x[n]
            for e in n.incoming_edges():
                n["t"] += x[e.src]
            n["h"] = relu(n["t"] @ w1) @ w2
        return n["h"]""",
    "pooling": """
        param W[F, G], b[G]
        for n in g.nodes():
            n["h"] = concat(max(relu(x[e.src] @ W + b) for e in n.incoming_edges()),
                            min(x[e.dst] @ W for e in n.outgoing_edges()))
        return n["h"]""",
    "two_layers": """
        param W[etype, F, F], V[ntype, F, F]
        for n in g.nodes():
            n["a"] = x[n] @ V[n.ntype]
            for e in n.incoming_edges():
                n["a"] += e.norm * (e.src.x @ W[e.etype])
        for n in g.nodes():
            n["b"] = tanh(n["a"]) @ V[n.ntype]
            for e in n.outgoing_edges():
                n["b"] += e.norm * (e.dst["a"] @ W[e.etype])
        return relu(n["b"])""",
    "edge_scores": """
        input t[edge]
        param R[etype, F]
        for e in g.edges():
            e["s"] = dot(x[e.src] * R[e.etype], x[e.dst]) * t[e] / e.dst.in_degree
            e["s"] -= 0.5
        return e["s"]""",
    "data_kept_on_edges_of_a_node": """
        for n in g.dst_nodes():
            top = max(e.src.x for e in n.incoming_edges())
            for e in n.incoming_edges():
                e["d"] = top - e.src.x
            n["h"] = sum(e["d"] * e["d"] for e in n.incoming_edges())
        return n["h"]""",
    "types_of_both_ends": """
        param M[ntype, etype, ntype, F]
        for e in g.edges():
            e["m"] = M[e.src.ntype, e.etype, e.dst.ntype] * x[e.src]
        for n in g.nodes():
            for e in n.incoming_edges():
                n["h"] += e["m"]
                n["count"] += 1
        for n in g.nodes():
            n["h"] /= max(n["count"], 1)
        return n["h"]""",
}


def text_of(name: str) -> str:
    """A model under its header; its lines stand in this file four columns deeper than in a text."""
    lines = [line[4:] for line in MODELS[name].split("\n")[1:]]
    return "\n".join(["dim F = 4, G = 3", "layer f(g: graph):", "    input x[node, F]", *lines, ""])


CASES = {
    **{name: (text_of(name), {}) for name in MODELS},
    **{path.stem: (path.read_text(), {"F": 4, "G": 3, "H": 2, "D": 3}) for path in EXAMPLES},
    "Listing 1": (LISTING_1, {"F": 4, "G": 3}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_layer_means_what_the_reference_says(case: str) -> None:
    text, wanted = CASES[case]
    declared = {name: size for name, size in wanted.items() if f"{name} = " in text.split("\n\n")[0]}
    result = check(text, declared)
    assert result.graph is not None, result.diagnostics
    graph = result.graph
    random = np.random.default_rng(1)
    counts = {"node": NODES, "edge": len(SRC), "etype": ETYPES, "ntype": NTYPES}
    tensors = {}
    for tensor in graph.tensors:
        if tensor.kind != "structure":
            shape = [counts[index_set] for index_set in tensor.sets] + [graph.size(dim) for dim in tensor.dims]
            tensors[tensor.name] = random.uniform(-1, 1, shape).astype(np.float32)
    inputs = {"src": SRC, "dst": DST, "etype": ETYPE, "ntype": NTYPE, **tensors}
    in_type = [np.sum((DST[edge] == DST) & (ETYPE[edge] == ETYPE)) for edge in range(len(SRC))]
    structure = {"norm": 1 / np.array(in_type), "in_degree": np.bincount(DST, minlength=NODES)}
    got, _ = run_graph(graph, {**inputs, **structure, **{f"{name}s": count for name, count in counts.items()}})
    numbers = {"num_nodes": NODES, "num_etypes": ETYPES, "num_ntypes": NTYPES}
    want = reference(text, {**inputs, **{name: np.asarray(count) for name, count in numbers.items()}}, declared)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
