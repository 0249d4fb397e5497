"""The emulator as what `benchmarks.gpu_check` launches on, and its cases as parameters of tests."""

from __future__ import annotations

import os
import shutil

import pytest

from benchmarks.gpu_check import Setting
from explorer.runtime.data.graphs import GraphPreset, generate
from tests.emulator.emulate import COMPILER
from tests.emulator.launch import launch

FEW_EDGES = GraphPreset(num_nodes=29, num_edges=70, num_ntypes=3, num_etypes=6, reach=0.6)
"""Some nodes have no edge, some edges are parallel; more nodes than one block has warps, and not a multiple."""
FEW_LISTS = 19


@pytest.fixture(scope="session")
def compiler() -> str:
    """The C++ compiler. A machine without one skips these tests; CI must have it."""
    path = shutil.which(COMPILER)
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI has no {COMPILER}: apt-get install {COMPILER}")
        pytest.skip(f"no {COMPILER} on this machine: apt-get install {COMPILER}")
    return path


@pytest.fixture(scope="session")
def emulated(compiler: str) -> Setting:
    """What checks cases without a GPU: every kernel once, for a fault shows in any order of its threads."""
    return Setting(launch, 1, generate("few edges", FEW_EDGES), FEW_LISTS)
