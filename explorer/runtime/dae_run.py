"""A simulation whose samples come as they are taken, beside what its speed is held against: itself unoptimised, and
the core alone."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.dlc import DlcProgram
from explorer.compiler.ir.module import Module
from explorer.machine.parameters import WORD_BYTES, MachineParameters
from explorer.machine.summary import share
from explorer.runtime import dae
from explorer.runtime.events import Event, failed, machine_sample
from explorer.runtime.setup import Refused, RunRequest, compile_request

Program = DlcProgram | Module


GENERAL: dict[str, str | int | bool] = dict.fromkeys(
    ("address_streams", "store_streams", "level_hints", "accumulate_streams", "toggle_callbacks"), False
)
"""Without what is done beside the levels (Ember §7.3 and §7.4)."""
UNOPTIMISED: dict[str, str | int | bool] = {"opt": 0, **GENERAL}
"""Ember's emb-opt0."""


MOST_COMPARED = 4_000_000
"""Programs that push more elements are not simulated again unoptimised: that takes ten times as long as they did."""


@dataclass(frozen=True)
class Simulated:
    """The result, and what the JSON says of the machine."""

    output: npt.NDArray[np.float32]
    gradients: dict[str, npt.NDArray[np.float32]]
    figures: dict[str, Any]


def simulate(
    program: Program, inputs: Mapping[str, Any], parameters: MachineParameters, *, throughput: bool = False
) -> Generator[Event, None, Simulated]:
    """Simulates a program and the core alone, streaming the machine's state; `throughput` as for `dae.simulate`."""
    ran = yield from streamed(
        lambda post: dae.simulate(
            program,
            inputs,
            parameters,
            lambda sample: post(machine_sample(sample)),
            core_alone=True,
            throughput=throughput,
        )
    )
    return Simulated(ran.output, ran.gradients, ran.to_json())


def simulate_compared(
    request: RunRequest, compilation: Compilation, inputs: Mapping[str, Any]
) -> Generator[Event, None, Simulated]:
    """Simulates the program at its level, streaming its state, and then what it is compared with.

    `speedup_over` says how many times as long the unoptimised program takes (None for one of too many elements), and
    the core alone, for which what is done for a model in particular is no work of its own. Raises Refused where there
    is no program, and ValueError for parameters that the machine does not take."""
    program, parameters = decoupled(compilation), MachineParameters.of(request.machine)
    ran = yield from simulate(program, inputs, parameters, throughput=True)
    figures = ran.figures
    cycles: dict[str, float | None] = {"opt0": figures["cycles"], "core_alone": figures["core_alone"]["cycles"]}
    elements = (figures["access"]["payload_bytes"] + figures["access"]["stored_bytes"]) // WORD_BYTES
    for name, options, alone in (("opt0", UNOPTIMISED, False), ("core_alone", GENERAL, True)):
        if {**compilation.options.to_json(), **options} == compilation.options.to_json():
            continue
        cycles[name] = None
        if elements <= MOST_COMPARED:
            other = decoupled(compile_request(replace(request, options={**request.options, **options})))
            account = dae.simulate(other, inputs, parameters, core_alone=alone).to_json()
            cycles[name] = (account["core_alone"] if alone else account)["cycles"]
            figures |= {"core_alone": account["core_alone"]} if alone else {}
    over = {name: None if other is None else share(other, figures["cycles"]) for name, other in cycles.items()}
    return Simulated(ran.output, ran.gradients, {**figures, "speedup_over": over})


def decoupled(compilation: Compilation) -> Program:
    """The DLC. Raises Refused where there is none."""
    stage = compilation.stages["dlc"]
    if not isinstance(stage.program, Program):
        raise Refused(failed("refused", f"There is no dlc program to run: {stage.reason}"))
    return stage.program


def streamed(work: Callable[[Callable[[Event], None]], Any]) -> Generator[Event, None, Any]:
    """Run `work(post)` in a thread, yielding what it posts as it comes; returns or raises what it does."""
    posted: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    outcome: list[Any] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            outcome.append(work(posted.put))
        except BaseException as error:
            errors.append(error)
        finally:
            posted.put(None)

    threading.Thread(target=call, name="simulation", daemon=True).start()
    while (event := posted.get()) is not None:
        yield event
    if errors:
        raise errors[0]
    return outcome[0]
