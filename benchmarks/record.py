"""Measures whole spaces of schedules on a GPU, for a tuner to be made and tested with where there is none.

    python -m benchmarks.record enumerate --points DIR [--only NAME,...]      # no GPU: the points of each space
    python -m benchmarks.record measure --points DIR --into FILE --known FILE,... --seconds 540 [--only NAME,...]
    python -m benchmarks.record pack --points DIR --known FILE,... --into DIR # no GPU: a file in the T4 format a space

`measure` appends a line to FILE for each point, so that what ends it early loses one at most, and goes on where the
files of --known and --into end: in as many calls as it takes. Points are compiled in processes ahead of the device.
Those with the same machine code are measured once. A process of its own measures: where a kernel breaks the device's
context, or takes longer than --point-limit, the point says so, and a new process goes on with the next.
"""

from __future__ import annotations

import argparse
import json
import lzma
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from benchmarks.tuning.spaces import SPACES, Input, RecordedSpace
from explorer.compiler.decisions import Value
from explorer.tuner.features.launches import NAMES
from explorer.tuner.points import Points
from explorer.tuner.recorded import OBJECTIVE, TIMES, Recorded, Trial

BY_NAME_ONLY = "needs a GPU"
"""`explorer bench` runs this suite only where it is named."""

CHECKOUT = Path(__file__).resolve().parents[1]
MADE = Path(tempfile.gettempdir()) / "explorer-recorded-lists"
POINT_SECONDS = 60
Line = dict[str, Any]
Wanted = tuple[RecordedSpace, Input]


def main(argv: Sequence[str]) -> int:
    """Does what the first word says; returns the exit status."""
    arguments = parse(argv)
    wanted = [
        (space, data)
        for space in SPACES
        for data in space.inputs
        if not arguments.only or any(named(space, data).lower().startswith(word) for word in arguments.only)
    ]
    if not wanted:
        print(f"no space begins so: there are {', '.join(space.name for space in SPACES)}", file=sys.stderr)
        return 2
    return {"enumerate": enumerate_all, "measure": measure_all, "pack": pack_all}[arguments.step](wanted, arguments)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="explorer bench record", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("enumerate", "measure", "pack"))
    add = parser.add_argument
    add("--points", type=Path, required=True, help="the folder of the files that `enumerate` writes")
    add("--made", type=Path, default=MADE, help="the folder of the lists that are drawn, each when it is needed")
    add("--into", type=Path, help="where lines are appended, or packed files written")
    add("--known", default="", help="files of lines that were measured before")
    add("--only", default="", help="spaces whose names begin so, as in --only 'SpMM/arxiv,TransR'")
    add("--seconds", type=float, default=540.0, help="how long measuring may go on; default 540")
    add("--point-limit", type=float, default=POINT_SECONDS, help=f"how long a point may take; default {POINT_SECONDS}")
    add("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="that compile; 0 compiles in turn")
    add("--arch", default="sm_90", help="what points are enumerated for")
    add("--worker", action="store_true", help=argparse.SUPPRESS)  # the process that measures
    arguments = parser.parse_args(argv)
    arguments.only = [word.strip().lower() for word in arguments.only.split(",") if word.strip()]
    return arguments


def named(space: RecordedSpace, data: Input) -> str:
    """What a space on an input is called."""
    return f"{space.name}/{data.name}"


def file_of(space: RecordedSpace, data: Input) -> str:
    """The stem of the files about it."""
    return slug(named(space, data))


def slug(name: str) -> str:
    """A name as files have it."""
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())


def enumerate_all(wanted: list[Wanted], arguments: argparse.Namespace) -> int:
    """Writes the points of each space."""
    from benchmarks.tuning.recording import enumerated

    folder: Path = arguments.points
    folder.mkdir(parents=True, exist_ok=True)
    arguments.made.mkdir(parents=True, exist_ok=True)
    total = 0
    for space, data in wanted:
        points, _ = enumerated(space, data, arguments.made, arguments.arch)
        text = json.dumps(points.to_json(), separators=(",", ":")).encode()
        (folder / f"{file_of(space, data)}.points.xz").write_bytes(lzma.compress(text))
        print(f"{named(space, data)}: {len(points):,} points of {len(points.genes)} genes", flush=True)
        total += len(points)
    print(f"{total:,} points")
    return 0


def points_in(folder: Path, space: RecordedSpace, data: Input) -> Points:
    """What `enumerate` has written."""
    return Points.from_json(json.loads(lzma.decompress((folder / f"{file_of(space, data)}.points.xz").read_bytes())))


def known_lines(arguments: argparse.Namespace) -> Iterator[Line]:
    """The lines of all files that are known, and of the one at hand; a last one that was cut short is none."""
    paths = [Path(word) for word in arguments.known.split(",") if word]
    if arguments.step == "measure":
        paths.append(arguments.into)
    for path in paths:
        for text in path.read_text().splitlines() if path.exists() else ():
            try:
                yield json.loads(text)
            except ValueError:
                continue


def measure_all(wanted: list[Wanted], arguments: argparse.Namespace) -> int:
    """Has a process measure what is not known yet, and another one where that ends early."""
    end = monotonic() + arguments.seconds
    if arguments.worker:
        work(wanted, arguments, end)
        return 0
    with arguments.into.open("a", buffering=1) as file:
        while monotonic() < end:
            lost: Line = {}
            for line in _worker(arguments, end):
                if "done" in line:
                    return 0
                lost = line.get("at", {} if {"point", "ready", "refused"} & line.keys() else lost)
                if "at" not in line:
                    file.write(json.dumps(line, separators=(",", ":")) + "\n")
            if monotonic() >= end:
                return 0
            if not lost:  # it came to nothing, and so would the next
                print("the process that measures ended before it began", file=sys.stderr)
                return 1
            file.write(json.dumps(lost, separators=(",", ":")) + "\n")
    return 0


def _worker(arguments: argparse.Namespace, end: float) -> Iterator[Line]:
    """What a process that measures says, until it ends, is silent for too long, or the time is over."""
    given = ["--points", arguments.points, "--made", arguments.made, "--into", arguments.into]
    given += ["--known", arguments.known, "--only", ",".join(arguments.only), "--processes", arguments.processes]
    given += ["--point-limit", arguments.point_limit]
    seconds = max(1.0, end - monotonic() - 5)
    command = [sys.executable, "-m", "benchmarks.record", "measure", "--worker", "--seconds", f"{seconds:.1f}"]
    command += map(str, given)
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
        try:
            limit = min(end, monotonic() + arguments.point_limit)
            while text := lines.get(timeout=max(0.1, limit - monotonic())):
                found = json.loads(text)
                yield found
                limit = min(end, monotonic() + _patience(found) * arguments.point_limit)
        except queue.Empty:
            return
        finally:
            with suppress(ProcessLookupError):  # with those that compile for it
                os.killpg(process.pid, signal.SIGKILL)


def _patience(line: Line) -> int:
    """How many points' time what follows may take: a space's data are made and checked, and its first points compiled,
    before one is measured."""
    return 4 if "refused" in line.get("at", {}) or "ready" in line else 1


def _read(stream: Any, lines: queue.Queue[str]) -> None:
    for line in stream:
        if line.startswith("{"):  # what libraries print is no message
            lines.put(line)
    lines.put("")


def work(wanted: list[Wanted], arguments: argparse.Namespace, end: float) -> None:
    """Measures what is not known yet, and says each point before it, and what became of it."""
    known = list(known_lines(arguments))
    arguments.made.mkdir(parents=True, exist_ok=True)
    say = partial(print, flush=True)
    pool: Executor | None = None
    if arguments.processes:
        pool = ProcessPoolExecutor(arguments.processes, multiprocessing.get_context("spawn"))
    try:
        for space, data in wanted:
            for line in measured(space, data, known, arguments, pool, end):
                say(json.dumps(line))
            if monotonic() > end:
                break
        say(json.dumps({"done": "all is measured, or the time is over"}))
    finally:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def measured(
    space: RecordedSpace,
    data: Input,
    known: Iterable[Line],
    arguments: argparse.Namespace,
    pool: Executor | None,
    end: float,
) -> Iterator[Line]:
    """Lines of the points of a space that are not known, and of what its machine codes are made of."""
    from benchmarks.tuning.recording import AHEAD, Bench, compiled_ahead

    name = named(space, data)
    points = points_in(arguments.points, space, data)
    own = [line for line in known if line.get("space") == name]
    if any("refused" in line for line in own):
        return
    seen = {line["digest"]: line for line in own if "point" in line and "times" in line}
    listed = {line["digest"] for line in own if "features" in line}
    left = [number for number in range(len(points)) if number not in {line.get("point") for line in own}]
    if not left:
        return
    yield {"at": {"space": name, "refused": "its process ended, or was silent for too long"}}
    try:
        bench = Bench(space, data, arguments.made)
        sizes = bench.sizes
        usual = points.at(points.usual)
        (_, _, made) = next(compiled_ahead(None, [(points.usual, usual)], bench.recipe, sizes, 1))
        if made.program is None:
            raise ValueError(made.error)
        bench.check_usual(made.program, usual)
    except Exception as error:  # this space is lost, and the others are not
        yield {"space": name, "refused": f"{type(error).__name__}: {error}"[:300]}
        return
    yield {"space": name, "ready": about(bench)}
    jobs = [(number, points.at(number)) for number in left]
    for number, values, made in compiled_ahead(pool, jobs, bench.recipe, sizes, AHEAD * max(1, arguments.processes)):
        if monotonic() > end:
            return
        line = {"space": name, "point": number, "digest": made.digest, "seconds": round(made.seconds, 3)}
        yield {"at": {**line, "invalidity": "runtime", "times": [], "error": "its process ended, or took too long"}}
        if made.digest and made.digest not in listed:
            listed.add(made.digest)
            yield {"space": name, "digest": made.digest, "features": made.features}
        if made.program is None:
            yield {**line, "invalidity": "compile", "error": made.error}
        elif made.digest in seen:
            yield {**line, **{key: seen[made.digest][key] for key in ("invalidity", "times")}}
        else:
            seen[made.digest] = yield from _tried(bench, line, made.program, values)


def _tried(bench: Any, line: Line, program: Any, values: Mapping[str, Value]) -> Iterator[Line]:
    """A point's line; a fault of the device ends the process, which is of no more use."""
    from explorer.runtime.targets.gpu.device import DeviceFault

    try:
        found = {"times": [], **line, **bench.measured(program, values)}
    except DeviceFault:
        raise
    except Exception as error:
        found = {**line, "invalidity": "runtime", "times": [], "error": f"{type(error).__name__}: {error}"[:200]}
    yield found
    return found


def about(bench: Any) -> Line:
    """What all times of a space on an input have in common."""
    from explorer.compiler.codegen.binary import nvrtc
    from explorer.runtime.targets.gpu.device import current_device
    from explorer.tuner.features.data import data_features

    compilation = bench.setup.compilation
    device = current_device()
    return {
        "source": "measured",
        "device": device.name,
        "date": datetime.now(UTC).date().isoformat(),
        "nvrtc": nvrtc.version(),
        "text": compilation.text,
        "sizes": dict(compilation.sizes),
        "options": compilation.options.to_json(),
        "counts": dict(compilation.counts or {}),
        "counted_on": compilation.counted_on,
        "data": data_features(bench.setup.inputs()),
    }


def pack_all(wanted: list[Wanted], arguments: argparse.Namespace) -> int:
    """Writes a file for each space that is measured whole, and says what is not."""
    lines = list(known_lines(arguments))
    arguments.into.mkdir(parents=True, exist_ok=True)
    size, missing = 0, 0
    for space, data in wanted:
        name = named(space, data)
        own = [line for line in lines if line.get("space") == name]
        points = points_in(arguments.points, space, data)
        done = {line["point"]: line for line in own if "point" in line}
        if len(done) < len(points):
            refused = next((line["refused"] for line in own if "refused" in line), "")
            print(f"{name}: {len(done):,} of {len(points):,} points are measured. {refused}".rstrip())
            missing += 1
            continue
        path = arguments.into / slug(space.name) / f"{slug(data.name)}.json.xz"
        path.parent.mkdir(exist_ok=True)
        packed(name, points, own).save(path)
        size += path.stat().st_size
        best, usual = np.nanmin([_time(line) for line in done.values()]), _time(done[points.usual])
        print(
            f"{name}: {len(points):,} points, {path.stat().st_size:,} bytes; the usual one takes"
            f" {usual / best:.2f} times the best's {best:.4f} ms"
        )
    print(f"{size:,} bytes; {missing} spaces are not there")
    return 1 if missing else 0


def _time(line: Line) -> float:
    return float(line["times"][TIMES.index(OBJECTIVE)]) if line.get("times") else float("nan")


def packed(name: str, points: Points, lines: list[Line]) -> Recorded:
    """The lines of a space as it is kept."""
    told = next(line["ready"] for line in lines if "ready" in line)
    rows: dict[tuple[float, ...], int] = {}
    of_digest = {}
    for line in lines:
        if "features" in line:
            of_digest[line["digest"]] = tuple(rows.setdefault(tuple(row), len(rows)) for row in line["features"])
    done = {line["point"]: line for line in lines if "point" in line}
    codes = {digest: number for number, digest in enumerate(of_digest)}
    trials = tuple(
        Trial(
            line["invalidity"],
            tuple(line.get("times") or ()),
            of_digest.get(line["digest"], ()),
            float(line["seconds"]),
            codes.get(line["digest"], -1),
        )
        for line in (done[number] for number in range(len(points)))
    )
    features = np.array(list(rows), np.float32).reshape(len(rows), len(NAMES))
    said = {key: value for key, value in told.items() if key != "data"}
    said["counted_on"] = Path(str(said["counted_on"])).stem  # lists are drawn into a folder of the host
    return Recorded(name, said, points, trials, tuple(NAMES), features, told["data"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
