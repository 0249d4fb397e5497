"""What differentiate says of tensors and maxima without a gradient is true of numbers: the result stays the same.

Of all examples, of the models kept beside the project where they are, and of texts that make it say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from benchmarks.gpu_check import INPUTS, Setting, upstream_names
from explorer.compiler.interpret.graph import run_graph
from explorer.compiler.ir.graph import Constant, Elementwise, Graph
from explorer.runtime.data.graphs import GraphPreset, generate
from explorer.runtime.reference import evaluate as reference
from tests.compiler.layers import report

ROOT = Path(__file__).resolve().parents[3]
TENSOR = re.compile(r"^(\w+) has no gradient: the result does not depend on it$")
MAXIMUM = re.compile(r"(%\w+) gets no gradient: it shifts logits")
EVALUATE: dict[str, Any] = {"score": reference.score, "layer": reference.layer, "op": reference.op}
UNUSED = """dim F = 4
layer Unused(g: graph):
    input x[node, F]
    param w[etype, ntype], dead[node, ntype, F], scale[F]
    for n in g.nodes():
        n["other"] = dead[n, n.ntype]
    for e in g.edges():
        e["a"] = w[e.etype, e.dst.ntype]
    edge_softmax(g, "a")
    for n in g.nodes():
        n["h"] = sum(e["a"] * e.src.x for e in n.incoming_edges()) * scale
    return n["h"]
"""


def texts() -> Iterator[Any]:
    kept = (ROOT.parent / "shared" / "zoo" / "models").glob("*.emb")
    for path in (*sorted((ROOT / "examples").glob("*/*.emb")), *sorted(kept)):
        yield pytest.param(path.read_text(encoding="utf-8"), id=path.stem)
    yield pytest.param(UNUSED, id="unused")


def claims(compilation: explorer.Compilation) -> tuple[set[str], set[str]]:
    """The tensors, and the maxima, that the result is said not to depend on."""
    said = report(compilation, "differentiate")
    tensors = {found[1] for reason in said.refusals if (found := TENSOR.match(reason))}
    return tensors, set(MAXIMUM.findall(said.summary))


def drawn(compilation: explorer.Compilation) -> tuple[dict[str, Any], Any]:
    """Inputs by name, and a gradient of the result."""
    small = GraphPreset(num_nodes=11, num_edges=40, num_ntypes=3, num_etypes=4, reach=0.6)
    given = dict(INPUTS[compilation.family](Setting(None, 1, generate("small", small), 7), compilation))
    return given, given.pop(upstream_names(compilation.stages["graph"].program)[0])


def shifted(graph: Graph, name: str) -> Graph:
    """The graph in which a value is larger by 3."""
    by = Constant(value=3.0, origin=())
    values = []
    for value in graph.values:
        if value.name == name:
            old, constant = (
                replace(value, name="%old"),
                replace(value, name="%by", operator=by, index_set="unit", shape=()),
            )
            more = Elementwise(function="add", operands=("%old", "%by"), origin=value.origin)
            values += [old, constant, replace(value, operator=more)]
        else:
            values.append(value)
    return replace(graph, values=tuple(values))


@pytest.mark.parametrize("text", [*texts()])
def test_what_is_said_not_to_matter_does_not(text: str) -> None:
    compilation = explorer.compile(text, options={"grad": True}, on_demand=True)
    graph: Any = compilation.stages["graph"].program
    tensors, maxima = claims(compilation)
    learnt = {tensor.name for tensor in graph.tensors if tensor.kind == "param"}
    assert learnt == tensors | (learnt & {name for name, _ in graph.gradients})
    if not tensors | maxima:
        return
    given, upstream = drawn(compilation)
    evaluate, random = EVALUATE[compilation.family], np.random.default_rng(0)
    want = evaluate(text, given, compilation.sizes)
    for name in tensors:
        other = random.standard_normal(given[name].shape).astype(np.float32)
        np.testing.assert_array_equal(evaluate(text, {**given, name: other}, compilation.sizes), want, err_msg=name)
    assert compilation.encode is not None
    arrays, _ = compilation.encode(compilation, given, upstream)
    plain, _ = run_graph(graph, arrays)
    for name in maxima:
        np.testing.assert_allclose(run_graph(shifted(graph, name), arrays)[0], plain, rtol=1e-6, err_msg=name)


def test_there_is_something_said() -> None:
    tensors, maxima = claims(explorer.compile(UNUSED, options={"grad": True}, on_demand=True))
    assert tensors == {"dead"}
    assert len(maxima) == 1
