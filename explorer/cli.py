"""The command line: `explorer stages | functions | compile | space | run | reuse | bench | serve |
worker | doctor`.

Bad input ends with its diagnostics on stderr and status 2, a run that fails or gives wrong scores with status 1,
Ctrl-C with 130. Each command imports only what it needs, so that `--help` and `compile` start fast.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.arguments import (
    BadInput,
    benchmark_suites,
    did_you_mean,
    make_parser,
    read_memory,
    read_options,
    read_parameters,
    read_sizes,
)
from explorer.checkout import CHECKOUT
from explorer.runtime.runs.console import START_OF_LINE, show, sizes_in_words, summary
from explorer.runtime.runs.events import outcome, sentence_diagnostic

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation
    from explorer.compiler.decisions import Value
    from explorer.runtime.runs.fitting import Fitted

BAD_INPUT = 2
FAILED = 1
INTERRUPTED = 130

_WHOLE = {
    "op": "an op goes over all lists of its data, of which --data com-Youtube/500 takes a 500th",
    "layer": "a layer goes over its whole graph, which --data chooses: tiny, small, aifb, ...",
}
"""What the definitions that are no scores go over, and how that is made smaller."""
_MOST_BYTES = 1 << 20
"""A file beyond this is not read at all; the compiler's own limit, 64 KiB, comes with a diagnostic."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        arguments = make_parser().parse_args(words)
        status = _COMMANDS[arguments.command](arguments)
        sys.stdout.flush()
        return status
    except BadInput as bad:
        if "--json" in words:
            print(json.dumps({"ok": False, "diagnostics": bad.diagnostics}))
        else:
            print(f"explorer: {bad}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print(f"{START_OF_LINE if sys.stderr.isatty() else ''}explorer: stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has left; without this Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        return _fault(error, as_json="--json" in words)


def _fault(error: Exception, as_json: bool) -> int:
    """Report a mistake of the explorer's own in a sentence that a maintainer can use."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    message = (
        f"the explorer itself failed, which is no fault of the model: {type(error).__name__}: {error}"
        f" ({Path(last.filename).name}, line {last.lineno})"
    )
    if as_json:
        print(json.dumps({"ok": False, "diagnostics": [sentence_diagnostic(message)]}))
    else:
        print(f"explorer: {message}", file=sys.stderr)
    return FAILED


def _stages(arguments: argparse.Namespace) -> int:
    from explorer.compiler.pipeline import STAGES

    if arguments.json:
        fields = ("name", "title", "summary", "source", "targets")
        print(json.dumps([{field: getattr(stage, field) for field in fields} for stage in STAGES]))
        return 0
    for stage in STAGES:
        print(f"{stage.name:8} {stage.title}: {stage.summary} ({stage.source})")
    return 0


def _functions(arguments: argparse.Namespace) -> int:
    from explorer.compiler.language.functions import callables

    if arguments.json:
        print(json.dumps([function._asdict() for function in callables()]))
        return 0
    for _, call, about, domain, corner, aliases in callables():
        notes = [f"where {domain}"] if domain else []
        notes += [f"slope at the corner {corner}"] if corner else []
        notes += [f"also {alias}" for alias in aliases]
        print(f"{call:24} {about}" + (f" ({'; '.join(notes)})" if notes else ""))
    return 0


def _compile(arguments: argparse.Namespace) -> int:
    from explorer.compiler.pipeline import STAGES

    known = [stage.name for stage in STAGES]
    for name in arguments.stage:
        if name not in known:
            raise BadInput(f"unknown stage '{name}'{did_you_mean(name, known)}: there are {', '.join(known)}")
    fitted = _fitted(arguments, arguments.data or "")
    compilation = fitted.compilation
    wanted = arguments.stage or known
    if arguments.json:
        print(json.dumps(fitted.to_json(wanted)))
    elif arguments.all or len(arguments.stage) > 1:
        for name in wanted:
            print(f"==== {name} ====\n{_stage_text(compilation, name)}")
    elif arguments.stage:
        print(_stage_text(compilation, wanted[0]), end="")
    else:
        _print_summary(fitted)
    return FAILED if any(not compilation.stages[name].available for name in arguments.stage) else 0


def _fitted(arguments: argparse.Namespace, data: str = "") -> Fitted:
    """Compile the file that the arguments name, for data where some is named; raises BadInput with the diagnostics of a
    bad model."""
    from explorer.runtime.data.triples import InputError
    from explorer.runtime.runs.fitting import fit
    from explorer.runtime.runs.request import ModelRequest

    text, schedule = _read_model(arguments.file), _schedule(arguments)
    sizes, options = read_sizes(arguments.set), read_options(arguments)
    try:
        found = fit(
            ModelRequest(text=text, name=arguments.name, sizes=sizes, options=options, schedule=schedule, data=data)
        )
    except InputError as error:
        raise BadInput(str(error)) from None
    compilation = found.compilation
    if not compilation.ok:
        rendered = [
            f"{arguments.file}:{'' if diagnostic.span else ' '}{diagnostic.render(text)}"
            for diagnostic in compilation.diagnostics
        ]
        raise BadInput("\n".join(rendered), [diagnostic.to_json(text) for diagnostic in compilation.diagnostics])
    if data and not found.data:
        raise BadInput(f"--data {data[:200]}: a {compilation.family} is compiled the same for all data")
    return found


def _space(arguments: argparse.Namespace) -> int:
    from explorer.compiler.decisions import printed_value

    fitted = _fitted(arguments, arguments.data or "")
    try:
        found = fitted.compilation.space()
    except ValueError as error:
        raise BadInput(str(error)) from None
    if arguments.json:
        print(json.dumps(found.to_json()))
        return 0
    print(f"{fitted.compilation.name}: {found.count:,} schedules")
    for nest, dimensions in found.nests.items():
        print(f"{nest}: {found.points[nest]:,}")
        for each in dimensions:
            values = ", ".join(f"[{printed_value(v)}]" if v == each.value else printed_value(v) for v in each.values)
            print(f"  {each.kernel}.{each.name} = {values}\n    {each.why}\n    usually {each.source}")
    return 0


def _schedule(arguments: argparse.Namespace) -> dict[str, Value]:
    """The schedule of the file that the arguments name; none where they name none. Raises BadInput."""
    from explorer.compiler.decisions import Schedule, ScheduleTextError

    if arguments.schedule is None:
        return {}
    try:
        return Schedule.parse(_read_model(arguments.schedule)).to_json()
    except ScheduleTextError as error:
        raise BadInput(f"{arguments.schedule}: {error}") from None


def _stage_text(compilation: Compilation, name: str) -> str:
    stage = compilation.stages[name]
    return stage.text if stage.available else f"(not available: {stage.reason})\n"


def _print_summary(fitted: Fitted) -> None:
    from explorer.compiler.pipeline import STAGES

    compilation = fitted.compilation
    sizes = sizes_in_words(compilation.sizes, fitted.sizes_from)
    print(f"{compilation.name}: {compilation.family}{', ' if sizes else ''}{sizes}")
    for spec in STAGES:
        if spec.on_demand:
            print(f"  {spec.name:8} made when asked for: --stage {spec.name}")
            continue
        stage = compilation.stages[spec.name]
        changed = [each.name for each in stage.passes if each.changed]
        size = f"{len(stage.lines):4} lines" if stage.available else f"not available: {stage.reason}"
        print(f"  {spec.name:8} {size}  {stage.ms:6.1f} ms  {', '.join(changed)}".rstrip())
    print("Print one with --stage NAME, all with --all.")


def _read_model(path: str) -> str:
    """A model's text; raises BadInput for a file that cannot be read, is too large or is not UTF-8."""
    try:
        if path == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"{path}: cannot be read: {reason}") from None
    if len(data) > _MOST_BYTES:
        raise BadInput(f"{path}: larger than 1 MiB; a program may have 64 KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, data, error.start) from None


def _not_utf8(path: str, data: bytes, offset: int) -> BadInput:
    """The diagnostic of a byte that is no text, with its line and a caret."""
    before = data[:offset].split(b"\n")
    line, column = len(before), len(before[-1].decode("utf-8")) + 1
    source = data.split(b"\n")[line - 1].rstrip(b"\r").decode("utf-8", errors="replace")
    message = f"byte 0x{data[offset]:02x} is not UTF-8 text"
    diagnostic = {
        **sentence_diagnostic(message, "Save the file as UTF-8."),
        "source": source,
        "line": line,
        "column": column,
        "end_line": line,
        "end_column": column + 1,
    }
    return BadInput(f"{path}:{line}:{column}: {message}\n  {source}\n  {' ' * (column - 1)}^", [diagnostic])


def _run(arguments: argparse.Namespace) -> int:
    from explorer.runtime.run import DEFAULT_DATA, RunRequest
    from explorer.runtime.runs.footprint import free_bytes
    from explorer.runtime.runs.request import DEFAULT_BATCH
    from explorer.runtime.targets.table import TARGETS
    from explorer.runtime.workers.pool import RUN_MEMORY, stream_here

    missing = TARGETS[arguments.on].missing()
    if missing:
        raise BadInput(missing)
    for name, least in (("batch", 1), ("repeat", 1), ("seed", 0)):
        given = getattr(arguments, name)
        if given is not None and given < least:
            raise BadInput(f"--{name} takes a whole number from {least}, not {given}")
    if not arguments.timeout > 0:
        raise BadInput(f"--timeout takes a number of seconds above 0, not {arguments.timeout:g}")
    machine = read_parameters(arguments.machine)
    memory = None if arguments.memory is None else read_memory(arguments.memory)
    compilation = _fitted(arguments).compilation
    if arguments.batch is not None and compilation.family != "score":
        raise BadInput(f"--batch {arguments.batch}: only a score has a batch; {_WHOLE[compilation.family]}")
    written = "" if arguments.program is None else _written(arguments, compilation)
    data = arguments.data or ("" if compilation.family == "op" else DEFAULT_DATA)
    if compilation.family == "score":
        _check_data(data)
    request = RunRequest(
        text=compilation.text,
        on=arguments.on,
        name=arguments.name,
        sizes=read_sizes(arguments.set),
        options=read_options(arguments),
        schedule=_schedule(arguments),
        data=data,
        batch=DEFAULT_BATCH if arguments.batch is None else arguments.batch,
        repeat=arguments.repeat,
        seed=arguments.seed,
        machine=machine,
        peers=_beside(arguments),
        compile_seconds=arguments.timeout / 2 if "compile" in (arguments.peer or ()) else None,
        memory=memory,
        written=written,
    )
    last: dict[str, Any] = {}
    worker = max(RUN_MEMORY, free_bytes())
    for event in stream_here(request.to_json(), seconds=arguments.timeout, memory=worker):
        show(event, sys.stderr)
        last = event
    if arguments.json:
        print(json.dumps(outcome(last)))
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
    text = _read_model(arguments.program)
    try:
        read_written(text, compilation)
    except DiagnosticsError as error:
        rendered = [f"{arguments.program}:{'' if d.span else ' '}{d.render(text)}" for d in error.diagnostics]
        raise BadInput("\n".join(rendered), [d.to_json(text) for d in error.diagnostics]) from None
    return text


def _reuse(arguments: argparse.Namespace) -> int:
    from explorer.runtime.data.lists import load_reuse
    from explorer.runtime.data.locality import describe
    from explorer.runtime.data.triples import InputError

    try:
        found = load_reuse(arguments.data)
    except InputError as error:
        raise BadInput(str(error)) from None
    print(json.dumps(found) if arguments.json else describe(found))
    return 0


def _check_data(source: str) -> None:
    """Raise BadInput for data that is not there, before a worker is started for it."""
    from explorer.runtime.data.triples import PRESETS

    if not os.path.exists(source) and source.lower() not in {name.lower() for name in PRESETS}:
        near = did_you_mean(source, PRESETS)
        raise BadInput(f"{source[:200]}: no such file or data set{near}: the generated ones are {', '.join(PRESETS)}")


def _bench(arguments: argparse.Namespace) -> int:
    suites = benchmark_suites()
    if not suites:
        raise BadInput("the benchmarks are not here: they come with a checkout, not with the container's image")
    if arguments.suite is not None and arguments.suite not in suites:
        raise BadInput(
            f"unknown suite '{arguments.suite}'{did_you_mean(arguments.suite, suites)}: there are {', '.join(suites)}"
        )
    sys.path.insert(0, str(CHECKOUT))
    status = 0
    for suite in [arguments.suite] if arguments.suite else suites:
        module = importlib.import_module(f"benchmarks.{suite}")
        if not arguments.suite:
            by_name_only = getattr(module, "BY_NAME_ONLY", "")
            print(f"==== {suite}{f': {by_name_only}, run it by name' if by_name_only else ''} ====", flush=True)
            if by_name_only:
                continue
        status = module.main(arguments.arguments) or status
    return status


def _doctor(arguments: argparse.Namespace) -> int:
    from explorer.runtime.workers.isolation.doctor import findings

    for finding in findings():
        print(f"{'ok  ' if finding.fine else 'no  '} {finding.what:22} {finding.found}", flush=True)
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    from explorer.web.processes.several import serve_several
    from explorer.web.server import ClassRequest, ServeError, Settings, serve

    data_dir = None if arguments.data_dir is None else Path(arguments.data_dir)
    token_file = None if arguments.instructor_token_file is None else Path(arguments.instructor_token_file)
    hand_ins = None if arguments.hand_ins is None else Path(arguments.hand_ins)
    wanted = ClassRequest(arguments.with_class, arguments.class_code, arguments.class_size, token_file, hand_ins)
    try:
        settings = Settings(
            arguments.host,
            arguments.port,
            data_dir,
            tuple(arguments.allow_host),
            tuple(arguments.proxy),
            tuple(arguments.metrics_for),
            arguments.queue or "",
            wanted,
            store=arguments.store or "",
            run_memory=_process_memory(arguments),
            assistants=arguments.mcp,
            compile_peers=arguments.compile_peers,
            json_log=arguments.log_format == "json",
        )
        if arguments.web_processes == 1:
            serve(settings)
        else:
            serve_several(settings, arguments.web_processes)
    except ServeError as error:
        raise BadInput(str(error)) from None
    return 0


def _process_memory(arguments: argparse.Namespace) -> int:
    """What a process for runs may take: twice what the arrays of a run may, for the reference and the rest."""
    from explorer.runtime.workers.pool import RUN_MEMORY

    asked = RUN_MEMORY if arguments.memory is None else 2 * read_memory(arguments.memory)
    if asked < RUN_MEMORY:
        raise BadInput(f"--memory takes 2GiB or more, not {arguments.memory}")
    return asked


def _worker(arguments: argparse.Namespace) -> int:
    import asyncio

    if arguments.gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(arguments.gpu)
    data_dir = None if arguments.data_dir is None else Path(arguments.data_dir)
    if data_dir is not None and not data_dir.is_dir():
        raise BadInput(f"--data-dir {data_dir}: no such folder")
    targets = _targets(arguments.only)
    try:
        from explorer.queue.supervisor import Offer, WorkerError, serve_queue
    except ImportError:
        raise BadInput("the worker needs the Python package redis: pip install -e '.[queue]'") from None
    try:
        asyncio.run(serve_queue(arguments.queue, Offer(targets, data_dir), _process_memory(arguments)))
    except (WorkerError, ValueError) as error:
        raise BadInput(f"--queue {arguments.queue[:80]}: {error}") from None
    return 0


def _targets(only: str | None) -> list[str]:
    """The targets that `--only` names, or all that this host has; raises BadInput."""
    from explorer.runtime.targets.table import TARGETS

    if only is None:
        return [name for name, target in TARGETS.items() if not target.missing()]
    words = [word.strip() for word in only.split(",")]
    for word in words:
        target = next((target for name, target in TARGETS.items() if name == word), None)
        if target is None:
            raise BadInput(f"--only takes targets, of {', '.join(TARGETS)}, not '{word[:80]}'")
        if missing := target.missing():
            raise BadInput(f"--only {word}: {missing}")
    return words


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "stages": _stages,
    "functions": _functions,
    "compile": _compile,
    "space": _space,
    "run": _run,
    "reuse": _reuse,
    "bench": _bench,
    "serve": _serve,
    "worker": _worker,
    "doctor": _doctor,
}

if __name__ == "__main__":
    sys.exit(main())
