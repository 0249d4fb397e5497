"""Bodies of layers whose edges lead from one set to another, with what they mean: NumPy in float64, edge by edge.

Three users, one of them without an edge, and seven items, two of them without; two edges are parallel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.compiler.by_form.set_structures import Array, Inputs


def reduced(i: Inputs, rows: Array, end: str, reduce: Callable[[Array], Array]) -> Array:
    """What is made of the rows of the edges at each item (`dst`) or user (`src`); 0 of none."""
    count = i[{"src": "num_users", "dst": "num_items"}[end]]
    found = np.zeros((count, *rows.shape[1:]))
    for place in range(count):
        if (i[end] == place).any():
            found[place] = reduce(rows[i[end] == place])
    return found


def total(i: Inputs, rows: Array, end: str = "dst") -> Array:
    return reduced(i, rows, end, lambda part: part.sum(0))


def with_self(i: Inputs) -> Array:
    """GraphSAGE (Hamilton et al. 2017) from users to items, each with a term of its own."""
    mean = reduced(i, i["x"][i["src"]] @ i["W"], "dst", lambda part: part.mean(0))
    return np.maximum(i["y"] @ i["S"] + mean, 0)


def attention(i: Inputs) -> Array:
    """GAT (Velickovic et al. 2018) of items over their users."""
    sent = i["x"] @ i["W"]
    scores = (sent @ i["a"])[i["src"]] + (i["y"] @ i["S"] @ i["a"])[i["dst"]]
    powers = np.exp(np.where(scores > 0, scores, 0.2 * scores))
    shares = powers / total(i, powers)[i["dst"]]
    return total(i, shares[:, None] * sent[i["src"]])


def both_ways(i: Inputs) -> Array:
    """A step of LightGCN (He et al. 2020) to the items and one back to the users."""
    degrees = {end: np.array([(i[end] == place).sum() for place in i[end]]) for end in ("src", "dst")}
    weights = (1 / np.sqrt(degrees["src"] * degrees["dst"]))[:, None]
    items = total(i, weights * (i["x"] @ i["W"])[i["src"]])
    return i["x"] + total(i, weights * (items + i["y"])[i["dst"]], "src")


def by_type(i: Inputs) -> Array:
    """R-GCN (Schlichtkrull et al. 2018) between two sets."""
    alike = [((i["dst"] == v) & (i["etype"] == r)).sum() for v, r in zip(i["dst"], i["etype"], strict=True)]
    sent = np.einsum("ef,efg->eg", i["x"][i["src"]], i["R"][i["etype"]])
    return i["y"] @ i["S"] + total(i, sent / np.array(alike)[:, None])


def at_type(i: Inputs, end: str, of: Callable[[Array, int, int], Array]) -> Array:
    """The sum over the types of the edges at each user or item of what is made of those edges."""
    found = np.zeros_like(i[{"src": "x", "dst": "y"}[end]])
    for place in range(len(found)):
        for etype in np.unique(i["etype"][i[end] == place]):
            found[place] += of((i[end] == place) & (i["etype"] == etype), int(etype), place)
    return found


def gates(i: Inputs) -> Array:
    def of(among: Array, etype: int, place: int) -> Array:
        powers = np.exp((i["x"][i["src"][among]] * i["m"][among]).sum(-1))
        shares = powers / powers.sum()
        return np.tanh((shares[:, None] * i["m"][among]).sum(0) @ i["R"][etype])

    return at_type(i, "dst", of)


def normed(i: Inputs) -> Array:
    """A batch norm over users and one over items, met at the edges."""

    def norm(rows: Array) -> Array:
        return (rows - rows.mean(0)) / np.sqrt(((rows - rows.mean(0)) ** 2).mean(0) + 0.01)

    return norm(i["x"] @ i["W"])[i["src"]] * norm(i["y"] @ i["S"])[i["dst"]] * i["m"]


def scattered(i: Inputs) -> Array:
    users, items = total(i, i["m"] * i["y"][i["dst"]], "src"), total(i, i["m"] * i["x"][i["src"]])
    return np.tanh(users[i["src"]]) * items[i["dst"]]


def kinds(i: Inputs) -> Array:
    found = np.zeros_like(i["K"])
    for edge, item in enumerate(i["dst"]):
        found[i["kind"][item]] += i["m"][edge] * i["K"][i["kind"][item]]
    return found


def of_others(i: Inputs) -> Array:
    """Of each edge the edges into its item, and those out of its user that are of its type."""
    found = np.zeros_like(i["m"])
    for edge in range(len(found)):
        into = i["dst"] == i["dst"][edge]
        out = (i["src"] == i["src"][edge]) & (i["etype"] == i["etype"][edge])
        found[edge] = i["m"][into].sum(0) - np.log(np.exp(i["m"] * i["y"][i["dst"]])[out].sum(0))
    return found


BETWEEN_BODIES: dict[str, tuple[str, Callable[[Inputs], Array]]] = {
    "a term of its own between two sets": (
        'for n in g.dst_nodes():\n    n["h"] = relu(y[n] @ S + mean(x[e.src] @ W for e in n.incoming_edges()))\n'
        'return n["h"]',
        with_self,
    ),
    "attention between two sets": (
        "for e in g.edges():\n"
        '    e["s"] = leaky_relu(dot(e.src.x @ W, a) + dot(e.dst.y @ S, a), 0.2)\n'
        'edge_softmax(g, "s")\n'
        'for n in g.dst_nodes():\n    n["h"] = sum(e["s"] * (x[e.src] @ W) for e in n.incoming_edges())\n'
        'return item["h"]',
        attention,
    ),
    "a step both ways between two sets": (
        'for u in g.src_nodes():\n    u["d"] = sum(1 for e in u.outgoing_edges())\n'
        'for e in g.edges():\n    e["w"] = 1 / sqrt(e.src["d"] * e.dst.in_degree)\n'
        'for n in g.dst_nodes():\n    for e in n.incoming_edges():\n        n["h"] += e["w"] * (x[e.src] @ W)\n'
        "for u in g.src_nodes():\n"
        '    u["h"] = x[u] + sum(e["w"] * (e.dst["h"] + y[e.dst]) for e in u.outgoing_edges())\n'
        'return user["h"]',
        both_ways,
    ),
    "types between two sets": (
        "for n in g.dst_nodes():\n"
        '    n["h"] = y[n] @ S + sum(e.norm * (x[e.src] @ R[e.etype]) for e in n.incoming_edges())\n'
        'return n["h"]',
        by_type,
    ),
    "gates of types between two sets": (
        'for e in g.edges():\n    e["s"] = dot(x[e.src], m[e])\n'
        'edge_softmax(g, "s", by=etype)\n'
        "for n in g.dst_nodes():\n    for r in n.incoming_etypes():\n"
        '        n["h"] += tanh(sum(e["s"] * m[e] for e in n.incoming_edges(r)) @ R[r])\n'
        'return n["h"]',
        gates,
    ),
    "outgoing types between two sets": (
        "for u in g.src_nodes():\n    for r in u.outgoing_etypes():\n"
        '        u["h"] += x[u] * tanh(mean(m[e] * y[e.dst] for e in u.outgoing_edges(r)) @ R[r])\n'
        'return u["h"]',
        lambda i: at_type(
            i,
            "src",
            lambda among, r, u: i["x"][u] * np.tanh((i["m"] * i["y"][i["dst"]])[among].mean(0) @ i["R"][r]),
        ),
    ),
    "batch norms of two sets": (
        'for u in g.src_nodes():\n    u["h"] = x[u] @ W\nfor n in g.dst_nodes():\n    n["h"] = y[n] @ S\n'
        'mx = mean(u["h"] for u in g.src_nodes())\nmy = mean(n["h"] for n in g.dst_nodes())\n'
        'vx = mean((u["h"] - mx) ** 2 for u in g.src_nodes())\nvy = mean((n["h"] - my) ** 2 for n in g.dst_nodes())\n'
        "for e in g.edges():\n"
        '    e["o"] = (e.src["h"] - mx) / sqrt(vx + 0.01) * (e.dst["h"] - my) / sqrt(vy + 0.01) * m[e]\n'
        'return e["o"]',
        normed,
    ),
    "sums at both ends of two sets": (
        'for e in g.edges():\n    e.src["o"] += m[e] * y[e.dst]\n    e.dst["o"] += m[e] * x[e.src]\n'
        'for e in g.edges():\n    e["z"] = tanh(e.src["o"]) * e.dst["o"]\nreturn e["z"]',
        scattered,
    ),
    "a map from one of two sets": (
        'for e in g.edges():\n    e.dst.kind["c"] += m[e] * K[e.dst.kind]\nreturn kind["c"]',
        kinds,
    ),
    "other edges at ends of two sets": (
        "for e in g.edges():\n"
        '    e["o"] = sum(m[k] for k in e.dst.incoming_edges())'
        " - logsumexp(m[k] * y[k.dst] for k in e.src.outgoing_edges(e.etype))\n"
        'return e["o"]',
        of_others,
    ),
}
