"""Every model of a folder on a GPU, forward or with its backward pass, beside eager PyTorch in turns.

    explorer bench gpu_models [--models DIR] [--grad] [--only NAME,...] [--compiled NAME,...] [--jobs N] [--seconds S]

Models run at four times the sizes that they name where these are 8 to 32 (`--times`); where that is refused, at their
own. Many processes compile, draw and compute in float64; one at a time is on the device from where PyTorch is set up,
caches flushed. A model is slower than eager where the 95 % interval of the ratio of medians lies above 1.03 and not
both take under 10 us. Prints a table; status 1 where a model failed or is slower, 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import multiprocessing
import queue
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import numpy as np

import explorer
from benchmarks.cases.checked import ZOO
from benchmarks.gpu import DATA, missing_gpu
from explorer.runtime import on_gpu
from explorer.runtime.peers import timed
from explorer.runtime.run import RunRequest, execute

BY_NAME_ONLY = "needs a GPU"
"""`explorer bench` runs this suite only where it is named."""

LISTS = ("RM2:L0", "arxiv", "BigBird:8", "com-Youtube/100")
"""What an op may be of; the first that it takes is."""
SMALL = range(8, 33)
GROWN = 4
BATCH, REPEAT = 16_384, 30
SLOWER, SHORT_MS = 1.03, 0.010
RESAMPLED = 1_000


def main(argv: Sequence[str]) -> int:
    """Measures every model; returns the exit status."""
    arguments = parse(argv)
    if missing := missing_gpu():
        print(f"not measured, there is no GPU to use: {missing}", file=sys.stderr)
        return 2
    rows = []
    for row in measure_all(names(arguments), arguments):
        rows.append(row | judged(row))
        if arguments.json:
            print(json.dumps(rows[-1]), flush=True)
    print(table(rows, arguments.grad))
    return int(any(row.get("failed") or row.get("slower") for row in rows))


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="explorer bench gpu_models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--models", type=Path, default=ZOO, metavar="DIR", help="model texts, *.emb (default: %(default)s)")
    add("--grad", action="store_true", help="with the backward pass")
    add("--only", default="", metavar="NAME,...", help="models of these names")
    add("--compiled", default="", metavar="NAME,...", help="these beside torch.compile too, or `all`")
    add("--graph", default="mutag", help="what layers run on; default %(default)s")
    add("--lists", default=",".join(LISTS), help="what ops are of: the first that one takes; default %(default)s")
    add("--times", type=int, default=GROWN, help="how many times as large sizes of 8 to 32 are; default %(default)s")
    add("--triples", default=DATA, help="what scores are of; default %(default)s")
    add("--jobs", type=int, default=8, help="processes that prepare models; default %(default)s")
    add("--seconds", type=float, default=1e6, help="begin no model after so long")
    add("--repeat", type=int, default=REPEAT, help="samples of each; default %(default)s")
    add("--json", action="store_true", help="print a JSON line a model too, with all samples")
    return parser.parse_args(argv)


def names(arguments: argparse.Namespace) -> list[str]:
    """The models to measure: those asked for, or all of the folder."""
    asked = [name for name in arguments.only.split(",") if name]
    return asked or sorted(path.stem for path in arguments.models.glob("*.emb"))


def measure_all(wanted: Sequence[str], arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row a model, as it is done. What a process that ended had begun has failed; what was not begun in time, too."""
    context = multiprocessing.get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    for name in wanted:
        todo.put(name)
    with TemporaryDirectory() as folder:
        given = (todo, done, arguments, Path(folder) / "device", monotonic() + arguments.seconds)
        processes = [context.Process(target=work, args=given, daemon=True) for _ in range(arguments.jobs)]
        for process in processes:
            process.start()
        begun: dict[int, str] = {}
        left = set(wanted)
        while left and (any(process.is_alive() for process in processes) or not done.empty()):
            try:
                pid, name, row = done.get(timeout=1)
            except queue.Empty:
                continue
            begun[pid] = name
            if row is not None:
                left.discard(name)
                yield row
        for name in sorted(left):
            why = "its process ended" if name in begun.values() else "not begun in time"
            yield {"model": name, "failed": why}


def work(todo: Any, done: Any, arguments: argparse.Namespace, lock: Path, end: float) -> None:
    """A process: measures models until there are none, telling each when it begins and when it is done."""
    pid = multiprocessing.current_process().pid
    while monotonic() < end:
        try:
            name = todo.get(timeout=1)
        except queue.Empty:
            return
        done.put((pid, name, None))
        began = monotonic()
        try:
            row = measure(name, arguments, lock)
        except Exception as error:
            row = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
        done.put((pid, name, {"model": name, **row, "seconds": round(monotonic() - began, 1)}))


def measure(name: str, arguments: argparse.Namespace, lock: Path) -> dict[str, Any]:
    """A model's times and those of its peers, at the first of the sizes and data that it runs with."""
    text = (arguments.models / f"{name}.emb").read_text()
    made = explorer.compile(text, on_demand=True)
    if not made.ok:
        return {"failed": made.diagnostics[0].message}
    kinds = {"score": (arguments.triples,), "layer": (arguments.graph,), "op": tuple(arguments.lists.split(","))}
    last: Mapping[str, Any] = {}
    for sizes in (grown(made.sizes, arguments.times), dict(made.sizes)):
        for data in kinds[made.family or ""]:
            last = run(text, sizes, data, name, arguments, lock)
            if last.get("median_ms"):
                return {"data": data, **figures(last)}
    return {"failed": str(last.get("message") or last.get("reason") or last)[:300]}


def grown(sizes: Mapping[str, int], times: int = GROWN) -> dict[str, int]:
    """The larger sizes that a model is measured at."""
    return {name: size * times if size in SMALL else size for name, size in sizes.items()}


def run(
    text: str, sizes: Mapping[str, int], data: str, name: str, arguments: argparse.Namespace, lock: Path
) -> Mapping[str, Any]:
    """The last event of a run, which waits for the device before it sets up its peers, and keeps it to its end."""
    beside = arguments.compiled.split(",")
    on_gpu.peers_of = timed.all_peers_of if {name, "all"} & set(beside) else timed.peers_of
    options = {"grad": True} if arguments.grad else {}
    request = RunRequest(
        text=text, on="gpu", sizes=sizes, options=options, data=data, batch=BATCH, repeat=arguments.repeat
    )
    last: Mapping[str, Any] = {}
    with lock.open("w") as device, closing(execute(request)) as events:
        for last in events:
            if last.get("what") == on_gpu.SETTING_UP_PEERS:
                fcntl.flock(device, fcntl.LOCK_EX)
    return last


def figures(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a row has of a run's result."""
    shown = ("median_ms", "samples_ms", "reason")
    return {
        "sizes": result["sizes"],
        "kernels": len(result["kernels"]),
        "ms": result["median_ms"],
        "samples_ms": result["samples_ms"],
        "peers": {peer["name"]: {key: peer[key] for key in shown} for peer in result["peers"]},
    }


def judged(row: Mapping[str, Any]) -> dict[str, Any]:
    """How many times as fast as eager PyTorch a model is, and whether it is slower."""
    eager = row.get("peers", {}).get("eager PyTorch", {}).get("samples_ms")
    if not eager:
        return {}
    ours, theirs = np.array(row["samples_ms"]), np.array(eager)
    random = np.random.default_rng(0)
    medians = [np.median(random.choice(each, (RESAMPLED, len(each))), axis=1) for each in (ours, theirs)]
    least = float(np.percentile(medians[0] / medians[1], 2.5))
    short = max(np.median(ours), np.median(theirs)) < SHORT_MS
    return {"times": float(np.median(theirs) / np.median(ours)), "slower": least > SLOWER and not short}


def table(rows: Sequence[Mapping[str, Any]], grad: bool) -> str:
    """The figures for people, the slowest beside its peer first; what has no times comes last."""
    timed = sorted((row for row in rows if "times" in row), key=lambda row: float(row["times"]))
    lines = [f"{'model':26}{'ours ms':>10}{'eager ms':>10}{'times':>8}{'kernels':>9}  torch.compile"]
    for row in timed:
        eager, other = (row["peers"].get(name, {}) for name in ("eager PyTorch", "torch.compile"))
        beside = f"{other['median_ms']:.4f}" if other.get("median_ms") else other.get("reason", "")[:80]
        lines.append(
            f"{row['model']:26}{row['ms']:>10.4f}{eager['median_ms']:>10.4f}{row['times']:>8.2f}{row['kernels']:>9}"
            f"  {beside}{'  SLOWER' if row['slower'] else ''}"
        )
    for row in rows:
        if "times" not in row:
            lines.append(f"{row['model']:26}{row.get('failed') or row['peers']}")
    if timed:
        mean = exp(sum(log(row["times"]) for row in timed) / len(timed))
        kind = "with gradients" if grad else "forward"
        slower = sum(row["slower"] for row in timed)
        lines.append(f"{kind}: {len(timed)} of {len(rows)} timed, {mean:.2f} times in the mean, {slower} slower")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
