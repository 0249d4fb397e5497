"""The machine against the plain interpreter of DLC: the same records, in the same order, and the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.compiler.interpret.dlc import pushed, run_dlc
from explorer.compiler.ir.dlc import DlcProgram, Pop
from explorer.machine.parameters import MachineParameters
from explorer.machine.simulation import Simulation
from explorer.runtime.dae import FIRST_RECORDS, simulate
from tests.compiler.models import EXAMPLES, compiled, draw_inputs
from tests.compiler.random_models import model_texts


def program_of(compilation: object) -> DlcProgram:
    program = compilation.stages["dlc"].program  # type: ignore[attr-defined]
    assert isinstance(program, DlcProgram)
    return program


@pytest.mark.parametrize("negatives", ["none", "tail:3", "head:2"])
@pytest.mark.parametrize("size", [1, 5, 17])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_compute_what_the_interpreter_does(example: Path, size: int, negatives: str) -> None:
    text = example.read_text()
    sizes = dict.fromkeys(compiled(text).sizes, size)
    compilation = compiled(text, sizes=sizes, options={"negatives": negatives})
    inputs = draw_inputs(compilation, batch=4)
    program = program_of(compilation)
    for queue_bytes in (64, 8192):
        result = simulate(program, inputs, MachineParameters(queue_bytes=queue_bytes))
        (want,) = run_dlc(program, inputs).values()
        np.testing.assert_allclose(result.output, want, rtol=1e-6, atol=1e-6)
    records = [(record["token"], tuple(record["values"])) for record in result.account["pushed_first"]]
    assert records == pushed(program, inputs, FIRST_RECORDS)


@settings(max_examples=40)
@given(text=model_texts(), spare_bytes=st.integers(0, 200), control_tokens=st.integers(1, 40))
def test_random_models_compute_what_the_interpreter_does(text: str, spare_bytes: int, control_tokens: int) -> None:
    compilation = compiled(text)
    inputs = draw_inputs(compilation, batch=3)
    program = program_of(compilation)
    queue_bytes = 4 * max(sum(isinstance(s, Pop) for s in case.body) for case in program.execute) + spare_bytes
    queue_bytes = max(4, queue_bytes)
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
