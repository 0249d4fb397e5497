"""Many short runs over a real queue, while workers and their processes are killed at random.

By hand, over a server that was started for it:  python -m tests.queue.faults --runs 10000 --faults 200 --queue URL
Prints one line; status 1 where a run was lost, ended twice, or was begun more often than may be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from explorer.queue.broker import DOWN, Broker, connect
from explorer.queue.client import StreamQueue
from explorer.queue.supervisor import Offer, Supervisor
from explorer.runtime.runs.events import Event
from explorer.runtime.workers.pool import WorkerLostError

LEASE_SECONDS = 0.6
_CHILD = """
import json, sys, time
request = json.loads(sys.stdin.readline())
print(json.dumps({"event": "started"}), flush=True)
time.sleep(request.get("seconds", 0.05))
print(json.dumps({"event": "sample", "of": request["name"]}), flush=True)
print(json.dumps({"event": "result", "name": request["name"]}), flush=True)
"""


class ShortRuns:
    """Stands in for the pool of a worker: each run is a process that lives some milliseconds."""

    async def stream_or_lose(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(sys.executable, "-S", "-E", "-c", _CHILD, stdin=pipe, stdout=pipe)
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with suppress(ConnectionError):
                child.stdin.write(json.dumps(request).encode() + b"\n")
                await child.stdin.drain()
            while line := await child.stdout.readline():
                event = json.loads(line)
                yield event
                if event["event"] == "result":
                    return
            raise WorkerLostError("The process was ended before it finished.")
        finally:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()


async def be_worker(url: str) -> None:
    """One worker, until it is killed."""
    await Supervisor(Broker(connect(url)), ShortRuns(), Offer(("cpu",)), LEASE_SECONDS).serve()  # type: ignore[arg-type]


@asynccontextmanager
async def workers_of(url: str, count: int) -> Any:
    """Processes that are workers, in a list that whoever kills one may change."""

    async def start() -> asyncio.subprocess.Process:
        command = [sys.executable, "-m", "tests.queue.faults", "--queue", url, "--be-worker"]
        quiet = asyncio.subprocess.DEVNULL
        return await asyncio.create_subprocess_exec(*command, stderr=quiet, start_new_session=True)

    workers = [await start() for _ in range(count)]
    try:
        yield workers, start
    finally:
        for worker in workers:
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
        await asyncio.gather(*(worker.wait() for worker in workers))


def children(pid: int) -> list[int]:
    """The processes that a worker runs now."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Killer:
    """Kills workers that have a run, or the processes that do it."""

    def __init__(self, broker: Broker, workers: list[asyncio.subprocess.Process], start: Any, seed: int) -> None:
        self.killed = {"workers": 0, "processes": 0}
        self._broker, self._workers, self._start, self._draw = broker, workers, start, random.Random(seed)

    async def kill(self, faults: int, seconds_between: float) -> None:
        while sum(self.killed.values()) < faults:
            await asyncio.sleep(self._draw.uniform(0.0, 2 * seconds_between))
            running = (await self._broker.state()).running
            holders = {held.worker.split(":")[1] for held in running.values() if held.worker}
            busy = [worker for worker in self._workers if str(worker.pid) in holders]
            if busy:
                await self._kill(self._draw.choice(busy))

    async def _kill(self, worker: asyncio.subprocess.Process) -> None:
        own = children(worker.pid)
        if own and self._draw.random() < 0.5:
            with suppress(ProcessLookupError):
                os.kill(own[0], signal.SIGKILL)
                self.killed["processes"] += 1
            return
        worker.kill()
        self._workers.remove(worker)
        await worker.wait()
        self._workers.append(await self._start())
        self.killed["workers"] += 1


async def follow(queue: StreamQueue, number: int, sessions: int, seconds: float) -> list[Event]:
    """One run, asked for again where the line is full of its session's."""
    request = {"name": str(number), "on": "cpu", "data": "", "seconds": seconds, "data_dir": None}
    return [event async for event in queue.submit(f"session {number % sessions}", request).events()]


async def endure(
    url: str, runs: int, faults: int, workers: int = 3, seed: int = 0, seconds_between: float = 0.3, each: float = 0.05
) -> dict[str, Any]:
    """What became of so many runs of `each` so many seconds, of ten sessions, while so many were killed."""
    broker = Broker(connect(url), longest=runs, of_one=runs)
    queue = StreamQueue(broker, 30.0, tell_seconds=1.0)
    queue.open()
    began = perf_counter()
    async with workers_of(url, workers) as (processes, start):
        killer = Killer(broker, processes, start, seed)
        killing = asyncio.create_task(killer.kill(faults, seconds_between))
        at_once = asyncio.Semaphore(100)

        async def one(number: int) -> list[Event]:
            async with at_once:
                return await follow(queue, number, 10, each)

        found = await asyncio.gather(*map(one, range(runs)))
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
    left = await broker.state()
    with suppress(*DOWN):
        await queue.close()
    names = [own[-1].get("name") for own in found if own[-1]["event"] == "result"]
    told = [sum(event["event"] == "repeated" for event in own) for own in found]
    return {
        "runs": runs,
        "killed": killer.killed,
        "results": len(names),
        "given up after two deaths": sum(own[-1].get("kind") == "crashed" for own in found),
        "repeated": sum(count == 1 for count in told),
        "begun more than twice": sum(count > 1 for count in told),
        "marked": sum(bool(own[-1].get("repeated")) for own in found),
        "another's": sum(name != str(n) for n, own in enumerate(found) if (name := own[-1].get("name")) is not None),
        "doubled": len(names) - len(set(names)),
        "said": sorted({own[-1]["message"] for own in found if own[-1]["event"] != "result"}),
        "left": len(left.line) + len(left.running),
        "seconds": round(perf_counter() - began, 1),
    }


def is_well(figures: Mapping[str, Any]) -> bool:
    """Whether no run was lost, doubled, or begun a third time, and each that was begun twice says so."""
    ended = figures["results"] + figures["given up after two deaths"]
    none = ("begun more than twice", "another's", "doubled", "left")
    is_marked = figures["marked"] == figures["repeated"]
    return ended == figures["runs"] and is_marked and all(figures[name] == 0 for name in none)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queue", required=True, help="of a server with nothing else in it")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--between", type=float, default=0.8, help="seconds from one fault to the next, in the mean")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--be-worker", action="store_true")
    arguments = parser.parse_args()
    if arguments.be_worker:
        asyncio.run(be_worker(arguments.queue))
        return 0
    asked = (arguments.runs, arguments.faults, arguments.workers, arguments.seed, arguments.between)
    figures = asyncio.run(endure(arguments.queue, *asked))
    print(json.dumps(figures))
    return 0 if is_well(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
