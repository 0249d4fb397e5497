"""Segments with a kernel of their own, on the emulator, over a graph of which one node has most of the edges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.cases.checked import cases_of
from benchmarks.gpu_check import Setting, check_model
from explorer.runtime.data.graphs import GraphPreset, generate
from tests.compiler.schedule.segment_models import SEGMENT_MODELS

SKEWED = generate("skewed", GraphPreset(num_nodes=37, num_edges=700, num_ntypes=2, num_etypes=3, reach=0.4))
"""Nodes of no edge, of a few, and of more than a piece has."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SEGMENT_MODELS)
def test_a_segment_by_itself(emulated: Setting, name: str) -> None:
    for case in cases_of(SEGMENT_MODELS[name]):
        outcome = check_model(replace(emulated, graph=SKEWED), case)
        assert outcome["agrees"], (case.options, outcome)
