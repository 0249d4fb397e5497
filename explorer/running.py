"""The commands that run a model on a target: `explorer run`, and `explorer tune`, which searches for what is faster."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from explorer.models import fit_model, read_model, read_schedule
from explorer.runtime.runs.console import flags, on_part, show, summary
from explorer.runtime.runs.events import outcome
from explorer.values import BadInput, did_you_mean, read_memory, read_options, read_parameters, read_sizes

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation
    from explorer.runtime.run import RunRequest
    from explorer.tuner.kept import Found, Kept

T = TypeVar("T")
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
    asked = _request(arguments, compilation)
    found = _found_before(arguments, asked, compilation)
    request = replace(
        asked,
        options={**asked.options, **(found.options if found else {})},
        machine={**asked.machine, **(found.machine if found else {})},
        schedule=found.schedule if found else read_schedule(arguments),
        repeat=arguments.repeat,
        peers=_beside(arguments),
        compile_seconds=arguments.timeout / 2 if "compile" in (arguments.peer or ()) else None,
        written="" if arguments.program is None else _written(arguments, compilation),
    )
    last = _last_of(arguments, request)
    if found is not None and last["event"] == "result":
        last["kept"] = asdict(found)
    return _told(arguments, last)


def tune(arguments: argparse.Namespace) -> int:
    """`explorer tune`; its exit status."""
    from explorer.runtime.tuning import MOST_TRIALS

    recording = _recording(arguments)
    _check_numbers(arguments, {"batch": 1, "seed": 0, "trials": 2}, needs_target=not recording)
    if arguments.trials > MOST_TRIALS:
        raise BadInput(f"--trials takes at most {MOST_TRIALS}, not {arguments.trials}")
    if recording:
        return _replay(arguments, recording)
    _check_export(arguments)
    compilation = fit_model(arguments).compilation
    asked = _request(arguments, compilation)
    key = _with_store(arguments, lambda _: _key(asked, compilation), "")  # or why there is no such file
    how = {"trials": arguments.trials, "search": arguments.search, "seed": arguments.seed}
    last = _last_of(arguments, replace(asked, tune={**how, "seconds": arguments.timeout}))
    if last["event"] == "result":
        last["tuned"]["kept"] = bool(key) and _keep(arguments, key, last)
        if arguments.export is not None:
            _export(arguments.export, last)
    return _told(arguments, last)


def _recording(arguments: argparse.Namespace) -> str:
    """The recorded space that is searched instead of a GPU, "" for none: the one that is named or, where there is no
    GPU, one of the model. Raises BadInput where it is of another model or of other data, and where there is neither."""
    from explorer.runtime.targets.table import TARGETS
    from explorer.tuner import shipped

    missing = TARGETS["gpu"].missing() if arguments.on == "gpu" else ""
    if arguments.replay is None and not missing:
        return ""
    if arguments.on != "gpu":
        raise BadInput("--replay goes with --on gpu: that is where spaces were recorded")
    there = shipped.names()
    if arguments.replay not in (None, *there):
        near = did_you_mean(arguments.replay, there)
        raise BadInput(f"--replay {arguments.replay}: no such recording{near}: there are {', '.join(there) or 'none'}")
    found = shipped.of_model(read_model(arguments.file), [arguments.replay] if arguments.replay else there)
    if not found:
        others = f"; there are {', '.join(there)}" if there else ""
        told = f"--replay {arguments.replay}" if arguments.replay else f"{missing} Recordings can be replayed instead"
        raise BadInput(f"{told}: no recording is of this model{others}")
    found.sort(key=lambda name: shipped.load(name).about["counted_on"].lower() != (arguments.data or "").lower())
    _refuse_other(arguments, found[0], shipped.load(found[0]).about)
    if arguments.replay is None:
        others = f" (--replay takes another one: {', '.join(found[1:])})" if found[1:] else ""
        print(f"{missing} Replaying the recording {found[0]} instead, on its own data{others}.", file=sys.stderr)
    return found[0]


def _replay(arguments: argparse.Namespace, recording: str) -> int:
    """Searches a recorded space, of whose model, sizes and data nothing can be changed."""
    from explorer.runtime.run import RunRequest
    from explorer.tuner import shipped

    about = shipped.load(recording).about
    how = {"trials": arguments.trials, "search": arguments.search, "seed": arguments.seed, "replay": recording}
    request = RunRequest(text=about["text"], on="gpu", tune={**how, "seconds": arguments.timeout})
    return _told(arguments, _last_of(arguments, request))


def _refuse_other(arguments: argparse.Namespace, recording: str, about: Mapping[str, Any]) -> None:
    """Raises BadInput for what was asked and a replay does not heed, or is not of."""
    for name in ("set", "option", "export", "machine", "batch", "memory", "store", "name"):
        if getattr(arguments, name) not in (None, []):
            flag = "schedule" if name == "export" else name
            raise BadInput(f"--{flag} does not go with a replay: it has what was recorded")
    given = {"grad": arguments.grad, "negatives": arguments.negatives}
    for name, value in given.items():
        if value and value != about["options"][name]:
            raise BadInput(f"--{name} does not go with a replay of {recording}, which was recorded without that")
    data = about["counted_on"]
    if arguments.data is not None and arguments.data.lower() != data.lower():
        told = f"{recording} was recorded on {data or 'triples of its own'}"
        raise BadInput(f"--data {arguments.data[:200]} does not go with a replay: {told}")


def _check_export(arguments: argparse.Namespace) -> None:
    """Raises BadInput for a schedule that cannot be written, before it is searched for."""
    from explorer.compiler.stages import CHOSEN
    from explorer.runtime.targets.table import TARGETS

    if arguments.export is None:
        return
    if TARGETS[arguments.on].stage not in CHOSEN:
        able = " or ".join(name for name, target in TARGETS.items() if target.stage in CHOSEN)
        raise BadInput(f"--schedule goes with --on {able}: what is chosen elsewhere is printed as flags")
    try:
        with open(arguments.export, "a", encoding="utf-8"):
            pass
    except OSError as error:
        raise BadInput(f"{arguments.export}: cannot be written: {error.strerror}") from None


def _export(path: str, last: Mapping[str, Any]) -> None:
    """Writes the schedule that was chosen, as `explorer run --schedule` reads it."""
    from explorer.compiler.decisions import Schedule

    tuned = last["tuned"]
    given = " ".join(flags(tuned))
    gain = f"{tuned['gain']:.3f} times as fast{on_part(tuned)}"
    told = f"# {last['name']} on {last['device']}: {gain}, {last['source']} {last['date']}\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(told + (f"# to be given besides: {given}\n" if given else "") + str(Schedule.of(tuned["schedule"])))


def _keep(arguments: argparse.Namespace, key: str, last: Mapping[str, Any]) -> bool:
    """Keeps what a search found, for later runs; whether it did."""
    from explorer.tuner.kept import Found

    found = Found.of(last)
    return found is not None and _with_store(arguments, lambda kept: kept.keep(key, found), False)


def _key(asked: RunRequest, compilation: Compilation) -> str:
    from explorer.runtime.targets.table import TARGETS
    from explorer.tuner.kept import key_of

    return key_of(asked, compilation, TARGETS[asked.on].device())


def _found_before(arguments: argparse.Namespace, asked: RunRequest, compilation: Compilation) -> Found | None:
    """What an earlier search found for a run like this, unless the arguments say what to run: all of it, as what is
    left of it may be no gain."""
    if arguments.no_tuned or arguments.program is not None:
        return None
    found: Found | None = _with_store(arguments, lambda kept: kept.find(_key(asked, compilation)), None)
    if found is None:
        return None
    what, given = flags(asdict(found)), _given_beside(arguments, asked, found)
    told = f"{' '.join(what) or 'a schedule'}: as `explorer tune` found on {found.at[:10]}"
    gain = f"{found.gain:.3f} times as fast{on_part(asdict(found))}"
    if given:
        print(f"{told}, {gain}; not taken, since {' and '.join(given)} was given", file=sys.stderr)
        return None
    print(f"{told}, {gain}; --no-tuned leaves it out", file=sys.stderr)
    return found


def _given_beside(arguments: argparse.Namespace, asked: RunRequest, found: Found) -> list[str]:
    """What was given of what a search has found otherwise: also what is usual, as a word that is given is meant."""
    options = [f"--option {name}" for name in sorted(found.options.keys() & asked.options.keys())]
    machine = [f"--machine {name}" for name in sorted(found.machine.keys() & asked.machine.keys())]
    return [*options, *machine, *(["--schedule"] if arguments.schedule is not None else [])]


def _with_store(arguments: argparse.Namespace, work: Callable[[Kept], T], otherwise: T) -> T:
    """What `work` makes of the file that has what searches found; otherwise where there is none. Raises BadInput for a
    file that was named and cannot be used: of the usual one that is told, and it is done without."""
    from explorer.tuner.kept import Kept, KeptError, usual_file

    path = usual_file() if arguments.store is None else Path(arguments.store)
    if path is None:
        return otherwise
    try:
        with Kept(path) as kept:
            return work(kept)
    except KeptError as error:
        if arguments.store is not None:
            raise BadInput(f"--store {error}") from None
        print(f"explorer: {error}", file=sys.stderr)
        return otherwise


def _check_numbers(arguments: argparse.Namespace, least: Mapping[str, int], *, needs_target: bool = True) -> None:
    """Raises BadInput for a target that is needed and not there, and for numbers that are too small."""
    from explorer.runtime.targets.table import TARGETS

    if needs_target and (missing := TARGETS[arguments.on].missing()):
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
