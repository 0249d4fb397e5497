"""Definitions with several results, and what each means in float64 NumPy, written from the text's mathematics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

Inputs = dict[str, Any]
NODES, ENTITIES, RELATIONS, COLUMNS, D = 5, 6, 3, 4, 3
SRC = np.array([4, 0, 2, 2, 1, 0, 3, 2], np.int32)
DST = np.array([1, 1, 3, 0, 3, 3, 1, 0], np.int32)  # into node 2 and node 4 goes no edge
ROWPTR, COL = np.array([0, 3, 3, 5, 6]), np.array([2, 0, 3, 3, 1, 0])
ROW = np.repeat(np.arange(4), np.diff(ROWPTR))
SHUFFLED = np.array([4, 0, 5, 2, 3, 1])
STRUCTURES: dict[str, Inputs] = {
    "score": {"h": np.array([1, 0, 5, 1]), "r": np.array([2, 0, 0, 2]), "t": np.array([3, 0, 1, 1])},
    "layer": {"src": SRC, "dst": DST, "num_nodes": NODES},
    "csr": {"rowptr": ROWPTR, "col": COL, "num_cols": COLUMNS},
    "coo": {"row": ROW[SHUFFLED], "col": COL[SHUFFLED], "num_rows": 4, "num_cols": COLUMNS},
    "bags": {"ptr": ROWPTR, "idx": COL},
}
COUNTS = {"entity": ENTITIES, "relation": RELATIONS, "node": NODES, "edge": 8, "nonzero": 6, "col": COLUMNS}
COUNTS |= {"row": COLUMNS, "entry": 6, "line": 4}


class Case(NamedTuple):
    """A definition, what it is over, and what it means."""

    over: str
    text: str
    means: Callable[[Inputs], tuple[Any, ...]]
    options: Mapping[str, Any] = {}


def into(count: int, places: Any, rows: Any) -> Any:
    """The rows added up where they belong."""
    found = np.zeros((count, *np.shape(rows)[1:]))
    np.add.at(found, places, rows)
    return found


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gated(i: Inputs) -> tuple[Any, ...]:
    gate = i["f"] + i["x"][SRC] + i["x"][DST]
    return into(NODES, DST, sigmoid(gate) * i["x"][SRC]), gate


def rotated(i: Inputs) -> tuple[Any, Any]:
    x, y, a = i["X"][i["h"]], i["Y"][i["h"]], i["A"][i["r"]]
    return np.cos(a) * x - np.sin(a) * y, np.sin(a) * x + np.cos(a) * y


def turned(i: Inputs) -> tuple[Any, ...]:
    u, v = rotated(i)
    scores = np.linalg.norm(u - i["X"][i["t"]], axis=-1) + np.linalg.norm(v - i["Y"][i["t"]], axis=-1)
    return scores, (u * v).sum(-1)


def translated(i: Inputs) -> tuple[Any, ...]:
    """A score of every negative, and what its triple alone tells, for each of them."""
    h, t = (i["E"][i[name]] for name in ("h", "t"))
    h = h[:, None] if t.ndim == 3 else h
    r = i["R"][i["r"]].reshape((len(t), *(1,) * (t.ndim - 2), D))
    return np.abs(h + r - t).sum(-1), np.broadcast_to((h * h).sum(-1), t.shape[:-1])


def two_steps(i: Inputs) -> tuple[Any, ...]:
    h = np.tanh(into(NODES, DST, i["x"][SRC] @ i["W"]))
    return h, into(NODES, DST, h[SRC]), h


def read_out(i: Inputs) -> tuple[Any, ...]:
    h = i["x"] @ i["W"]
    return i["x"], h, h.mean(0, keepdims=True), (i["x"][:, :, None] * h[:, None])[DST]


def of_matrix(row: Any, col: Any) -> Callable[[Inputs], tuple[Any, ...]]:
    def means(i: Inputs) -> tuple[Any, ...]:
        s = (i["Q"][row] * i["X"][col]).sum(-1)
        return s, into(4, row, s[:, None] * i["X"][col])

    return means


def of_bags(i: Inputs) -> tuple[Any, ...]:
    y = np.exp(i["T"][COL]) * i["c"]
    return y, into(4, ROW, i["T"][COL])


GATED = """dim D = 3
layer Gated(g: graph):
    param x[node, D], f[edge, D]
    for e in g.edges():
        e["g"] = f[e] + x[e.src] + x[e.dst]
    for n in g.nodes():
        n["h"] = sum(sigmoid(e["g"]) * x[e.src] for e in n.incoming_edges())
    return n["h"], e["g"]
"""
TURNED = """dim D = 3
def turn(x, y, a):
    return cos(a) * x - sin(a) * y, sin(a) * x + cos(a) * y
score Turned(h: entity, r: relation, t: entity):
    param X[entity, D], Y[entity, D], A[relation, D]
    u, v = turn(X[h], Y[h], A[r])
    return norm(u - X[t]) + norm(v - Y[t]), dot(u, v)
"""
TRANSLATED = """dim D = 3
score Translated(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return norm(E[h] + R[r] - E[t], 1), sum(E[h] ** 2)
"""
TWICE = """dim D = 3
score Twice(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    s = dot(E[h] * R[r], E[t])
    return s, s, dot(R[r] * E[h], E[t]), 2 * s
"""
TWO_STEPS = """dim D = 3
layer TwoSteps(g: graph):
    param x[node, D], W[D, D]
    for n in g.nodes():
        n["h"] = tanh(sum(x[e.src] @ W for e in n.incoming_edges()))
    for n in g.nodes():
        n["y"] = sum(e.src["h"] for e in n.incoming_edges())
    return n["h"], n["y"], n["h"]
"""
READ_OUT = """dim D = 3
layer ReadOut(g: graph):
    param x[node, D], W[D, D]
    for n in g.nodes():
        n["h"] = x[n] @ W
    for e in g.edges():
        e["o"] = outer(e.dst.x, e.dst["h"])
    return (n.x, n["h"], mean(n["h"] for n in g.nodes()), e["o"])
"""
MATRIX = """dim D = 3
op Attended(A: csr[line, col]):
    param Q[line, D], X[col, D]
    for z in A.nonzeros():
        z["s"] = dot(Q[z.row], X[z.col])
    for i in A.rows():
        i["y"] = sum(z["s"] * X[z.col] for z in A.row(i))
    return z["s"], i["y"]
"""
BAGS = """dim D = 3
op Picked(b: bag of row):
    param T[row, D], c[D]
    for i in b:
        i["y"] = exp(T[i]) * c
    return i["y"], sum(T[i] for i in b)
"""
HANDED_ON = """dim D = 3
def both(x, y):
    return dot(x, y), norm(x - y)
score HandedOn(h: entity, r: relation, t: entity):
    param E[entity, D]: f16, R[relation, D]
    return both(E[h] + R[r], E[t])
"""


def handed_on(i: Inputs) -> tuple[Any, ...]:
    x, y = i["E"][i["h"]] + i["R"][i["r"]], i["E"][i["t"]]
    return (x * y).sum(-1), np.linalg.norm(x - y, axis=-1)


def twice(i: Inputs) -> tuple[Any, ...]:
    s = (i["E"][i["h"]] * i["R"][i["r"]] * i["E"][i["t"]]).sum(-1)
    return s, s, s, 2 * s


CASES = {
    "gated": Case("layer", GATED, gated),
    "turned": Case("score", TURNED, turned),
    "translated": Case("score", TRANSLATED, translated),
    "negatives": Case("score", TRANSLATED, translated, {"negatives": "tail:3"}),
    "twice": Case("score", TWICE, twice),
    "two steps": Case("layer", TWO_STEPS, two_steps),
    "read out": Case("layer", READ_OUT, read_out),
    "csr": Case("csr", MATRIX, of_matrix(ROW, COL)),
    "coo": Case("coo", MATRIX.replace("csr[", "coo["), of_matrix(ROW[SHUFFLED], COL[SHUFFLED])),
    "bags": Case("bags", BAGS, of_bags),
    "handed on, in f16": Case("score", HANDED_ON, handed_on),
}


def given(case: Case, graph: Any) -> Inputs:
    """What the case is run on: tensors of numbers that f16 holds, and the structure."""
    random = np.random.default_rng(7)
    tensors = {
        tensor.name: random.integers(-12, 13, (*(COUNTS[each] for each in tensor.sets), *map(graph.size, tensor.dims)))
        for tensor in graph.tensors
        if tensor.kind == "param"
    }
    found = {
        **STRUCTURES[case.over],
        **{name: (array / 8 + 1 / 64).astype(np.float32) for name, array in tensors.items()},
    }
    if "negatives" in case.options:
        found["t"] = np.array([[3, 0, 1], [0, 0, 5], [1, 2, 4], [2, 2, 2]])
    return found


def upstreams(results: tuple[Any, ...]) -> tuple[Any, ...]:
    """A gradient of each result."""
    random = np.random.default_rng(8)
    return tuple(random.standard_normal(np.shape(each)).astype(np.float32) for each in results)


def in_one(results: tuple[Any, ...]) -> Any:
    """All results as one row of numbers, for one difference."""
    return np.concatenate([np.ravel(each) for each in results])
