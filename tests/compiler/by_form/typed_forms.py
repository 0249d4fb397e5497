"""Bodies of layers that reduce over a node's edges of one type, or over those of another node, with what they mean:
NumPy in float64, by comparing each edge with each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.compiler.by_form.set_structures import Array, Inputs


def of_types(of: Callable[[Inputs, Array, int, int], Array]) -> Callable[[Inputs], Array]:
    """A row for each node: the sum over the types of its in-edges of what is made of the edges of each type."""

    def means(i: Inputs) -> Array:
        found = np.zeros_like(i["x"])
        for node in range(len(found)):
            for etype in np.unique(i["etype"][node == i["dst"]]):
                found[node] += of(i, (node == i["dst"]) & (etype == i["etype"]), etype, node)
        return found

    return means


def of_edges(of: Callable[[Inputs, int], Array]) -> Callable[[Inputs], Array]:
    """A row for each edge."""
    return lambda i: np.stack([of(i, edge) for edge in range(len(i["src"]))])


def alike(i: Inputs, edge: int, end: str = "dst") -> Array:
    """The edges of an edge's type at one of its ends."""
    return (i[end] == i[end][edge]) & (i["etype"] == i["etype"][edge])


def softmax_by_type(i: Inputs, edge: int) -> Array:
    powers = np.exp((i["x"][i["src"]] * i["a"][i["etype"]]).sum(-1))
    return powers[edge] / powers[alike(i, edge)].sum() * i["m"][edge]


def scaled(i: Inputs, among: Array, etype: int, node: int) -> Array:
    top = (i["m"] * i["x"][i["src"]])[among].max(0)
    return i["x"][node] * (np.tanh(i["m"][among] - top) * i["a"][etype]).sum(0)


def graph_sums(i: Inputs) -> Array:
    total = (i["m"] * i["x"][i["dst"]]).sum(0)
    total = total + of_types(lambda i, among, r, n: np.tanh(i["m"][among].sum(0) @ i["W"][r]))(i).sum(0)
    into = np.zeros_like(i["x"])
    np.add.at(into, i["dst"], i["m"])
    return into * total


LOOP = 'for n in g.nodes():\n    for r in n.incoming_etypes():\n        {}\nreturn n["z"]'
EDGES = 'for e in g.edges():\n    e["o"] = {}\nreturn e["o"]'
TYPED_BODIES: dict[str, tuple[str, Callable[[Inputs], Array]]] = {
    "softmax by type": (
        'for e in g.edges():\n    e["s"] = dot(x[e.src], a[e.etype])\nedge_softmax(g, "s", by=etype)\n'
        + EDGES.format('e["s"] * m[e]'),
        of_edges(softmax_by_type),
    ),
    "a function of each type's sum": (
        LOOP.format('n["z"] += tanh(sum(m[e] for e in n.incoming_edges(r)) @ W[r])'),
        of_types(lambda i, among, r, n: np.tanh(i["m"][among].sum(0) @ i["W"][r])),
    ),
    "names of a loop over types": (
        LOOP.format(
            "top = max(m[e] * x[e.src] for e in n.incoming_edges(r))\n"
            '        n["z"] += x[n] * sum(tanh(m[e] - top) * a[r] for e in n.incoming_edges(r))'
        ),
        of_types(scaled),
    ),
    "one comprehension in another": (
        'for n in g.nodes():\n    n["z"] = sum(mean(m[e] for e in n.incoming_edges(r)) ** 2 * a[r]'
        ' for r in n.incoming_etypes())\nreturn n["z"]',
        of_types(lambda i, among, r, n: i["m"][among].mean(0) ** 2 * i["a"][r]),
    ),
    "sums of edges in a loop over types": (
        LOOP.format(
            "scale = 1 + sum(dot(m[e], m[e]) for e in n.incoming_edges(r))\n"
            '        for e in n.incoming_edges(r):\n            n["z"] += m[e] / scale * x[n]'
        ),
        of_types(lambda i, among, r, n: i["m"][among].sum(0) / (1 + (i["m"][among] ** 2).sum()) * i["x"][n]),
    ),
    "a sum beside an edge": (
        EDGES.format("m[e] / (1 + sum(k.norm * exp(m[k]) for k in e.dst.incoming_edges(e.etype)))"),
        of_edges(lambda i, e: i["m"][e] / (1 + np.exp(i["m"][alike(i, e)]).mean(0))),
    ),
    "edges of the source": (
        EDGES.format("sum(m[k] * a[k.etype] for k in e.src.incoming_edges()) - m[e]"),
        of_edges(lambda i, e: (i["m"] * i["a"][i["etype"]])[i["src"][e] == i["dst"]].sum(0) - i["m"][e]),
    ),
    "data of types": (
        'for r in g.etypes():\n    r["w"] = tanh(a[r])\n'
        + 't = sum(r["w"] * a[r] for r in g.etypes())\n'
        + EDGES.format('m[e] * e.etype["w"] + t'),
        lambda i: i["m"] * np.tanh(i["a"])[i["etype"]] + (np.tanh(i["a"]) * i["a"]).sum(0),
    ),
    "a result of types": (
        'top = mean(m[e] for e in g.edges())\nfor r in g.etypes():\n    r["h"] = top * (a[r] @ W[r])\nreturn r["h"]',
        lambda i: i["m"].mean(0) * np.einsum("rf,rfg->rg", i["a"], i["W"]),
    ),
    "sums of the graph": (
        "for n in g.nodes():\n    for e in n.incoming_edges():\n"
        '        n["s"] += m[e]\n        g["all"] += m[e] * x[n]\n'
        "for n in g.nodes():\n    for r in n.incoming_etypes():\n"
        '        g["all"] += tanh(sum(m[e] for e in n.incoming_edges(r)) @ W[r])\n'
        'for n in g.nodes():\n    n["o"] = n["s"] * g["all"]\nreturn n["o"]',
        graph_sums,
    ),
    "the graph's own data": (
        'for e in g.edges():\n    g["h"] += tanh(m[e]) * a[e.etype]\nreturn g["h"]',
        lambda i: (np.tanh(i["m"]) * i["a"][i["etype"]]).sum(0, keepdims=True),
    ),
    "outgoing edges of a type": (
        EDGES.format("logsumexp(m[k] * x[k.dst] for k in e.src.outgoing_edges(e.etype))"),
        of_edges(lambda i, e: np.log(np.exp((i["m"] * i["x"][i["dst"]])[alike(i, e, "src")]).sum(0))),
    ),
}
