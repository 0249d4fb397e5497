"""Gradients of layers are sums over segments of thousands of rows, of few types: no kernel walks one alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from benchmarks.cases.checked import Case
from benchmarks.gpu_check import Setting, check_gradients, check_rows
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.runtime.data.graphs import RelationalGraph
from tests.emulator.conftest import compiler, launch

__all__ = ["compiler"]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "rgnn"
LAYERS = sorted(path.stem for path in EXAMPLES.glob("*.emb"))
LONG = 700
"""Edges of one type, into one node: more than a warp's piece has, and many pieces of a few edges."""
NORMS = """dim F = 16, S = 8

op Norms(b: bag of row):
    param X[row, S, F]
    return sum(sum(norm(X[i])) for i in b)
"""
"""A sum of a number for each element, which takes loops within loops."""
SUM_OF_A_SUM = """dim D = 4

layer Model(g: graph):
    input x[node, D]
    input w[edge]
    for n in g.nodes():
        weight = sum(w[e] for e in n.outgoing_edges())
        n["h"] = sum(tanh(dot(x[e.src], x[e.src]) - weight) for e in n.incoming_edges()) + sum(n.x)
        n["h"] += sum(e.norm for e in n.incoming_edges())
    return n["h"]
"""
"""A sum over some edges whose terms need a sum over others."""
STORED_BESIDE = """dim F = 2

layer Model(g: graph):
    param mu[ntype, 1]
    param out[F]
    input x[node, F]
    param b[etype, 5]
    for e in g.edges():
        weight = reshape(mu[e.dst.ntype], 1, 1) @ out[0:1]
        e["h"] = outer(x[e.src] * out, b[e.etype])[2:4] + sum(weight)
    return e["h"]
"""
"""Its backward pass stores a number of the node's own beside a sum over the node's edges."""


def kernels_of(model: str, **options: Any) -> list[ScheduledKernel]:
    text = (EXAMPLES / f"{model}.emb").read_text()
    compilation = explorer.compile(text, options={"grad": True, **options}, on_demand=True)
    program = compilation.stages["kernels"].program
    assert isinstance(program, Module)
    return [kernel for kernel in program.programs if isinstance(kernel, ScheduledKernel)]


def graph(src: Any, dst: Any, etype: Any, nodes: int, etypes: int) -> RelationalGraph:
    """Edges among nodes of one type."""
    ids = {name: np.asarray(array, dtype=np.int32) for name, array in (("src", src), ("dst", dst), ("etype", etype))}
    ntype = np.zeros(nodes, dtype=np.int32)
    return RelationalGraph("few edges", "made for a test", nodes, etypes, 1, **ids, ntype=ntype)


def random_edges(count: int, nodes: int, seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    return random.integers(0, nodes, count), random.integers(0, nodes, count)


GRAPHS: Mapping[str, RelationalGraph] = {
    "one edge": graph([1], [0], [0], 3, 1),
    "parallel edges": graph([0, 0, 0, 2], [1, 1, 1, 1], [0, 0, 2, 2], 5, 4),
    "one relation": graph(*random_edges(150, 12, 0), np.zeros(150), 12, 1),
    "a long segment": graph(
        np.arange(LONG) % 40, np.where(np.arange(LONG) % 7, 3, np.arange(LONG) % 41), np.arange(LONG) % 11 == 0, 41, 3
    ),
}


@pytest.mark.parametrize("model", LAYERS)
@pytest.mark.parametrize("aggregate", [True, False])
def test_no_iteration_walks_its_segments_alone(model: str, aggregate: bool) -> None:
    assert [k.name for k in kernels_of(model, aggregate=aggregate) if k.template == "traversal"] == []


def test_a_sum_that_two_gradients_need_is_taken_once() -> None:
    compilation = explorer.compile((EXAMPLES / "rgat.emb").read_text(), options={"grad": True, "aggregate": False})
    said = [each.summary for each in compilation.stages["kernels"].passes]
    assert any("another kernel has computed the same" in summary for summary in said)
    program = compilation.stages["kernels"].program
    assert isinstance(program, Module)
    writers = [b.name for k in program.programs for b in getattr(k, "buffers", ()) if b.name == "RGAT_7_y2"]
    assert len(writers) > 2  # the gradients of w_t and of W both read it


@pytest.mark.sampled(7)
@pytest.mark.parametrize("model", LAYERS)
@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
def test_gradients_on_the_emulator(compiler: str, model: str, edges: RelationalGraph) -> None:
    case = Case((EXAMPLES / f"{model}.emb").read_text(), 8, 0, {"grad": "true", "aggregate": "false"})
    outcome = check_gradients(Setting(launch, 1, edges, 0), case)
    assert outcome.get("agrees"), outcome


@pytest.mark.parametrize("size", [3, 33])
def test_a_sum_that_is_all_of_its_kernel_is_not_split_again(compiler: str, size: int) -> None:
    setting = Setting(launch, 1, GRAPHS["one edge"], 19)
    outcome = check_rows(setting, Case(NORMS, size, 0, {}))
    assert outcome["agrees"], outcome
    with_gradients = explorer.compile(NORMS, options={"grad": True}).stages["cuda"]
    assert with_gradients.available, with_gradients.reason


@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
def test_a_sum_may_need_another(compiler: str, edges: RelationalGraph) -> None:
    outcome = check_rows(Setting(launch, 1, edges, 0), Case(SUM_OF_A_SUM, 4, 0, {}))
    assert outcome["agrees"], outcome


def test_what_is_stored_beside_a_sum_is_stored_once(compiler: str) -> None:
    """The emulator faults where threads of a block write one element, be it the same number."""
    case = Case(STORED_BESIDE, 2, 0, {"grad": "true"})
    outcome = check_gradients(Setting(launch, 1, GRAPHS["a long segment"], 0), case)
    assert outcome.get("agrees"), outcome
