"""The command line: `explorer stages | compile | run | reuse | bench | serve`.

Bad input ends with its diagnostics on stderr and status 2, a run that fails or gives wrong scores with status 1,
Ctrl-C with 130. Each command imports only what it needs, so that `--help` and `compile` start fast.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from explorer.checkout import CHECKOUT
from explorer.runtime.console import START_OF_LINE, show, summary
from explorer.runtime.events import outcome, sentence_diagnostic

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation

BAD_INPUT = 2
FAILED = 1
INTERRUPTED = 130

_MOST_BYTES = 1 << 20
"""A file beyond this is not read at all; the compiler's own limit, 64 KiB, comes with a diagnostic."""

_EXAMPLES = """examples:
  explorer compile examples/kge/transr.emb --all
  explorer compile examples/kge/transr.emb --stage cuda --set D=128 --set K=32
  explorer run examples/kge/transr.emb --on dae
  explorer run examples/kge/transe_l1.emb --on cpu --data triples.tsv --negatives tail:64 --json
  explorer run examples/rgnn/rgat.emb --on cpu --data small --grad --option compact=false
  explorer run examples/embedding/sls.emb --on dae --data RM3:L0 --option opt=3
  explorer run examples/kge/transh.emb --on gpu --batch 16384 --set D=512 --repeat 100
  explorer reuse --data RM1:L1
  explorer serve --port 8000
"""


class BadInput(Exception):
    """What the user gave cannot be used: the text for the terminal, and the diagnostics for `--json`."""

    def __init__(self, text: str, diagnostics: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(text)
        self.diagnostics = list(diagnostics) or [sentence_diagnostic(text)]


class _Parser(argparse.ArgumentParser):
    """Reports bad arguments like any other bad input, as JSON where that was asked for."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message}\n{self.format_usage().strip()}", [sentence_diagnostic(message)])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        arguments = _parser().parse_args(words)
        status: int = arguments.action(arguments)
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


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="explorer",
        description="Compile an embedding model, look at every stage, and run it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_stages(commands)
    _add_compile(commands)
    _add_run(commands)
    _add_reuse(commands)
    _add_bench(commands)
    _add_serve(commands)
    return parser


def _command(commands: Any, name: str, summary: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[:1].upper()}{summary[1:]}.",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser


def _add_model_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the model's text (.emb), or - for standard input")
    parser.add_argument("--name", metavar="DEF", help="the definition to use; default: the last that is no helper")
    parser.add_argument(
        "--set", metavar="DIM=N", action="append", default=[], help="a dimension's size, as in D=64; may repeat"
    )
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a compiler option: reorder=false, compact=false, aggregate=false, interchange=false, online=false,"
        " inspect=true, chunks (cuKE's; with inspect_edges, inspect_group, inspect_block, inspect_cached) or false,"
        " precision=float32, tf32x3 (errors of 1e-5) or tf32 (2e-3) for products on a GPU,"
        " split=auto, rows or nonzeros, chunk=256, lanes=2 to 32, lane_vectors=1 to 16, block_rows=1 to 1024,"
        " block_columns=16 to 512, preload=32 to 512 (for sums over segments by rows), balance=true, popular=true,"
        " arch=sm_80,"
        " opt=0 to 3, vlen=16,"
        " address_streams=true, store_streams=true, level_hints=true, accumulate_streams=true, toggle_callbacks=true;"
        " may repeat",
    )
    parser.add_argument("--grad", action="store_true", help="derive the backward pass too (as --option grad=true)")
    parser.add_argument("--negatives", metavar="SIDE:N", help="score N corrupted triples for each: tail:64 or head:64")
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")


def _add_stages(commands: Any) -> None:
    parser = _command(commands, "stages", "list the stages of the compiler", "explorer stages")
    parser.add_argument("--json", action="store_true", help="print them as JSON")
    parser.set_defaults(action=_stages)


def _add_compile(commands: Any) -> None:
    parser = _command(
        commands,
        "compile",
        "compile a model and print its stages",
        "explorer compile examples/kge/transr.emb --stage loops --set D=128",
    )
    _add_model_arguments(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--stage", metavar="NAME", action="append", default=[], help="print this stage; may repeat (see `stages`)"
    )
    which.add_argument("--all", action="store_true", help="print every stage")
    parser.add_argument(
        "--data",
        metavar="PRESET|FILE",
        help="for a layer: the graph that its costs are counted on (see `run`); default: assumed sizes",
    )
    parser.set_defaults(action=_compile)


def _add_run(commands: Any) -> None:
    parser = _command(
        commands,
        "run",
        "run a model on a target and check its results",
        "explorer run examples/kge/transr.emb --on cpu --data FB15k-237 --repeat 50",
    )
    _add_model_arguments(parser)
    parser.add_argument(
        "--on", choices=["dae", "cpu", "gpu"], required=True, help="simulated dae machine, this cpu, or a gpu"
    )
    parser.add_argument(
        "--data",
        metavar="PRESET|FILE",
        help="FB15k, FB15k-237, BioKG, WN18 (generated), or a .npz or tab-separated file; for a layer also a generated"
        " graph (tiny, small, aifb, ... wikikg2), and triples are taken with their inverses; default FB15k-237. For an"
        " op RM1:L0 to RM3:L2 (Ember's Table 3), BigBird:1 to BigBird:8, a graph of Ember's Table 2"
        " (arxiv ... wiki-Talk; wiki-Talk/500 is a 500th of it), any of the graphs above, or an .npz file of ptr"
        " and idx, rowptr and col, row and col, or ptr and blocks; default RM1:L0, com-Youtube/500 or BigBird:8",
    )
    parser.add_argument("--batch", metavar="N", type=int, default=1_024, help="triples to score; default 1024")
    parser.add_argument("--repeat", metavar="N", type=int, default=20, help="timed repeats on cpu or gpu; default 20")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the triples drawn and the parameters")
    parser.add_argument(
        "--timeout", metavar="S", type=float, default=120.0, help="stop after so many seconds; default 120"
    )
    parser.add_argument(
        "--machine", metavar="NAME=N", action="append", default=[], help="a parameter of the dae machine; may repeat"
    )
    parser.add_argument(
        "--no-peers", action="store_true", help="on gpu, do not time PyTorch beside it where it is installed"
    )
    parser.set_defaults(action=_run)


def _add_reuse(commands: Any) -> None:
    parser = _command(
        commands,
        "reuse",
        "show how far apart the accesses to the same row are, for data that ops run on",
        "explorer reuse --data RM1:L1",
    )
    parser.add_argument(
        "--data", metavar="PRESET|FILE", required=True, help="as for an op's run: RM1:L1, wiki-Talk/500, lists.npz"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.set_defaults(action=_reuse)


def _add_bench(commands: Any) -> None:
    parser = _command(commands, "bench", "run the benchmarks, all suites or one", "explorer bench compile")
    parser.add_argument("suite", metavar="SUITE", nargs="?", help="a module of the benchmarks/ folder")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on to the suite")
    parser.set_defaults(action=_bench)


def _add_serve(commands: Any) -> None:
    parser = _command(commands, "serve", "open the page and the JSON API", "explorer serve --port 8000 --data-dir data")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; default 127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="default 8000; 0 takes any that is free")
    parser.add_argument("--data-dir", metavar="DIR", help="a folder of .npz and tab-separated files to offer")
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name in the address bar that leads here, besides localhost; may repeat",
    )
    parser.set_defaults(action=_serve)


def _stages(arguments: argparse.Namespace) -> int:
    from explorer.compiler.pipeline import STAGES

    if arguments.json:
        fields = ("name", "title", "summary", "source", "targets")
        print(json.dumps([{field: getattr(stage, field) for field in fields} for stage in STAGES]))
        return 0
    for stage in STAGES:
        print(f"{stage.name:8} {stage.title}: {stage.summary} ({stage.source})")
    return 0


def _compile(arguments: argparse.Namespace) -> int:
    from explorer.compiler.pipeline import STAGES

    known = [stage.name for stage in STAGES]
    for name in arguments.stage:
        if name not in known:
            raise BadInput(f"unknown stage '{name}'{_did_you_mean(name, known)}: there are {', '.join(known)}")
    compilation = _compilation(arguments, arguments.data)
    wanted = arguments.stage or known
    if arguments.json:
        print(json.dumps(compilation.to_json(wanted)))
    elif arguments.all or len(arguments.stage) > 1:
        for name in wanted:
            print(f"==== {name} ====\n{_stage_text(compilation, name)}")
    elif arguments.stage:
        print(_stage_text(compilation, wanted[0]), end="")
    else:
        _print_summary(compilation)
    return FAILED if any(not compilation.stages[name].available for name in arguments.stage) else 0


def _compilation(arguments: argparse.Namespace, data: str | None = None) -> Compilation:
    """Compile the file that the arguments name; raises BadInput with the diagnostics of a bad model."""
    import explorer

    text = _read_model(arguments.file)
    compilation = explorer.compile(
        text,
        sizes=_sizes(arguments.set),
        options=_options(arguments),
        name=arguments.name,
        counts=_counts(text, data),
        counted_on=Path(data or "").name,
    )
    if not compilation.ok:
        rendered = [
            f"{arguments.file}:{'' if diagnostic.span else ' '}{diagnostic.render(text)}"
            for diagnostic in compilation.diagnostics
        ]
        raise BadInput("\n".join(rendered), [diagnostic.to_json(text) for diagnostic in compilation.diagnostics])
    return compilation


def _counts(text: str, data: str | None) -> dict[str, int] | None:
    """The sizes of the graph that a layer's costs are counted on; raises BadInput where there is none of that name."""
    if data is None:
        return None
    from explorer.runtime.graphs import graph_counts, has_layer
    from explorer.runtime.inputs import InputError

    if not has_layer(text):
        raise BadInput(f"--data {data[:200]}: only a layer's costs are counted on a graph")
    try:
        return graph_counts(data)
    except InputError as error:
        raise BadInput(str(error)) from None


def _stage_text(compilation: Compilation, name: str) -> str:
    stage = compilation.stages[name]
    return stage.text if stage.available else f"(not available: {stage.reason})\n"


def _print_summary(compilation: Compilation) -> None:
    from explorer.compiler.pipeline import STAGES

    sizes = ", ".join(f"{name} = {size}" for name, size in compilation.sizes.items())
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


def _sizes(words: Iterable[str]) -> dict[str, int]:
    sizes = {}
    for word in words:
        name, _, value = word.partition("=")
        if not name or not (value.isascii() and value.isdigit()):
            raise BadInput(f"--set takes a dimension and a whole number, as in D=64, not '{word[:80]}'")
        if len(value) > 18:
            raise BadInput(f"--set {word[:80]} is too large: no dimension may be that long")
        sizes[name.strip()] = int(value)
    return sizes


def _options(arguments: argparse.Namespace) -> dict[str, str | int | bool]:
    options: dict[str, str | int | bool] = {}
    for word in arguments.option:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise BadInput(f"--option takes NAME=VALUE, as in interchange=false, not '{word[:80]}'")
        options[name.strip()] = value
    if arguments.negatives is not None:
        options["negatives"] = arguments.negatives
    if arguments.grad:
        options["grad"] = True
    return options


def _run(arguments: argparse.Namespace) -> int:
    from explorer.runtime.gpu_device import missing
    from explorer.runtime.jobs import stream_here
    from explorer.runtime.run import DEFAULT_DATA, RunRequest

    if arguments.on == "gpu" and missing():
        raise BadInput(missing())
    for name, least in (("batch", 1), ("repeat", 1), ("seed", 0)):
        if getattr(arguments, name) < least:
            raise BadInput(f"--{name} takes a whole number from {least}, not {getattr(arguments, name)}")
    if not arguments.timeout > 0:
        raise BadInput(f"--timeout takes a number of seconds above 0, not {arguments.timeout:g}")
    machine = _parameters(arguments.machine)
    compilation = _compilation(arguments)
    data = arguments.data or ("" if compilation.family == "op" else DEFAULT_DATA)
    if compilation.family == "score":
        _check_data(data)
    request = RunRequest(
        text=compilation.text,
        on=arguments.on,
        name=arguments.name,
        sizes=_sizes(arguments.set),
        options=_options(arguments),
        data=data,
        batch=arguments.batch,
        repeat=arguments.repeat,
        seed=arguments.seed,
        machine=machine,
        peers=not arguments.no_peers,
    )
    last: dict[str, Any] = {}
    for event in stream_here(request.to_json(), seconds=arguments.timeout):
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


def _reuse(arguments: argparse.Namespace) -> int:
    from explorer.runtime.inputs import InputError
    from explorer.runtime.locality import describe
    from explorer.runtime.op_data import load_reuse

    try:
        found = load_reuse(arguments.data)
    except InputError as error:
        raise BadInput(str(error)) from None
    print(json.dumps(found) if arguments.json else describe(found))
    return 0


def _parameters(words: Iterable[str]) -> dict[str, int | float]:
    """The parameters by name; raises BadInput for names and values that the machine does not take."""
    from explorer.machine.parameters import MachineParameters, ParameterError

    parameters: dict[str, int | float] = {}
    for word in words:
        name, _, value = word.partition("=")
        whole = value.strip().lstrip("-").isdigit() and len(value) <= 18
        try:
            parameters[name.strip()] = int(value) if whole else float(value)
        except ValueError:
            raise BadInput(f"--machine takes NAME=NUMBER, not '{word[:80]}'") from None
    known = MachineParameters().values()
    for name in parameters:
        if name not in known:
            near = _did_you_mean(name, known)
            raise BadInput(f"the machine has no parameter '{name}'{near}: there are {', '.join(sorted(known))}")
    try:
        MachineParameters.of(parameters)
    except ParameterError as error:
        raise BadInput(str(error)) from None
    return parameters


def _check_data(source: str) -> None:
    """Raise BadInput for data that is not there, before a worker is started for it."""
    from explorer.runtime.inputs import PRESETS

    if not os.path.exists(source) and source.lower() not in {name.lower() for name in PRESETS}:
        near = _did_you_mean(source, PRESETS)
        raise BadInput(f"{source[:200]}: no such file or data set{near}: the generated ones are {', '.join(PRESETS)}")


def _bench(arguments: argparse.Namespace) -> int:
    suites = sorted(path.stem for path in (CHECKOUT / "benchmarks").glob("[a-z]*.py"))
    if arguments.suite is not None and arguments.suite not in suites:
        raise BadInput(
            f"unknown suite '{arguments.suite}'{_did_you_mean(arguments.suite, suites)}:"
            f" there are {', '.join(suites) or 'none'}"
        )
    sys.path.insert(0, str(CHECKOUT))
    status = 0
    for suite in [arguments.suite] if arguments.suite else suites:
        module = importlib.import_module(f"benchmarks.{suite}")
        if not arguments.suite:
            by_name_only = getattr(module, "NEEDS_GPU", False)
            print(f"==== {suite}{': needs a GPU, run it by name' if by_name_only else ''} ====", flush=True)
            if by_name_only:
                continue
        status = module.main(arguments.arguments) or status
    return status


def _serve(arguments: argparse.Namespace) -> int:
    from explorer.web.server import ServeError, serve

    data_dir = None if arguments.data_dir is None else Path(arguments.data_dir)
    try:
        serve(arguments.host, arguments.port, data_dir, arguments.allow_host)
    except ServeError as error:
        raise BadInput(str(error)) from None
    return 0


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


if __name__ == "__main__":
    sys.exit(main())
