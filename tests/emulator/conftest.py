"""The emulator as what `benchmarks.gpu_check` launches on, and its cases as parameters of tests."""

from __future__ import annotations

import os
import shutil
import zlib
from typing import Any

import numpy as np
import pytest

import explorer
from benchmarks.gpu_check import Setting
from explorer.runtime.arrays import as_declared, check_inputs
from explorer.runtime.data.graphs import GraphPreset, generate
from tests.emulator.emulate import COMPILER, emulate
from tests.emulator.facts import broken_facts

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


def launch(compilation: explorer.Compilation, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The result and the gradients of emulating each kernel once, as float64."""
    program: Any = compilation.stages["loops"].program
    code: Any = compilation.stages["cuda"].program
    code = as_declared(code, program)
    arrays, extents = check_inputs(program, inputs)
    result = getattr(program, "result", None) or next(b.name for b in code.buffers if b.kind == "output")
    gradients = dict(getattr(program, "gradients", ()))
    seed, results = zlib.crc32(compilation.name.encode()), {result, *gradients.values()}
    written = emulate(code, arrays, extents, seed, results)
    scheduled: Any = compilation.stages["kernels"].program
    facts = [fact for kernel in getattr(scheduled, "programs", (scheduled,)) for fact in kernel.facts]
    counted = {str(name): size for name, size in extents.items()}
    for name, count in code.counts:
        counted[name] = count.value(counted)
    broken = broken_facts(facts, {**arrays, **written}, counted)
    assert not broken, broken
    return written[result].astype(np.float64), {t: written[name].astype(np.float64) for t, name in gradients.items()}
