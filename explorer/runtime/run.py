"""One run of a model on a target, checked against the float64 reference, told as events while it goes.

The order is: compile, set up (load or draw the data, compute the result in float64), make the target ready, run. So a
wrong kernel is found at its first run and is never timed. How a run is set up depends on the model's family, what is
done with it on the target alone: `setup` has what the two agree on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from importlib import import_module

from explorer.compiler.compilation import Compilation
from explorer.runtime.events import Event, failed, progress
from explorer.runtime.inputs import InputError
from explorer.runtime.setup import (
    DEFAULT_DATA,
    STEPS,
    Refused,
    RunRequest,
    Setup,
    compile_request,
    sentence,
)

__all__ = ["DEFAULT_DATA", "Refused", "RunRequest", "compile_request", "execute", "sentence"]

FAMILIES = {"score": "run_score", "layer": "run_layer", "op": "run_op"}
"""The modules that set up a run, each with `prepare`; loaded when a family is first run."""
TARGETS = {"cpu": "on_cpu", "dae": "on_dae", "gpu": "on_gpu"}
"""The modules that run what is set up, each with `ready` and `run`; loaded when a target is first asked for."""


def execute(request: RunRequest) -> Iterator[Event]:
    """Run a model, yielding events; the last is `result` or `failed`. Faults of the explorer itself raise."""
    target = import_module(f"explorer.runtime.{TARGETS[request.on]}")
    run: Callable[[Setup], Iterator[Event]] = target.run
    try:
        request = target.ready(request)
        yield progress("compiling the model", 0, STEPS)
        compilation = compile_request(request)
        setup = yield from _prepare(request, compilation)
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


def _prepare(request: RunRequest, compilation: Compilation) -> Generator[Event, None, Setup]:
    """Everything before the target is involved."""
    family = import_module(f"explorer.runtime.{FAMILIES[compilation.family]}")
    setup: Setup = yield from family.prepare(request, compilation)
    return setup
