"""How soon a run shows its first time: `explorer bench first --on gpu`.

A worker as the server has one is started, and told of when it is warm; then each example is ordered twice at the data
that it usually runs on, or at `--data`, and the seconds from the order to the first sample told, and which step of the
run took the longest. The second order finds the kernels on disk. With `--grad`, with the backward pass too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from explorer.checkout import CHECKOUT
from explorer.runtime.run import RunRequest
from explorer.runtime.runs.fitting import fit
from explorer.runtime.runs.request import DEFAULT_DATA, ModelRequest
from explorer.runtime.workers.pool import WorkerPool
from explorer.values import read_memory

BY_NAME_ONLY = "runs every example twice"
SECONDS = 120.0
ASKED = {"sample": 1.5, "start": 4.0}
"""Seconds at most, on a GPU: to a first sample with kernels on disk, and after a server's start."""


def main(argv: Sequence[str]) -> int:
    """Prints a table, or with --json one object; status 1 where a run failed."""
    parser = argparse.ArgumentParser(
        prog="explorer bench first", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--on", choices=("cpu", "dae", "gpu"), default="gpu", help="default gpu")
    parser.add_argument("--data", default="", help="default: what a model of its kind usually runs on")
    parser.add_argument("--only", default="", help="examples whose name contains this")
    parser.add_argument("--grad", action="store_true", help="with the backward pass")
    parser.add_argument("--times", type=int, default=2, help="orders of each example; default 2")
    parser.add_argument(
        "--after", type=float, default=0, help="seconds from the worker's being warm to the first order"
    )
    parser.add_argument("--memory", default="4GiB", help="of the worker, half of it for arrays; default 4GiB")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    figures = asyncio.run(_measured(arguments))
    print(json.dumps(figures) if arguments.json else table(figures))
    return 1 if any(run["failed"] for run in figures["runs"]) else 0


async def _measured(arguments: argparse.Namespace) -> dict[str, Any]:
    pool = WorkerPool("run", concurrent=1, spare=0, memory=read_memory(arguments.memory))
    began = perf_counter()
    pool.open()
    while not pool.warm:
        await asyncio.sleep(0.01)
    warm = perf_counter() - began
    await asyncio.sleep(arguments.after)
    runs = []
    try:
        for path in sorted((CHECKOUT / "examples").glob("*/*.emb")):
            if arguments.only not in path.stem:
                continue
            runs += [await _first(pool, _order(path.read_text(), arguments), path.stem) for _ in range(arguments.times)]
    finally:
        await pool.close()
    return {
        "source": "measured",
        "date": datetime.now(UTC).date().isoformat(),
        "on": arguments.on,
        "warm_s": warm,
        "runs": runs,
    }


def _order(text: str, arguments: argparse.Namespace) -> Mapping[str, Any]:
    data = arguments.data or fit(ModelRequest(text=text), or_usual=True).data or DEFAULT_DATA
    options = {"grad": True} if arguments.grad else {}
    order = RunRequest(text=text, on=arguments.on, data=data, options=options).to_json()
    return {name: value for name, value in order.items() if name != "memory"}  # as much as the worker has for arrays


async def _first(pool: WorkerPool, order: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Seconds to the first event, the first sample and the end, and the steps in between."""
    began = last = perf_counter()
    found: dict[str, Any] = {"name": name, "data": order["data"], "sample": None, "failed": "", "steps": {}}
    step = "taken"
    async with aclosing(pool.stream(order, SECONDS)) as stream:
        async for event in stream:
            now = perf_counter()
            if event["event"] in ("progress", "sample") and found["sample"] is None:
                found["steps"][step] = now - last
                step, last = event.get("what", "running"), now
            if event["event"] == "sample" and found["sample"] is None:
                found["sample"] = now - began
            if event["event"] == "failed":
                found["failed"] = event["message"]
    return found | {"end": perf_counter() - began}


def table(figures: Mapping[str, Any]) -> str:
    """The figures for people."""
    lines = [
        f"first samples on {figures['on']}; measured {figures['date']}",
        f"  warm after {figures['warm_s']:.1f} s",
    ]
    for run in figures["runs"]:
        if run["failed"] or run["sample"] is None:
            lines.append(f"  {run['name']}: {run['failed'] or 'no sample'}")
            continue
        longest = sorted(run["steps"].items(), key=lambda step: -step[1])[:3]
        steps = ", ".join(f"{seconds:.2f} {step}" for step, seconds in longest)
        lines.append(f"  {run['name']:18} {run['data']:14} {run['sample']:6.2f} s (end {run['end']:.2f}): {steps}")
    first = figures["runs"][0]["sample"] if figures["runs"] else None
    if first is not None:
        lines.append(
            f"  the first {figures['warm_s'] + first:.2f} s after the start (asked on a GPU: {ASKED['start']})"
        )
    seconds = [run["sample"] for run in figures["runs"] if run["sample"] is not None]
    lines.append(f"  the longest {max(seconds):.2f} s (asked on a GPU: {ASKED['sample']})" if seconds else "  none ran")
    return "\n".join(lines)
