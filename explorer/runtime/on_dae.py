"""A run on the simulated machine: the decoupled programs once, with the machine's state told while they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from explorer.machine.parameters import MachineParameters
from explorer.runtime import dae, dae_run
from explorer.runtime.events import Event, failed, progress, result, started
from explorer.runtime.setup import CHECKING, PREPARING, STEPS, Outcome, Refused, RunRequest, Setup, sentence

MACHINE = "simulated machine: a core with an access unit (Ember Fig. 5)"


def ready(request: RunRequest) -> RunRequest:
    """The request as it is: there is always a machine to simulate."""
    return request


def run(setup: Setup) -> Iterator[Event]:
    """Simulates what is set up; the last event is `result`. Raises Refused and InputError."""
    program = setup.program("dlc")
    inputs = setup.inputs()
    try:
        parameters = MachineParameters.of(setup.request.machine)
        yield started("dae", MACHINE, "simulated")
        yield progress(
            "simulating the machine (the first time on a computer, its simulator is compiled)", PREPARING, STEPS
        )
        if setup.compared:
            simulated = yield from dae_run.simulate_compared(setup.request, setup.compilation, inputs)
        else:
            simulated = yield from dae_run.simulate(program, inputs, parameters)
    except ValueError as error:
        # What the machine says of its parameters, and of a record that is larger than its queue.
        raise Refused(failed("refused", sentence(error))) from None

    def again(arrays: Mapping[str, Any]) -> Outcome:
        other = dae.simulate(program, arrays, parameters)
        return other.output, other.gradients

    got, gradients = setup.finished(simulated.output, simulated.gradients)
    check = setup.check(got)
    if check.matches and gradients:
        yield progress("checking the gradients against those in float64", CHECKING, STEPS)
        setup.check_gradients(gradients, again)
    figures = simulated.figures if setup.right(check) else dict.fromkeys(simulated.figures)
    yield result({**setup.description(check, "simulated", MACHINE), **figures})
