"""The machine against the plain interpreter of DLC: the same records, in the same order, and the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.compiler.interpret.dlc import pushed, run_dlc
from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.machine.parameters import MachineParameters
from explorer.machine.simulation import Simulation
from explorer.runtime.targets.dae import FIRST_RECORDS, simulate
from tests.compiler.models import EXAMPLES, compiled, draw_inputs
from tests.compiler.random_models import model_texts


def program_of(compilation: object) -> DlcProgram:
    program = compilation.stages["dlc"].program  # type: ignore[attr-defined]
    assert isinstance(program, DlcProgram)
    return program


@pytest.mark.sampled(8)
@pytest.mark.parametrize("opt", range(4))
@pytest.mark.parametrize("negatives", ["none", "tail:3", "head:2"])
@pytest.mark.parametrize("size", [1, 5, 17])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_compute_what_the_interpreter_does(example: Path, size: int, negatives: str, opt: int) -> None:
    text = example.read_text()
    sizes = dict.fromkeys(compiled(text, on_demand=True).sizes, size)
    options = {"negatives": negatives, "opt": opt, "vlen": 4}
    compilation = compiled(text, sizes=sizes, options=options, on_demand=True)
    inputs = draw_inputs(compilation, batch=4)
    program = program_of(compilation)
    for queue_bytes, cores in ((128 if opt < 2 else 512, 1), (8192, 3)):
        result = simulate(program, inputs, MachineParameters(queue_bytes=queue_bytes, cores=cores))
        (want,) = run_dlc(program, inputs).values()
        np.testing.assert_allclose(result.output, want, rtol=1e-5, atol=1e-5)
    records = [(record["token"], tuple(record["values"])) for record in first_records(program, inputs)]
    assert records == [
        (token, tuple(float(word) if isinstance(word, float) else word for value in values for word in np.ravel(value)))
        for token, values in pushed(program, inputs, FIRST_RECORDS)
    ]


def first_records(program: DlcProgram, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    return Simulation(program, inputs, MachineParameters()).watch(FIRST_RECORDS)


@settings(max_examples=40)
@given(text=model_texts(), spare_bytes=st.integers(0, 200), control_tokens=st.integers(1, 40), opt=st.integers(0, 3))
def test_random_models_compute_what_the_interpreter_does(
    text: str, spare_bytes: int, control_tokens: int, opt: int
) -> None:
    compilation = compiled(text, options={"opt": opt})
    inputs = draw_inputs(compilation, batch=3)
    program = program_of(compilation)
    records = pushed(program, inputs, 1 << 20)
    queue_bytes = max(4, *(4 * sum(np.size(value) for value in values) for _, values in records)) + spare_bytes
    simulation = Simulation(program, inputs, MachineParameters(queue_bytes=queue_bytes, control_tokens=control_tokens))
    assert simulation.advance(1 << 40)
    with np.errstate(all="ignore"):
        (got,), (want,) = simulation.outputs.values(), run_dlc(program, inputs).values()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    queues = simulation.account()["queues"]
    assert queues["control"]["pushes"] == queues["control"]["pops"] == simulation.assembly.records
    assert queues["data"]["bytes_pushed"] == queues["data"]["bytes_popped"]
    assert queues["data"]["peak_bytes"] <= queue_bytes
    assert queues["control"]["peak"] <= control_tokens
