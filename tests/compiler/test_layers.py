"""Every example layer, at every stage, under the four settings of reorder and compact: the reference's numbers.

The graph has what goes wrong: isolated nodes, parallel edges, a self loop, a relation and a node type that no edge
or node uses; and no two sizes are alike. Targets run on the smallest preset too.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compiler.ir.graph import Graph
from explorer.runtime.data.graphs import load_graph
from explorer.runtime.reference import evaluate as reference

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples" / "rgnn").glob("*.emb"))
SIZES = {"F": 5, "G": 3, "H": 2, "D": 4}
COUNTS = {"node": 9, "etype": 5, "ntype": 3}
INTERPRETED = ("graph", "loops", "slc", "dlc")
TARGETS = ("dae", "cpu")
SETTINGS = [(reorder, compact) for reorder in (False, True) for compact in (False, True)]

layers = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
settings = pytest.mark.parametrize(("reorder", "compact"), SETTINGS)


def tiny_graph():
    random = np.random.default_rng(5)
    used = COUNTS["node"] - 2  # the last two nodes are isolated
    src, dst = random.integers(0, used, (2, 31)).astype(np.int32)
    etype = random.integers(0, COUNTS["etype"] - 1, 31).astype(np.int32)
    src[1], dst[1], etype[1] = src[0], dst[0], etype[0]
    src[2] = dst[2]
    ntype = random.integers(0, COUNTS["ntype"] - 1, COUNTS["node"]).astype(np.int32)
    return {"src": src, "dst": dst, "etype": etype, "ntype": ntype} | {f"num_{s}s": n for s, n in COUNTS.items()}


def preset_graph():
    data = load_graph("tiny")
    return {**data.arrays(), **{f"num_{name}s": getattr(data, f"num_{name}s") for name in COUNTS}}


@cache
def compiled(path, **options):
    text = path.read_text()
    sizes = {name: size for name, size in SIZES.items() if f"{name} =" in text}
    compilation = explorer.compile(text, sizes=sizes, options=options, on_demand=True)
    assert compilation.ok, "\n".join(diagnostic.render(text) for diagnostic in compilation.diagnostics)
    return compilation


def drawn(compilation, graph):
    """Tensors for a compiled layer, and the graph."""
    random = np.random.default_rng(1)
    program = compilation.stages["graph"].program
    assert isinstance(program, Graph)
    inputs = dict(graph)
    counts = {"edge": len(graph["src"]), **{name: graph[f"num_{name}s"] for name in COUNTS}}
    for tensor in program.tensors:
        if tensor.kind in ("param", "input"):
            shape = [counts[name] for name in tensor.sets]
            shape += [program.size(extent) for extent in tensor.dims]
            inputs[tensor.name] = random.normal(size=shape).astype(np.float32)
    return inputs


def check_result(compilation, on, graph):
    inputs = drawn(compilation, graph)
    want = reference.layer(compilation.text, inputs, compilation.sizes)
    np.testing.assert_allclose(compilation.run(inputs, on), want, rtol=1e-4, atol=1e-5, err_msg=on)


def check_gradients(compilation, targets):
    inputs = drawn(compilation, tiny_graph())
    want = reference.layer(compilation.text, inputs, compilation.sizes)
    upstream = np.random.default_rng(2).normal(size=want.shape).astype(np.float32)
    learnt = [t.name for t in compilation.stages["graph"].program.tensors if t.kind == "param"]
    slopes = reference.finite_difference(compilation.text, inputs, compilation.sizes, upstream, learnt, count=8)
    for on in targets:
        got, gradients = compilation.run(inputs, on, grad=upstream)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=on)
        assert set(gradients) == set(learnt)
        for name in learnt:
            assert gradients[name].shape == inputs[name].shape
        for slope in slopes:
            found = gradients[slope.tensor][slope.index]
            assert found == pytest.approx(slope.value, rel=1e-3, abs=1e-4), (on, slope)


def check_same_gradients(compilation, on, graph):
    """A target's result and gradients are those of the graph's interpreter."""
    inputs = drawn(compilation, graph)
    rows = reference.layer(compilation.text, inputs, compilation.sizes)
    upstream = np.random.default_rng(0).standard_normal(rows.shape, np.float32)
    want, wanted = compilation.run(inputs, "graph", grad=upstream)
    got, gradients = compilation.run(inputs, on, grad=upstream)
    assert gradients.keys() == wanted.keys()
    for name, found, expected in [("result", got, want), *((n, gradients[n], wanted[n]) for n in wanted)]:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max(), err_msg=name)


def test_there_are_examples():
    assert len(EXAMPLES) >= 5


@pytest.mark.sampled(12)
@layers
@settings
@pytest.mark.parametrize("on", [*INTERPRETED, *TARGETS])
def test_forward(path, reorder, compact, on):
    compilation = compiled(path, reorder=reorder, compact=compact)
    for graph in (tiny_graph(), preset_graph()) if on in TARGETS else (tiny_graph(),):
        check_result(compilation, on, graph)


@pytest.mark.sampled(2)
@layers
@settings
def test_gradients_are_interpreted_alike(path, reorder, compact):
    check_gradients(compiled(path, reorder=reorder, compact=compact, grad=True), INTERPRETED)


@pytest.mark.sampled(12)
@pytest.mark.timeout(600)  # many kernels to compile to machine code
@layers
@pytest.mark.parametrize("switch", [False, True])
def test_gradients_on_the_cpu(path, switch):
    compilation = compiled(path, reorder=switch, compact=switch, grad=True)
    check_gradients(compilation, ["cpu"])
    check_same_gradients(compilation, "cpu", preset_graph())


@pytest.mark.sampled(2)
@layers
def test_gradients_on_the_machine(path):
    check_same_gradients(compiled(path, reorder=True, compact=True, grad=True), "dae", preset_graph())


@layers
def test_a_graph_without_edges(path):
    compilation = compiled(path)
    empty = np.zeros(0, dtype=np.int32)
    inputs = drawn(compilation, {**tiny_graph(), "src": empty, "dst": empty, "etype": empty})
    want = reference.layer(compilation.text, inputs, compilation.sizes)
    for on in INTERPRETED:
        np.testing.assert_allclose(compilation.run(inputs, on), want, rtol=1e-4, atol=1e-5, err_msg=on)
