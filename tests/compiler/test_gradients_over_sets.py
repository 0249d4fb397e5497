"""The gradient of a tensor over several sets, or over none: each row gets what was picked of it, at every stage.

The oracles add up in float64, element by element, what the text says of each triple, edge or entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer
from tests.compiler.models import compiled

STAGES = ("graph", "loops", "slc", "slc.opt1", "slc.opt2", "slc.opt3", "dlc", "kernels", "cpu", "dae")
Inputs = dict[str, Any]
RANDOM = np.random.default_rng(5)
ENTITIES, RELATIONS, NODES, EDGES, ETYPES, NTYPES, ROWS, COLUMNS = 6, 3, 7, 40, 4, 3, 5, 4


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def ids(count: int, *shape: int) -> np.ndarray:
    return RANDOM.integers(0, count, shape).astype(np.int32)


SCORE = """dim D = 3
score TwoSets(h: entity, r: relation, t: entity):
    param E[entity, D], W[entity, relation, entity, D], b[relation, entity]
    return dot(E[h] * E[t], W[h, r, t]) + b[r, t] * b[r, h]
"""


def of_score(x: Inputs, upstream: Any) -> dict[str, Any]:
    h, r, t = (x[name] if x[name].ndim == upstream.ndim else x[name][:, None] for name in "hrt")
    h, r, t = np.broadcast_arrays(h, r, t)
    e, w, b = (x[name].astype(np.float64) for name in ("E", "W", "b"))
    up = upstream[..., None]
    found = {name: np.zeros(x[name].shape) for name in ("E", "W", "b")}
    np.add.at(found["W"], (h, r, t), up * e[h] * e[t])
    np.add.at(found["E"], h, up * e[t] * w[h, r, t])
    np.add.at(found["E"], t, up * e[h] * w[h, r, t])
    np.add.at(found["b"], (r, t), upstream * b[r, h])
    np.add.at(found["b"], (r, h), upstream * b[r, t])
    return found


def score_inputs(**shapes: tuple[int, ...]) -> Inputs:
    counts = {"h": ENTITIES, "r": RELATIONS, "t": ENTITIES}
    batch = {name: ids(counts[name], *shapes.get(name, (9,))) for name in counts}
    tensors = {
        "E": normal(ENTITIES, 3),
        "W": normal(ENTITIES, RELATIONS, ENTITIES, 3),
        "b": normal(RELATIONS, ENTITIES),
    }
    return batch | tensors


EDGES_OF = """dim F = 3, H = 2
layer Edges(g: graph):
    input x[node, F]
    param mu[ntype, etype, ntype, H, F], W[etype, ntype, F, H], own[node, ntype]
    for e in g.edges():
        e["m"] = e.src.x @ W[e.etype, e.dst.ntype] + mu[e.src.ntype, e.etype, e.dst.ntype] @ e.dst.x
    for n in g.nodes():
        n["h"] = own[n, n.ntype] * sum(e["m"] for e in n.incoming_edges())
    return n["h"]
"""


def of_layer(g: Inputs, upstream: Any) -> dict[str, Any]:
    x, mu, w, own = (g[name].astype(np.float64) for name in ("x", "mu", "W", "own"))
    found = {name: np.zeros(g[name].shape) for name in ("mu", "W", "own")}
    of = g["ntype"]
    for s, d, k in zip(g["src"], g["dst"], g["etype"], strict=True):
        up = own[d, of[d]] * upstream[d]
        found["W"][k, of[d]] += np.outer(x[s], up)
        found["mu"][of[s], k, of[d]] += np.outer(up, x[d])
        found["own"][d, of[d]] += upstream[d] @ (x[s] @ w[k, of[d]] + mu[of[s], k, of[d]] @ x[d])
    return found


def layer_inputs() -> Inputs:
    graph = {
        "src": ids(NODES, EDGES),
        "dst": ids(NODES, EDGES),
        "etype": ids(ETYPES, EDGES),
        "ntype": ids(NTYPES, NODES),
    }
    counts = {"num_nodes": NODES, "num_etypes": ETYPES, "num_ntypes": NTYPES}
    tensors = {"x": normal(NODES, 3), "mu": normal(NTYPES, ETYPES, NTYPES, 2, 3), "W": normal(ETYPES, NTYPES, 3, 2)}
    return {**graph, **counts, **tensors, "own": normal(NODES, NTYPES)}


OF_ALL = """dim F = 3
layer OfAll(g: graph):
    "edges read the parameter through their nodes: its gradient adds up nodes' sums, and no array of nodes is read"
    param p[F], b[etype, ntype]
    input x[node]
    for n in g.nodes():
        n["h"] = tanh(p)
        n["k"] = sum(p) + x[n]
    for e in g.edges():
        e["m"] = e.src["h"] + e.src["k"] + b[e.etype, e.dst.ntype]
    return e["m"]
"""


def of_all(g: Inputs, upstream: Any) -> dict[str, Any]:
    p, up = g["p"].astype(np.float64), upstream.astype(np.float64)
    b = np.zeros(g["b"].shape)
    np.add.at(b, (g["etype"], g["ntype"][g["dst"]]), up.sum(1))
    return {"p": up.sum(0) * (1 - np.tanh(p) ** 2) + up.sum(), "b": b}


def of_all_inputs() -> Inputs:
    given = layer_inputs()
    names = ("src", "dst", "etype", "ntype", "num_nodes", "num_etypes", "num_ntypes")
    return {**{name: given[name] for name in names}, "x": normal(NODES), "p": normal(3), "b": normal(ETYPES, NTYPES)}


PRODUCTS = """dim F = 3, G = 2
layer Products(g: graph):
    "weights times weights, of which one is picked by two types, by the type of an end, or by one type twice"
    param b[F, G], W[etype, ntype, G, F], V[ntype, G, F], U[ntype, ntype, G, F]
    input x[node, F]
    for n in g.nodes():
        n["u"] = x[n] @ b @ U[n.ntype, n.ntype]
    for e in g.edges():
        e["w"] = e.src.x @ b @ W[e.etype, e.dst.ntype]
        e["v"] = e.src.x @ b @ V[e.dst.ntype]
        e["m"] = e["w"] + e["v"] + e.src["u"]
    return e["m"]
"""


def of_products(g: Inputs, upstream: Any) -> dict[str, Any]:
    x, b, w, v, u = (g[name].astype(np.float64) for name in ("x", "b", "W", "V", "U"))
    found = {name: np.zeros(g[name].shape) for name in ("b", "W", "V", "U")}
    of, result = g["ntype"], np.zeros(upstream.shape)
    for e, (s, d, k) in enumerate(zip(g["src"], g["dst"], g["etype"], strict=True)):
        y, up, all_three = x[s] @ b, upstream[e], w[k, of[d]] + v[of[d]] + u[of[s], of[s]]
        result[e] = y @ all_three
        found["W"][k, of[d]] += np.outer(y, up)
        found["V"][of[d]] += np.outer(y, up)
        found["U"][of[s], of[s]] += np.outer(y, up)
        found["b"] += np.outer(x[s], all_three @ up)
    return {**found, "": result}


def products_inputs() -> Inputs:
    given = layer_inputs()
    names = ("src", "dst", "etype", "ntype", "num_nodes", "num_etypes", "num_ntypes", "x")
    picked = {"W": normal(ETYPES, NTYPES, 2, 3), "V": normal(NTYPES, 2, 3), "U": normal(NTYPES, NTYPES, 2, 3)}
    return {**{name: given[name] for name in names}, "b": normal(3, 2), **picked}


OP = """dim D = 3
op Cells(A: csr[row, col]):
    param X[col, D], P[row, col], Q[col, row, D]
    for i in A.rows():
        i["y"] = sum(a * P[i, j] * X[j] * Q[j, i] for j, a in A.row(i))
    return i["y"]
"""


def of_op(m: Inputs, upstream: Any) -> dict[str, Any]:
    x, p, q, a = (m[name].astype(np.float64) for name in ("X", "P", "Q", "value"))
    found = {name: np.zeros(m[name].shape) for name in ("X", "P", "Q", "value")}
    rows = np.repeat(np.arange(ROWS), np.diff(m["rowptr"]))
    for z, (i, j) in enumerate(zip(rows, m["col"], strict=True)):
        found["P"][i, j] += a[z] * (upstream[i] * x[j] * q[j, i]).sum()
        found["X"][j] += a[z] * p[i, j] * upstream[i] * q[j, i]
        found["Q"][j, i] += a[z] * p[i, j] * upstream[i] * x[j]
        found["value"][z] += (p[i, j] * upstream[i] * x[j] * q[j, i]).sum()
    return found


def op_inputs() -> Inputs:
    """Some cells of the matrix are there twice, some rows are empty."""
    lengths = np.array([3, 0, 6, 2, 1])
    matrix = {"rowptr": np.concatenate(([0], np.cumsum(lengths))), "col": ids(COLUMNS, int(lengths.sum()))}
    sizes = {"num_rows": ROWS, "num_cols": COLUMNS, "value": normal(int(lengths.sum()))}
    return matrix | sizes | {"X": normal(COLUMNS, 3), "P": normal(ROWS, COLUMNS), "Q": normal(COLUMNS, ROWS, 3)}


Case = tuple[str, dict[str, Any], Inputs, tuple[int, ...], Callable[[Inputs, Any], dict[str, Any]]]
CASES: dict[str, Case] = {
    "score": (SCORE, {}, score_inputs(), (9,), of_score),
    "negative tails": (SCORE, {"negatives": "tail:4"}, score_inputs(t=(9, 4)), (9, 4), of_score),
    "negative heads": (SCORE, {"negatives": "head:1"}, score_inputs(h=(9, 1)), (9, 1), of_score),
    "no triples": (SCORE, {}, score_inputs(h=(0,), r=(0,), t=(0,)), (0,), of_score),
    "layer": (EDGES_OF, {}, layer_inputs(), (NODES, 2), of_layer),
    "plain layer": (EDGES_OF, {"reorder": False, "compact": False}, layer_inputs(), (NODES, 2), of_layer),
    "weights": (PRODUCTS, {}, products_inputs(), (EDGES, 3), of_products),
    "of the whole graph": (OF_ALL, {}, of_all_inputs(), (EDGES, 3), of_all),
    "op": (OP, {}, op_inputs(), (ROWS, 3), of_op),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES)
def test_every_row_of_a_product_gets_what_was_picked_of_it(case: str) -> None:
    text, options, inputs, shape, oracle = CASES[case]
    compilation = compiled(text, options={**options, "grad": True}, on_demand=True)
    upstream = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    want = oracle(inputs, upstream)
    forward = want.pop("", None)
    for on in STAGES:
        result, gradients = compilation.run(inputs, on, grad=upstream)
        assert gradients.keys() == want.keys()
        if forward is not None:
            np.testing.assert_allclose(result, forward, rtol=2e-5, atol=1e-5, err_msg=on)
        for name, exact in want.items():
            np.testing.assert_allclose(gradients[name], exact, rtol=2e-5, atol=1e-5, err_msg=f"{on} {name}")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_a_module_of_pytorch_learns_them(case: str) -> None:
    torch = pytest.importorskip("torch")
    text, options, inputs, shape, oracle = CASES[case]
    upstream = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    want = oracle(inputs, upstream)
    want.pop("", None)
    given = {name: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for name, x in inputs.items()}
    leaves = {name: given[name].clone().requires_grad_() for name in want if name != "value"}
    compilation = compiled(text, options=options, on_demand=True)
    counts = {"score": {"entity": ENTITIES, "relation": RELATIONS}, "layer": {"etype": ETYPES, "ntype": NTYPES}}
    module = compilation.torch(**counts.get(compilation.family, {"col": COLUMNS}))
    module(**{**given, **leaves}).backward(torch.from_numpy(upstream))
    for name, leaf in leaves.items():
        np.testing.assert_allclose(leaf.grad.numpy(), want[name], rtol=2e-5, atol=1e-5, err_msg=name)


def test_the_stage_shows_the_map_and_the_set() -> None:
    lines = compiled(EDGES_OF, options={"grad": True}).stages["graph"].text.split("\n")
    assert "  map src_ntype_etype_dst_ntype: edge -> ntype_by_etype_by_ntype = src.ntype, etype, dst.ntype" in lines
    assert "  map node_ntype: node -> node_by_ntype = node, ntype" in lines


def test_a_product_that_32_bits_cannot_number_is_refused() -> None:
    text = "score S(h: entity, r: relation, t: entity):\n    param B[entity, entity, entity]\n    return B[h, r, t]\n"
    compilation = explorer.compile(text.replace("[h, r, t]", "[h, t, h]"), options={"grad": True})
    table = np.broadcast_to(np.float32(1), (1300, 1300, 1300))
    one = np.zeros(1, dtype=np.int32)
    with pytest.raises(ValueError, match=r"1,300 \(entity\) times 1,300 \(entity\) .* has 2,197,000,000 rows"):
        compilation.run({"h": one, "r": one, "t": one, "B": table}, "loops", grad=np.ones(1, dtype=np.float32))
