"""A run on this processor: the loops as machine code, checked at the first run, then timed and checked each time."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from explorer.runtime.runs.events import Event, failed, progress, result, started, timed_sample
from explorer.runtime.runs.request import (
    CHECKING,
    OUTSIDE,
    PREPARING,
    RUNNING,
    STEPS,
    Refused,
    RunRequest,
    Setup,
    worse,
)
from explorer.runtime.targets import cpu
from explorer.runtime.times import statistics


def ready(request: RunRequest) -> RunRequest:
    """The request as it is: there is always a processor."""
    return request


def run(setup: Setup) -> Iterator[Event]:
    """Runs and times what is set up; the last event is `result`. Raises Refused and InputError."""
    program = setup.program("loops")
    yield started(setup.request.on, cpu.device_name())
    yield progress("compiling the loops to machine code", PREPARING, STEPS)
    prepared = cpu.prepare_once(program, bool(setup.compilation.edits))
    inputs = setup.inputs()
    began = perf_counter()
    bound = prepared.bind(inputs)
    try:
        outcome = bound.run()
    except IndexError as error:
        raise Refused(failed("refused", OUTSIDE, "Correct the edited stage.")) from error
    first_ms = (perf_counter() - began) * 1e3
    yield progress("checking the result against that in float64", CHECKING, STEPS)
    got, gradients = setup.finished(*outcome)
    check = setup.check(got)
    if check.matches and gradients:
        yield progress("checking the gradients against those in float64", CHECKING, STEPS)
        setup.check_gradients(gradients, lambda arrays: prepared.bind(arrays).run())
    yield progress("running", RUNNING, STEPS)
    samples: list[float] = []
    for index in range(setup.request.repeat):
        if not setup.right(check):
            break
        began = perf_counter()
        outcome = (prepared.bind(inputs) if setup.renews else bound).run()
        samples.append((perf_counter() - began) * 1e3)
        check = worse(check, setup.check(setup.finished(*outcome)[0]))
        yield timed_sample(index, samples[-1])
    right = setup.right(check)
    yield result(
        {
            **setup.description(check, prepared.device),
            "samples_ms": samples if right else None,
            **(statistics(samples) if right else dict.fromkeys(statistics([0.0]))),
            "first_ms": first_ms if right else None,
            "cache": "warm",  # each repeat reads the arrays of the one before
            "repeat": setup.request.repeat,
            "compile_ms": prepared.compile_ms,
            "peak_bytes": bound.peak_bytes,
        }
    )
