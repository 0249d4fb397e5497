"""Layers of sizes that products by tiles are for, over graphs that no tile divides: no kernel leaves its arrays, which
the emulator checks at every access."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.ir.facts import Fact
from tests.emulator.conftest import launch
from tests.emulator.facts import broken_facts

pytestmark = pytest.mark.usefixtures("compiler")

WIDTHS = (16, 20, 32, 48, 64)
NODES = (21, 67, 130)
OF_NODES = (
    "x[n] @ A",
    "2 * y[n]",
    "relu(x[n] @ A)",
    "y[n] * sigmoid(y[n])",
    "(x[n] @ A) * y[n]",
    "x[n] @ C[n.ntype]",
    "y[n] + (x[n] @ A)",
)
OF_EDGES = (
    'e.src["a"] * e.src["b"]',
    '(e.src["a"] @ B) * f[e]',
    "(x[e.src] @ A) * f[e]",
    'f[e] * e.dst["b"]',
    "e.norm * (y[e.src] @ B)",
    'e.src["b"] @ W[e.etype]',
)
LAYER = """\
dim F = {f}, G = {g}
layer L(g: graph):
    input x[node, F], y[node, G], f[edge, G]
    param A[F, G], B[G, G], W[etype, G, G], C[ntype, F, G]
    for n in g.nodes():
        n["a"] = {a}
        n["b"] = {b}
    for n in g.nodes():
        n["o"] = sum({of_edges} for e in n.incoming_edges())
        n["c"] = {c}
    for n in g.nodes():
        n["out"] = n["o"] + n["c"]
    return n["out"]
"""


def layer_of(seed: int) -> tuple[str, dict[str, Any]]:
    """A layer, and what it is given."""
    chosen, draw = random.Random(seed), np.random.default_rng(seed)
    f, g, nodes = chosen.choice(WIDTHS), chosen.choice(WIDTHS), chosen.choice(NODES)
    a, b, c = (chosen.choice(OF_NODES) for _ in range(3))
    text = LAYER.format(f=f, g=g, a=a, b=b, c=c, of_edges=chosen.choice(OF_EDGES))
    edges, etypes, ntypes = 3 * nodes, 3, 2

    def tensor(*shape: int) -> Any:
        return (draw.random(shape) / shape[-1]).astype(np.float32)

    given = {
        "src": draw.integers(0, nodes, edges),
        "dst": draw.integers(0, nodes, edges),
        "etype": draw.integers(0, etypes, edges),
        "ntype": draw.integers(0, ntypes, nodes),
        "num_nodes": nodes,
        "num_etypes": etypes,
        "num_ntypes": ntypes,
        **{"x": tensor(nodes, f), "y": tensor(nodes, g), "f": tensor(edges, g)},
        **{"A": tensor(f, g), "B": tensor(g, g), "W": tensor(etypes, g, g), "C": tensor(ntypes, f, g)},
    }
    read = set(explorer.compile(text, on_demand=True).stages["graph"].program.tensors)  # type: ignore[union-attr]
    names = {tensor.name for tensor in read} | {"src", "dst", "etype", "ntype"}
    return text, {name: value for name, value in given.items() if name in names or name.startswith("num_")}


def check(text: str, given: dict[str, Any], grad: bool) -> None:
    """Emulates the kernels of a layer, which need no guard, and compares with the loops on the CPU."""
    compilation = explorer.compile(text, options={"grad": grad}, on_demand=True)
    assert not [line for line in compilation.stages["kernels"].lines if line.text.startswith("  schedule guard ")]
    compilation.targets["gpu"] = lambda _, inputs: launch(compilation, inputs)
    if not grad:
        got, want = compilation.run(given, on="gpu"), compilation.run(given, on="cpu")
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
        return
    shape = np.asarray(explorer.compile(text, on_demand=True).run(given, on="cpu")).shape
    got, gradients = compilation.run(given, on="gpu", grad=np.ones(shape, np.float32))
    want, wanted = compilation.run(given, on="cpu", grad=np.ones(shape, np.float32))
    for name, value in {**wanted, "": want}.items():
        found = gradients[name] if name else got
        scale = max(1e-6, float(np.abs(value).max()))
        assert np.abs(np.asarray(found) - np.asarray(value)).max() <= 2e-4 * scale, name


@pytest.mark.parametrize("grad", [False, True])
def test_a_product_beside_a_store_that_does_not_depend_on_it(grad: bool) -> None:
    """What is loaded behind that store is of a row that there is."""
    text = LAYER.format(f=16, g=16, a="x[n] @ A", b="2 * y[n]", c="y[n]", of_edges=OF_EDGES[0])
    check(text, given_for(text, 21), grad)


def given_for(text: str, nodes: int) -> dict[str, Any]:
    """What the layer of that size is given."""
    draw = np.random.default_rng(nodes)
    sizes = {"node": nodes, "edge": 60, "etype": 3, "ntype": 2, "F": 16, "G": 16}
    tensors = explorer.compile(text, on_demand=True).stages["graph"].program.tensors  # type: ignore[union-attr]
    given = {t.name: draw.random([sizes[e] for e in (*t.sets, *t.dims)]).astype(np.float32) / 16 for t in tensors}
    return {**given, "src": draw.integers(0, nodes, 60), "dst": draw.integers(0, nodes, 60), "num_nodes": nodes}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("grad", [False, True])
def test_random_layers(seed: int, grad: bool) -> None:
    check(*layer_of(seed), grad)


@pytest.mark.swept(4)
@pytest.mark.parametrize("seed", range(2, 30))
@pytest.mark.parametrize("grad", [False, True])
def test_more_random_layers(seed: int, grad: bool) -> None:
    check(*layer_of(seed), grad)


def test_a_fact_that_does_not_hold_is_found() -> None:
    facts = (Fact("first[_i] + many[_i] <= rows", ""), Fact("2 * rank[_i] + 2 <= many[which[_i]]", ""))
    first, many = np.array([0, 3]), np.array([3, 4])
    arrays = {"first": first, "many": many, "which": np.array([0, 1, 1]), "rank": np.array([0, 0, 1])}
    assert broken_facts(facts, arrays, {"rows": 7}) == []
    assert broken_facts(facts, arrays, {"rows": 6}) == [facts[0].text]
    assert broken_facts(facts, {**arrays, "rank": np.array([1, 0, 1])}, {"rows": 7}) == [facts[1].text]
