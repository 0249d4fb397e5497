"""Which resource each row of the suite `gpu` exhausts, by Nsight Compute's counters of its default kernels.

    explorer bench gpu_exhausted [--only NAME,...] [--data FILE] [--timed FILE] [--quick] [--jobs N] [--seconds N]
    python -m benchmarks.gpu_exhausted                # the same, with lark, NumPy, PyTorch and CuPy alone

Each row has a process of its own under ncu, several at a time, of which one alone uses the device: it holds its result
against float64, and then launches the kernels once more, one after another and each with cold caches, while ncu counts.
Inspectors that run once for a graph are not among them; what a CUDA graph would run side by side is counted one by one.
A resource is exhausted from 60 % of what it sustains on, weighed by the kernels' times; below it the row says that none
is, and what of latency there is to see. A row prints one JSON line when it is done, with all its kernels. A table
follows, in which hand-written kernels' published times stand beside (issue 5, on an H100, whatever the device is here),
and, where a file has the lines of `explorer bench gpu`, those that it measured, over the hand-written ones too.

Status 1 where a row failed, is wrong or had no time left, 2 where there is no GPU, or no ncu that may read its
counters.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from benchmarks.gpu import DATA, missing_gpu, names_of, picked
from benchmarks.profiling.counters import Json, Kernel, count, error_of, joined, rows_of, total_ms
from benchmarks.profiling.exhausted import BAR, HIGH, METRICS, RESOURCES, dominant, told, verdict
from benchmarks.profiling.ncu import Failed, NoCounters, end_of, find_ncu, version_of

BY_NAME_ONLY = "needs a GPU and Nsight Compute"
"""`explorer bench` runs this suite only where it is named."""

SECONDS, ROW_SECONDS = 540.0, 120.0
LEAST_SECONDS = 5.0
"""That a row must have left to be begun."""
REFUSALS = 3
MOST_JOBS = 6
"""Starting Python with its libraries under ncu takes longer than a row has the device for."""
DEVICE = "cuda"
KINDS = {"exhausted": "exhaust a resource", "in turns": "do so in turns", "latency": "show latency", "none": "neither"}


def main(argv: Sequence[str]) -> int:
    """Measures all rows, or those asked for; returns the exit status."""
    arguments = parse(argv)
    if arguments.row:
        return launch(arguments)
    timed, ncu = times_of(arguments.timed), find_ncu()
    if reason := unable(ncu):
        print(f"not measured, {reason}", file=sys.stderr)
        return 2
    names = names_of(arguments.only)
    if not names:
        print(f"no row begins with {arguments.only}: there are {', '.join(names_of(''))}", file=sys.stderr)
        return 2
    with TemporaryDirectory() as folder:
        until = monotonic() + arguments.seconds
        counting = Counting(arguments, ncu, version_of(ncu), published(), Path(folder), until)
        found = counting.rows(names)
    if counting.refused and not counting.counted:
        print(f"not measured, ncu cannot count here: {counting.refused[0]}", file=sys.stderr)
        return 2
    print(table(found, timed))
    return 1 if any("error" in each for each in found) else 0


def unable(ncu: str) -> str:
    """Why nothing can be measured here, or ""."""
    if missing := missing_gpu():
        return f"there is no GPU to use: {missing}"
    return "" if ncu else "there is no ncu on the path, nor in a CUDA toolkit"


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="explorer bench gpu_exhausted", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", default="", metavar="NAME,...", help="rows whose names begin so, as in --only 'TransE,SLS RM'")
    add("--data", default=DATA, help="the knowledge graph, a preset or a file; default %(default)s")
    add("--timed", type=Path, help="what `explorer bench gpu` printed here: its times stand in the table")
    add("--quick", action="store_true", help="small shapes: whether everything runs, in a minute")
    jobs = min(os.cpu_count() or 1, MOST_JOBS)
    add("--jobs", type=int, default=jobs, help="rows that start at a time; default %(default)s")
    add("--seconds", type=float, default=SECONDS, help="for all rows; default %(default)g")
    add(
        "--row-limit",
        type=float,
        default=ROW_SECONDS,
        help="seconds that a row may have the device; default %(default)g",
    )
    add("--row", help=argparse.SUPPRESS)  # the row that this process launches
    add("--into", type=Path, help=argparse.SUPPRESS)  # the file that it writes what it launched into
    add("--lock", type=Path, help=argparse.SUPPRESS)  # the file that is locked by who uses the device
    arguments = parser.parse_args(argv)
    if Path(arguments.data).exists():  # a preset is no path; rows are measured in the checkout
        arguments.data = str(Path(arguments.data).resolve())
    if arguments.timed and not arguments.timed.is_file():
        parser.error(f"there is no file {arguments.timed}")
    return arguments


def times_of(file: Path | None) -> dict[str, float]:
    """Our cold milliseconds by row, of the lines that the suite `gpu` printed; others are passed over."""
    text = file.read_text() if file else ""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {line["row"]: line["ours"]["ms"] for line in lines if "ms" in line.get("ours", {})}


@dataclass
class Counting:
    """Rows under ncu, until a moment of `monotonic`. `hand` are published times by row; `refused` is what ncu said
    where it could not count: often enough, and never yet that it could, and no more rows are begun. `counted` is how
    many it could."""

    arguments: argparse.Namespace
    ncu: str
    tool: str
    hand: Mapping[str, float]
    folder: Path
    until: float
    refused: list[str] = field(default_factory=list)
    counted: int = 0

    def rows(self, names: Sequence[str]) -> list[Json]:
        """Every row's figures or its error, printed as they come, and given in the order of the rows."""
        found: dict[str, Json] = {}
        with ThreadPoolExecutor(self.arguments.jobs) as pool:
            for each in as_completed([pool.submit(self.row, name) for name in names]):
                found[each.result()["row"]] = each.result()
                print(json.dumps(each.result()), flush=True)
        return [found[name] for name in names]

    def row(self, name: str) -> Json:
        """A row's figures, or why it has none."""
        began = monotonic()
        try:
            result = self._counted(name)
            self.counted += 1
        except NoCounters as error:
            self.refused.append(str(error))
            result = {"error": str(error)}
        except (Failed, OSError, ValueError, KeyError) as error:
            result = {"error": str(error)}
        return {"row": name, **result, "seconds": round(monotonic() - began, 1)}

    def _counted(self, name: str) -> Json:
        """A row's figures. Raises Failed; NoCounters."""
        left = self.until - monotonic()
        if left < LEAST_SECONDS:
            raise Failed("there was no time left")
        if len(self.refused) >= REFUSALS and not self.counted:
            raise NoCounters(self.refused[0])
        report, into = (self.folder / (re.sub(r"\W", "_", name) + kind) for kind in (".ncu-rep", ".json"))
        said = count(self.ncu, METRICS, report, self._launcher(name, into), left)
        if not into.exists():
            raise Failed(f"it has not said what it launched: {end_of(said)}")
        launched = json.loads(into.read_text())
        if error := error_of(launched):
            raise Failed(error)
        kernels = joined([launched], rows_of(self.ncu, METRICS, report, said))[name]
        about = {"source": "measured", "device": launched["device"], "tool": self.tool}
        about["date"] = datetime.now(UTC).date().isoformat()
        published = {"hand_ms": self.hand[name], "hand": "published, on an H100"} if name in self.hand else {}
        return {**about, **figures(kernels), **published}

    def _launcher(self, name: str, into: Path) -> list[str]:
        """The command of the process that launches a row's kernels, and says in a file which."""
        told = {"row": name, "into": into, "lock": self.folder / "lock", "data": self.arguments.data}
        told["row-limit"] = self.arguments.row_limit
        given = [word for key, value in told.items() for word in (f"--{key}", str(value))]
        return [sys.executable, "-m", "benchmarks.gpu_exhausted", *given, *["--quick"] * self.arguments.quick]


def published() -> dict[str, float]:
    """Milliseconds of hand-written kernels by row, where any are published."""
    from benchmarks.gpu_suite.rows import ROWS

    return {row.name: row.hand_ms for row in ROWS if row.hand_ms is not None}


def figures(kernels: Sequence[Kernel]) -> Json:
    """What is told of a row, and of each of its kernels."""
    found, ms = verdict(kernels), total_ms(kernels)
    shares = [round(100 * total_ms([kernel]) / ms, 1) if ms else None for kernel in kernels]
    each = [
        {"symbol": kernel.symbol, "template": kernel.template, "share": share, **told([kernel])}
        for kernel, share in zip(kernels, shares, strict=True)
    ]
    percent = None if found.percent is None else round(found.percent, 1)
    limit = {"kind": found.kind, "resource": found.resource, "percent": percent, "verdict": found.words}
    return {**limit, **told(kernels), "waits_for": dominant(kernels)[0], "kernels": each}


def launch(arguments: argparse.Namespace) -> int:
    """What ncu runs: waits until it has the device for itself, launches a row's kernels, and writes down which."""
    from benchmarks.profiling.launched import launched_once
    from explorer.runtime.targets.gpu.device import cupy_module

    row = picked(arguments.row, arguments)
    cupy_module()  # all imports come before, for they take longer than what the device is needed for
    with alone(arguments.lock, arguments.row_limit):
        found = launched_once(row.name, lambda: row.problem(DEVICE, arguments.data), row.tolerance)
    arguments.into.write_text(json.dumps(found))
    return 0


@contextmanager
def alone(lock: Path, seconds: float) -> Iterator[None]:
    """A block that one process at a time is in; one that is there for longer is ended by the system, wherever it hangs,
    and its lock with it."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        signal.alarm(max(1, int(seconds)))
        try:
            yield
        finally:
            signal.alarm(0)


COLUMNS = {"timed": (9, 4), "ncu": (9, 4), "hand": (8, 4), "of hand": (8, 2), "kernels": (8, 0), "MB": (9, 0)}
"""By name the width, and the digits behind the point."""
SHARES = (*RESOURCES, "warps", "waves")


def table(rows: Sequence[Json], timed: Mapping[str, float]) -> str:
    """The figures for people."""
    on = next((f"{row['device']} with {row['tool']}, {row['date']}" for row in rows if "device" in row), "nothing")
    heads = "".join(f"{name:>{width}}" for name, (width, _) in COLUMNS.items()) + "".join(
        f"{name:>8}" for name in SHARES
    )
    lines = [
        f"measured on {on}; times in ms: `timed` by the suite gpu, `ncu` of the kernels one after another, `hand` as"
        " published of hand-written kernels on an H100, `of hand` timed over that; resources in % of what they sustain,"
        " warps of those that multiprocessors have room for",
        "",
        f"{'row':24}{heads}  what is exhausted",
        *(line_of(row, timed) for row in rows),
        "",
        *(f"{row['row']}: {row['error']}" for row in rows if "error" in row),
        summary(rows),
    ]
    return "\n".join(lines)


def line_of(row: Json, timed: Mapping[str, float]) -> str:
    """A row of the table; - for what is not known."""
    if "error" in row:
        return f"{row['row']:24}not measured"
    ms, hand = timed.get(row["row"]), row.get("hand_ms")
    values = {
        "timed": ms,
        "ncu": row["ms"],
        "hand": hand,
        "of hand": ms / hand if ms and hand else None,
        "kernels": len(row["kernels"]),
        "MB": row["bytes"] / 1e6 if "bytes" in row else None,
    }
    cells = [_cell(values[name], *form) for name, form in COLUMNS.items()]
    shares = row["of_peak"] | {name: row[name] for name in ("warps", "waves") if name in row}
    cells += [_cell(shares.get(name), 8, 1) for name in SHARES]
    return f"{row['row']:24}{''.join(cells)}  {row['verdict']}"


def _cell(value: float | None, width: int, digits: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width},.{digits}f}"


def summary(rows: Sequence[Json]) -> str:
    """How many rows are limited by what."""
    kinds = [row["kind"] for row in rows if "kind" in row]
    high = sum(row["percent"] >= HIGH for row in rows if row.get("kind") == "exhausted")
    told_of = [f"{kinds.count(kind)} {words}" for kind, words in KINDS.items()]
    told_of[0] += f" (from {BAR:.0f} % on; {high} from {HIGH:.0f} %)"
    return f"of {len(rows)} rows {', '.join(told_of)}; {len(rows) - len(kinds)} not measured"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
