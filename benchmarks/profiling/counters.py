"""What a GPU's counters say of kernels that are launched under Nsight Compute, whose page `raw` is read as CSV.

`ncu --import REPORT --page raw --csv --print-units base` writes a row with the columns' names, one with their
units, and a row a launch (Nsight Compute, "CLI", Page raw):

    "ID","Process ID",...,"Kernel Name",...,"gpu__time_duration.sum","launch__registers_per_thread",...
    "","",...,"",...,"ns","register/thread",...
    "0","4711",...,"RGAT_2_kernel",...,"37,056","40",...

Columns come and go with ncu's versions, so they are found by their names; lines before the first row are ncu's own.
A metric that the device or this version has not is `n/a` there. Needs nothing but Python.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.profiling.ncu import COMPLAINT, Failed, NoCounters, end_of, run
from explorer.checkout import CHECKOUT

TIME, IPC = "gpu__time_duration.sum", "sm__inst_executed.avg.per_cycle_active"
REACHED, FITS = "sm__warps_active.avg.pct_of_peak_sustained_active", "sm__maximum_warps_per_active_cycle_pct"
REGISTERS = "launch__registers_per_thread"
SHARED = ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic")
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
UNITS = {
    **{"ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1.0, "msecond": 1.0, "s": 1e3, "second": 1e3},
    **{"byte": 1.0, "byte/block": 1.0, "Kbyte/block": 1e3},
    **{"": 1.0, "%": 1.0, "inst/cycle": 1.0, "register/thread": 1.0},
}
"""Of milliseconds, of bytes and bytes a block, and of what has no other."""
READING_SECONDS = 30.0
WRONG = "a result is not float64's"

Json = dict[str, Any]
Row = tuple[str, dict[str, float]]
"""A launch: its kernel's name, and the metrics that have a value."""


class FormatError(Failed):
    """What is no such page of ncu's, or not of what was launched."""


@dataclass(frozen=True)
class Kernel:
    """A launch: what is known of its kernel, and what the counters say, by metric: times in ms, bytes, % and numbers
    as they are. `backward` ones come after the last that writes a result."""

    symbol: str
    template: str
    backward: bool
    threads: int
    values: Mapping[str, float]


def count(ncu: str, metrics: Sequence[str], report: Path, launcher: Sequence[str], seconds: float) -> str:
    """Has ncu count what a process launches while it has the profiler started, clocks as they are and each kernel with
    cold caches; gives what both say. Raises Failed; NoCounters where ncu complains."""
    measure = ["--metrics", ",".join(metrics), "--clock-control", "none", "--profile-from-start", "off"]
    measure += ["--target-processes", "application-only", "--export", str(report)]
    said = run([ncu, *measure, *launcher], seconds, CHECKOUT)
    if COMPLAINT.search(said):
        raise NoCounters(end_of(said))
    return said


def rows_of(ncu: str, metrics: Sequence[str], report: Path, said: str) -> list[Row]:
    """What a report has of those metrics, a row a launch. Raises Failed; NoCounters where there is no report, which
    what was `said` may tell the reason of, and where no kernel has a value of the first metric."""
    if not report.exists():
        raise NoCounters(f"ncu has written no report: {end_of(said)}")
    page = ["--import", str(report), "--page", "raw", "--csv", "--print-units", "base"]
    rows = read(run([ncu, *page], READING_SECONDS).splitlines(), metrics)
    if rows and not any(metrics[0] in values for _, values in rows):
        raise NoCounters(f"ncu gave no value of {metrics[0]}")
    return rows


def read(lines: Iterable[str], metrics: Sequence[str]) -> list[Row]:
    """The launches of a page. Raises FormatError."""
    found: list[Row] = []
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
                values = {name: _value(named[name], units.get(name, "")) for name in metrics if name in named}
                known = {name: value for name, value in values.items() if value is not None}
                found.append((named["Kernel Name"].partition("(")[0].strip(), known))
    if not names:
        raise FormatError("there is no table of kernels in what ncu has printed")
    return found


def _value(cell: str, unit: str) -> float | None:
    """A number in our units; None where ncu has none."""
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    if unit not in UNITS:
        raise FormatError(f"'{unit}' is no unit that is known here")
    return value * UNITS[unit] if value == value else None


def joined(told: Sequence[Json], rows: Sequence[Row]) -> dict[str, list[Kernel]]:
    """By case the kernels that it says it launched, with the rows of the page, which come in the order of the launches.
    Raises FormatError where they are of others."""
    launched = [(case["name"], each) for case in told for each in case["launched"]]
    if [each["symbol"] for _, each in launched] != [name for name, _ in rows]:
        raise FormatError(f"ncu has measured {len(rows)} kernels of {len(launched)} that were launched, or others")
    found: dict[str, list[Kernel]] = {case["name"]: [] for case in told}
    for (name, each), (_, values) in zip(launched, rows, strict=True):
        found[name].append(Kernel(**each, values=values))
    return found


def error_of(told: Json) -> str:
    """What went wrong with a case, by what it says of its launch, or ""."""
    return str(told["error"]) or ("" if told["right"] else WRONG)


def by_time(kernels: Sequence[Kernel], metric: str) -> float | None:
    """A metric weighted by the kernels' times; None where no kernel has it."""
    known = [kernel for kernel in kernels if {TIME, metric} <= kernel.values.keys()]
    weighted = sum(kernel.values[metric] * kernel.values[TIME] for kernel in known)
    return weighted / total_ms(known) if known and total_ms(known) else None


def total_ms(kernels: Sequence[Kernel]) -> float:
    """Their times one after another."""
    return sum(kernel.values.get(TIME, 0.0) for kernel in kernels)
