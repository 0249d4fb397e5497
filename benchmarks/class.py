"""A class in front of the server: students who edit and run, over real connections, and what they have to wait.

`explorer bench class --students 60 --minutes 10`. Starts `explorer serve` on a free port, or takes `--address`. Each
student has an example, all in equal parts, and edits it every 3 s: no two texts are alike, a quarter is broken, one in
twenty has its gradients, a tenth of the students have PTX open. Each runs something once a minute, on the processor and
on the machine in turns. Tabs close and come back, sockets drop. Clients share the host with the server, and their
processor time is told apart. Times are from the request to the last byte of its answer: the page waits up to
0.3 s before it asks, a quarter of what its last answer took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from time import perf_counter, process_time
from typing import Any

import httpx
import numpy as np

from benchmarks.classroom import watch
from benchmarks.classroom.fairness import uneven, uneven_by_chance
from benchmarks.classroom.serving import served
from benchmarks.classroom.students import Habits, Log, Student

CHECKOUT = Path(__file__).resolve().parents[1]
START_SECONDS = 180
BY_NAME_ONLY = "takes ten minutes"
SAMPLE_SECONDS = 5.0
ASKED = {"p50": 0.3, "p95": 1.0, "unfair": 2.0, "pss": 2e9}
"""At most: seconds from an edit to its answer, the longest mean wait for a run over the median one, bytes."""


def main(argv: Sequence[str]) -> int:
    """Prints a table, or with --json one object; status 1 where a run was lost, doubled or another's, or a request
    was answered by a fault of the server's."""
    parser = argparse.ArgumentParser(
        prog="explorer bench class", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--students", type=int, default=60, help="how many at once; default 60")
    parser.add_argument("--minutes", type=float, default=10.0, help="for how long; default 10")
    parser.add_argument("--think", type=float, default=3.0, help="seconds between a student's edits; default 3")
    parser.add_argument("--between-runs", type=float, default=60.0, help="seconds between their runs; default 60")
    parser.add_argument("--bombs", type=float, default=0.0, help="share of students who send texts of much work")
    parser.add_argument("--stays", type=float, default=120.0, help="seconds until a tab is closed; default 120")
    parser.add_argument("--address", help="of a server that runs already, http://HOST:PORT")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    habits = Habits(arguments.think, arguments.between_runs, arguments.bombs, arguments.stays)
    with served(arguments.address) as (address, process):
        figures = asyncio.run(_class(address, process, arguments.students, arguments.minutes * 60, habits))
    print(json.dumps(figures) if arguments.json else table(figures))
    return 1 if figures["faults"] else 0


async def _class(address: str, process: int | None, students: int, seconds: float, habits: Habits) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=address, timeout=START_SECONDS) as client:
        examples = [
            (key, (await client.get(f"/examples/{key}")).text)
            for entry in (await client.get("/api/examples")).json()
            for key in [f"{entry['folder']}/{entry['name']}"]
        ]
        while not (await client.get("/healthz")).json()["warm"]:
            await asyncio.sleep(0.5)
    log, samples = Log(), []
    begun, own = perf_counter(), process_time()
    watching = asyncio.create_task(_watch(process, samples)) if process is not None else None
    everybody = [Student(number, address, examples, habits, log) for number in range(students)]
    await asyncio.gather(*(student.work(begun + seconds) for student in everybody))
    if watching is not None:
        watching.cancel()
    took = perf_counter() - begun
    return _figures(log, samples, students, took, process_time() - own)


async def _watch(process: int, samples: list[watch.Sample]) -> None:
    while True:
        samples.append(await asyncio.to_thread(watch.sample, process))
        await asyncio.sleep(SAMPLE_SECONDS)


def _figures(log: Log, samples: list[watch.Sample], students: int, took: float, own: float) -> dict[str, Any]:
    waits: dict[int, list[float]] = defaultdict(list)
    for run in log.runs:
        if run.wait is not None:
            waits[run.student].append(run.wait)
    means = [fmean(each) for each in waits.values()]
    runs = {
        "ordered": len(log.runs),
        "ended": sum(len(run.ends) == 1 for run in log.runs),
        "lost": sum(not run.ends and not run.dropped for run in log.runs),
        "dropped": sum(run.dropped for run in log.runs),
        "doubled": sum(len(run.ends) > 1 for run in log.runs),
        "crossed": sum(run.crossed for run in log.runs),
        "failed": sorted({kind for run in log.runs for kind in run.ends if kind != "result"}),
        "wait_median": median(means) if means else None,
        "wait_most": max(means) if means else None,
        "uneven": uneven(list(waits.values())) if means else None,
        "uneven_by_chance": uneven_by_chance(list(waits.values())) if means else None,
    }
    bad = {status: count for status, count in log.statuses.items() if status >= 500 and status != 503}
    cpu = samples[-1].cpu - samples[0].cpu if samples else None
    return {
        "source": "measured",
        "date": datetime.now(UTC).date().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "students": students,
        "seconds": took,
        "edits": {"count": len(log.edits), "a_second": len(log.edits) / took, "overtaken": log.overtaken}
        | _percentiles(log.edits),
        "later": {path: {"count": len(times)} | _percentiles(times) for path, times in sorted(log.later.items())},
        "runs": runs,
        "statuses": log.statuses,
        "troubles": log.faults,
        "cpu": {"server": cpu, "clients": own, "server_an_edit": cpu / len(log.edits) if cpu and log.edits else None},
        "memory": [(each.pss, each.descriptors, each.processes) for each in samples],
        "faults": [*(f"{count} answers of status {status}" for status, count in bad.items())]
        + [f"{runs[what]} runs {what}" for what in ("lost", "doubled", "crossed") if runs[what]],
    }


def _percentiles(times: Sequence[float]) -> dict[str, float]:
    if not times:
        return {}
    found = np.percentile(times, [50, 95, 99])
    return {"p50": float(found[0]), "p95": float(found[1]), "p99": float(found[2]), "most": max(times)}


def table(figures: dict[str, Any]) -> str:
    """The figures in lines, each beside what is asked for."""
    edits, runs, cpu = figures["edits"], figures["runs"], figures["cpu"]
    lines = [
        f"{figures['students']} students for {figures['seconds']:.0f} s on {figures['cores']} cores, clients included;"
        f" measured {figures['date']}",
        f"  edits    {edits['count']:,}, {edits['a_second']:.1f} a second; {edits['overtaken']:,} were overtaken",
    ]
    if "p50" in edits:
        lines.append(f"  answers  {_times(edits)} (asked: p50 {ASKED['p50']}, p95 {ASKED['p95']})")
    lines += [f"  {path:8} {_times(times)}, {times['count']:,} of them" for path, times in figures["later"].items()]
    lines.append(
        f"  runs     {runs['ordered']:,} ordered, {runs['ended']:,} ended, {runs['dropped']} given up with their tab,"
        f" {runs['lost']} lost, {runs['doubled']} doubled, {runs['crossed']} crossed"
        + (f"; ends other than results: {', '.join(runs['failed'])}" if runs["failed"] else "")
    )
    if runs["wait_median"]:
        lines.append(
            f"  waits    mean by student: median {runs['wait_median']:.2f} s, most {runs['wait_most']:.2f} s,"
            f" {runs['uneven']:.1f} times that (asked: {ASKED['unfair']:.0f}; the same waits dealt out at random:"
            " {:.1f} to {:.1f})".format(*runs["uneven_by_chance"])
        )
    if cpu["server"]:
        lines.append(
            f"  cpu      {cpu['server']:.0f} s of the server, {cpu['clients']:.0f} s of the clients;"
            f" {cpu['server_an_edit']:.3f} s of the server an edit, runs and later requests included"
        )
    lines += _memory_lines(figures["memory"])
    lines.append(f"  answers by status: {', '.join(f'{status}: {n:,}' for status, n in figures['statuses'].items())}")
    lines += [f"  trouble  {what}" for what in figures["troubles"][:10]]
    lines += [f"  FAULT    {what}" for what in figures["faults"]]
    return "\n".join(lines)


def _times(of: dict[str, float]) -> str:
    return f"p50 {of['p50']:.3f} s, p95 {of['p95']:.3f} s, p99 {of['p99']:.3f} s, most {of['most']:.2f} s"


def _memory_lines(samples: Sequence[tuple[int, int, int]]) -> list[str]:
    if not samples:
        return []
    chosen = [samples[len(samples) * part // 4] for part in range(4)] + [samples[-1]]
    shown = ", ".join(f"{pss / 1e9:.2f} GB, {fds} fds, {count} processes" for pss, fds, count in chosen)
    return [f"  memory   PSS at the start, each quarter and the end: {shown} (asked: {ASKED['pss'] / 1e9:.0f} GB)"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
