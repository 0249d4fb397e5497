"""Functions that helpers are given: what is computed, and what is refused, with its place."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.runtime.reference import evaluate as reference
from tests.compiler.language.helpers import check, found
from tests.compiler.models import compiled

SCORE = """dim D = 4
def twice(f, x):
    return f(f(x))
def doubled(x, by=2):
    return by * x
def reduced(f, x, after=tanh):
    return after(f(x))
def handed(f, x):
    return twice(f, x)
score S(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return reduced(sum, twice(relu, E[h]) * R[r]) + reduced(max, handed(doubled, E[t]), after=exp)
"""
LAYER = """dim F = 3
def gathered(n, x, f, after=sigmoid):
    return after(f(x[e.src] for e in n.incoming_edges()))
def each(g, f):
    for n in g.nodes():
        n["y"] = f(n["y"])
layer L(g: graph):
    param x[node, F]
    for n in g.nodes():
        n["y"] = gathered(n, x, max) + gathered(n, x, f=sum, after=relu)
    each(g, exp)
    return n["y"]
"""


def test_a_helper_calls_what_it_is_given() -> None:
    random = np.random.default_rng(0)
    tables = {"E": random.normal(size=(5, 4)).astype(np.float32), "R": random.normal(size=(3, 4)).astype(np.float32)}
    ids = {"h": np.array([0, 1, 4], np.int32), "r": np.array([0, 2, 1], np.int32), "t": np.array([3, 3, 2], np.int32)}
    heads, tails = (tables["E"][ids[end]].astype(np.float64) for end in "ht")
    products = (np.maximum(heads, 0) * tables["R"][ids["r"]]).sum(-1)
    wanted = np.tanh(products) + np.exp(4 * tails.max(-1))
    np.testing.assert_allclose(compiled(SCORE).run({**ids, **tables}, "cpu"), wanted, rtol=1e-6)
    np.testing.assert_allclose(reference.score(SCORE, {**ids, **tables}, {}), wanted, rtol=1e-12)


def test_a_reduction_over_elements_is_given_too() -> None:
    src, dst = np.array([0, 1, 2, 2, 4]), np.array([1, 1, 1, 0, 3])
    x = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    wanted = np.zeros((5, 3))
    for node in range(5):
        rows = x[src[dst == node]].astype(np.float64)
        most = rows.max(0) if len(rows) else np.zeros(3)
        wanted[node] = np.exp(1 / (1 + np.exp(-most)) + np.maximum(rows.sum(0), 0))
    edges = {"src": src.astype(np.int32), "dst": dst.astype(np.int32), "etype": np.zeros(5, np.int32), "num_nodes": 5}
    for target in ("cpu", "graph"):
        np.testing.assert_allclose(compiled(LAYER).run({**edges, "x": x}, target), wanted, rtol=1e-6)
    given = {**edges, "ntype": np.zeros(5, np.int32), "num_etypes": 1, "num_ntypes": 1, "x": x}
    np.testing.assert_allclose(reference.layer(LAYER, given, {}), wanted, rtol=1e-12)


def test_a_value_may_stand_where_a_function_is_the_default() -> None:
    text = """dim D = 2
def kept(x, other=tanh):
    return x + 1
score S(h: entity):
    param E[entity, D]
    return sum(kept(E[h], other=E[h]) + kept(E[h]))
"""
    given = {"h": np.array([0, 1], np.int32), "E": np.array([[1, 2], [3, 4]], np.float32)}
    assert list(reference.score(text, given, {})) == list(compiled(text).run(given, "cpu")) == [10, 18]


TEXT = """dim D = 4
def apply(f, x):
    return sum(f(x))
def keep(f):
    return f
score S(h: entity):
    param E[entity, D]
    return {}
"""


@pytest.mark.parametrize(
    ("value", "where", "message"),
    [
        ("relu + E[h][0]", "8:12-16", "'relu' is a function: call it with its arguments"),
        ("sum(relu)", "8:16-20", "'relu' is a function: call it with its arguments"),
        ("keep(relu)", "8:12-22", "'relu' is a function: call it with its arguments"),
        ("apply(E[h], E[h])", "3:16-17", "'f' is not a function"),
        ("apply(h, E[h])", "3:16-17", "'f' is not a function"),
        ("apply(D, E[h])", "3:16-17", "'f' is not a function"),
        ("apply(apply, E[h])", "3:16-17", "'apply' calls itself: the language has no recursion"),
        ("apply(dot, E[h])", "3:16-20", "'dot' takes 2 arguments, not 1: dot(a, b)"),
        ("apply(nothing, E[h])", "8:18-25", "unknown name 'nothing'"),
    ],
)
def test_what_is_no_function_or_no_value_is_refused(value: str, where: str, message: str) -> None:
    assert [(where, message)] == found(check(TEXT.format(value)))
