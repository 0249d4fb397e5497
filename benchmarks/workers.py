"""Runs a second that workers of a queue do, and whether a run's own times are the same beside another worker.

    explorer bench workers [--on cpu|dae|gpu] [--workers N] [--runs N] [--server PROGRAM]

Starts a Valkey or Redis of its own that keeps every write, then one `explorer worker` and so many in turns, each on
cores of its own (on a GPU: with a GPU of its own), apart from this process and the queue, and leaves them the same
runs: the examples, in the same order, of eight sessions. Status 1 where a run failed, 2 where the host has too little.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from math import exp, fsum, log
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import explorer
from benchmarks.timing.host import heading, provenance
from explorer.checkout import CHECKOUT
from explorer.queue.broker import DOWN, Broker, connect
from explorer.queue.client import StreamQueue
from explorer.runtime.run import RunRequest
from explorer.web.examples import Example, examples

BY_NAME_ONLY = "needs a Valkey or Redis server, and two workers' cores"
SESSIONS, BATCH, REPEAT = 8, 1_024, 20
WARM = 3
"""How often a worker has each model, in the mean, before a turn is timed."""
RUN_SECONDS, START_SECONDS = 60.0, 120.0
FEWEST_CORES = 4
TIMES_AS_MANY = {"cpu": 1.8, "dae": 1.8, "gpu": 1.9}
"""What is asked of two workers beside one, by target, at least."""
LONGER = 1.05
"""How much longer a run's own time may be beside another worker."""
DATA = {"score": "FB15k-237", "layer": "small", "op": ""}
"""What runs are of, by family; an op's is its own."""


def main(argv: Sequence[str]) -> int:
    """Measures, and prints a table or a JSON object; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="explorer bench workers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--on", choices=("cpu", "dae", "gpu"), default="cpu", help="default %(default)s")
    parser.add_argument("--workers", type=int, default=2, help="beside one worker, so many; default %(default)s")
    parser.add_argument("--runs", type=int, default=200, help="runs of each turn; default %(default)s")
    parser.add_argument("--turns", type=int, default=2, help="how often each is measured; default %(default)s")
    parser.add_argument("--only", default="", metavar="NAME,...", help="of these examples; default: all but one")
    parser.add_argument("--server", help="valkey-server or redis-server, where it is not on the path")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    server = arguments.server or shutil.which("valkey-server") or shutil.which("redis-server")
    cores = sorted(os.sched_getaffinity(0))
    missing = "" if server else "there is neither valkey-server nor redis-server"
    if len(cores) < max(FEWEST_CORES, arguments.workers + 2):
        missing = f"the host has {len(cores)} cores, and {max(FEWEST_CORES, arguments.workers + 2)} are needed"
    if missing:
        print(f"not measured: {missing}", file=sys.stderr)
        return 2
    facts, own, turns = provenance(), shares(cores, arguments.workers), []
    os.sched_setaffinity(0, own[-1])  # the queue's server has what this process has
    for count in [1, arguments.workers] * arguments.turns:
        with queue_server(server) as url:
            asked = (arguments.on, own[:count], chosen(arguments.only), arguments.runs)
            try:
                turns.append(asyncio.run(turn(url, *asked)))
            except TimeoutError:
                print(f"not measured: the queue and {count} of its workers did not come up", file=sys.stderr)
                return 2
    found = facts | {"on": arguments.on} | figures(turns)
    print(json.dumps(found) if arguments.json else table(found))
    return int(bool(found["failed"]))


def chosen(only: str) -> list[Example]:
    """The examples that are named, or all but one that takes ten times as long as any other."""
    names = only.split(",") if only else [each.name for each in examples() if each.name != "spattn_replicated"]
    return [example for example in examples() if example.name in names]


def shares(cores: Sequence[int], workers: int) -> list[list[int]]:
    """The cores of each worker, as many for each, and behind them those of the queue and of this process: a quarter,
    or two: of [0, 1, 2, 3] for two workers [[0], [1], [2, 3]]."""
    each = (len(cores) - max(2, len(cores) // 4)) // workers
    own = [list(cores[first : first + each]) for first in range(0, each * workers, each)]
    return [*own, list(cores[each * workers :])]


@contextmanager
def queue_server(program: str) -> Iterator[str]:
    """A server with nothing in it, that writes all down before it answers; its address."""
    with TemporaryDirectory(prefix="queue-") as folder:
        where = ["--port", "0", "--unixsocket", f"{folder}/queue.sock", "--dir", folder]
        kept = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        with subprocess.Popen([program, *where, *kept], stdout=subprocess.DEVNULL) as process:
            try:
                yield f"unix://{folder}/queue.sock"
            finally:
                process.kill()


@dataclass
class Turn:
    """What so many workers did: how many runs, the seconds that these took together, their own times by model, and why
    some failed."""

    workers: int
    seconds: float = 0.0
    ended: int = 0
    ms: list[tuple[str, float]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Runs a second."""
        return self.ended / self.seconds

    def typical(self, name: str) -> float:
        """The median of a model's own times, in ms."""
        return median(took for model, took in self.ms if model == name)


async def turn(url: str, on: str, cores: Sequence[Sequence[int]], models: Sequence[Example], runs: int) -> Turn:
    """What a worker on each of these shares of cores does, once all have done some runs. Raises TimeoutError where the
    queue or a worker is not there in time."""
    workers = len(cores)
    broker = Broker(connect(url), longest=10_000, of_one=10_000)
    queue = StreamQueue(broker, RUN_SECONDS, tell_seconds=1.0)
    async with asyncio.timeout(START_SECONDS):
        await _until_there(broker)
    async with _workers(url, on, cores):
        queue.open()
        async with asyncio.timeout(START_SECONDS):
            while len(await broker.workers()) < workers:
                await asyncio.sleep(0.1)
        # What is compiled once, and files: more often than workers, since any of them may take any run.
        await _do(queue, on, [*models] * (workers * WARM), Turn(workers))
        found = Turn(workers)
        began = perf_counter()
        await _do(queue, on, [models[number % len(models)] for number in range(runs)], found)
        found.seconds = perf_counter() - began
        await queue.close()
    return found


async def _until_there(broker: Broker) -> None:
    while True:
        try:
            await broker.redis.ping()
            return
        except DOWN:
            await asyncio.sleep(0.05)


@asynccontextmanager
async def _workers(url: str, on: str, cores: Sequence[Sequence[int]]) -> AsyncIterator[None]:
    """Workers, each on its cores, once all have said that they are there."""
    processes = []
    for number, own in enumerate(cores):
        command = [sys.executable, "-m", "explorer.cli", "worker", "--queue", url, "--only", on]
        command += ["--gpu", str(number)] if on == "gpu" else []
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, own)  # what is started has what its parent has
        try:
            pipe = asyncio.subprocess.PIPE
            processes.append(await asyncio.create_subprocess_exec(*command, stdout=pipe, cwd=CHECKOUT))
        finally:
            os.sched_setaffinity(0, before)
    try:
        for process in processes:
            assert process.stdout is not None
            await asyncio.wait_for(process.stdout.readline(), START_SECONDS)
        yield
    finally:
        for process in processes:
            process.terminate()
        await asyncio.gather(*(process.wait() for process in processes))


async def _do(queue: StreamQueue, on: str, models: Sequence[Example], found: Turn) -> None:
    """All models once, of sessions that take turns."""

    async def one(number: int, model: Example) -> None:
        job = queue.submit(f"session {number % SESSIONS}", request(model, on), page=str(number))
        last: Mapping[str, Any] = {}
        async for event in job.events():
            last = event
        found.ended += 1
        if last["event"] == "failed":
            found.failed.append(f"{model.name}: {last['message']}")
        elif "median_ms" in last:  # the simulated machine has cycles
            found.ms.append((model.name, float(last["median_ms"])))

    await asyncio.gather(*(one(number, model) for number, model in enumerate(models)))


@cache
def request(model: Example, on: str) -> dict[str, Any]:
    """A run of an example on small data."""
    family = explorer.compile(model.text, on_demand=True).family or ""
    asked = RunRequest(text=model.text, on=on, data=DATA[family], batch=BATCH, repeat=REPEAT, peers=False)
    return asked.to_json()


def figures(turns: Sequence[Turn]) -> dict[str, Any]:
    """Runs a second by the number of workers, how many times as many more workers do, and how much longer a run takes
    beside another worker. Turns are held against those next to them, since a host's speed varies over minutes; of these
    ratios it is the median."""
    most = max(each.workers for each in turns)
    pairs = list(zip(_of(1, turns), _of(most, turns), strict=True))
    longer = [ratio for pair in pairs if (ratio := _longer(*pair)) is not None]
    return {
        "workers": most,
        "runs_a_second": {count: [round(each.rate, 2) for each in _of(count, turns)] for count in (1, most)},
        "times_as_many": median(beside.rate / alone.rate for alone, beside in pairs),
        "longer": median(longer) if longer else None,
        "models": len({name for pair in pairs for name in _common(*pair)}),
        "failed": sorted({reason for each in turns for reason in each.failed}),
    }


def _of(workers: int, turns: Sequence[Turn]) -> list[Turn]:
    return [each for each in turns if each.workers == workers]


def _common(alone: Turn, beside: Turn) -> list[str]:
    """The models that both turns have times of."""
    return sorted({name for name, _ in alone.ms} & {name for name, _ in beside.ms})


def _longer(alone: Turn, beside: Turn) -> float | None:
    """How many times as long a run takes beside another worker: the geometric mean of the models' ratios."""
    ratios = [beside.typical(name) / alone.typical(name) for name in _common(alone, beside)]
    return exp(fsum(map(log, ratios)) / len(ratios)) if ratios else None


def table(found: Mapping[str, Any]) -> str:
    """The figures for people."""
    lines = [heading({name: str(found[name]) for name in ("source", "device", "date")})]
    for count, rates in found["runs_a_second"].items():
        shown = ", ".join(f"{rate:.2f}" for rate in rates)
        lines.append(f"{count} worker{'s' if count > 1 else ' '}  {shown} runs a second")
    lines.append(f"times as many: {found['times_as_many']:.2f} (asked of two: {TIMES_AS_MANY[found['on']]})")
    if found["longer"] is not None:
        lines.append(
            f"a run's own time beside the others: {found['longer']:.3f} of that alone, in the mean of "
            f"{found['models']} models (asked: at most {LONGER})"
        )
    return "\n".join([*lines, *(f"failed: {reason}" for reason in found["failed"])])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
