"""Gradients that few parameters take of all nodes, edges, triples or entries, on the emulator: of a graph, of a single
node, and of a graph without edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.cases.checked import cases_of
from benchmarks.gpu_check import Setting, check_model
from explorer.runtime.data.graphs import GENERATED, GraphPreset, RelationalGraph, generate
from tests.compiler.parameters import PARAMETERS

NONE = np.zeros(0, dtype=np.int32)
GRAPHS = {
    "one node": generate("one node", GraphPreset(num_nodes=1, num_edges=1, num_ntypes=1, num_etypes=1, reach=1.0)),
    "no edges": RelationalGraph(
        name="no edges",
        source=GENERATED,
        num_nodes=3,
        num_etypes=2,
        num_ntypes=2,
        src=NONE,
        dst=NONE,
        etype=NONE,
        ntype=np.array([0, 1, 1], dtype=np.int32),
    ),
    "many pieces": generate("pieces", GraphPreset(num_nodes=300, num_edges=900, num_ntypes=2, num_etypes=3, reach=0.6)),
}
"""The last has more nodes and edges than a piece of a long sum."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PARAMETERS)
def test_gradients_of_parameters(emulated: Setting, name: str) -> None:
    for case in cases_of(PARAMETERS[name]):
        outcome = check_model(emulated, case)
        assert outcome["agrees"], outcome


@pytest.mark.sampled(8)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", PARAMETERS)
def test_gradients_of_parameters_over_other_graphs(emulated: Setting, name: str, graph: str) -> None:
    for case in cases_of(PARAMETERS[name]):
        if case.options["grad"] == "true":
            outcome = check_model(replace(emulated, graph=GRAPHS[graph]), case)
            assert outcome["agrees"], outcome
