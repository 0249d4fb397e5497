"""Schedules that nobody chose, on threads: whatever a decision says, blocks, warps and lanes give the same numbers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmarks.gpu_check import CHECKOUT
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


def run(name: str, seed: int) -> None:
    """The kernels of a random schedule against what the loops compute."""
    text = (CHECKOUT / "examples" / "rgnn" / f"{name}.emb").read_text()
    policy = Sample(random.Random(seed))
    compilation = compile_model(text, sizes=SIZES[name], on_demand=True, policy=policy)
    graph, module = programs(compilation)
    encodings = encode(generate("a graph", GRAPH))
    inputs = program_inputs(graph, module, encodings, draw_tensors(graph, encodings.counts, seed=0))
    code = compilation.stages["cuda"].program
    assert isinstance(code, Code)
    want, _ = run_program(module, inputs)
    got = emulate(code, *check_inputs(module, inputs))[module.result]
    assert np.all(np.abs(got - want) <= 1e-4 * np.max(np.abs(want))), compilation.schedule


@pytest.mark.parametrize(("name", "seed"), [("gcn", 0), ("rgcn", 0), ("rgat", 0)])
def test_a_random_schedule_on_threads(name: str, seed: int) -> None:
    run(name, seed)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 12))
@pytest.mark.parametrize("name", SIZES)
def test_random_schedules_on_threads(name: str, seed: int) -> None:
    run(name, seed)
