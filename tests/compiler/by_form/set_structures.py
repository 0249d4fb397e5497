"""The headers of layers and ops over sets, with the small structures and tensors that they are given, and what oracles
walk these by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

Array = Any
Inputs = dict[str, Any]

LAYER = """dim F = 4
layer Form(g: graph):
    input x[node, F]
    param W[F, F], b[etype, F], q[F]
"""
MAPPED = """dim F = 4
layer Form(g: graph):
    input x[node, F]
    param W[F, F], m[edge, F], T[time, F], k[kind, F]
    map rev: edge -> edge
    map when: edge -> time
    map sort: node -> kind
    map third: edge -> node
"""
BAG = """dim H = 2, D = 3
op Form(l: bag of row):
    param T[row, H, D], c[D]
"""
MATRIX = """dim D = 3
op Form(A: csr[row, col]):
    param X[col, D]
"""
BY_COLUMN = """dim D = 3
op Form(A: csr[row, col]):
    param X[row, D], Y[col, D], E[nonzero, D]
"""
DIVIDED = """dim D = 3, M = 2
op Form(l: bag of row):
    param T[row, D], Q[quotient, D], R[remainder, D]
"""
DIVIDED_MATRIX = """dim D = 3
op Form(A: coo[row, col]):
    param X[col, D], P[part, D], Q[other, D]
"""
TENSOR = """dim D = 3
op Form(X: coo[user, item, time]):
    param U[user, D], I[item, D], T[time, D]
"""
QUALIFIED = """dim D = 3
score Form(h: entity, r: relation, t: entity, q: bag of relation):
    param E[entity, D], R[relation, D], W[D, D]
    input y[bag]
"""
QUALIFIED_MAPPED = """dim D = 3
score Form(h: entity, q: bag of relation):
    param E[entity, D], R[relation, D], K[kind, D], C[place, D]
    map kind: relation -> kind
    map at: bag -> place
"""
BESIDE = """dim D = 3
op Form(u: user, l: bag of row, w: time):
    param T[row, D], U[user, D], V[time, D], M[time, D, D]
"""
FOUR = """dim D = 3
op Form(X: coo[a, b, c, d]):
    param A[a, D], B[b, D], C[c, D], E[d, D]
"""
TYPED = """dim F = 4
layer Form(g: graph):
    input x[node, F]
    param a[etype, F], m[edge, F], W[etype, F, F]
"""
MAPPED_BAG = """dim D = 3
op Form(l: bag of row):
    param T[row, D], W[time, D], K[kind, D], E[entry, D]
    map when: entry -> time
    map twin: entry -> entry
    map sort: row -> kind
    map owner: bag -> kind
"""
DIVIDED_BAG = """dim D = 3
op Form(l: bag of row):
    param T[row, D], P[part, D]
    map when: entry -> time
    map sort: row -> kind
"""
CROSSED_BAG = """dim D = 3
op Form(l: bag of row):
    param T[row, D], P[part, D], S[sums, D]
    map when: entry -> time
    map sort: row -> kind
"""
CROSSED_MATRIX = """dim D = 3
op Form(A: coo[row, col]):
    param X[col, D], P[pair, D], Q[part, D]
"""
CROSSED_LAYER = """dim F = 4
layer Form(g: graph):
    input x[node, F]
    param Q[sums, F], R[mixed, F], H[hours, F]
    map when: edge -> time
"""
MAPPED_BLOCKS = """dim D = 3
op Form(q: blocks of row):
    param T[row, D], K[kind, D], S[slot, D]
    map sort: row -> kind
    map slot: entry -> slot
    map asks: query -> row
"""
MAPPED_MATRIX = """dim D = 3
op Form(A: coo[row, col]):
    param X[col, D], W[time, D], K[kind, D], E[nonzero, D]
    map when: nonzero -> time
    map twin: nonzero -> nonzero
    map sort: col -> kind
    map like: row -> row
"""
DIVIDED_LAYER = """dim F = 4, M = 2
layer Form(g: graph):
    input x[node, F]
    param Q[quotient, F], R[remainder, F], H[hour, F]
    map when: edge -> time
"""
SCATTERED = """dim F = 4
layer Form(g: graph):
    input x[node, F]
    param W[etype, F], m[edge, F], T[time, F]
    map third: edge -> node
    map when: edge -> time
"""
COORDINATES = """dim R = 3
op Form(X: coo[i, j, k]):
    param A[i, R], B[j, R], C[k, R]
"""
BETWEEN = """dim F = 4
layer Form(g: graph[user, item]):
    input x[user, F], y[item, F]
    param W[F, F], S[F, F], a[F], m[edge, F], R[etype, F, F], K[kind, F]
    map kind: item -> kind
"""
GRAPHS = """dim F = 4
layer Form(g: graph, q: graph):
    input x[node, F]
    param W[F, F], V[F, F], a[F], m[edge, F], w[q_edge], R[q_etype, F, F]
"""
NO_SECOND = GRAPHS.replace("Form", "NoSecond")
NO_FIRST = GRAPHS.replace("Form", "NoFirst")
WITH_HELPER = f"""def heard(g, p, n, x):
    return sum(x[e.src] / sqrt(e.dst.in_degree) for e in n.incoming_edges()) - n.in_degree * x[n] / (1 + p.in_degree(n))

{GRAPHS}"""
SOCIAL = """dim F = 4
layer Form(g: graph[user, item], q: graph[user, user]):
    input x[user, F], y[item, F]
    param W[F, F], V[F, F], a[F], w[q_edge, F]
"""
NODES = "for n in g.nodes():\n    n[{}] = {}\n"
"""A loop over the nodes of a layer, of one statement."""


def graph() -> Inputs:
    """Five nodes, one without edges into it; two edges are parallel."""
    ids = {"src": [0, 1, 2, 2, 4, 0, 3], "dst": [1, 1, 1, 0, 3, 3, 3], "etype": [0, 1, 0, 1, 1, 0, 0]}
    arrays = {name: np.array(values, np.int32) for name, values in ids.items()}
    return arrays | {"ntype": np.zeros(5, np.int32), "num_nodes": 5, "num_etypes": 2, "num_ntypes": 1}


def between() -> Inputs:
    """Edges from three users, one without any, to seven items, two without; two edges are parallel."""
    arrays = {
        "src": [0, 2, 0, 2, 2, 0, 0, 2, 0],
        "dst": [5, 0, 1, 5, 5, 3, 0, 4, 5],
        "etype": [0, 1, 1, 0, 1, 0, 1, 1, 0],
        "kind": [1, 0, 1, 1, 0, 0, 1],
    }
    counts = {"num_users": 3, "num_items": 7, "num_etypes": 2}
    return {name: np.array(values, np.int32) for name, values in arrays.items()} | counts


def graphs() -> Inputs:
    """The same graph and another over its nodes, with edges of a node to itself and two that are parallel; nothing of
    it leads to one node."""
    beside = {"q_src": ids(4, 1, 0, 3, 3, 2, 4, 1), "q_dst": ids(0, 1, 4, 0, 0, 2, 1, 2)}
    return graph() | beside | {"q_etype": ids(2, 0, 0, 1, 1, 2, 0, 0), "num_q_etypes": 3}


NO_IDS = np.zeros(0, np.int32)


def no_second() -> Inputs:
    """Of the second graph there are nodes alone."""
    return graphs() | {"q_src": NO_IDS, "q_dst": NO_IDS, "q_etype": NO_IDS}


def no_first() -> Inputs:
    """The first has no edges."""
    return graphs() | {"src": NO_IDS, "dst": NO_IDS, "etype": NO_IDS}


def social() -> Inputs:
    """What users did with items, and whom of each other they follow."""
    taken = {name: value for name, value in between().items() if name != "kind"}
    return taken | {"q_src": ids(1, 1, 0, 2), "q_dst": ids(0, 2, 2, 2)}


def mapped() -> Inputs:
    """The same graph, with maps that a text declares: one to edges that is no permutation, and two to sets of their
    own."""
    ids = {"rev": [3, 0, 5, 2, 2, 1, 6], "when": [2, 0, 0, 1, 2, 2, 0], "sort": [0, 2, 2, 0, 1]}
    ids["third"] = [4, 4, 0, 1, 1, 2, 0]
    return graph() | {name: np.array(values, np.int32) for name, values in ids.items()}


def bags() -> Inputs:
    return {"ptr": np.array([0, 2, 2, 5, 6], np.int64), "idx": np.array([3, 0, 1, 1, 4, 2], np.int64)}


def matrix() -> Inputs:
    return {
        "rowptr": np.array([0, 2, 2, 3, 6], np.int64),
        "col": np.array([1, 0, 2, 0, 1, 2], np.int64),
        "value": np.array([0.5, -1.0, 2.0, 1.0, 0.25, -0.5], np.float32),
        "num_cols": 3,
    }


def empty_column() -> Inputs:
    """A fourth column has no nonzero."""
    return matrix() | {"num_cols": 4}


def weighted() -> Inputs:
    return bags() | {"weight": np.array([0.5, -1.0, 2.0, 1.0, 0.25, -0.5], np.float32)}


def coordinates() -> Inputs:
    """The same nonzeros in another order."""
    order = [4, 0, 2, 5, 1, 3]
    places = {"row": [0, 0, 2, 3, 3, 3], "col": [1, 0, 2, 0, 1, 2]}
    arrays = {name: np.array(ids, np.int64)[order] for name, ids in places.items()}
    return arrays | {"value": matrix()["value"][order], "num_rows": 4, "num_cols": 3}


def tensor() -> Inputs:
    """Nonzeros of a tensor of three dimensions, in no order; a time has none."""
    return coordinates() | {"time": np.array([1, 0, 3, 0, 1, 3], np.int64)}


def qualified() -> Inputs:
    """Facts with a bag each, of which one is empty."""
    ids = {"h": [4, 0, 0, 2], "r": [1, 4, 0, 3], "t": [0, 4, 1, 1]}
    return bags() | {name: np.array(values, np.int32) for name, values in ids.items()}


def qualified_mapped() -> Inputs:
    """The same facts with a head alone, whose qualifiers have kinds, and each fact a place."""
    maps = {"h": [4, 0, 0, 2], "kind": [1, 0, 1, 1, 0], "at": [0, 1, 1, 0]}
    return bags() | {name: np.array(values, np.int32) for name, values in maps.items()}


def beside() -> Inputs:
    return weighted() | {"u": np.array([2, 0, 2, 1], np.int32), "w": np.array([1, 1, 0, 1], np.int32)}


def of_four() -> Inputs:
    """Of a tensor of four dimensions."""
    return coordinates() | {"c": np.array([1, 0, 0, 0, 1, 1], np.int64), "d": np.array([2, 0, 2, 1, 0, 2], np.int64)}


def ids(*values: int) -> Array:
    return np.array(values, np.int32)


def mapped_bag() -> Inputs:
    maps = {"when": ids(0, 1, 1, 0, 0, 1), "twin": ids(3, 3, 0, 5, 1, 2), "sort": ids(1, 0, 0, 1, 1)}
    return weighted() | maps | {"owner": ids(1, 0, 0, 1)}


def divided_bag() -> Inputs:
    return bags() | {"when": ids(3, 0, 1, 2, 2, 3), "sort": ids(1, 4, 0, 3, 2)}


def mapped_blocks() -> Inputs:
    maps = {"sort": ids(1, 0, 0, 1, 1), "slot": ids(0, 1, 0, 1, 2, 0), "asks": ids(4, 4, 0, 2)}
    lists = bags()
    return {"ptr": lists["ptr"], "blocks": lists["idx"]} | maps


def mapped_matrix() -> Inputs:
    maps = {"when": ids(0, 1, 1, 0, 0, 1), "twin": ids(3, 3, 0, 5, 1, 2), "sort": ids(1, 0, 1)}
    return coordinates() | maps | {"like": ids(3, 0, 0, 2)}


def divided_layer() -> Inputs:
    return graph() | {"when": ids(2, 0, 7, 1, 5, 2, 0)}


def scattered() -> Inputs:
    return graph() | {"third": ids(4, 4, 0, 1, 1, 2, 0), "when": ids(2, 0, 0, 1, 2, 2, 0)}


def coordinates_of_three() -> Inputs:
    return coordinates() | {"k": ids(1, 0, 1, 0, 0, 1)}


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


def summed(rows: Array, places: Array, count: int) -> Array:
    """Rows added up at their places, in so many rows."""
    found = np.zeros((count, *rows.shape[1:]))
    np.add.at(found, places, rows)
    return found


STRUCTURES: dict[str, Callable[[], Inputs]] = {
    LAYER: graph,
    TYPED: graph,
    MAPPED: mapped,
    BAG: bags,
    MATRIX: matrix,
    TENSOR: tensor,
    FOUR: of_four,
    QUALIFIED: qualified,
    QUALIFIED_MAPPED: qualified_mapped,
    BESIDE: beside,
    BY_COLUMN: empty_column,
    DIVIDED: weighted,
    DIVIDED_MATRIX: coordinates,
    MAPPED_BAG: mapped_bag,
    DIVIDED_BAG: divided_bag,
    CROSSED_BAG: divided_bag,
    CROSSED_MATRIX: coordinates,
    CROSSED_LAYER: divided_layer,
    SCATTERED: scattered,
    COORDINATES: coordinates_of_three,
    MAPPED_BLOCKS: mapped_blocks,
    MAPPED_MATRIX: mapped_matrix,
    DIVIDED_LAYER: divided_layer,
    BETWEEN: between,
    GRAPHS: graphs,
    WITH_HELPER: graphs,
    NO_SECOND: no_second,
    NO_FIRST: no_first,
    SOCIAL: social,
}
"""What each header's definition goes over."""
SHAPES = {
    LAYER: {"x": (5, 4), "W": (4, 4), "b": (2, 4), "q": (4,)},
    TYPED: {"x": (5, 4), "a": (2, 4), "m": (7, 4), "W": (2, 4, 4)},
    MAPPED: {"x": (5, 4), "W": (4, 4), "m": (7, 4), "T": (3, 4), "k": (3, 4)},
    BAG: {"T": (5, 2, 3), "c": (3,)},
    MATRIX: {"X": (3, 3)},
    BY_COLUMN: {"X": (4, 3), "Y": (4, 3), "E": (6, 3)},
    DIVIDED: {"T": (5, 3), "Q": (3, 3), "R": (2, 3)},
    TENSOR: {"U": (4, 3), "I": (3, 3), "T": (4, 3)},
    QUALIFIED: {"E": (5, 3), "R": (5, 3), "W": (3, 3), "y": (4,)},
    QUALIFIED_MAPPED: {"E": (5, 3), "R": (5, 3), "K": (2, 3), "C": (2, 3)},
    BESIDE: {"T": (5, 3), "U": (3, 3), "V": (2, 3), "M": (2, 3, 3)},
    FOUR: {"A": (4, 3), "B": (3, 3), "C": (2, 3), "E": (3, 3)},
    DIVIDED_MATRIX: {"X": (3, 3), "P": (2, 3), "Q": (2, 3)},
    SCATTERED: {"x": (5, 4), "W": (2, 4), "m": (7, 4), "T": (3, 4)},
    COORDINATES: {"A": (4, 3), "B": (3, 3), "C": (2, 3)},
    MAPPED_BAG: {"T": (5, 3), "W": (2, 3), "K": (2, 3), "E": (6, 3)},
    DIVIDED_BAG: {"T": (5, 3), "P": (2, 3)},
    CROSSED_BAG: {"T": (5, 3), "P": (7, 3), "S": (8, 3)},
    CROSSED_MATRIX: {"X": (3, 3), "P": (12, 3), "Q": (5, 3)},
    CROSSED_LAYER: {"x": (5, 4), "Q": (9, 4), "R": (5, 4), "H": (9, 4)},
    MAPPED_BLOCKS: {"T": (5, 3), "K": (2, 3), "S": (3, 3)},
    MAPPED_MATRIX: {"X": (3, 3), "W": (2, 3), "K": (2, 3), "E": (6, 3)},
    DIVIDED_LAYER: {"x": (5, 4), "Q": (3, 4), "R": (2, 4), "H": (3, 4)},
    BETWEEN: {
        **{"x": (3, 4), "y": (7, 4), "W": (4, 4), "S": (4, 4), "a": (4,), "m": (9, 4)},
        **{"R": (2, 4, 4), "K": (2, 4)},
    },
    **{
        header: {
            **{"x": (5, 4), "W": (4, 4), "V": (4, 4), "a": (4,)},
            **{"m": (edges, 4), "w": (beside,), "R": (3, 4, 4)},
        }
        for header, edges, beside in ((GRAPHS, 7, 8), (WITH_HELPER, 7, 8), (NO_SECOND, 7, 0), (NO_FIRST, 0, 8))
    },
    SOCIAL: {"x": (3, 4), "y": (7, 4), "W": (4, 4), "V": (4, 4), "a": (4,), "w": (4, 4)},
}
"""The shapes of the tensors that each header declares."""
