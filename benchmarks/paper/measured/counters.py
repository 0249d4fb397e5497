"""What a GPU's counters say of kernels: cases are launched under Nsight Compute, and its page `raw` is read as CSV.

`ncu --import REPORT --page raw --csv --print-units base` writes a row with the columns' names, one with their
units, and a row a launch (Nsight Compute, "CLI", Page raw):

    "ID","Process ID",...,"Kernel Name",...,"gpu__time_duration.sum","launch__registers_per_thread",...
    "","",...,"",...,"ns","register/thread",...
    "0","4711",...,"RGAT_2_kernel",...,"37,056","40",...

Columns come and go with ncu's versions, so they are found by their names; lines before the first row are ncu's own.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from benchmarks._ncu import COMPLAINT, Failed, NoCounters, end_of, find_ncu, run, version_of
from explorer.checkout import CHECKOUT

TIME, IPC = "gpu__time_duration.sum", "sm__inst_executed.avg.per_cycle_active"
REACHED, FITS = "sm__warps_active.avg.pct_of_peak_sustained_active", "sm__maximum_warps_per_active_cycle_pct"
REGISTERS = "launch__registers_per_thread"
SHARED = ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic")
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
L1 = "l1tex__throughput.avg.pct_of_peak_sustained_active"
METRICS = (TIME, IPC, REACHED, FITS, REGISTERS, *SHARED, DRAM, L2, L1)
UNITS = {
    **{"ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1.0, "msecond": 1.0, "s": 1e3, "second": 1e3},
    **{"byte/block": 1.0, "Kbyte/block": 1e3},
    **{"": 1.0, "%": 1.0, "inst/cycle": 1.0, "register/thread": 1.0},
}
"""Of milliseconds, of bytes a block, and of what has no other."""
READING_SECONDS = 30.0
WRONG = "a result is not float64's"

Json = dict[str, Any]


class FormatError(Failed):
    """What is no such page of ncu's, or not of what was launched."""


@dataclass(frozen=True)
class Case:
    """What is launched: a model of the examples with every dimension of a size, on a graph; a score with a batch of
    triples, and with `negatives` so many corrupted ones for each."""

    name: str
    model: str
    size: int
    data: str
    options: Mapping[str, str | int | bool] = field(default_factory=dict)
    batch: int = 0
    negatives: int = 0


@dataclass(frozen=True)
class Kernel:
    """A launch: what is known of its kernel, and what the counters say, by metric: times in ms, bytes, % and numbers
    as they are. `backward` ones come after the last that writes a result."""

    symbol: str
    template: str
    backward: bool
    threads: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class Counted:
    """The kernels by case, which cases failed or were wrong and how, and which came too late; the device and ncu in
    words."""

    kernels: Mapping[str, Sequence[Kernel]]
    failed: Mapping[str, str]
    late: Sequence[str]
    on: str


def read(lines: Iterable[str]) -> list[tuple[str, dict[str, float]]]:
    """Of each launch the kernel's name, and the metrics that have a value. Raises FormatError."""
    found: list[tuple[str, dict[str, float]]] = []
    names: list[str] = []
    units: dict[str, str] = {}
    for row in csv.reader(lines):
        cells = [cell.strip() for cell in row]
        if {"ID", "Kernel Name"} <= {*cells}:
            names = cells
        elif names and len(cells) == len(names):
            named = dict(zip(names, cells, strict=True))
            if not named["ID"]:
                units = named
            else:
                values = {name: _value(named[name], units.get(name, "")) for name in METRICS if name in named}
                known = {name: value for name, value in values.items() if value is not None}
                found.append((named["Kernel Name"].partition("(")[0].strip(), known))
    if not names:
        raise FormatError("there is no table of kernels in what ncu has printed")
    return found


def _value(cell: str, unit: str) -> float | None:
    """A number in our units; None where ncu has none."""
    if unit not in UNITS:
        raise FormatError(f"'{unit}' is no unit that is known here")
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return value * UNITS[unit] if value == value else None


def joined(told: Sequence[Json], rows: Sequence[tuple[str, dict[str, float]]]) -> dict[str, list[Kernel]]:
    """By case the kernels that it says it launched, with the rows of the page, which come in the order of the launches.
    Raises FormatError where they are of others."""
    launched = [(case["name"], each) for case in told for each in case["launched"]]
    if [each["symbol"] for _, each in launched] != [name for name, _ in rows]:
        raise FormatError(f"ncu has measured {len(rows)} kernels of {len(launched)} that were launched, or others")
    found: dict[str, list[Kernel]] = {case["name"]: [] for case in told}
    for (name, each), (_, values) in zip(launched, rows, strict=True):
        found[name].append(Kernel(**each, values=values))
    return found


def counted(cases: Sequence[Case], metrics: Sequence[str], seconds: float) -> Counted:
    """Compiles cases, so many at a time as there are cores, and then launches them one after another under ncu; after
    so many seconds none is begun. Raises NoCounters, also where no kernel has a value of the first metric; Failed."""
    began = monotonic()
    ncu = find_ncu()
    if not ncu:
        raise NoCounters("there is no ncu on the path, nor in a CUDA toolkit")
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.json").write_text(json.dumps([asdict(case) for case in cases]))
        process = [sys.executable, "-m", "benchmarks.paper.measured.launched"]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            numbers = range(len(cases))
            list(pool.map(lambda at: _compiled([*process, "compile", name, str(at)], seconds), numbers))
        report = folder / "all.ncu-rep"
        measure = ["--metrics", ",".join(metrics), "--clock-control", "none", "--profile-from-start", "off"]
        measure += ["--target-processes", "application-only"]
        left = began + seconds - monotonic()
        command = [ncu, *measure, "--export", str(report), *process, "launch", name, f"{left:.1f}"]
        said = run(command, 2 * seconds, CHECKOUT)
        if COMPLAINT.search(said):
            raise NoCounters(end_of(said))
        told = [json.loads(line) for line in (folder / "launched.jsonl").read_text().splitlines()]
        page = ["--import", str(report), "--page", "raw", "--csv", "--print-units", "base"]
        was_launched = any(case["launched"] for case in told)
        if was_launched and not report.exists():
            raise NoCounters(f"ncu has written no report: {end_of(said)}")
        rows = read(run([ncu, *page], READING_SECONDS).splitlines()) if was_launched else []
        if rows and not any(metrics[0] in values for _, values in rows):
            raise NoCounters(f"ncu gave no value of {metrics[0]}")
        on = f"{next((case['device'] for case in told if case['device']), 'no device')} with {version_of(ncu)}"
        failed = {case["name"]: case["error"] or WRONG for case in told if case["error"] or not case["right"]}
        late = [case.name for case in cases if case.name not in {each["name"] for each in told}]
        return Counted(joined(told, rows), failed, late, on)


def _compiled(command: Sequence[str], seconds: float) -> None:
    """Puts a case's machine code into the store on disk. One that cannot be compiled says so when it is launched."""
    with suppress(Failed):
        run(command, seconds, CHECKOUT)
