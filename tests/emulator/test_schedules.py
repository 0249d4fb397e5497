"""Schedules that nobody chose, on threads: whatever a decision says, blocks, warps and lanes give the same numbers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from explorer.checkout import CHECKOUT
from explorer.compiler.codegen.text import Code
from explorer.compiler.compilation import compile_model
from explorer.compiler.decisions import Sample
from explorer.compiler.interpret import run_program
from explorer.runtime.arrays import check_inputs
from explorer.runtime.data.graphs import GraphPreset, generate
from explorer.runtime.encode.graph import encode
from explorer.runtime.encode.layers import program_inputs, programs
from explorer.runtime.runs.layer import draw_tensors
from tests.emulator.emulate import emulate

GRAPH = GraphPreset(num_nodes=31, num_edges=400, num_ntypes=2, num_etypes=5, reach=0.3)
SIZES = {"gcn": {"F": 36, "G": 20}, "rgcn": {"F": 20, "G": 20}, "rgat": {"F": 20, "G": 12}}
BIASED = """dim F = 20, G = 12
layer Biased(g: graph):
    input x[node, F]
    param W[F, G], b[G]
    for n in g.nodes():
        n["z"] = x[n] @ W
    for n in g.dst_nodes():
        n["h"] = tanh(sum(e.src["z"] for e in n.incoming_edges()) + b)
    return n["h"]
"""
"""A sum of all nodes, in the gradient of what is added to each."""


def text_of(name: str) -> str:
    """An example's text, or the one of above."""
    return BIASED if name == "biased" else (CHECKOUT / "examples" / "rgnn" / f"{name}.emb").read_text()


def run(name: str, seed: int, grad: bool = False) -> set[str]:
    """The kernels of a random schedule against what the loops compute; gives the names of what was chosen."""
    policy, options = Sample(random.Random(seed)), {"grad": grad}
    text, sizes = text_of(name), SIZES.get(name)
    compilation = compile_model(text, sizes=sizes, options=options, on_demand=True, policy=policy)
    graph, module = programs(compilation)
    encodings = encode(generate("a graph", GRAPH))
    inputs = program_inputs(graph, module, encodings, draw_tensors(graph, encodings.counts, seed=0))
    code = compilation.stages["cuda"].program
    assert isinstance(code, Code)
    want, gradients = run_program(module, inputs)
    got = emulate(code, *check_inputs(module, inputs))
    arrays = {module.result: want} | {array: gradients[tensor] for tensor, array in module.gradients}
    for array, numbers in arrays.items():
        assert np.all(np.abs(got[array] - numbers) <= 1e-4 * np.max(np.abs(numbers))), (array, compilation.schedule)
    return {key.rpartition(".")[2] for key in compilation.schedule}


@pytest.mark.parametrize("seed", [1, 2])
def test_gradients_of_a_random_schedule_on_threads(seed: int) -> None:
    """Decisions of outer products and of sums of all nodes are among those that are sampled."""
    chosen = run("biased", seed, grad=True) | run("rgcn", seed, grad=True)
    assert chosen >= {"strategy", "height", "depth", "resident"}


@pytest.mark.parametrize(("name", "seed"), [("gcn", 0), ("rgcn", 0), ("rgat", 0)])
def test_a_random_schedule_on_threads(name: str, seed: int) -> None:
    run(name, seed)


@pytest.mark.swept(3)
@pytest.mark.parametrize("seed", range(1, 12))
@pytest.mark.parametrize("name", SIZES)
def test_random_schedules_on_threads(name: str, seed: int) -> None:
    run(name, seed)
