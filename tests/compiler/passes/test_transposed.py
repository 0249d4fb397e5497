"""Gradients of matrices that a model transposes: as sums of products whose results are exchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.ir.graph import Segment, Transpose

HEAD = """dim D = 6, K = 8

score Model(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D], w[K]
    param W[{sets}K, {columns}]
"""
MODELS = {
    "linear": (HEAD.format(sets="", columns="D"), "dot(tanh(W @ E[h]), w)"),
    "concat": (HEAD.format(sets="", columns="3 * D"), "dot(tanh(W @ concat(E[h], R[r], E[t])), w)"),
    "twice": (HEAD.format(sets="", columns="D"), "dot(tanh(W @ E[h]) * (W @ E[t]), w)"),
    "by relation": (HEAD.format(sets="relation, ", columns="D"), "dot(tanh(W[r] @ E[h]), w)"),
    "both ways": (HEAD.format(sets="", columns="D"), "dot(tanh(W @ E[h]), w) + dot(w @ W, E[t])"),
}
BATCH, ENTITIES, RELATIONS, D, K = 21, 5, 3, 6, 8


def drawn(name: str) -> tuple[dict[str, Any], Any]:
    """The inputs of a model, and the gradient of its scores."""
    random = np.random.default_rng(3)
    columns = 3 * D if name == "concat" else D
    rows = (RELATIONS, K, columns) if name == "by relation" else (K, columns)
    shapes = {"E": (ENTITIES, D), "R": (RELATIONS, D), "w": (K,), "W": rows}
    inputs: dict[str, Any] = {each: random.standard_normal(shape, np.float32) for each, shape in shapes.items()}
    ends = {"h": ENTITIES, "r": RELATIONS, "t": ENTITIES}
    inputs |= {each: random.integers(end, size=BATCH, dtype=np.int32) for each, end in ends.items()}
    return inputs, random.standard_normal(BATCH, np.float32)


def score(name: str, x: dict[str, Any]) -> Any:
    """The formula, in the precision of its arguments."""
    h, t, w, W = x["E"][x["h"]], x["E"][x["t"]], x["w"], x["W"]
    match name:
        case "linear":
            return np.tanh(h @ W.T) @ w
        case "concat":
            return np.tanh(np.concatenate([h, x["R"][x["r"]], t], axis=-1) @ W.T) @ w
        case "twice":
            return (np.tanh(h @ W.T) * (t @ W.T)) @ w
        case "by relation":
            return np.tanh(np.einsum("bkd,bd->bk", W[x["r"]], h)) @ w
    return np.tanh(h @ W.T) @ w + t @ (w @ W)


def slopes(name: str, inputs: dict[str, Any], upstream: Any) -> Any:
    """The gradient of W by central differences in float64."""
    wide = {key: value.astype(np.float64) if value.dtype == np.float32 else value for key, value in inputs.items()}
    found, step = np.zeros(wide["W"].shape), 1e-5
    for place in np.ndindex(*found.shape):
        ends = []
        for sign in (1, -1):
            moved = wide["W"].copy()
            moved[place] += sign * step
            ends.append(upstream.astype(np.float64) @ score(name, wide | {"W": moved}))
        found[place] = (ends[0] - ends[1]) / (2 * step)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_the_slopes(name: str) -> None:
    head, formula = MODELS[name]
    compilation = explorer.compile(f"{head}    return {formula}\n", options={"grad": True}, on_demand=True)
    inputs, upstream = drawn(name)
    want = slopes(name, inputs, upstream)

    for on in ("graph", "loops", "kernels"):
        _, gradients = compilation.run(inputs, on=on, grad=upstream)
        assert np.abs(gradients["W"] - want).max() <= 2e-5 * np.abs(want).max(), on


@pytest.mark.parametrize("name", ["linear", "concat", "by relation"])
def test_no_sum_of_products_is_transposed_behind(name: str) -> None:
    head, formula = MODELS[name]
    graph = explorer.compile(f"{head}    return {formula}\n", options={"grad": True}, on_demand=True).stages["graph"]

    values = {value.name: value for value in graph.program.values}
    flipped = [values[v.operator.operand].operator for v in values.values() if isinstance(v.operator, Transpose)]
    assert not any(isinstance(operator, Segment) for operator in flipped)
    assert " = bov " in graph.text
    assert "bov_t" not in graph.text


@pytest.mark.parametrize("name", ["linear", "concat"])
def test_a_shared_matrix_gets_its_outer_products_by_tiles(name: str) -> None:
    head, formula = MODELS[name]
    sizes = {"D": 32, "K": 64}
    compilation = explorer.compile(f"{head}    return {formula}\n", sizes=sizes, options={"grad": True}, on_demand=True)

    assert "strategy = outer_products" in compilation.stages["kernels"].text
