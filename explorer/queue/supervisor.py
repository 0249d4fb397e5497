"""`explorer worker`: takes runs from a queue, one at a time, and does them in processes as a server's own are.

The supervisor runs no model itself. A run whose process dies goes back into the queue, to be begun once more, here or
by another worker; so does one whose supervisor dies, once that has been missed for a while.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from explorer.queue.absences import Absences
from explorer.queue.bodies import BodyError, other_version, read_body
from explorer.queue.broker import DOWN, VERSION, Broker, connect, not_if_cancelled
from explorer.queue.line import CANCELLED, cancelled
from explorer.queue.records import Held
from explorer.runtime.data.offered import offered_names
from explorer.runtime.data.triples import InputError
from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.runtime.workers.pool import WorkerLostError, WorkerPool
from explorer.version import version

LOOK_SECONDS = 0.1
"""How often an idle worker looks for a run, and a busy one for whether its run was stopped."""
LEASE_SECONDS = 4.0
"""How long a worker may be missed before its run is another's."""
UNWATCHED_SECONDS = 5.0
"""For how long a run's being unwatched must be seen before it is stopped, since keys expire in an outage too."""


class WorkerError(Exception):
    """The worker cannot start; the message says why and what to do."""


T = TypeVar("T")


@dataclass(frozen=True)
class Offer:
    """What a worker does: the targets that it runs, and the folder of data files that it has."""

    targets: Sequence[str]
    data_dir: Path | None = None


class Supervisor:
    """One worker of a queue. `serve` until `stop`, or until it is cancelled."""

    def __init__(self, broker: Broker, pool: WorkerPool, offer: Offer, lease_seconds: float = LEASE_SECONDS) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._broker = broker
        self._pool = pool
        self._offer = offer
        self._lease_seconds = lease_seconds
        self._stopping = asyncio.Event()
        self._absent = Absences()
        self._looked: str | None = ""
        """How often the queue had changed when there was nothing for this worker in it."""
        self._checked = -lease_seconds

    def stop(self) -> None:
        """End once the run that goes on has ended."""
        self._stopping.set()

    async def check(self) -> None:
        """Raises WorkerError where the queue cannot be reached, or its server is another version."""
        try:
            found = await self._broker.redis.get(VERSION)
        except DOWN as error:
            raise WorkerError(f"the queue cannot be reached: {error}") from None
        if found is not None and found != version():
            raise WorkerError(other_version(found))

    async def serve(self) -> None:
        """Take runs and do them."""
        beating = asyncio.create_task(self._beat())
        try:
            while not self._stopping.is_set():
                held = await self._when_there(self._take)
                if held is None:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._stopping.wait(), LOOK_SECONDS)
                else:
                    await self._do(held)
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            with suppress(*DOWN):
                await self._broker.beat(self.name, self._offer.targets, self._lease_seconds)
            not_if_cancelled()
            await asyncio.sleep(self._lease_seconds / 4)

    async def _when_there(self, ask: Callable[[], Awaitable[T]]) -> T:
        """An answer of the queue, however long it is away."""
        told = False
        while True:
            try:
                answer = await ask()
                not_if_cancelled()
                return answer
            except DOWN as error:
                not_if_cancelled()
                self._absent.forget()
                if not told:
                    print(f"explorer: the queue cannot be reached, and is tried again: {error}", file=sys.stderr)
                told = True
                await asyncio.sleep(LOOK_SECONDS)

    async def _take(self) -> Held | None:
        """The next run for this worker, if anything has changed since it looked in vain."""
        if monotonic() - self._checked >= self._lease_seconds / 4:
            self._checked = monotonic()
            self._absent.seen(await self._broker.dead())
        dead = self._absent.longer_than(self._lease_seconds)
        changes = await self._broker.changes()
        if changes == self._looked and not dead:
            return None
        held = await self._broker.take(self.name, self._offer.targets, dead)
        self._looked = changes if held is None else ""
        return held

    async def _do(self, held: Held) -> None:
        """One run, up to its end, or until it is another's or nobody's."""
        running = asyncio.create_task(self._run(held))
        watching = asyncio.create_task(self._until_stopped(held))
        try:
            await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                running.cancel()
                await asyncio.wait({running})
                why = watching.result()
                await self._when_there(lambda: self._broker.finish(held, 0, cancelled(why)))
            elif running.exception() is not None:
                print(f"explorer: a run failed in the worker: {running.exception()!r}", file=sys.stderr)
                await self._when_there(lambda: self._broker.let_go(held))
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait({running})
            with suppress(*DOWN):
                await self._broker.let_go(held)
            raise
        finally:
            watching.cancel()

    async def _run(self, held: Held) -> None:
        number = 0
        try:
            body = read_body(await self._when_there(lambda: self._broker.body(held)))
            request = await asyncio.to_thread(self._request, body.request)
        except BodyError as error:
            refused = events.failed("refused", str(error))
            await self._when_there(lambda: self._broker.finish(held, 1, refused))
            return
        try:
            async with aclosing(self._pool.stream_or_lose(request, body.seconds)) as stream:
                async for event in stream:
                    number += 1
                    await self._post(held, number, event)
        except WorkerLostError as error:
            print(f"explorer: {error}", file=sys.stderr)
            await self._when_there(lambda: self._broker.let_go(held))

    async def _post(self, held: Held, number: int, event: Event) -> None:
        if events.is_last(event):
            await self._when_there(lambda: self._broker.finish(held, number, event))
        else:
            await self._when_there(lambda: self._broker.post(held, number, event))

    def _request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """A request for a process here: with this host's folder, and of data by names that it offers, since any other
        would be opened as a path. Raises BodyError."""
        try:
            names = offered_names(self._offer.data_dir)
        except InputError as error:
            raise BodyError(f"{error}.") from None
        data = request.get("data", "")
        if data and data not in names:
            raise BodyError(f"The worker has no data set '{str(data)[:200]}': start it with the server's --data-dir.")
        return {**request, "data_dir": None if self._offer.data_dir is None else str(self._offer.data_dir)}

    async def _until_stopped(self, held: Held) -> str:
        """What a run is told once it is to end: somebody stopped it, nobody waits for it, or it is another worker's."""
        unwatched = Absences()
        while True:
            not_if_cancelled()
            await asyncio.sleep(LOOK_SECONDS)
            try:
                mine, stopped, watched = await self._broker.standing(held)
            except DOWN:
                unwatched.forget()
                continue
            unwatched.seen([] if watched else [held.run])
            if not mine or stopped or unwatched.longer_than(UNWATCHED_SECONDS):
                return stopped or CANCELLED


async def serve_queue(url: str, offer: Offer, memory: int, lease_seconds: float = LEASE_SECONDS) -> None:
    """Be a worker of the queue at an address until SIGTERM, which lets the run that goes on end, or until cancelled.

    Raises WorkerError.
    """
    folders = [offer.data_dir.resolve()] if offer.data_dir else []
    broker = Broker(connect(url))
    pool = WorkerPool("run", memory=memory, folders=folders)
    supervisor = Supervisor(broker, pool, offer, lease_seconds)
    try:
        await supervisor.check()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, supervisor.stop)
        pool.open()
        print(f"Embedding Compiler Explorer: worker {supervisor.name} runs {', '.join(offer.targets)}", flush=True)
        await supervisor.serve()
    finally:
        await pool.close()
        with suppress(*DOWN):
            await broker.redis.aclose()
