"""Runs that float32 cannot make better are no faults: what a relative tolerance called wrong, on the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.runtime.reference import evaluate as reference
from explorer.runtime.reference.compare import compare
from explorer.runtime.reference.numbers.arithmetic import FLOAT64
from explorer.runtime.run import RunRequest, execute

TRANSE = (Path(__file__).parents[3] / "examples" / "kge" / "transe_l2.emb").read_text()
SOFTPLUS = """dim D = 16
score Softplus(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    x = 30 * sum(E[h] * R[r] * E[t])
    return max(x, 0) + log(1 + exp(-abs(x)))
"""
SHIFTED = """dim D = 8
layer Shifted(g: graph):
    input x[node, D]
    param b[D], W[D, D]
    for e in g.edges():
        e["a"] = dot(x[e.src] @ W + b, x[e.dst]) + sum(b)
    edge_softmax(g, "a")
    for n in g.nodes():
        n["h"] = sum(e["a"] * x[e.src] for e in n.incoming_edges())
    return n["h"]
"""
SHARED = """dim D = 64
score Shared(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return dot(R[r], E[h] - E[t])
"""


def run(text: str, **fields: Any) -> dict[str, Any]:
    return list(execute(RunRequest(text=text, on="dae", options={"grad": True}, **fields)))[-1]


def test_a_softplus_of_scores_far_below_zero_is_right() -> None:
    found = run(SOFTPLUS, batch=100, data="FB15k-237")
    assert found["matches_reference"], found["message"]


def test_gradients_that_are_zero_in_exact_arithmetic_are_right(tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text("a\tr\ta\n")
    found = run(TRANSE, batch=1, data=str(tmp_path / "one.tsv"))
    assert found["matches_reference"], found["message"]


def test_a_parameter_that_only_shifts_a_softmax_is_right() -> None:
    found = run(SHIFTED, data="tiny")
    assert found["matches_reference"], found["message"]


def test_a_product_with_a_difference_may_be_a_difference_of_products() -> None:
    """A head among the corrupted tails: the difference is 0 exactly, that of the products is not."""
    random = np.random.default_rng(0)
    inputs: dict[str, Any] = {
        "E": random.standard_normal((3, 64)).astype(np.float32),
        "R": random.standard_normal((2, 64)).astype(np.float32),
        "h": np.array([0, 1], np.int32),
        "r": np.array([1, 0], np.int32),
        "t": np.array([[0, 1, 2], [2, 1, 0]], np.int32),
    }
    want = reference.score(SHARED, inputs, {}, negatives="tail:3", arithmetic=reference.BOUNDED)
    for interchange in (False, True):
        options = {"negatives": "tail:3", "interchange": interchange}
        got = explorer.compile(SHARED, options=options).run(inputs, on="loops")
        assert compare(got, want).matches
    products = np.einsum("bd,bnd->bn", inputs["R"][inputs["r"]], inputs["E"][inputs["t"]])
    split = np.einsum("bd,bd->b", inputs["R"][inputs["r"]], inputs["E"][inputs["h"]])[:, None] - products
    assert compare(split, want).matches


@pytest.mark.parametrize("size", [1, 256])
def test_a_sum_in_chunks_has_the_bound_of_one_sum(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    text = """dim D = 2
layer Sum(g: graph):
    input x[edge, D]
    for e in g.edges():
        e.dst["h"] += x[e]
    for n in g.nodes():
        n["y"] = n["h"]
    return n["y"]
"""
    random = np.random.default_rng(1)
    inputs = {
        "src": np.zeros(900, np.int32),
        "dst": np.sort(random.integers(0, 3, 900)).astype(np.int32),
        "etype": np.zeros(900, np.int32),
        "ntype": np.zeros(3, np.int32),
        "num_nodes": 3,
        "num_etypes": 1,
        "num_ntypes": 1,
        "x": random.standard_normal((900, 2)).astype(np.float32),
    }
    whole = reference.layer(text, inputs, {}, arithmetic=reference.BOUNDED)
    monkeypatch.setattr("explorer.runtime.reference.rows.FIRST_CHUNK", size)
    monkeypatch.setattr("explorer.runtime.reference.rows.CHUNK_BYTES", 1 << 12)
    parts = reference.layer(text, inputs, {}, arithmetic=reference.BOUNDED)
    np.testing.assert_allclose(parts.value, reference.layer(text, inputs, {}, arithmetic=FLOAT64))
    np.testing.assert_allclose(parts.error, whole.error, rtol=0.03)
