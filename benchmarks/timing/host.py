"""What the suites share: samples, their summary, and where and when they were taken."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, sleep

import numpy as np

from explorer.runtime.targets.cpu import device_name

QUIET_SECONDS = 0.005
"""Pause before a sample: OpenMP's threads spin for some milliseconds after a parallel region, on cores that the
next contender would use."""


def interleave(contenders: dict[str, Callable[[], object]], repeat: int) -> dict[str, list[float]]:
    """Milliseconds of each contender, taking turns, so that what slows the machine slows all of them alike."""
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()  # once unmeasured: pages, threads, caches
    for _ in range(repeat):
        for name, run in contenders.items():
            sleep(QUIET_SECONDS)
            begin = perf_counter()
            run()
            samples[name].append((perf_counter() - begin) * 1e3)
    return samples


def peak_growth(run: Callable[[], object]) -> int:
    """How many bytes more are resident at the peak of a call than before it (Linux); for a process of its own."""
    ctypes.CDLL(None).malloc_trim(0)  # gives back what earlier calls freed, or this one would not seem to need it
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is resident now
    before = _resident("VmRSS")
    run()
    return max(0, _resident("VmHWM") - before)


def _resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) * 1024


def summary(samples: Sequence[float]) -> dict[str, float]:
    """The median and the 5th and 95th percentile, in the samples' unit."""
    low, median, high = np.percentile(samples, [5, 50, 95])
    return {"median": round(float(median), 3), "p5": round(float(low), 3), "p95": round(float(high), 3)}


def provenance() -> dict[str, str]:
    """The words that every figure carries: that it was measured, on what and when."""
    return {"source": "measured", "device": device_name(), "date": datetime.now(UTC).date().isoformat()}


def heading(facts: dict[str, str]) -> str:
    """The provenance as a line."""
    return f"{facts['source']} on {facts['device']}, {facts['date']}"
