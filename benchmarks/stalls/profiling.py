"""Runs prepared cases under ncu, on the machine with the GPU, and writes of each what was measured of its kernels.

Several at a time: most of a profile is not the kernels, and ncu itself sees to it that only one measures. A case that
fails or takes too long says so and loses none of the others; one that has been measured is not again."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.profiling.ncu import Failed, end_of, run, version_of
from benchmarks.stalls import source_page
from benchmarks.stalls.source_page import FormatError, Launch, added

SECTION = "SourceCounters"
LEAST_SECONDS = 5.0
"""That a case must have left to be begun."""
Json = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """Where things are, and until when (of `monotonic`) there is time; `seconds` is what one case may take."""

    folder: Path
    out: Path
    ncu: str
    seconds: float
    until: float

    def left(self) -> float:
        """What a case may take now."""
        return min(self.seconds, self.until - monotonic())


def profile(settings: Settings, cases: Sequence[str], jobs: int, tell: Callable[[str], None]) -> int:
    """Measures cases, so many at a time, and gives how many were not."""
    settings.out.mkdir(parents=True, exist_ok=True)
    todo = [case for case in cases if not (settings.out / f"{case}.json").exists()]
    tool = version_of(settings.ncu)

    def measure(case: str) -> bool:
        try:
            if settings.left() < LEAST_SECONDS:
                raise Failed("there was no time left")
            found = _measured(settings, case, tool)
        except (Failed, FormatError, OSError, ValueError, KeyError) as error:
            tell(f"{case}: not measured: {error}")
            return False
        part = settings.out / f"{case}.part"
        part.write_text(json.dumps(found))
        os.replace(part, settings.out / f"{case}.json")
        count = sum(sum(at.values()) for kernel in found["kernels"].values() for at in kernel["samples"].values())
        tell(f"{case}: {len(found['kernels'])} kernels, {count:,} samples")
        return True

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(measure, todo)).count(False)


def _measured(settings: Settings, case: str, tool: str) -> Json:
    plan: Mapping[str, Any] = json.loads((settings.folder / f"{case}.json").read_text())
    report = settings.out / f"{case}.ncu-rep"
    symbols = "|".join(map(re.escape, plan["kernels"]))
    command = [settings.ncu, "--section", SECTION, "--clock-control", "none", "--kernel-name-base", "function"]
    command += ["--kernel-name", f"regex:^({symbols})$", "--target-processes", "all", "--force-overwrite"]
    command += ["--export", str(report), sys.executable, "-m", "benchmarks.stalls", "launch"]
    command += [str(settings.folder), case]
    try:
        said = run(command, settings.left())
        page = run([settings.ncu, "--import", str(report), *PAGE], max(settings.left(), LEAST_SECONDS))
    finally:
        report.unlink(missing_ok=True)
    device = re.search(r"^device: (.+)$", said, re.MULTILINE)
    if not device:
        raise Failed(f"the launches did not say on what they ran: {end_of(said)}")
    return {
        "device": device[1],
        "date": datetime.now(UTC).date().isoformat(),
        "tool": tool,
        "kernels": kernels_of(source_page.read(page.splitlines()), plan),
    }


PAGE = ("--page", "source", "--csv", "--print-source", "sass")


def kernels_of(launches: Sequence[Launch], plan: Mapping[str, Any]) -> Json:
    """By digest what was measured of a plan's kernels; one that is never launched, as the data give it nothing to do,
    or that is too short, has no samples. Raises Failed where ncu shows other instructions than those that the digest
    is of."""
    found: Json = {}
    for symbol, kernel in plan["kernels"].items():
        own = [launch for launch in launches if launch.kernel == symbol]
        want = [(address, opcode) for address, opcode in kernel["instructions"]]
        for launch in own:
            if _without_padding(launch.instructions) != _without_padding(want):
                raise Failed(f"{symbol} has other instructions on the device: {_difference(launch.instructions, want)}")
        samples = {
            reason: {f"{address:x}": count for address, count in at.items()} for reason, at in added(own).items()
        }
        about = {"symbol": symbol, "model": plan["model"], "data": plan["data"], "launches": len(own)}
        found[kernel["digest"]] = {**about, "samples": samples}
    if not any(kernel["samples"] for kernel in found.values()):
        raise Failed("no kernel has samples")
    return found


def _without_padding(instructions: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Without the NOPs that fill up a kernel's end, which not every tool shows."""
    kept = list(instructions)
    while kept and kept[-1][1] == "NOP":
        kept.pop()
    return kept


def _difference(got: Sequence[tuple[int, str]], want: Sequence[tuple[int, str]]) -> str:
    differing = (pair for pair in zip(got, want, strict=False) if pair[0] != pair[1])
    first = next((f"{one[1]} at {one[0]:x}, not {other[1]} at {other[0]:x}" for one, other in differing), "")
    return first or f"{len(got)} in the place of {len(want)}"
