"""An op on the simulated machine, beside what its speed is held against: itself unoptimised, and the core alone."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.dlc import DlcProgram
from explorer.compiler.ir.module import Module
from explorer.machine.parameters import MachineParameters
from explorer.runtime import dae
from explorer.runtime.events import Event, failed, machine_sample, progress
from explorer.runtime.run import Refused, RunRequest, compile_request, streamed

Program = DlcProgram | Module


@dataclass(frozen=True)
class Simulated:
    """The result, and what the JSON says of the machine."""

    output: npt.NDArray[np.float32]
    figures: dict[str, Any]


def simulate(
    request: RunRequest, compilation: Compilation, inputs: Mapping[str, Any], steps: int
) -> Generator[Event, None, Simulated]:
    """Simulates the op at its level, and unoptimised where that is another; the last figures compare them.

    Raises Refused where there is no program, and ValueError for parameters that the machine does not take."""
    program, parameters = decoupled(compilation), MachineParameters.of(request.machine)
    ran = yield from streamed(
        lambda post: dae.simulate(program, inputs, parameters, lambda sample: post(machine_sample(sample)))
    )
    figures = ran.to_json()
    cycles = {"opt0": figures["cycles"]}
    if compilation.options.opt:
        yield progress("simulating the same op at opt 0, to compare with", steps - 1, steps)
        plain = compile_request(replace(request, options={**request.options, "opt": 0}))
        cycles["opt0"] = dae.simulate(decoupled(plain), inputs, parameters).to_json()["cycles"]
    return Simulated(ran.output, {**figures, "speedup_over": ratios(cycles, figures["cycles"])})


def ratios(cycles: Mapping[str, float], own: float) -> dict[str, float | None]:
    """How many times as long each of the others takes; None where this one takes no time."""
    return {name: value / own if own else None for name, value in cycles.items()}


def decoupled(compilation: Compilation) -> Program:
    """The DLC of an op. Raises Refused where there is none."""
    stage = compilation.stages["dlc"]
    if not isinstance(stage.program, Program):
        raise Refused(failed("refused", f"There is no dlc program to run: {stage.reason}"))
    return stage.program
