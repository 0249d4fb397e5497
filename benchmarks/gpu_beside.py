"""The rows of the suite `gpu` in this checkout and in another one, in turns on the same GPU.

    explorer bench gpu_beside --other DIR [--only NAME,...] [--data FILE] [--turns N] [--json]

Each checkout has a process, which runs this suite as it is there. It binds a row's kernels to inputs that both draw
from the same seeds; then they are timed by turns, 15 samples each, caches flushed. Prints the medians and their ratio a
row; `gpu` says whether results are right. Status 1 where a row failed or takes over 1.02 times the other's, 2 where
there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

BY_NAME_ONLY = "needs a GPU and another checkout"
"""`explorer bench` runs this suite only where it is named."""

HERE = Path(__file__).resolve().parents[1]
SAMPLES = 15
MOST = 1.02


def main(argv: Sequence[str]) -> int:
    """Measures all rows, or those asked for; returns the exit status."""
    arguments = parse(argv)
    if arguments.worker:
        return work(arguments.data)
    from benchmarks.gpu import missing_gpu

    if missing := missing_gpu():
        print(f"not measured, there is no GPU to use: {missing}", file=sys.stderr)
        return 2
    bad = 0
    print(f"{'row':28}{'here ms':>10}{'other ms':>10}{'ratio':>8}")
    for row in measure_all(arguments):
        bad += "error" in row or row["ratio"] > MOST
        print(json.dumps(row) if arguments.json else line_of(row), flush=True)
    return int(bad > 0)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    from benchmarks.gpu import DATA

    parser = argparse.ArgumentParser(
        prog="explorer bench gpu_beside", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--other", type=Path, default=HERE, metavar="DIR", help="the other checkout (default: this one, for the noise)")
    add("--only", default="", metavar="NAME,...", help="rows whose names begin so")
    add("--data", default=DATA, help="the knowledge graph, a preset or a file; default %(default)s")
    add("--turns", type=int, default=6, help=f"turns of {SAMPLES} samples each; default %(default)s")
    add("--json", action="store_true", help="print a JSON line a row, with all samples")
    add("--worker", action="store_true", help=argparse.SUPPRESS)  # in the checkout that is the working folder
    arguments = parser.parse_args(argv)
    if Path(arguments.data).exists():  # a preset is no path
        arguments.data = str(Path(arguments.data).resolve())
    return arguments


def measure_all(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Each row's samples in both checkouts."""
    from benchmarks.gpu_suite.rows import ROWS

    wanted = [word.strip().lower() for word in arguments.only.split(",") if word.strip()]
    with ExitStack() as stack:
        sides = {
            name: stack.enter_context(Side(folder, arguments.data))
            for name, folder in (("here", HERE), ("other", arguments.other.resolve()))
        }
        for row in ROWS:
            if not wanted or any(row.name.lower().startswith(word) for word in wanted):
                yield {"row": row.name, **in_turns(sides, row.name, arguments.turns)}


def in_turns(sides: Mapping[str, Side], row: str, turns: int) -> dict[str, Any]:
    """A row's samples by side, the first of each turn being the last of the one before; or what went wrong."""
    for side in sides.values():
        side.ask("prepare", row)
    errors = [f"{name}: {answer['error']}" for name, side in sides.items() if "error" in (answer := side.answer())]
    if errors:
        return {"error": "; ".join(errors)}
    samples: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for _ in range(turns):
        for name in order:
            sides[name].ask("time", row)
            answer = sides[name].answer()
            if "error" in answer:
                return {"error": f"{name}: {answer['error']}"}
            samples[name] += answer["ms"]
        order.reverse()
    return {**samples, "ratio": median(samples["here"]) / median(samples["other"])}


class Side:
    """A checkout's process, which prepares a row and times it when asked."""

    def __init__(self, folder: Path, data: str) -> None:
        own = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu_beside", "--worker", "--data", data],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, what: str, row: str) -> None:
        """Sends a request; its answer is the next one."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([what, row]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says that it has ended

    def answer(self) -> dict[str, Any]:
        """What it says, or that it has ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # what libraries print is no answer
                answer: dict[str, Any] = json.loads(line)
                return answer
        return {"error": f"its process ended with {self._process.wait()}"}


def work(data: str) -> int:
    """A side: answers requests until there are none."""
    import torch

    from benchmarks.gpu_suite.measuring import bind
    from benchmarks.gpu_suite.rows import ROWS
    from benchmarks.timing.device import Clock

    torch.backends.cuda.matmul.allow_tf32 = False
    clock, rows, bound = Clock(), {row.name: row for row in ROWS}, None
    for line in sys.stdin:
        what, name = json.loads(line)
        answer: dict[str, Any] = {}
        try:
            if what == "prepare":
                bound = None
                free()
                bound = bind(rows[name].problem("cuda", data))
                bound.launch()
                torch.cuda.synchronize()
            else:
                assert bound is not None
                answer["ms"] = [clock.sample(bound.launch, cold=True) for _ in range(SAMPLES)]
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {str(error)[:200]}"
        print(json.dumps(answer), flush=True)
    return 0


def free() -> None:
    """Gives back what the last row held on the device."""
    import gc

    import cupy
    import torch

    gc.collect()
    torch.cuda.empty_cache()
    cupy.get_default_memory_pool().free_all_blocks()


def line_of(row: Mapping[str, Any]) -> str:
    """A row for people."""
    if "error" in row:
        return f"{row['row']:28}{row['error']}"
    verdict = "  SLOWER" if row["ratio"] > MOST else ""
    return f"{row['row']:28}{median(row['here']):>10.5f}{median(row['other']):>10.5f}{row['ratio']:>8.3f}{verdict}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
