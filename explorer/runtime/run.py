"""One run of a model on a target, checked against the float64 reference, told as events while it goes.

The order is: compile, load the triples, draw the batch, score it in float64, make the target ready, run. So a
wrong kernel is found at its first run and is never timed.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

import explorer
from explorer.compiler.compilation import Compilation
from explorer.runtime import batch, bounds, reference
from explorer.runtime.check import RELATIVE_TO, Check, compare
from explorer.runtime.events import Event, failed, machine_sample, progress, result, started, timed_sample
from explorer.runtime.inputs import InputError, Triples, load_triples

Target = Literal["dae", "cpu", "gpu"]
Arrays = dict[str, npt.NDArray[Any]]

DEFAULT_DATA = "FB15k-237"
DEFAULT_BATCH = 1_024
DEFAULT_REPEAT = 20

STEPS = 6
"""Steps that a run's progress counts to."""
NO_GPU = "This build does not run kernels on a GPU yet: look at the cuda and ptx stages, and run on cpu or dae."
MACHINE = "simulated machine: a core with an access unit (Ember Fig. 5)"
MISMATCH = "The scores differ from the float64 reference, so no time is shown. This is a fault in the explorer."
BEYOND_FLOAT32 = (
    "float32 cannot hold this model's intermediate values: scores overflow or vanish that float64 can hold, so no time"
    " is shown. Scale the model's values."
)


@dataclass(frozen=True)
class RunRequest:
    """What to run, on what, over which triples; all of it fits in JSON.

    `data` is a preset or a file: the name of one in `data_dir`, or any path where that is None. `machine` sets
    parameters of the simulated machine by name.
    """

    text: str
    on: Target
    name: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, str | int | bool] = field(default_factory=dict)
    data: str = DEFAULT_DATA
    data_dir: str | None = None
    batch: int = DEFAULT_BATCH
    repeat: int = DEFAULT_REPEAT
    seed: int = 0
    machine: Mapping[str, int | float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> RunRequest:
        return cls(**fields)


@dataclass(frozen=True)
class _Setup:
    """A compiled model with its batch and the scores that it must give."""

    request: RunRequest
    compilation: Compilation
    triples: Triples
    inputs: Arrays
    want: npt.NDArray[np.float64]

    def check(self, scores: npt.NDArray[np.float32]) -> Check:
        """Holds scores against those that the model must give."""
        return compare(scores, self.want, plain=lambda: self.plain)

    @cached_property
    def plain(self) -> npt.NDArray[np.float64]:
        """The scores that NumPy gives in float32."""
        return _reference(self.request, self.compilation, self.inputs, np.float32)


class Refused(Exception):
    """The run cannot be done as asked; carries its last event."""

    def __init__(self, event: Event) -> None:
        super().__init__(event["message"])
        self.event = event


def execute(request: RunRequest) -> Iterator[Event]:
    """Run a model, yielding events; the last is `result` or `failed`. Faults of the explorer itself raise."""
    try:
        if request.on == "gpu":
            raise Refused(failed("refused", NO_GPU))
        yield progress("compiling the model", 0, STEPS)
        compilation = compile_request(request)
        if compilation.family == "layer":
            from explorer.runtime.run_layer import execute_layer

            yield from execute_layer(request, compilation)
            return
        if compilation.family == "op":
            from explorer.runtime.run_op import execute_op

            yield from execute_op(request, compilation)
            return
        if compilation.options.grad:
            from explorer.runtime.run_gradients import execute_gradients

            yield from execute_gradients(request, compilation)
            return
        setup = yield from _prepare(request, compilation)
        yield from _TARGETS[request.on](setup)
    except Refused as refused:
        yield refused.event
    except InputError as error:
        yield failed("refused", sentence(error))
    except MemoryError:
        yield failed(
            "memory",
            "The run needs more memory than it may use.",
            "Make the sizes, the batch or the negatives smaller.",
        )


def _prepare(request: RunRequest, compilation: Compilation) -> Generator[Event, None, _Setup]:
    """Everything before the target is involved."""
    yield progress(f"loading {request.data}", 1, STEPS)
    triples = load_triples(request.data, None if request.data_dir is None else Path(request.data_dir))
    yield progress(f"drawing {request.batch:,} triples and the parameters", 2, STEPS)
    inputs = batch.draw(compilation, triples, request.batch, request.seed)
    yield progress("scoring the batch in float64, for the check", 3, STEPS)
    want = _reference(request, compilation, inputs, np.float64)
    return _Setup(request, compilation, triples, inputs, want)


def _reference(
    request: RunRequest, compilation: Compilation, inputs: Arrays, dtype: npt.DTypeLike
) -> npt.NDArray[np.float64]:
    negatives = str(compilation.options.to_json()["negatives"])
    return reference.score(request.text, inputs, compilation.sizes, compilation.name, negatives, dtype)


def compile_request(request: RunRequest, counts: Mapping[str, int] | None = None, counted_on: str = "") -> Compilation:
    """The request's model, its costs counted on a graph of these sizes. Raises Refused."""
    compilation = explorer.compile(
        request.text,
        sizes=request.sizes,
        options=request.options,
        name=request.name,
        counts=counts,
        counted_on=counted_on,
    )
    if not compilation.ok:
        diagnostics = [diagnostic.to_json(request.text) for diagnostic in compilation.diagnostics]
        first = diagnostics[0]["message"] if diagnostics else "it has no definition to run"
        more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
        raise Refused(failed("error", f"The model does not compile: {first}{more}.", "Correct the model.", diagnostics))
    return compilation


def _run_cpu(setup: _Setup) -> Iterator[Event]:
    """Compile the loops to machine code, check the first run, then time `repeat` more and check each."""
    from explorer.runtime import cpu

    program = _program(setup, "loops")
    yield started("cpu", cpu.device_name(), "measured")
    yield progress("compiling the loops to machine code", 4, STEPS)
    kernel = cpu.prepare_once(program)
    began = perf_counter()
    scores = kernel(setup.inputs)
    first_ms = (perf_counter() - began) * 1e3
    check = setup.check(scores)
    yield progress("running", 5, STEPS)
    samples: list[float] = []
    for index in range(setup.request.repeat):
        if not check.matches:
            break
        began = perf_counter()
        scores = kernel(setup.inputs)
        samples.append((perf_counter() - began) * 1e3)
        check = worse(check, setup.check(scores))
        yield timed_sample(index, samples[-1])
    times = statistics(samples) if check.matches else dict.fromkeys(statistics([0.0]))
    yield result(
        {
            **_description(setup, check, "measured", kernel.device),
            "samples_ms": samples if check.matches else None,
            **times,
            "first_ms": first_ms if check.matches else None,
            "cache": "warm",  # each repeat reads the arrays of the one before
            "repeat": setup.request.repeat,
            "compile_ms": kernel.compile_ms,
        }
    )


def _run_dae(setup: _Setup) -> Iterator[Event]:
    """Simulate the decoupled program once, streaming the machine's state."""
    from explorer.machine.parameters import MachineParameters
    from explorer.runtime import dae

    program = _program(setup, "dlc")
    try:
        parameters = MachineParameters.of(setup.request.machine)
        yield started("dae", MACHINE, "simulated")
        yield progress("simulating the machine (the first time on a computer, its simulator is compiled)", 4, STEPS)
        simulation = yield from streamed(
            lambda post: dae.simulate(program, setup.inputs, parameters, lambda sample: post(machine_sample(sample)))
        )
    except ValueError as error:
        # What the machine says of its parameters, and of a record that is larger than its queue.
        raise Refused(failed("refused", sentence(error))) from None
    check = setup.check(simulation.output)
    figures = simulation.to_json()
    if not check.matches:
        figures = dict.fromkeys(figures)
    yield result({**_description(setup, check, "simulated", MACHINE), **figures})


def _program(setup: _Setup, name: str) -> Any:
    """The program of a stage that a target runs."""
    stage = setup.compilation.stages[name]
    if not stage.available:
        raise Refused(failed("refused", f"There is no {name} program to run: {stage.reason}"))
    return stage.program


_TARGETS: dict[str, Callable[[_Setup], Iterator[Event]]] = {"cpu": _run_cpu, "dae": _run_dae}


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


def _description(setup: _Setup, check: Check, source: Literal["measured", "simulated"], device: str) -> dict[str, Any]:
    """What `description` tells, and the limits of the batch."""
    limits = bounds.limits(_program(setup, "graph"), setup.inputs)
    return {**description(setup, check, source, device), "limits": limits}


class Described(Protocol):
    """What ran, of any run of a score."""

    @property
    def request(self) -> RunRequest: ...
    @property
    def compilation(self) -> Compilation: ...
    @property
    def triples(self) -> Triples: ...


def description(
    setup: Described, check: Check, source: Literal["measured", "simulated"], device: str
) -> dict[str, Any]:
    """The part of a result that every target has: what ran, on what, and whether it was right."""
    request, compilation, triples = setup.request, setup.compilation, setup.triples
    error = check.max_relative_error
    return {
        "matches_reference": check.matches,
        "max_relative_error": error if np.isfinite(error) else None,
        "error_relative_to": RELATIVE_TO,
        "median_magnitude": check.median_magnitude,
        "tolerance": check.tolerance,
        "plain_float32_error": check.plain_error,
        "rows_checked": check.rows,
        "message": "" if check.matches else BEYOND_FLOAT32 if check.beyond_float32 else MISMATCH,
        "name": compilation.name,
        "target": request.on,
        "device": device,
        "source": source,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": {
            "name": triples.name,
            "source": triples.source,
            "entities": triples.num_entities,
            "relations": triples.num_relations,
            "triples": len(triples.h),
        },
        "batch": request.batch,
        "seed": request.seed,
        "negatives": compilation.options.to_json()["negatives"],
        "sizes": dict(compilation.sizes),
        "options": compilation.options.to_json(),
    }


def worse(one: Check, other: Check) -> Check:
    return max(one, other, key=lambda check: check.max_relative_error)


def statistics(samples: list[float]) -> dict[str, float]:
    """The figures shown of a list of times in milliseconds."""
    return {
        "median_ms": float(np.median(samples)),
        "p5_ms": float(np.percentile(samples, 5)),
        "p95_ms": float(np.percentile(samples, 95)),
        "least_ms": min(samples),
    }


def sentence(error: Exception) -> str:
    """An error's message with a capital, unless it begins with a file's name, and a full stop."""
    text = str(error)
    if text.split(" ")[0].isalpha():
        text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."
