"""A simulation whose samples come as they are taken, beside what its speed is held against: itself unoptimised, and
cores alone."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Span, rewrite
from explorer.compiler.kept import ByContent, content
from explorer.compiler.returned import each_returned, for_each_returned
from explorer.machine.parameters import WORD_BYTES, MachineParameters
from explorer.machine.spent import SpentCycles, Whose
from explorer.machine.summary import share
from explorer.runtime.runs import basis
from explorer.runtime.runs.events import Event, failed, machine_sample
from explorer.runtime.runs.request import Refused, RunRequest, compile_request
from explorer.runtime.targets import dae

Program = DlcProgram | Module


GENERAL: dict[str, str | int | bool] = dict.fromkeys(
    ("address_streams", "store_streams", "level_hints", "accumulate_streams", "toggle_callbacks"), False
)
"""Without what is done beside the levels (Ember §7.3 and §7.4)."""
UNOPTIMISED: dict[str, str | int | bool] = {"opt": 0, **GENERAL}
"""Ember's emb-opt0. A core alone that runs the same program is scalar code."""
VECTORISED: dict[str, str | int | bool] = {"opt": 1, "vlen": 16, **GENERAL}
"""With which a core alone runs code of 16 lanes, a vector a step."""
CORES = {"vectorised": VECTORISED, "scalar": UNOPTIMISED}
"""The cores alone that a speed is held against: the paper does not say how its code was compiled."""

MOST_COMPARED = 4_000_000
"""Programs that push more elements are not simulated again for a comparison: unoptimised, that takes ten times as long
as they did."""

MOST_RUN_BYTES = 64 << 20
SAMPLE_BYTES = 4096
"""What a sample and its share of a run's figures take, with some to spare."""
MOST_ACCOUNT_BYTES = 1 << 20
ACCOUNT_BYTES = 2048


@dataclass(frozen=True)
class _Ran:
    """A simulation that has ended, and the samples that it gave on its way."""

    result: dae.DaeResult
    samples: list[dae.Sample]

    @property
    def nbytes(self) -> int:
        arrays = (*each_returned(self.result.output), *self.result.gradients.values())
        return sum(int(array.nbytes) for array in arrays) + SAMPLE_BYTES * (len(self.samples) + 64)


_RAN = ByContent[_Ran](MOST_RUN_BYTES, lambda ran: ran.nbytes)
_ACCOUNTS = ByContent[dict[str, Any]](MOST_ACCOUNT_BYTES, lambda account: ACCOUNT_BYTES)
"""Of programs at the levels that runs are compared with: the cycles, and the account of the core alone."""


@dataclass(frozen=True)
class Simulated:
    """The result, what the JSON says of the machine, and what its cycles went to."""

    output: npt.NDArray[np.float32]
    gradients: dict[str, npt.NDArray[np.float32]]
    figures: dict[str, Any]
    spent: SpentCycles


def simulate(
    program: Program, inputs: Mapping[str, Any], parameters: MachineParameters, *, throughput: bool = False
) -> Generator[Event, None, Simulated]:
    """Simulates a program, streaming the machine's state; `throughput` as for `dae.simulate`.

    What a machine does that is simulated is the same every time: of a run that was, whatever its program was called and
    wherever its text stood, its samples are told again."""
    form = _form(program)
    key = content(repr(form.program), inputs, repr(parameters), throughput)
    known = _RAN.get(key)
    if known is None:
        known = yield from _simulated_now(form.program, inputs, parameters, throughput)
        _RAN.put(key, known)
    else:
        yield from map(machine_sample, known.samples)
    ran = known.result
    output: Any = for_each_returned(np.copy, ran.output)
    gradients = {name: array.copy() for name, array in ran.gradients.items()}
    kernels = [{**account, "name": name} for account, name in zip(ran.account["kernels"], form.names, strict=True)]
    figures = ran.to_json() | {"kernels": kernels, "basis": basis.of_run(parameters)}
    by_operation = {form.whose(place): cycles for place, cycles in ran.spent.by_operation.items()}
    return Simulated(output, gradients, figures, replace(ran.spent, by_operation=by_operation))


@dataclass(frozen=True)
class _Form:
    """A program without what no cycle depends on: its name and those of its parts, and where in the text the operations
    stand that it is of, which have their number in the place of their lines."""

    program: Program
    names: tuple[str, ...]
    origins: tuple[Whose, ...]

    def whose(self, number: Whose) -> Whose:
        """The operation of the text, or what a pass made, that has a number."""
        return self.origins[number.line] if isinstance(number, Span) else None


def _form(program: Program) -> _Form:
    parts = (program,) if isinstance(program, DlcProgram) else program.programs
    numbers: dict[Whose, int] = {}

    def numbered(node: Any) -> Any:
        named = {"name": ""} if isinstance(node, (DlcProgram, Module)) else {}
        if not node.origin:
            return replace(node, **named) if named else node
        number = numbers.setdefault(node.origin[0], len(numbers))
        return replace(node, origin=(Span(number, 0, 0, 0),), **named)

    return _Form(rewrite(program, numbered), tuple(part.name for part in parts), tuple(numbers))


def _simulated_now(
    program: Program, inputs: Mapping[str, Any], parameters: MachineParameters, throughput: bool
) -> Generator[Event, None, _Ran]:
    samples: list[dae.Sample] = []

    def work(post: Callable[[Event], None]) -> dae.DaeResult:
        def tell(sample: dae.Sample) -> None:
            samples.append(sample)
            post(machine_sample(sample))

        return dae.simulate(program, inputs, parameters, tell, throughput=throughput)

    result = yield from streamed(work)
    return _Ran(result, samples)


def simulate_compared(
    request: RunRequest, compilation: Compilation, inputs: Mapping[str, Any]
) -> Generator[Event, None, Simulated]:
    """Simulates the program at its level, streaming its state, and then what it is compared with.

    `core_alone` has the accounts of CORES, an assumed baseline, and `speedup_over` says how many times as long they and
    the unoptimised program take; None for a program of too many elements. What is done for a model in particular is no
    work of a core alone. Raises Refused where there is no program, and ValueError for parameters that the machine does
    not take."""
    program, parameters = decoupled(compilation), MachineParameters.of(request.machine)
    ran = yield from simulate(program, inputs, parameters, throughput=True)
    figures = ran.figures
    elements = (figures["access"]["payload_bytes"] + figures["access"]["stored_bytes"]) // WORD_BYTES
    accounts: dict[str, Any] = dict.fromkeys(CORES)
    if elements <= MOST_COMPARED:
        accounts = {name: _compared(request, options, inputs, parameters) for name, options in CORES.items()}
    alone = {name: account and account["core_alone"] for name, account in accounts.items()}
    opt0 = accounts["scalar"]
    if UNOPTIMISED.items() <= compilation.options.to_json().items():
        opt0 = figures
    over = {
        "opt0": opt0 and share(opt0["cycles"], figures["cycles"]),
        "core_alone": {name: core and share(core["cycles"], figures["cycles"]) for name, core in alone.items()},
    }
    return Simulated(
        ran.output,
        ran.gradients,
        {**figures, "core_alone": alone, "speedup_over": over},
        ran.spent,
    )


def _compared(
    request: RunRequest,
    options: Mapping[str, str | int | bool],
    inputs: Mapping[str, Any],
    parameters: MachineParameters,
) -> dict[str, Any]:
    """The cycles of a request's program with other options, and the account of the core alone that runs it."""
    other = decoupled(compile_request(replace(request, options={**request.options, **options}, edited={})))

    def account() -> dict[str, Any]:
        found = dae.simulate(other, inputs, parameters, core_alone=True, traced=False).to_json()
        return {name: found[name] for name in ("cycles", "core_alone")}

    return _ACCOUNTS.made(content(repr(_form(other).program), inputs, repr(parameters)), account)


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
