"""The commands that run a model on a target: `explorer run`, and `explorer tune`, which searches for what is faster."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from explorer.arguments import BadInput, did_you_mean, read_memory, read_options, read_parameters, read_sizes
from explorer.models import fit_model, read_model, read_schedule
from explorer.runtime.runs.console import show, summary
from explorer.runtime.runs.events import outcome

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation
    from explorer.runtime.run import RunRequest

BAD_INPUT = 2
FAILED = 1
_WHOLE = {
    "op": "an op goes over all lists of its data, of which --data com-Youtube/500 takes a 500th",
    "layer": "a layer goes over its whole graph, which --data chooses: tiny, small, aifb, ...",
}
"""What the definitions that are no scores go over, and how that is made smaller."""


def run(arguments: argparse.Namespace) -> int:
    """`explorer run`; its exit status."""
    _check_numbers(arguments, {"batch": 1, "repeat": 1, "seed": 0})
    compilation = fit_model(arguments).compilation
    request = replace(
        _request(arguments, compilation),
        schedule=read_schedule(arguments),
        repeat=arguments.repeat,
        peers=_beside(arguments),
        compile_seconds=arguments.timeout / 2 if "compile" in (arguments.peer or ()) else None,
        written="" if arguments.program is None else _written(arguments, compilation),
    )
    return _told(arguments, _last_of(arguments, request))


def tune(arguments: argparse.Namespace) -> int:
    """`explorer tune`; its exit status."""
    from explorer.runtime.tuning import MOST_TRIALS

    _check_numbers(arguments, {"batch": 1, "seed": 0, "trials": 2})
    if arguments.trials > MOST_TRIALS:
        raise BadInput(f"--trials takes at most {MOST_TRIALS}, not {arguments.trials}")
    request = _request(arguments, fit_model(arguments).compilation)
    asked = {"trials": arguments.trials, "search": arguments.search, "seed": arguments.seed}
    request = replace(request, tune={**asked, "seconds": arguments.timeout})
    return _told(arguments, _last_of(arguments, request))


def _check_numbers(arguments: argparse.Namespace, least: Mapping[str, int]) -> None:
    """Raises BadInput for a target that is not there, and for numbers that are too small."""
    from explorer.runtime.targets.table import TARGETS

    if missing := TARGETS[arguments.on].missing():
        raise BadInput(missing)
    for name, smallest in least.items():
        given = getattr(arguments, name)
        if given is not None and given < smallest:
            raise BadInput(f"--{name} takes a whole number from {smallest}, not {given}")
    if not arguments.timeout > 0:
        raise BadInput(f"--timeout takes a number of seconds above 0, not {arguments.timeout:g}")


def _request(arguments: argparse.Namespace, compilation: Compilation) -> RunRequest:
    """What any run asks. Raises BadInput."""
    from explorer.runtime.run import DEFAULT_DATA, RunRequest
    from explorer.runtime.runs.request import DEFAULT_BATCH

    machine = read_parameters(arguments.machine)
    memory = None if arguments.memory is None else read_memory(arguments.memory)
    if arguments.batch is not None and compilation.family != "score":
        raise BadInput(f"--batch {arguments.batch}: only a score has a batch; {_WHOLE[compilation.family]}")
    data = arguments.data or ("" if compilation.family == "op" else DEFAULT_DATA)
    if compilation.family == "score":
        _check_data(data)
    return RunRequest(
        text=compilation.text,
        on=arguments.on,
        name=arguments.name,
        sizes=read_sizes(arguments.set),
        options=read_options(arguments),
        data=data,
        batch=DEFAULT_BATCH if arguments.batch is None else arguments.batch,
        seed=arguments.seed,
        machine=machine,
        memory=memory,
    )


def _last_of(arguments: argparse.Namespace, request: RunRequest) -> dict[str, Any]:
    """Runs it in a worker, showing its events; the last of them."""
    from explorer.runtime.runs.footprint import free_bytes
    from explorer.runtime.workers.pool import RUN_MEMORY, stream_here

    last: dict[str, Any] = {}
    worker = max(RUN_MEMORY, free_bytes())
    for event in stream_here(request.to_json(), seconds=arguments.timeout, memory=worker):
        show(event, sys.stderr)
        last = event
    return last


def _told(arguments: argparse.Namespace, last: Mapping[str, Any]) -> int:
    """Prints what a run came to; the exit status."""
    if arguments.json:
        print(json.dumps(outcome(dict(last))))
    elif last["event"] == "result":
        print(summary(last))
    if last["event"] == "result":
        return 0 if last["matches_reference"] else FAILED
    if not arguments.json:
        print(f"explorer: {last['message']} {last['hint']}".rstrip(), file=sys.stderr)
    return BAD_INPUT if last["kind"] == "refused" else FAILED


def _beside(arguments: argparse.Namespace) -> bool | None:
    """Whether eager PyTorch is timed beside a run; None for what is usual on its target. Raises BadInput."""
    from explorer.runtime.targets.table import TARGETS, reading

    if arguments.peer is None:
        return False if arguments.no_peers else None
    if "peers" not in TARGETS[arguments.on].reads:
        raise BadInput(f"--peer goes with --on {reading('peers')}")
    return "eager" in arguments.peer


def _written(arguments: argparse.Namespace, compilation: Compilation) -> str:
    """The text of a program for the machine; raises BadInput with the diagnostics of a bad one."""
    from explorer.compiler.language.diagnostics import DiagnosticsError
    from explorer.runtime.runs.written import read_written
    from explorer.runtime.targets.table import TARGETS, reading

    if "written" not in TARGETS[arguments.on].reads or compilation.options.grad:
        goes = f"--program goes with --on {reading('written')}, and without --grad"
        raise BadInput(f"{goes}: it computes the result alone")
    text = read_model(arguments.program)
    try:
        read_written(text, compilation)
    except DiagnosticsError as error:
        rendered = [f"{arguments.program}:{'' if d.span else ' '}{d.render(text)}" for d in error.diagnostics]
        raise BadInput("\n".join(rendered), [d.to_json(text) for d in error.diagnostics]) from None
    return text


def _check_data(source: str) -> None:
    """Raise BadInput for data that is not there, before a worker is started for it."""
    from explorer.runtime.data.triples import PRESETS

    if not os.path.exists(source) and source.lower() not in {name.lower() for name in PRESETS}:
        near = did_you_mean(source, PRESETS)
        raise BadInput(f"{source[:200]}: no such file or data set{near}: the generated ones are {', '.join(PRESETS)}")
