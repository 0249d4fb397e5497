"""What the command line takes: the words of each command. What their values stand for is in `values`, and what commands
do in `cli`."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from explorer.checkout import CHECKOUT
from explorer.runtime.runs.events import sentence_diagnostic
from explorer.runtime.targets.table import TARGETS, reading
from explorer.runtime.tuning import DEFAULT_TRIALS, SEARCHES
from explorer.values import BadInput

_EXAMPLES = """examples:
  explorer compile examples/kge/transr.emb --all
  explorer compile examples/kge/transr.emb --stage cuda --set D=128 --set K=32
  explorer export examples/rgnn/rgat.emb build/rgat --grad
  explorer run examples/kge/transr.emb --on dae
  explorer run examples/kge/transe_l1.emb --on cpu --data triples.tsv --negatives tail:64 --json
  explorer run examples/rgnn/rgat.emb --on cpu --data small --grad --option compact=false
  explorer run examples/embedding/sls.emb --on dae --data RM3:L0 --option opt=3
  explorer run examples/embedding/sls.emb --program examples/embedding/sls.dlc --on dae --data RM1:L0
  explorer run examples/kge/transh.emb --on gpu --batch 16384 --set D=512 --repeat 100
  explorer tune examples/embedding/sls.emb --on dae --data RM3:L0
  explorer reuse --data RM1:L1
  explorer import model.py:example -o model.emb
  explorer serve --port 8000
  explorer worker --queue redis://queue.example.edu --only cpu,dae
"""

_OPTIONS = """compiler options, as in --option lanes=8; the usual value stands first:
  of the graph
    negatives=none tail:N head:N   triples for each one of the batch, with that end replaced (scores)
    negatives=own:N                how many a text's own set of negatives has, n: negatives of entity
    negatives=tail:N/C             the same N for C triples in a row, a chunk; head:N/C and own:N/C likewise
    grad=false true                the backward pass
    apart=false true               its kernels make no results, as in a training step, where it comes later
    reorder=true false             weights are multiplied with weights first, where that saves work (layers)
    compact=true false             what depends on an edge's source and type is computed once a pair (layers)
    edges=dst src                  the end that edges are sorted by in memory (layers): CSC or CSR when compressed
    aggregate=true false           sums by destination and type come before their product (layers)
  of the loops
    interchange=true false         matrices are read along their rows
    online=true false              a softmax, and what it weighs, in one visit
    pack=false true                scalars of a row as columns of the vector that is read with them (layers)
    pad=0 4 8 16 32                rows that kernels make for one another begin at multiples of so many numbers
  of the DAE machine (Ember)
    opt=3 0 1 2                    the level of SLC that it runs
    vlen=16 (1 to 64)              elements of a vector
    address_streams, store_streams, level_hints, accumulate_streams, toggle_callbacks=false true
  of a GPU; 0 leaves a number to the compiler
    arch=sm_90 sm_80 sm_90a        what PTX and SASS are made for; with an a, for that generation alone
    precision=float32 tf32x3 tf32  what products are taken in: errors of up to 2e-6, 1e-5, 2e-3
    encoding=coo compressed        which row or destination an element is of: read, or searched for (CSR, CSC)
    inspect=true chunks false      rows are grouped by their matrix; cuKE's chunks of edges; nothing
    inspect_edges=64 (2 to 64)     edges of a chunk (C); so are inspect_group=32 (1 to 128) chunks sorted together
                                   (p), inspect_block=64 (32 to 128) elements of a row (D) and
                                   inspect_cached=2 (1 to 8) matrices (C1)
    inspect_reload=false true      a product's rows, by chunks: computed for each block of columns; or once, stored and
                                   reloaded
    inspect_shuffle=false true     such rows: in shared memory; or handed from lane to lane
    split=auto rows nonzeros       what warps share out of a sum over segments
    chunk=0 (32 to 4096)           nonzeros of a warp (kNnzTile)
    lanes=0 (2 to 32)              lanes that share a row (kLaneWidth)
    lane_vectors=0 (1 to 16)       vectors of a row that a lane has (kNRegTile)
    block_rows=0 (1 to 1024)       rows of a block (kMTile)
    block_columns=0 (16 to 512)    columns of a block, where rows are shared out (kNTile)
    preload=0 (32 to 512)          nonzeros in shared memory at a time, where rows are shared out (kNnzTile)
    balance=false true             rows sorted by length, where they are shared out
    popular=false true             the rows gathered most often are kept in the L2 cache"""


class _Parser(argparse.ArgumentParser):
    """Reports bad arguments like any other bad input, as JSON where that was asked for."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message}\n{self.format_usage().strip()}", [sentence_diagnostic(message)])


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; `command` is the one that was given."""
    parser = _Parser(
        prog="explorer",
        description="Compile an embedding model, look at every stage, and run it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    _add_stages(commands)
    _add_functions(commands)
    _add_compile(commands)
    _add_export(commands)
    _add_space(commands)
    _add_run(commands)
    _add_tune(commands)
    _add_reuse(commands)
    _add_import(commands)
    _add_bench(commands)
    _add_serve(commands)
    _add_worker(commands)
    told = "try what this host gives a server: what workers are kept to, and targets"
    _command(commands, "doctor", told, "explorer doctor")
    return parser


def _command(commands: Any, name: str, summary: str, example: str, more: str = "") -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[:1].upper()}{summary[1:]}.",
        epilog=f"{more}example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser


def _add_model_arguments(parser: argparse.ArgumentParser, schedule: bool = True, needed: bool = True) -> None:
    told = "the model's text (.emb), or - for standard input"
    parser.add_argument("file", metavar="FILE", nargs=None if needed else "?", help=told)
    parser.add_argument("--name", metavar="DEF", help="the definition to use; default: the last that is no helper")
    parser.add_argument(
        "--set", metavar="DIM=N", action="append", default=[], help="a dimension's size, as in D=64; may repeat"
    )
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a compiler option, of those below; may repeat",
    )
    if schedule:
        parser.add_argument(
            "--schedule",
            metavar="FILE",
            help="what to choose for kernels of the gpu: lines as the stage kernels prints them ('chosen K: chunk ="
            " 256'), or JSON as `space` does; the rest is left to the options",
        )
    parser.add_argument("--grad", action="store_true", help="derive the backward pass too (as --option grad=true)")
    parser.add_argument(
        "--negatives",
        metavar="SIDE:N",
        help="score N corrupted triples for each: tail:64 or head:64; own:64, of a text's own negatives;"
        " tail:256/1024 has one list for 1,024 triples in a row",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")


def _add_batch(parser: argparse.ArgumentParser) -> None:
    told = "the triples that a score mostly gets at a time, as a run on a gpu knows them; default: any number"
    parser.add_argument("--batch", metavar="N", type=int, help=told)


def _add_stages(commands: Any) -> None:
    parser = _command(commands, "stages", "list the stages of the compiler", "explorer stages")
    parser.add_argument("--json", action="store_true", help="print them as JSON")


def _add_functions(commands: Any) -> None:
    parser = _command(commands, "functions", "list the functions that a text can call", "explorer functions")
    parser.add_argument("--json", action="store_true", help="print them as JSON")


def _add_compile(commands: Any) -> None:
    parser = _command(
        commands,
        "compile",
        "compile a model and print its stages",
        "explorer compile examples/kge/transr.emb --stage loops --set D=128",
        f"{_OPTIONS}\n\n",
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
        help="the data that a layer or an op is compiled for (see `run`): costs are counted on it, and an op's rows"
        " have its sizes; default: assumed counts, and the text's sizes",
    )
    _add_batch(parser)


def _add_export(commands: Any) -> None:
    parser = _command(
        commands,
        "export",
        "write a model as a PyTorch extension that is built and used without the explorer",
        "explorer export examples/kge/transr.emb build/transr --grad",
        f"{_OPTIONS}\n\n",
    )
    _add_model_arguments(parser)
    _add_batch(parser)
    told = "the folder to write: CUDA, host functions, a module, setup.py and a test; made, or written over"
    parser.add_argument("folder", metavar="DIR", help=told)


def _add_space(commands: Any) -> None:
    parser = _command(
        commands,
        "space",
        "count and list what may be chosen for the kernels of a gpu",
        "explorer space examples/embedding/spmm.emb --json",
        f"{_OPTIONS}\n\n",
    )
    _add_model_arguments(parser)
    parser.add_argument("--data", metavar="PRESET|FILE", help="the data that it is compiled for (see `compile`)")
    _add_batch(parser)


def _add_run(commands: Any) -> None:
    parser = _command(
        commands,
        "run",
        "run a model on a target and check its results",
        "explorer run examples/kge/transr.emb --on cpu --data FB15k-237 --repeat 50",
        f"{_OPTIONS}\n\n",
    )
    _add_model_arguments(parser)
    titles = ", ".join(f"{name}: {target.title}" for name, target in TARGETS.items())
    parser.add_argument("--on", choices=list(TARGETS), required=True, help=titles)
    parser.add_argument(
        "--program",
        metavar="FILE",
        help=f"on {reading('written')}, run this text in the form of the stage dlc, written by hand, and check it"
        " against the model",
    )
    parser.add_argument(
        "--data",
        metavar="PRESET|FILE",
        help="FB15k, FB15k-237, BioKG, WN18 (generated), or a .npz or tab-separated file; for a layer also a generated"
        " graph (tiny, small, aifb, ... wikikg2), and triples are taken with their inverses (for one between two sets,"
        " heads are the first and tails the second); default FB15k-237. For an"
        " op RM1:L0 to RM3:L2 (Ember's Table 3), BigBird:1 to BigBird:8, a graph of Ember's Table 2"
        " (arxiv ... wiki-Talk; wiki-Talk/500 is one row in 500 of it), any of the graphs above, or an .npz file of ptr"
        " and idx, rowptr and col, row and col, or ptr and blocks; default RM1:L0, com-Youtube/500 or BigBird:8",
    )
    parser.add_argument("--batch", metavar="N", type=int, help="triples that a score is of; default 1024")
    parser.add_argument("--repeat", metavar="N", type=int, default=20, help="timed repeats on cpu or gpu; default 20")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the triples drawn and the parameters")
    parser.add_argument(
        "--timeout", metavar="S", type=float, default=120.0, help="stop after so many seconds; default 120"
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="the most that the run's arrays may take, as in 8GiB or 500MB; default: what is free on the gpu, or three"
        " quarters of what is free on this machine. Of a run of more than 2 GiB, or that takes long to check, rows that"
        " are drawn are checked",
    )
    parser.add_argument(
        "--machine",
        metavar="NAME=N",
        action="append",
        default=[],
        help="a parameter of the dae machine, as in mshrs=64 (a wrong name lists them); may repeat",
    )
    told = "run what is usual, whatever `tune` has found for this model, data and device"
    parser.add_argument("--no-tuned", action="store_true", help=told)
    _add_store(parser, "the file that `tune` keeps what it found in")
    beside = parser.add_mutually_exclusive_group()
    beside.add_argument(
        "--peer",
        choices=("eager", "compile"),
        action="append",
        help="on cpu or gpu, time PyTorch beside it: eager, or by torch.compile, which starts a C++ compiler and may"
        " take half of --timeout to compile; may repeat; default on gpu: eager, where it is installed",
    )
    beside.add_argument("--no-peers", action="store_true", help="on gpu, time nothing beside it")


def _add_store(parser: argparse.ArgumentParser, told: str) -> None:
    parser.add_argument("--store", metavar="FILE", help=f"{told}; default: one in the platform's folder for caches")


def _add_tune(commands: Any) -> None:
    parser = _command(
        commands,
        "tune",
        "search for what is faster on a target than what is usual there",
        "explorer tune examples/embedding/sls.emb --on dae --data RM3:L0 --trials 32",
        f"{_OPTIONS}\n\n",
    )
    _add_model_arguments(parser, schedule=False)
    parser.add_argument("--on", choices=list(TARGETS), required=True, help="as for `run`")
    parser.add_argument("--data", metavar="PRESET|FILE", help="as for `run`")
    parser.add_argument("--batch", metavar="N", type=int, help="triples that a score is of; default 1024")
    told = f"points that may be tried, the usual one first; default {DEFAULT_TRIALS}"
    parser.add_argument("--trials", metavar="N", type=int, default=DEFAULT_TRIALS, help=told)
    told = "which point is tried next: by what is expected of it (the default), by G-Sparse's genetic search, or any"
    parser.add_argument("--search", choices=SEARCHES, default=SEARCHES[0], help=told)
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the data drawn, and of the search")
    told = (
        "stop after so many seconds; no trial begins unless one like the longest so far ends before the last fifth of"
        " them; default 120"
    )
    parser.add_argument("--timeout", metavar="S", type=float, default=120.0, help=told)
    parser.add_argument("--memory", metavar="SIZE", help="as for `run`")
    parser.add_argument(
        "--schedule",
        metavar="OUT",
        dest="export",
        help="on gpu, write the schedule that was chosen to this file, as `run --schedule` takes it",
    )
    parser.add_argument(
        "--replay",
        metavar="NAME",
        help="search a space of this model that was recorded on a GPU, by the times recorded there on"
        " its own data; usual with --on gpu where there is no GPU",
    )
    _add_store(parser, "the file that keeps what was found for later runs")
    told = "a parameter of the dae machine, which then stays as it is; may repeat"
    parser.add_argument("--machine", metavar="NAME=N", action="append", default=[], help=told)


def _add_reuse(commands: Any) -> None:
    parser = _command(
        commands,
        "reuse",
        "show how far apart accesses to the same row are in data that ops run on, and what an op computes a lookup",
        "explorer reuse examples/embedding/mp.emb --data arxiv",
        f"{_OPTIONS}\n\n",
    )
    _add_model_arguments(parser, schedule=False, needed=False)
    parser.add_argument(
        "--data", metavar="PRESET|FILE", required=True, help="as for an op's run: RM1:L1, wiki-Talk/500, lists.npz"
    )


def _add_import(commands: Any) -> None:
    parser = _command(
        commands,
        "import",
        "write the text of a module of PyTorch, of a file that is run for it",
        "explorer import m.py:example",
    )
    told = "a function of that file, which returns a module and its inputs, or a module with example_inputs"
    parser.add_argument("what", metavar="FILE:NAME", help=told)
    parser.add_argument("-o", dest="out", metavar="FILE", help="where to write it, in the place of standard output")


def _add_bench(commands: Any) -> None:
    parser = _command(commands, "bench", "run the benchmarks, all suites or one", "explorer bench compile")
    names = ", ".join(benchmark_suites()) or "none here"
    told = f"one of {names}; benchmarks/README.md says what each times, and SUITE --help what it takes"
    parser.add_argument("suite", metavar="SUITE", nargs="?", help=told)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on to the suite")


def _add_serve(commands: Any) -> None:
    parser = _command(commands, "serve", "open the page and the JSON API", "explorer serve --port 8000 --data-dir data")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; default 127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="default 8000; 0 takes any that is free")
    parser.add_argument("--data-dir", metavar="DIR", help="a folder of .npz and tab-separated files to offer")
    parser.add_argument(
        "--queue",
        metavar="URL",
        help="leave runs to workers (see `worker`) that take them from Redis or Valkey: redis://HOST:PORT, or "
        "unix:///PATH of a socket; default: processes of the server's own",
    )
    parser.add_argument(
        "--web-processes",
        metavar="N",
        type=int,
        default=1,
        help="answer in so many processes, which share the port and what was compiled; needs --queue. For hundreds of "
        "students one for every four cores; default 1",
    )
    parser.add_argument(
        "--store",
        metavar="ADDRESS",
        help="keep links, and texts and runs of students, over a restart: in a file (PATH or sqlite:///PATH), or at "
        "postgresql://USER@HOST/NAME; default: nothing is kept",
    )
    _add_run_memory(parser)
    told = "let assistants compile and run models by the Model Context Protocol, at /mcp, under the same limits"
    parser.add_argument("--mcp", action="store_true", help=told)
    parser.add_argument(
        "--compile-peers",
        action="store_true",
        help="let runs be timed beside torch.compile too, which takes PyTorch and g++, and up to a minute a run; the "
        "processes that run models may then start programs, still without other files and the network; not with "
        "--queue",
    )
    _add_addresses(parser)
    told = "readable lines of faults alone, or a line of JSON for each answer and fault; default text"
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help=told)
    _add_class(parser)


def _add_addresses(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name in the address bar that leads here, besides localhost and, where --host listens to others, this "
        "computer's name and addresses; may repeat; '*' for any",
    )
    parser.add_argument(
        "--proxy",
        metavar="ADDRESS",
        action="append",
        default=[],
        help="the address or network of a proxy before this server, whose X-Forwarded-For and -Proto are believed; may "
        "repeat. It must forward the Host header as it is, with its port, and WebSockets",
    )
    parser.add_argument(
        "--metrics-for",
        metavar="ADDRESS",
        action="append",
        default=[],
        help="an address or network that /metrics answers, besides this computer's own; may repeat. Never by a proxy",
    )


def _add_run_memory(parser: argparse.ArgumentParser) -> None:
    told = (
        "the most that the arrays of one run may take here, and as much again for the rest of its process, as in 32GiB "
        "for whole graphs on a GPU; default 2GiB, which is the least"
    )
    parser.add_argument("--memory", metavar="SIZE", help=told)


def _add_class(parser: argparse.ArgumentParser) -> None:
    about = "any of these turns on the instructor's page, /instructor; give all servers of one --queue the same"
    group = parser.add_argument_group("for a class", about)
    told = "print the address of the instructor's page, with its token, which all servers of one --queue have in common"
    group.add_argument("--class", dest="with_class", action="store_true", help=told)
    told = "what students are asked for once, with a name if they like; without it, whoever opens the page is one"
    group.add_argument("--class-code", metavar="CODE", help=told)
    told = "how many students a class with a code has room for; default 100"
    group.add_argument("--class-size", metavar="N", type=int, help=told)
    told = "a folder that hand-ins are written to; without it they are lost when the server, or the --queue, stops"
    group.add_argument("--hand-ins", metavar="DIR", help=told)
    told = "a file with the instructor's token, of 16 characters or more, which is then not printed"
    group.add_argument("--instructor-token-file", metavar="FILE", help=told)


def _add_worker(commands: Any) -> None:
    told = "take runs of a server's --queue, one at a time, and do them on this host"
    parser = _command(commands, "worker", told, "explorer worker --queue redis://queue.example.edu --only cpu,dae")
    parser.add_argument(
        "--queue", metavar="URL", required=True, help="the server's: redis://HOST:PORT, or unix:///PATH of a socket"
    )
    parser.add_argument("--gpu", metavar="N", type=int, help="run on this GPU of the host's; default: all are seen")
    parser.add_argument("--only", metavar="TARGETS", help="as in cpu,dae; default: all that this host has")
    parser.add_argument("--data-dir", metavar="DIR", help="the same folder of files as the server's")
    _add_run_memory(parser)


def benchmark_suites() -> list[str]:
    """The names that `explorer bench` takes; none where the checkout's benchmarks are not there."""
    return sorted(path.stem for path in (CHECKOUT / "benchmarks").glob("[a-z]*.py"))
