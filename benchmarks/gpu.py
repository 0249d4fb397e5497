"""Generated kernels on a GPU beside what users run today: PyTorch, TorchScript, torch.compile, PyTorch Geometric,
cuSPARSE.

    explorer bench gpu [--only NAME,...] [--data FILE] [--quick] [--repeat N] [--without PEER,...]
    python -m benchmarks.gpu                          # the same, with lark, NumPy, PyTorch and CuPy alone

Each row's inputs are made on the device; ours and the peers take turns, timed by CUDA events with the L2 cache flushed
before each sample (the warm median stands beside), and our result is held against float64. A row prints one JSON line
when it is done; a table follows in the end. Rows run in a process of their own: when a kernel breaks the device's
context, or a row takes too long, the row says so and the next ones go on in a new process. Status 1 where a result is
wrong or a row failed, 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

BY_NAME_ONLY = "needs a GPU"
"""`explorer bench` runs this suite only where it is named."""

CHECKOUT = Path(__file__).resolve().parents[1]
GRAPH = CHECKOUT.parent / "shared" / "data" / "fb15k-237.npz"
DATA = str(GRAPH) if GRAPH.exists() else "FB15k-237"
REPEAT = 30
ROW_SECONDS = 240
COMPILE_SECONDS = 60
SPARSE_MEAN = 1.5
"""Issue 5: how many times faster than cuSPARSE SpMM is to be in the geometric mean of its rows."""


def main(argv: Sequence[str]) -> int:
    """Measures all rows, or those asked for; returns the exit status."""
    arguments = parse(argv)
    if arguments.worker:
        return work(arguments)
    if arguments.once:
        return once(arguments.once, arguments)
    missing = missing_gpu()
    if missing:
        print(f"not measured, there is no GPU to use: {missing}", file=sys.stderr)
        return 2
    names = names_of(arguments.only)
    if not names:
        print(f"no row begins with {arguments.only}: there are {', '.join(names_of(''))}", file=sys.stderr)
        return 2
    facts, results = measure_all(names, arguments)
    judge(results)
    print(table(facts, results))
    return 0 if all(result.get("right") for result in results) else 1


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="explorer bench gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", default="", metavar="NAME,...", help="rows whose names begin so, as in --only 'TransE,SLS RM'")
    add("--data", default=DATA, help=f"the knowledge graph, a preset or a file; default {DATA}")
    add("--repeat", type=int, default=REPEAT, help=f"samples of each contender; default {REPEAT}")
    add("--quick", action="store_true", help="small shapes and few samples: whether everything runs, in a minute")
    add("--without", default="", metavar="PEER,...", help="peers to leave out whose names hold one of these words")
    add("--row-limit", type=int, default=ROW_SECONDS, help=f"seconds that a row may take; default {ROW_SECONDS}")
    add(
        "--compile-limit",
        type=int,
        default=COMPILE_SECONDS,
        help=f"the same of torch.compile, and of TorchScript; default {COMPILE_SECONDS}",
    )
    add("--worker", help=argparse.SUPPRESS)  # the rows that this process measures, as JSON
    add("--once", metavar="NAME", help="run our kernels of one row once, untimed: for compute-sanitizer")
    arguments = parser.parse_args(argv)
    if Path(arguments.data).exists():  # a preset is no path; rows are measured in the checkout
        arguments.data = str(Path(arguments.data).resolve())
    return arguments


def missing_gpu() -> str:
    """Why nothing can be measured here, or ""."""
    try:
        import cupy
        import torch

        cupy.cuda.runtime.getDeviceProperties(0)
    except Exception as error:  # one of them is not there, or the driver or the GPU is not
        return str(error)
    return "" if torch.cuda.is_available() else "PyTorch finds none"


def names_of(only: str) -> list[str]:
    """The rows whose names begin with one of the words between commas; all where there is none."""
    from benchmarks.gpu_suite.rows import ROWS

    wanted = [word.strip().lower() for word in only.split(",") if word.strip()]
    return [row.name for row in ROWS if not wanted or any(row.name.lower().startswith(word) for word in wanted)]


def measure_all(names: list[str], arguments: argparse.Namespace) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The device's facts and every row's result, which are printed as they come; a row that its process did not
    survive has an error instead."""
    facts: dict[str, Any] = {}
    results: list[dict[str, Any]] = []
    while len(results) < len(names):
        left = names[len(results) :]
        for message in _worker(left, arguments):
            if "row" not in message:
                facts = facts or message
            else:
                results.append(message)
            print(json.dumps(message), flush=True)
            if message.get("fault"):
                break
        if not facts:  # the process did not come to its first row: neither would the next
            results += [{"row": name, "error": results[-1]["error"]} for name in names[len(results) :]]
    return facts, results


def _worker(names: list[str], arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What a process that measures these rows prints; where it ends early or hangs, an error for the row at hand."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--worker", json.dumps(names), *_passed_on(arguments)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        done = 0
        try:
            while done < len(names):
                try:
                    line = lines.get(timeout=arguments.row_limit)
                except queue.Empty:
                    yield {"row": names[done], "error": f"took more than {arguments.row_limit} s", "fault": True}
                    return
                if not line:
                    yield {"row": names[done], "error": f"its process ended with {process.wait()}", "fault": True}
                    return
                message = json.loads(line)
                done += "row" in message
                yield message
        finally:
            process.kill()


def _read(stream: Any, lines: queue.Queue[str]) -> None:
    for line in stream:
        if line.startswith("{"):  # what libraries print is no message
            lines.put(line)
    lines.put("")


def _passed_on(arguments: argparse.Namespace) -> list[str]:
    given = ["--data", arguments.data, "--repeat", str(arguments.repeat), "--without", arguments.without]
    return [*given, "--compile-limit", str(arguments.compile_limit), *(["--quick"] if arguments.quick else [])]


def work(arguments: argparse.Namespace) -> int:
    """Measures the rows that `--worker` names, a JSON line each; ends at once where the device's context is broken."""
    import torch

    from benchmarks.gpu_suite.measuring import Bench
    from benchmarks.timing.device import first_line

    torch.backends.cuda.matmul.allow_tf32 = False
    bench = Bench(arguments)
    print(json.dumps(bench.facts()), flush=True)
    for name in json.loads(arguments.worker):
        began = perf_counter()
        try:
            result = bench.measure(picked(name, arguments))
        except Exception as error:
            result = {"error": first_line(error)}
        result = {"row": name, **result, "seconds": round(perf_counter() - began, 1)}
        if broken():
            result["fault"] = True
        print(json.dumps(result), flush=True)
        if result.get("fault"):
            return 1
        bench.free()
    return 0


def picked(name: str, arguments: argparse.Namespace) -> Any:
    """A row by its name, small where the run is to be quick."""
    from benchmarks.gpu_suite.rows import ROWS, smaller

    row = next(row for row in ROWS if row.name == name)
    return smaller(row) if arguments.quick else row


def broken() -> bool:
    """Whether the device's context can do nothing more."""
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def once(name: str, arguments: argparse.Namespace) -> int:
    """Our kernels of one row, launched once."""
    import torch

    from benchmarks.gpu_suite.measuring import bind

    row = picked(name, arguments)
    bind(row.problem("cuda", arguments.data)).launch()
    torch.cuda.synchronize()
    return 0


def judge(results: list[dict[str, Any]]) -> None:
    """Adds to each result whether it is `right` and whether it reaches its target, `passes`."""
    ours = {result["row"]: result["ours"]["ms"] for result in results if "ms" in result.get("ours", {})}
    for result in results:
        result["right"] = result.get("error_of_64", float("inf")) <= result.get("tolerance", 0)
        if result["row"] not in ours:
            continue
        ms, targets = ours[result["row"]], [result["target_ms"]] if result.get("target_ms") else []
        times = {name: peer["ms"] for name, peer in result["peers"].items() if "ms" in peer}
        if times:
            result["best_peer"] = (
                result["against"] if result.get("against") in times else min(times, key=times.__getitem__)
            )
            result["of_peer"] = round(ms / times[result["best_peer"]], 4)
            if result.get("target_of_peer"):
                targets.append(result["target_of_peer"] * times[result["best_peer"]])
        if result.get("target_of_row") and result["target_of_row"][0] in ours:
            other, factor = result["target_of_row"]
            targets.append(factor * ours[other])
        if targets:
            result["target"] = round(min(targets), 5)
            result["passes"] = result["right"] and ms <= result["target"]


def table(facts: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """The figures for people."""
    lines = [
        f"measured on {facts.get('device')}, {facts.get('date')}; PyTorch {facts.get('torch')}; NVRTC"
        f" {facts.get('nvrtc')}; copies {facts.get('copy_TBps', 0):.2f} TB/s, products"
        f" {facts.get('fp32_TFLOPs', 0):.0f} TFLOP/s in float32 and {facts.get('tf32_TFLOPs', 0):.0f} in TF32;"
        f" {facts.get('data')}",
        "",
        f"{'row':24}{'ours ms':>10}{'warm':>9}{'target':>9}{'':5}{'hand':>8}{'limit':>9}{'x limit':>8}"
        f"{'kernels':>8}{'MiB':>9}{'error':>9}  peers, ms (ratio of ours to the best)",
    ]
    for result in results:
        ours = result.get("ours", {})
        if "ms" not in ours:
            lines.append(f"{result['row']:24}{result.get('error') or ours.get('error')}")
            continue
        verdict = {True: "yes", False: "NO", None: ""}[result.get("passes")]
        peers = [f"{name} {_time(peer)}" for name, peer in result["peers"].items()]
        ratio = f" ({result['of_peer']:.2f} of {result['best_peer']})" if "best_peer" in result else ""
        lines.append(
            f"{result['row']:24}{ours['ms']:>10.4f}{_number(ours['warm_ms']):>9}{_number(result.get('target')):>9}{verdict:>5}"
            f"{_number(result.get('hand_ms')):>8}{result['limit_ms']:>9.4f}{ours['ms'] / result['limit_ms']:>8.1f}"
            f"{result['kernels']:>8}{result['made_bytes'] / 2**20:>9.1f}{result['error_of_64']:>9.1e}"
            f"{'' if result['right'] else ' WRONG'}  {', '.join(peers)}{ratio}"
            + (f"; {result['note']}" if result.get("note") else "")
        )
    return "\n".join([*lines, *_sparse_mean(results)])


def _sparse_mean(results: list[dict[str, Any]]) -> list[str]:
    ratios = [result["of_peer"] for result in results if result["row"].startswith("SpMM") and "of_peer" in result]
    if not ratios:
        return []
    faster = 1.0
    for ratio in ratios:
        faster /= ratio ** (1 / len(ratios))
    return [f"SpMM is {faster:.2f} times as fast as cuSPARSE in the geometric mean (target {SPARSE_MEAN})"]


def _time(peer: dict[str, Any]) -> str:
    return f"{peer['ms']:.4g}" if "ms" in peer else f"[{peer['error'][:60]}]"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
