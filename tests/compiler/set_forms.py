"""Layers and ops that use one form of the language each over elements, with what it means: NumPy in float64.

An oracle takes the inputs by name, tensors in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

LAYER = """dim F = 4
layer Form(g: graph):
    input x[node, F]
    param W[F, F], b[etype, F], q[F]
"""
BAG = """dim H = 2, D = 3
op Form(l: bag of row):
    param T[row, H, D], c[D]
"""
MATRIX = """dim D = 3
op Form(A: csr[row, col]):
    param X[col, D]
"""
Array = Any
Inputs = dict[str, Any]


class SetForm(NamedTuple):
    """Lines of a body under a header, and the rows that they give."""

    header: str
    body: str
    means: Callable[[Inputs], Array]

    @property
    def text(self) -> str:
        return self.header + "".join(f"    {line}\n" for line in self.body.split("\n"))


def graph() -> Inputs:
    """Five nodes, one without edges into it; two edges are parallel."""
    ids = {"src": [0, 1, 2, 2, 4, 0, 3], "dst": [1, 1, 1, 0, 3, 3, 3], "etype": [0, 1, 0, 1, 1, 0, 0]}
    arrays = {name: np.array(values, np.int32) for name, values in ids.items()}
    return arrays | {"ntype": np.zeros(5, np.int32), "num_nodes": 5, "num_etypes": 2, "num_ntypes": 1}


def bags() -> Inputs:
    return {"ptr": np.array([0, 2, 2, 5, 6], np.int64), "idx": np.array([3, 0, 1, 1, 4, 2], np.int64)}


def matrix() -> Inputs:
    return {
        "rowptr": np.array([0, 2, 2, 3, 6], np.int64),
        "col": np.array([1, 0, 2, 0, 1, 2], np.int64),
        "value": np.array([0.5, -1.0, 2.0, 1.0, 0.25, -0.5], np.float32),
        "num_cols": 3,
    }


def segments(i: Inputs) -> Iterator[Array]:
    """The positions of each row's nonzeros, of each bag's entries."""
    ends = i["rowptr"] if "rowptr" in i else i["ptr"]
    for begin, end in pairwise(ends):
        yield np.arange(begin, end)


def into(i: Inputs, rows: Array, reduce: Callable[[Array], Array], empty: float = 0.0) -> Array:
    """A reduction of edges' rows over those into each node."""
    nothing = np.full(rows.shape[1:], empty)
    found = [rows[i["dst"] == node] for node in range(i["num_nodes"])]
    return np.stack([reduce(part) if len(part) else nothing for part in found])


def logsumexp(x: Array) -> Array:
    return np.log(np.exp(x).sum(0))


def normalised(i: Inputs) -> Array:
    y = i["x"] @ i["W"]
    return (y - y.mean(0)) / np.sqrt(y.var(0) + 0.001)


def propagated(i: Inputs) -> Array:
    h = i["x"]
    for _ in range(3):
        h = 0.9 * into(i, h[i["src"]], lambda part: part.mean(0)) + 0.1 * i["x"] @ i["W"]
    return h


def heads(i: Inputs) -> Array:
    found = []
    for places in segments(i):
        rows = i["T"][i["idx"][places]]
        least = rows[:, 0].max(0) if len(rows) else np.full(3, 3.0)
        found.append((rows.sum(0) + i["c"]).sum(0) + least)
    return np.stack(found)


def attended(i: Inputs) -> Array:
    found = []
    for places in segments(i):
        total = i["T"][i["idx"][places]].sum(0)
        powers = np.exp(total)
        found.append(powers / powers.sum(-1, keepdims=True) * i["c"])
    return np.stack(found)


def rows_of_bags(i: Inputs) -> list[Array]:
    return [i["T"][i["idx"][places]] for places in segments(i)]


def multiplied(i: Inputs) -> Array:
    return np.stack([part.prod(0) * i["c"] + part.sum(0) for part in rows_of_bags(i)])


def chosen(i: Inputs) -> Array:
    y = np.stack([(i["value"][p, None] * i["X"][i["col"][p]]).sum(0) for p in segments(i)])
    return np.where(y > y.max(0) / 2, y, 0)


def centred(i: Inputs) -> Array:
    mean = i["X"][i["col"]].mean(0)
    return np.stack([(i["value"][p, None] * (i["X"][i["col"][p]] - mean)).sum(0) ** 2 for p in segments(i)])


NODES = "for n in g.nodes():\n    n[{}] = {}\n"
SET_FORMS = {
    "batch norm": SetForm(
        LAYER,
        NODES.format('"y"', "x[n] @ W")
        + 'mu = mean(n["y"] for n in g.nodes())\nvar = mean((n["y"] - mu) ** 2 for n in g.nodes())\n'
        + NODES.format('"h"', '(n["y"] - mu) / (var + 0.001) ** 0.5')
        + 'return n["h"]',
        normalised,
    ),
    "semantic attention": SetForm(
        LAYER,
        "w = mean(tanh(x[n] @ W) @ q for n in g.nodes())\n" + NODES.format('"h"', "w * x[n]") + 'return n["h"]',
        lambda i: (np.tanh(i["x"] @ i["W"]) @ i["q"]).mean() * i["x"],
    ),
    "a readout": SetForm(
        LAYER,
        NODES.format('"h"', "relu(mean(x[e.src] @ W for e in n.incoming_edges()))")
        + 'return mean(n["h"] for n in g.nodes()) * q + max(b[e.etype] for e in g.edges())',
        lambda i: (
            np.maximum(into(i, i["x"][i["src"]] @ i["W"], lambda part: part.mean(0)), 0).mean(0, keepdims=True) * i["q"]
            + i["b"][i["etype"]].max(0)
        ),
    ),
    "the largest of all": SetForm(
        LAYER,
        "w = max(x[n] @ W for n in g.nodes())\nv = logsumexp(x[n] @ W for n in g.nodes())\n"
        'for e in g.edges():\n    e["h"] = w * x[e.src] + v * b[e.etype]\nreturn e["h"]',
        lambda i: (i["x"] @ i["W"]).max(0) * i["x"][i["src"]] + logsumexp(i["x"] @ i["W"]) * i["b"][i["etype"]],
    ),
    "logsumexp": SetForm(
        LAYER,
        NODES.format('"h"', "logsumexp(x[e.src] @ W for e in n.incoming_edges())") + 'return n["h"]',
        lambda i: into(i, i["x"][i["src"]] @ i["W"], logsumexp),
    ),
    "a default": SetForm(
        LAYER,
        NODES.format(
            '"h"',
            "max((x[e.src] @ W for e in n.incoming_edges()), default=-1.5)"
            " + min((dot(x[e.src], q) for e in n.incoming_edges()), default=100)"
            " + prod((x[e.src] @ W for e in n.incoming_edges()), default=0.25)",
        )
        + 'return n["h"]',
        lambda i: (
            into(i, i["x"][i["src"]] @ i["W"], lambda part: part.max(0), -1.5)
            + into(i, i["x"][i["src"]] @ i["q"], lambda part: part.min(0), 100.0)[:, None]
            + into(i, i["x"][i["src"]] @ i["W"], lambda part: part.prod(0), 0.25)
        ),
    ),
    "APPNP": SetForm(
        LAYER,
        NODES.format('"h"', "x[n]")
        + "for k in 0..3:\n    for n in g.nodes():\n"
        + '        n["m"] = mean(e.src["h"] for e in n.incoming_edges())\n'
        + '    for n in g.nodes():\n        n["h"] = 0.9 * n["m"] + 0.1 * x[n] @ W\nreturn n["h"]',
        propagated,
    ),
    "heads of a bag": SetForm(
        BAG, "return sum(sum(T[i] for i in l) + c, axis=0) + max((T[i][0] for i in l), default=3)", heads
    ),
    "a product of no rows": SetForm(
        BAG,
        "return prod((T[i] for i in l), default=-2) * c",
        lambda i: np.stack([part.prod(0) if len(part) else np.full((2, 3), -2.0) for part in rows_of_bags(i)]) * i["c"],
    ),
    "how many there are": SetForm(
        LAYER,
        "count = sum(x[n][0] == x[n][0] for n in g.nodes())\n"
        + NODES.format('"h"', "x[n] @ W / count")
        + 'return n["h"]',
        lambda i: i["x"] @ i["W"] / i["num_nodes"],
    ),
    "softmax of a bag": SetForm(BAG, "return softmax(sum(T[i] for i in l)) * c", attended),
    "products of rows": SetForm(BAG, "return prod(T[i] for i in l) * c + sum(T[i] for i in l)", multiplied),
    "products of edges": SetForm(
        LAYER,
        "p = prod(1 + 0.1 * x[n] @ W for n in g.nodes())\n"
        + NODES.format('"h"', "prod(relu(x[e.src] @ W) + 0.1 * b[e.etype] for e in n.incoming_edges()) + p")
        + 'return n["h"]',
        lambda i: (
            into(i, np.maximum(i["x"][i["src"]] @ i["W"], 0) + 0.1 * i["b"][i["etype"]], lambda part: part.prod(0), 1.0)
            + (1 + 0.1 * i["x"] @ i["W"]).prod(0)
        ),
    ),
    "a threshold of all rows": SetForm(
        MATRIX,
        'for i in A.rows():\n    i["y"] = sum(a * X[j] for j, a in A.row(i))\nm = max(i["y"] for i in A.rows())\n'
        'for i in A.rows():\n    i["z"] = where(i["y"] > m / 2, i["y"], 0)\nreturn i["z"]',
        chosen,
    ),
    "a mean of all nonzeros": SetForm(
        MATRIX,
        "m = mean(X[z.col] for z in A.nonzeros())\n"
        'for i in A.rows():\n    i["y"] = sum(a * (X[j] - m) for j, a in A.row(i)) ** 2\nreturn i["y"]',
        centred,
    ),
}
STRUCTURES: dict[str, Callable[[], Inputs]] = {LAYER: graph, BAG: bags, MATRIX: matrix}
SHAPES = {
    LAYER: {"x": (5, 4), "W": (4, 4), "b": (2, 4), "q": (4,)},
    BAG: {"T": (5, 2, 3), "c": (3,)},
    MATRIX: {"X": (3, 3)},
}


def inputs_of(form: SetForm) -> Inputs:
    """The structure, and tensors drawn at random."""
    random = np.random.default_rng(1)
    tensors = {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES[form.header].items()}
    return STRUCTURES[form.header]() | tensors
