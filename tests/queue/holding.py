"""A server's queue and workers in one event loop, over a queue that both share; the workers' runs are the test's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from explorer.queue.broker import Broker
from explorer.queue.client import StreamQueue
from explorer.queue.job import Job
from explorer.queue.supervisor import LEASE_SECONDS, Offer, Supervisor
from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.runtime.workers.pool import WorkerLostError

PATIENCE = 60.0
ALL = Offer(("gpu", "cpu", "dae"))


class TestPool:
    """Runs that say a few samples; one named `held` goes on until it is stopped, one named `dies` ends its process as
    often as is said."""

    __test__ = False

    def __init__(self, deaths: int = 0) -> None:
        self.started: list[str] = []
        self.stopped: list[str] = []
        self._deaths = deaths

    async def stream_or_lose(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        name = request["name"]
        self.started.append(name)
        try:
            yield events.started("cpu", "test")
            for index in range(3):
                yield events.timed_sample(index, 1.5 * index)
            while name == "held":
                await asyncio.sleep(0.01)
            if name == "dies" and self._deaths:
                self._deaths -= 1
                raise WorkerLostError("The worker process was ended by SIGKILL before it finished.")
            yield events.result({"name": name})
        except asyncio.CancelledError:
            self.stopped.append(name)
            raise


def request(name: str, on: str = "cpu") -> dict[str, Any]:
    return {"name": name, "on": on, "data": "", "data_dir": None}


@asynccontextmanager
async def queue_of(broker: Broker, **settings: Any) -> AsyncIterator[StreamQueue]:
    queue = StreamQueue(broker, 30.0, tell_seconds=0.05, **settings)
    queue.open()
    try:
        yield queue
    finally:
        await queue.close()


@asynccontextmanager
async def worker_of(
    broker: Broker, pool: Any, offer: Offer = ALL, lease_seconds: float = LEASE_SECONDS
) -> AsyncIterator[asyncio.Task[None]]:
    serving = asyncio.create_task(Supervisor(broker, pool, offer, lease_seconds).serve())
    try:
        yield serving
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await broker.redis.aclose()


async def rest(job: Job) -> list[Event]:
    """All that a job still says, but its places in the line."""
    return [event async for event in job.events() if event["event"] != "queued"]


async def until(job: Job, kind: str) -> Event:
    """The first event of a kind."""
    async for event in job.events():
        if event["event"] == kind:
            return event
    raise AssertionError(f"the job ended without a '{kind}'")


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.005)


def in_time(main: Callable[[], Awaitable[None]]) -> None:
    """Run a test's coroutine, which fails rather than waits for good."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()

    asyncio.run(bounded())
