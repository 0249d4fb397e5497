"""Bodies of layers over two graphs of the same nodes, with what they mean: NumPy in float64, edge by edge.

The ends of the first graph's edges are `src` and `dst`, those of the second's `q_src` and `q_dst`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.compiler.by_form.set_structures import (
    GRAPHS,
    NO_FIRST,
    NO_SECOND,
    SOCIAL,
    WITH_HELPER,
    Array,
    Inputs,
    summed,
)


def at_nodes(i: Inputs, rows: Array, end: str) -> Array:
    """The sums of edges' rows at each node."""
    return summed(rows, i[end], len(i["x"]))


def mean_at(i: Inputs, rows: Array, end: str) -> Array:
    counts = np.maximum(1, np.bincount(i[end], minlength=len(i["x"])))
    return at_nodes(i, rows, end) / counts[:, None]


def am_gcn(i: Inputs) -> Array:
    """Wang et al. 2020, AM-GCN, equations 2 to 9: a convolution on each graph, and attention over what they give."""
    topology = np.maximum(normed(i, i["x"] @ i["W"], ""), 0)
    features = np.maximum(normed(i, i["x"] @ i["V"], "q_"), 0)
    scores = np.stack([np.tanh(each @ i["W"]) @ i["a"] for each in (topology, features)])
    shares = np.exp(scores) / np.exp(scores).sum(0)
    return shares[0][:, None] * topology + shares[1][:, None] * features


def normed(i: Inputs, rows: Array, graph: str) -> Array:
    """Kipf and Welling's (A + I) with degrees on both sides, without its edges' weights."""
    nodes = len(rows)
    dense = np.eye(nodes)
    np.add.at(dense, (i[f"{graph}dst"], i[f"{graph}src"]), 1)
    degrees = dense.sum(1)
    return dense @ (rows / np.sqrt(degrees)[:, None]) / np.sqrt(degrees)[:, None]


def signed(i: Inputs) -> Array:
    """Derr et al. 2018, SGCN, equations 3 to 6: what friends of friends and enemies of enemies say of a node, and what
    friends' enemies and enemies' friends do."""
    friends, enemies = (mean_at(i, i["x"][i[f"{graph}src"]], f"{graph}dst") for graph in ("", "q_"))
    good = np.tanh(np.concatenate([friends, i["x"]], 1)[:, :4] @ i["W"])
    bad = np.tanh(enemies @ i["V"])
    balanced = mean_at(i, good[i["src"]], "dst") + mean_at(i, bad[i["q_src"]], "q_dst")
    unbalanced = mean_at(i, bad[i["src"]], "dst") - mean_at(i, good[i["q_src"]], "q_dst")
    return np.tanh(balanced @ i["W"]) * i["a"] + unbalanced


def attended(i: Inputs) -> Array:
    """A softmax over the edges of the second graph, and products by their types."""
    scores = i["w"] * (i["x"] @ i["V"] @ i["a"])[i["q_src"]]
    powers = np.exp(scores)
    shares = powers / at_nodes(i, powers, "q_dst")[i["q_dst"]]
    sent = np.einsum("ef,efg->eg", i["x"][i["q_src"]], i["R"][i["q_etype"]])
    return at_nodes(i, shares[:, None] * sent, "q_dst") + at_nodes(i, i["m"], "dst") @ i["W"]


def crossed(i: Inputs) -> Array:
    """Edges of one graph read what those of the other bring to their ends."""
    heard = at_nodes(i, i["w"][:, None] * i["x"][i["q_src"]], "q_dst")
    said = at_nodes(i, i["m"] * heard[i["dst"]], "src")
    return i["w"][:, None] * (said[i["q_dst"]] + heard[i["q_src"]] @ i["W"])


def by_degrees(i: Inputs) -> Array:
    """A convolution on each graph with the degrees of its edges' ends, those of sources in the other one."""
    ends = {name: np.bincount(i[f"{name}dst"], minlength=len(i["x"])) for name in ("", "q_")}
    found = np.zeros_like(i["x"])
    for name, rows in (("", i["x"] @ i["W"]), ("q_", i["x"] @ i["V"])):
        src, dst = i[f"{name}src"], i[f"{name}dst"]
        sent = rows[src] / np.sqrt(ends[name][dst] * (1 + ends["" if name else "q_"][src]))[:, None]
        found += at_nodes(i, sent, f"{name}dst") * i["a"]
    return found


def scattered(i: Inputs) -> Array:
    o = at_nodes(i, i["w"][:, None] * i["x"][i["q_dst"]], "q_src") + at_nodes(i, i["m"], "dst")
    types = summed(i["w"][:, None] * o[i["q_src"]], i["q_etype"], i["num_q_etypes"])
    return np.einsum("rf,rfg->rg", types, i["R"])


def wholes(i: Inputs) -> Array:
    own, other = i["m"].sum(0), (i["w"][:, None] * i["x"][i["q_src"]]).sum(0)
    most = np.max(i["w"][:, None] * i["x"][i["q_dst"]], 0, initial=-np.inf) if len(i["w"]) else np.zeros(4)
    return own * i["x"] - other + (most * i["a"]) @ i["W"]


def diffused(i: Inputs) -> Array:
    """Wu et al. 2019, DiffNet, equations 4 to 8: users are what they follow and themselves, and then what they took."""
    followed = summed(i["x"][i["q_src"]] * i["w"], i["q_dst"], len(i["x"]))
    users = np.tanh(followed @ i["W"] + i["x"] @ i["V"])
    counts = np.maximum(1, np.bincount(i["src"], minlength=len(i["x"])))
    taken = summed(i["y"][i["dst"]], i["src"], len(i["x"])) / counts[:, None]
    return (users + taken)[i["src"]] * i["y"][i["dst"]] * i["a"]


def by_both_ends(i: Inputs) -> Array:
    followers, items = (summed(rows, ids, 3) for rows, ids in ((i["w"], i["q_src"]), (i["y"][i["dst"]], i["src"])))
    logs = np.log(summed(np.exp(i["w"] * i["x"][i["q_dst"]]), i["q_dst"], 3)[i["q_dst"]])
    return followers[i["q_dst"]] * logs + items[i["q_src"]] @ i["W"]


def loops(g: str, q: str) -> str:
    """Sums of the edges of each graph, as statements: by the first's, and by the second's."""
    return f"""for n in g.nodes():
    for e in {g}:
        n["h"] += m[e] * x[e.src]
    for e in {q}:
        n["h"] += w[e] * (x[e.src] @ R[e.etype])
return n["h"]"""


def summed_up(i: Inputs) -> Array:
    sent = np.einsum("ef,efg->eg", i["x"][i["q_src"]], i["R"][i["q_etype"]])
    return at_nodes(i, i["m"] * i["x"][i["src"]], "dst") + at_nodes(i, i["w"][:, None] * sent, "q_dst")


AM_GCN = """for n in g.nodes():
    n["d"] = 1 / sqrt(1 + n.in_degree)
    n["c"] = 1 / sqrt(1 + q.in_degree(n))
    n["t"] = x[n] @ W
    n["f"] = x[n] @ V
for n in g.nodes():
    n["u"] = relu(n["d"] * (n["d"] * n["t"] + sum(e.src["d"] * e.src["t"] for e in g.incoming_edges(n))))
    n["v"] = relu(n["c"] * (n["c"] * n["f"] + sum(e.src["c"] * e.src["f"] for e in q.incoming_edges(n))))
    s = softmax(stack([dot(tanh(n["u"] @ W), a), dot(tanh(n["v"] @ W), a)]))
    n["h"] = s[0] * n["u"] + s[1] * n["v"]
return n["h"]"""
SIGNED = """for n in g.nodes():
    n["good"] = tanh(concat([mean(x[e.src] for e in n.incoming_edges()), x[n]])[:F] @ W)
    n["bad"] = tanh(mean(x[e.src] for e in q.incoming_edges(n)) @ V)
for n in g.nodes():
    b = mean(e.src["good"] for e in n.incoming_edges()) + mean(e.src["bad"] for e in q.incoming_edges(n))
    u = mean(e.src["bad"] for e in n.incoming_edges()) - mean(e.src["good"] for e in q.incoming_edges(n))
    n["h"] = tanh(b @ W) * a + u
return n["h"]"""
ATTENDED = """for e in q.edges():
    e["s"] = w[e] * dot(x[e.src] @ V, a)
edge_softmax(q, "s")
for n in q.nodes():
    n["h"] = sum(e["s"] * (x[e.src] @ R[e.etype]) for e in q.incoming_edges(n))
    n["h"] = n["h"] + sum(m[e] for e in g.incoming_edges(n)) @ W
return n["h"]"""
CROSSED = """for n in g.nodes():
    n["heard"] = sum(w[e] * x[e.src] for e in q.incoming_edges(n))
for e in g.edges():
    e["o"] = m[e] * e.dst["heard"]
for e in q.edges():
    e["o"] = sum(k["o"] for k in e.dst.outgoing_edges()) + sum(w[k] * x[k.src] for k in q.incoming_edges(e.src)) @ W
    e["o"] = w[e] * e["o"]
return q_edge["o"]"""
DEGREES = """for n in g.nodes():
    t = sum(x[e.src] @ W / sqrt(g.in_degree(e.dst) * (1 + q.in_degree(e.src))) for e in g.incoming_edges(n))
    f = sum(x[e.src] @ V / sqrt(q.in_degree(e.dst) * (1 + g.in_degree(e.src))) for e in q.incoming_edges(n))
    n["h"] = (t + f) * a
return n["h"]"""
SCATTERED = """for e in q.edges():
    e.src["o"] += w[e] * x[e.dst]
for e in g.edges():
    e.dst["o"] += m[e]
for e in q.edges():
    e.etype["c"] += w[e] * e.src["o"]
for r in q.etypes():
    r["y"] = r["c"] @ R[r]
return r["y"]"""
WHOLES = """for e in g.edges():
    g["s"] += m[e]
for e in q.edges():
    q["s"] += w[e] * x[e.src]
most = max(w[e] * x[e.dst] for e in q.edges())
for n in g.nodes():
    n["h"] = g["s"] * x[n] - q["s"] + (most * a) @ W
return n["h"]"""
DIFFUSED = """for u in q.nodes():
    u["h"] = tanh(sum(x[e.src] * w[e] for e in q.incoming_edges(u)) @ W + x[u] @ V)
for u in g.src_nodes():
    u["z"] = u["h"] + mean(y[e.dst] for e in u.outgoing_edges())
for e in g.edges():
    e["s"] = e.src["z"] * y[e.dst] * a
return e["s"]"""
BY_BOTH_ENDS = """for e in q.edges():
    e["l"] = logsumexp(w[k] * x[k.dst] for k in q.incoming_edges(e.dst))
    e["t"] = sum(w[k] for k in q.outgoing_edges(e.dst)) * e["l"]
    e["t"] = e["t"] + sum(y[k.dst] for k in g.outgoing_edges(e.src)) @ W
return e["t"]"""

HELPING = """for n in g.nodes():
    n["h"] = heard(p=g, g=q, n=n, x=x) @ W + heard(g, q, n, x) @ V
return n["h"]"""


def helped(i: Inputs) -> Array:
    """What a helper goes over where no graph is named is the first that it is given."""
    degrees = {name: np.bincount(i[f"{name}dst"], minlength=len(i["x"])) for name in ("", "q_")}
    found = {}
    for name, other in (("", "q_"), ("q_", "")):
        dst = i[f"{name}dst"]
        heard = at_nodes(i, i["x"][i[f"{name}src"]] / np.sqrt(degrees[name][dst])[:, None], f"{name}dst")
        found[name] = heard - (degrees[name] / (1 + degrees[other]))[:, None] * i["x"]
    return found["q_"] @ i["W"] + found[""] @ i["V"]


OF_GRAPHS: dict[str, tuple[str, Callable[[Inputs], Array]]] = {
    "attention over two graphs' results": (AM_GCN, am_gcn),
    "signed edges": (SIGNED, signed),
    "a softmax over a second graph": (ATTENDED, attended),
    "a graph's edges read another's": (CROSSED, crossed),
    "degrees in two graphs": (DEGREES, by_degrees),
    "sums along a second graph's maps": (SCATTERED, scattered),
    "sums of each of two graphs": (WHOLES, wholes),
    "edges at a node of two graphs": (loops("g.incoming_edges(n)", "q.incoming_edges(n)"), summed_up),
}
GRAPH_BODIES: dict[str, tuple[str, str, Callable[[Inputs], Array]]] = {
    **{name: (GRAPHS, *form) for name, form in OF_GRAPHS.items()},
    **{f"{name}, of no second one": (NO_SECOND, *form) for name, form in OF_GRAPHS.items()},
    **{f"{name}, of no first one": (NO_FIRST, *form) for name, form in OF_GRAPHS.items()},
    "a helper of either graph": (WITH_HELPER, HELPING, helped),
    "friends and items": (SOCIAL, DIFFUSED, diffused),
    "both ends of friends": (SOCIAL, BY_BOTH_ENDS, by_both_ends),
}
