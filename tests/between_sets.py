"""A layer from three users to seven items with a result of each set, and what it means: NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.compiler.by_form.between_forms import total
from tests.compiler.by_form.set_structures import between
from tests.compiler.by_form.test_set_forms import exact
from tests.compiler.slopes import slopes

LIKES = """dim F = 4, G = 3
layer Likes(g: graph[user, item]):
    "A step of message passing there, with a term of each item's own and types of edges, and one back"
    param X[user, F], Y[item, F], W[etype, F, G], S[F, G], V[G, F]
    for n in g.dst_nodes():
        n["h"] = relu(Y[n] @ S + sum(e.norm * (X[e.src] @ W[e.etype]) for e in n.incoming_edges()))
    for u in g.src_nodes():
        u["h"] = X[u] + mean(e.dst["h"] @ V for e in u.outgoing_edges())
    return user["h"], item["h"]
"""
SHAPES = {"X": (3, 4), "Y": (7, 4), "W": (2, 4, 3), "S": (4, 3), "V": (3, 4)}


def given() -> dict[str, Any]:
    random = np.random.default_rng(4)
    tensors = {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    return {name: value for name, value in between().items() if name != "kind"} | tensors


def likes(i: dict[str, Any]) -> tuple[Any, Any]:
    alike = [((i["dst"] == v) & (i["etype"] == r)).sum() for v, r in zip(i["dst"], i["etype"], strict=True)]
    sent = np.einsum("ef,efg->eg", i["X"][i["src"]], i["W"][i["etype"]]) / np.array(alike)[:, None]
    items = np.maximum(i["Y"] @ i["S"] + total(i, sent), 0)
    degrees = np.array([max(1, (i["src"] == user).sum()) for user in range(3)])[:, None]
    return i["X"] + total(i, (items @ i["V"])[i["dst"]], "src") / degrees, items


def in_one(results: Any) -> Any:
    return np.concatenate([each.ravel() for each in results])


def upstreams() -> tuple[Any, Any]:
    random = np.random.default_rng(5)
    return random.normal(size=(3, 4)).astype(np.float32), random.normal(size=(7, 3)).astype(np.float32)


def wanted() -> dict[str, Any]:
    """The gradient of each parameter."""
    return slopes(lambda i: in_one(likes(exact(i))), given(), SHAPES, in_one(upstreams()))


OPTIONS: list[dict[str, Any]] = [
    {},
    {"edges": "src"},
    {"compact": False, "reorder": False, "aggregate": False},
    {"edges": "src", "compact": False},
]
