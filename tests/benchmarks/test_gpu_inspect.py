"""What `benchmarks.gpu_inspect` binds and judges; its times, no test here can tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from benchmarks import gpu_inspect
from explorer.checkout import CHECKOUT
from explorer.runtime.data.triples import load_triples
from explorer.runtime.targets.gpu.program import GpuProgram


@pytest.mark.sampled(2)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("negatives", ["none", "tail:3"])
def test_all_settings_take_the_same_arrays(negatives: str, grad: bool) -> None:
    text = (CHECKOUT / "examples" / "kge" / "transr.emb").read_text()
    wanted = []
    for setting in gpu_inspect.SETTINGS:
        options = {"negatives": negatives, "grad": grad, "inspect": setting}
        compilation = explorer.compile(text, sizes={"D": 8, "K": 8}, options=options, on_demand=True)
        arrays, extents = gpu_inspect.inputs_of(compilation, load_triples("WN18"), 20)
        given = {buffer.name for buffer in GpuProgram.of(compilation).code.buffers if buffer.kind != "output"}
        made = {buffer.name for buffer in GpuProgram.of(compilation).code.buffers if buffer.name not in arrays}
        assert given - made <= arrays.keys()
        assert extents["B"] == 20
        wanted.append({name: array.shape for name, array in arrays.items()})
    assert wanted[0] == wanted[1] == wanted[2]


def test_a_result_or_a_gradient_that_differs_is_told() -> None:
    one, zero = np.ones(4), np.zeros(4)
    assert gpu_inspect.difference((one, {"E": one}), (one, {"E": one})) == 0
    assert gpu_inspect.difference((one, {"E": one}), (one, {"E": one * 2})) == 0.5
    assert gpu_inspect.difference((zero, {}), (one, {})) == 1
    row: dict[str, Any] = {"row": "transr none", "by_chunks": "1 of 1 kernels", "differences": {"chunks": 1.0}}
    row |= {"true": {"ms": 2.0}, "chunks": {"ms": 4.0}, "false": {"error": "no room"}, "right": False}
    line = gpu_inspect.line_of(row)
    assert "0.50" in line
    assert "WRONG: differs by {'chunks': 1.0}; false: no room" in line


def test_without_a_gpu_nothing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_inspect.main([]) == 2
    assert "there is no GPU to use" in capsys.readouterr().err
