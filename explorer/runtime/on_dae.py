"""A run on the simulated machine: the decoupled programs once, with the machine's state told while they run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from explorer.compiler.language.diagnostics import DiagnosticsError
from explorer.machine.assembly.assembly import AssemblyError
from explorer.machine.faults import MachineError
from explorer.machine.parameters import MachineParameters
from explorer.machine.summary import share
from explorer.runtime import against
from explorer.runtime.runs import simulate as dae_run
from explorer.runtime.runs.events import Event, failed, progress, result, started
from explorer.runtime.runs.request import CHECKING, PREPARING, STEPS, Outcome, Refused, RunRequest, Setup, sentence
from explorer.runtime.runs.written import DIFFERS, read_written
from explorer.runtime.shares.spent import of_cycles
from explorer.runtime.targets import dae

MACHINE = "simulated machine: a core with an access unit (Ember Fig. 5)"


def ready(request: RunRequest) -> RunRequest:
    """The request as it is: there is always a machine to simulate."""
    return request


def run(setup: Setup) -> Iterator[Event]:
    """Simulates what is set up; the last event is `result`. Raises Refused and InputError."""
    program, request = setup.program("dlc"), setup.request
    inputs = setup.inputs()
    try:
        parameters = MachineParameters.of(request.machine)
        yield started(request.on, MACHINE)
        yield progress(
            "simulating the machine (the first time on a computer, its simulator is compiled)", PREPARING, STEPS
        )
        if request.written:
            simulated = yield from _simulate_written(setup, inputs, parameters)
        elif setup.compared:
            simulated = yield from dae_run.simulate_compared(request, setup.compilation, inputs)
        else:
            simulated = yield from dae_run.simulate(program, inputs, parameters)
    except (AssemblyError, MachineError) as error:
        if not setup.compilation.edits:
            raise
        raise Refused(failed("refused", f"The edited program cannot be run: {error}.", "Correct it.")) from None
    except ValueError as error:
        # What the machine says of its parameters, and of a record that is larger than its queue.
        raise Refused(failed("refused", sentence(error))) from None

    got, gradients = setup.finished(simulated.output, simulated.gradients)
    check = setup.check(got)
    if check.matches and gradients:
        yield progress("checking the gradients against those in float64", CHECKING, STEPS)
        setup.check_gradients(gradients, _again(program, parameters))
    figures = simulated.figures if setup.right(check) else dict.fromkeys(simulated.figures)
    if setup.right(check):
        spent = of_cycles(simulated.spent, simulated.figures)
        figures = {**figures, "spent": spent.to_json(setup.compilation.operations)}
    described = setup.description(check, MACHINE)
    if request.written and not setup.right(check):
        described["message"] = DIFFERS
    if setup.against is not None and setup.right(check):
        yield progress("simulating side A", CHECKING, STEPS)
        figures["against"] = _side_a(setup.against, parameters, simulated.figures["cycles"])
    yield result({**described, **figures})


def _again(program: Any, parameters: MachineParameters) -> Callable[[Mapping[str, Any]], Outcome]:
    def simulate(arrays: Mapping[str, Any]) -> Outcome:
        ran = dae.simulate(program, arrays, parameters, traced=False)
        return ran.output, ran.gradients

    return simulate


def _side_a(setup: Setup, parameters: MachineParameters, cycles: float) -> dict[str, Any]:
    """The other side of a comparison, once: what a machine takes that is simulated is the same every time."""
    program = setup.program("dlc")
    try:
        ran = dae.simulate(program, setup.inputs(), parameters)
    except ValueError as error:
        return against.described(setup, sentence(error))
    got, gradients = setup.finished(ran.output, ran.gradients)
    check = setup.check(got)
    if check.matches and gradients:
        setup.check_gradients(gradients, _again(program, parameters))
    reason = "" if setup.right(check) else setup.why_not(check)
    spent = of_cycles(ran.spent, ran.to_json()).to_json(setup.compilation.operations)
    return against.simulated(setup, reason, ran.to_json() | {"spent": spent}, cycles)


def _simulate_written(
    setup: Setup, inputs: Mapping[str, Any], parameters: MachineParameters
) -> Generator[Event, None, dae_run.Simulated]:
    """Simulates the program that a person wrote, and what the compiled one takes beside it. Raises Refused."""
    if setup.compilation.options.grad:
        raise Refused(failed("refused", "A program that is given computes the result alone, no gradients."))
    try:
        program = read_written(setup.request.written, setup.compilation)
        simulated = yield from dae_run.simulate(program, inputs, parameters)
    except DiagnosticsError as error:
        found = [diagnostic.to_json(setup.request.written) for diagnostic in error.diagnostics]
        message = f"The program cannot be run: {error.diagnostics[0].message}."
        raise Refused(failed("refused", message, "Correct the program.", found)) from None
    except (AssemblyError, MachineError) as error:
        raise Refused(failed("refused", f"The program cannot be run: {error}.", "Correct the program.")) from None
    compiled = dae.simulate(setup.program("dlc"), inputs, parameters, traced=False).to_json()["cycles"]
    over = {**simulated.figures.get("speedup_over", {}), "compiled": share(compiled, simulated.figures["cycles"])}
    return dae_run.Simulated(simulated.output, {}, {**simulated.figures, "speedup_over": over}, simulated.spent)
