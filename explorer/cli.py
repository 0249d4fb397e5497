"""The command line: `explorer stages | functions | compile | export | space | run | tune | reuse | import | bench |
serve | worker | doctor`.

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

from explorer.arguments import benchmark_suites, make_parser
from explorer.checkout import CHECKOUT
from explorer.models import fit_model
from explorer.running import BAD_INPUT, FAILED, run, tune
from explorer.runtime.runs.console import START_OF_LINE, clear_bar, show_bar, sizes_in_words
from explorer.runtime.runs.events import sentence_diagnostic
from explorer.values import BadInput, did_you_mean, read_memory

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation
    from explorer.runtime.runs.fitting import Fitted

INTERRUPTED = 130


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
    fitted = fit_model(arguments, arguments.data or "", arguments.batch)
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


def _export(arguments: argparse.Namespace) -> int:
    from explorer.runtime.data.triples import InputError
    from explorer.runtime.export.folder import export, package_of

    compilation = fit_model(arguments, batch=arguments.batch).compilation
    try:
        written = export(compilation, Path(arguments.folder), compilation.options.grad)
    except InputError as error:
        raise BadInput(str(error)) from None
    package = package_of(compilation.name)
    if arguments.json:
        print(json.dumps({"ok": True, "folder": arguments.folder, "package": package, "files": written}))
        return 0
    print(f"{compilation.name}: {len(written)} files in {arguments.folder}, of them {package}/model.py")
    print(f"Build it where nvcc and PyTorch are: cd {arguments.folder} && python setup.py build_ext --inplace")
    return 0


def _space(arguments: argparse.Namespace) -> int:
    from explorer.compiler.decisions import printed_value

    fitted = fit_model(arguments, arguments.data or "", arguments.batch)
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


def _reuse(arguments: argparse.Namespace) -> int:
    from explorer.runtime.data.lists import load_reuse
    from explorer.runtime.data.locality import describe
    from explorer.runtime.data.triples import InputError

    compute = _compute(arguments)
    show_bar("reading or making the lists", 0, 1)
    try:
        found = load_reuse(arguments.data, told=lambda done, of: show_bar("counting accesses", done, of))
    except InputError as error:
        raise BadInput(str(error)) from None
    finally:
        clear_bar()
    if arguments.json:
        print(json.dumps({**found, "compute": compute} if compute else found))
        return 0
    print(describe(found))
    if compute:
        rows = "row" if compute["lookups"] == 1 else "rows"
        print(
            f"{compute['name']}: {compute['operations']:.3g} operations for each element that is looked up, and"
            f" {compute['lookups']} {rows} for each entry (counted)"
        )
    return 0


def _compute(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the op of the file does for each element that it looks up (Ember, Table 1); nothing where none is named."""
    if arguments.file is None:
        return {}
    from explorer.compiler.ir.graph import Graph
    from explorer.compiler.ir.work import per_lookup

    compilation = fit_model(arguments).compilation
    graph = compilation.stages["graph"].program
    assert isinstance(graph, Graph)
    operations, lookups = per_lookup(graph)
    return {"name": compilation.name, "operations": operations, "lookups": lookups}


def _import(arguments: argparse.Namespace) -> int:
    from explorer.importing import import_module

    return import_module(arguments)


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
    "export": _export,
    "space": _space,
    "run": run,
    "tune": tune,
    "reuse": _reuse,
    "import": _import,
    "bench": _bench,
    "serve": _serve,
    "worker": _worker,
    "doctor": _doctor,
}

if __name__ == "__main__":
    sys.exit(main())
