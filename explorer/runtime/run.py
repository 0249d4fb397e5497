"""One run of a model on a target, checked against the float64 reference, told as events while it goes.

The order is: compile, set up (load or draw the data, compute the result in float64), make the target ready, run. So a
wrong kernel is found at its first run and is never timed. How a run is set up depends on the model's family, what is
done with it on the target alone: `setup` has what the two agree on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from importlib import import_module

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Diagnostic
from explorer.runtime.against import side_a
from explorer.runtime.data.triples import InputError
from explorer.runtime.runs.events import Event, failed, progress
from explorer.runtime.runs.expected import both, refuse_other_meaning
from explorer.runtime.runs.request import (
    DEFAULT_DATA,
    STEPS,
    Refused,
    RunRequest,
    Setup,
    compile_request,
    sentence,
)
from explorer.runtime.targets.table import TARGETS

__all__ = ["DEFAULT_DATA", "Refused", "RunRequest", "compile_request", "execute", "sentence"]

FAMILIES = {"score": "score", "layer": "layer", "op": "op"}
"""The modules that set up a run, each with `prepare`; loaded when a family is first run."""

TUNER = "explorer.tuner.tune.run"
"""The module that tunes, on any target: with `ready` and `run`, as a target's has them."""
REPLAYER = "explorer.tuner.tune.replayed"
"""The one that searches a recorded space, on no target."""
COMPILE_AGAIN = "Compile the text with these sizes and options and for this data, and run that."


def execute(request: RunRequest) -> Iterator[Event]:
    """Run a model, yielding events; the last is `result` or `failed`. Faults of the explorer itself raise."""
    target = import_module(TARGETS[request.on].run if request.tune is None else TUNER)
    run: Callable[[Setup], Iterator[Event]] = target.run
    try:
        if request.tune is not None and request.tune.get("replay"):
            yield from import_module(REPLAYER).run(request)
            return
        request = target.ready(request)
        yield progress("compiling the model", 0, STEPS)
        other: Setup | None = None
        if request.expected:
            request, expected = both(request)
            other = yield from _prepare(expected, compile_request(expected))
        compilation = compile_request(request)
        setup = yield from _prepare(request, compilation)
        refuse_another(request, setup.compilation)
        refuse_edited(request, setup.compilation)
        if request.against is not None:
            yield progress("compiling side A", 0, STEPS)
            first = target.ready(side_a(request))
            compared = yield from _prepare(first, compile_request(first))
            refuse_another(first, compared.compilation)
            refuse_edited(first, compared.compilation)
            setup = replace(setup, against=compared)
        if other is not None:
            refuse_other_meaning(setup, other)
        yield from run(setup)
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


def set_up(request: RunRequest) -> Setup:
    """What a request asks for, compiled and with its data, before any target is involved. Raises Refused and
    InputError."""
    steps = _prepare(request, compile_request(request))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Setup = end.value
            return made


def refuse_another(request: RunRequest, compilation: Compilation) -> None:
    """Raises Refused where the program that would run is not the one that the request says a reader was shown."""
    shown = request.compiled or {}
    digest = compilation.stages[TARGETS[request.on].stage].digest
    if not shown.get("program") or shown["program"] == digest:
        return
    known = {"sizes": compilation.sizes, "options": compilation.options.to_json()}
    differing = [
        f"{name} is {_word(value)}, not {_word(shown[kind][name])}"
        for kind, values in known.items()
        for name, value in values.items()
        if shown.get(kind, {}).get(name, value) != value
    ]
    why = ", ".join(differing) or "its text or the data that it is compiled for"
    raise Refused(failed("refused", f"What would run is not the program that was compiled: {why}.", COMPILE_AGAIN))


def refuse_edited(request: RunRequest, compilation: Compilation) -> None:
    """Raises Refused where an edited stage that the target's program is made of is none, or is wrong."""
    stage = compilation.stages[TARGETS[request.on].stage]
    for edit in compilation.edits:
        if edit.verdict.status == "refused" or (edit.verdict.status == "wrong" and stage.fork):
            place = Span(edit.line, edit.column, edit.line, edit.column + 1)
            told = [Diagnostic(edit.verdict.message, place).to_json(edit.text)]
            message = f"The edited {edit.stage} cannot be run: {edit.verdict.message}."
            raise Refused(failed("refused", message, "Correct it, or go back to what the compiler makes.", told))


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _prepare(request: RunRequest, compilation: Compilation) -> Generator[Event, None, Setup]:
    """Everything before the target is involved."""
    family = import_module(f"explorer.runtime.runs.{FAMILIES[compilation.family]}")
    setup: Setup = yield from family.prepare(request, compilation)
    return setup
