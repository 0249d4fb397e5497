"""The server's side of the queue over streams: jobs go in, events come out, and an outage is told and survived.

A run belongs to no connection and to no server: a page that comes back goes on after the event that it has seen last,
and a run that nobody has waited for in `WATCH_SECONDS` is stopped by its worker.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any
from weakref import WeakValueDictionary

from explorer.queue.absences import Absences
from explorer.queue.bodies import Body, BodyError
from explorer.queue.broker import (
    DOWN,
    VERSION,
    WATCH_SECONDS,
    Broker,
    not_if_cancelled,
)
from explorer.queue.job import NO_ANSWER, AwayError, Job, Standing
from explorer.queue.line import Pace, cancelled, paused_positions, stopping
from explorer.queue.records import Orders, Posted, State, Waits
from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.version import version

AWAY_SECONDS = 30.0
"""How long an outage may last before those who wait are told to try again."""
LOST_SECONDS = 5.0
"""How long the queue may answer and know nothing of a run that has not ended: it has lost its records."""
LEAD_SECONDS = 2.0
"""How long an instructor waits for a queue that does not answer; `TimeoutError` is one of `DOWN`."""
_BLOCK_MS = 100
_RETRY_SECONDS = 0.2
_PLACE = re.compile(r"([0-9a-f]{32})/(\d{1,20}-\d{1,20})/(\d)/(\d{1,9})")


@dataclass(eq=False)
class _Followed:
    """A job whose events are read."""

    job: Job
    entry: str = "0-0"
    """The last of its run's stream that was read."""
    attempt: int = 0
    number: int = 0
    in_queue: bool = False
    """Whether the queue has taken it."""
    told: Event | None = None
    """The last that it was told of its place."""

    def place(self, run: str) -> str:
        """Where its page has got to."""
        return f"{run}/{self.entry}/{self.attempt}/{self.number}"


class StreamQueue:
    """Jobs of this server's pages over a queue in Redis or Valkey. `open` it inside an event loop."""

    def __init__(
        self, broker: Broker, seconds: float, *, tell_seconds: float, away_seconds: float = AWAY_SECONDS
    ) -> None:
        self._broker = broker
        self._seconds = seconds
        self._tell_seconds = tell_seconds
        self._away_seconds = away_seconds
        self._taking = True
        self._followed: dict[str, _Followed] = {}
        self._some = asyncio.Event()
        self._order_of: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """What a session asks for reaches the queue in the order in which it asked."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._workers: list[list[str]] = []
        """The targets of each worker that was there lately."""
        self._orders = Orders()
        """What an instructor at any server has said, as it was read last."""
        self._standing = Standing((), {}, 0, 0, 0, paused=False)
        self._unwatched, self._unknown = Absences(), Absences()

    @property
    def busy(self) -> bool:
        """Runs go on without this server."""
        return False

    @property
    def taking(self) -> bool:
        """Whether new jobs are taken at all."""
        return self._taking

    @property
    def paused(self) -> bool:
        """Whether no job begins, until an instructor at any server lets them."""
        return self._orders.paused

    @property
    def warm(self) -> bool:
        """Whether a worker is there."""
        return bool(self._workers)

    def has_room(self, session: str) -> bool:
        """Only the queue knows; it refuses in the job's events."""
        return True

    def open(self) -> None:
        """Begin to read events, and to say who is waited for; returns at once."""
        self._begin(self._read())
        self._begin(self._repeat(WATCH_SECONDS / 5, self._attend))
        self._begin(self._repeat(self._tell_seconds, self._tell))

    def submit(self, session: str, request: Mapping[str, Any], page: str = "") -> Job:
        """Queue a run; its last event says so where it is not let in, or the queue is away."""
        job = Job(session, request, page)
        if not self._taking:
            job.post(stopping())
            return job
        run = secrets.token_hex(16)
        try:
            body = Body(version(), dict(request), self._seconds).text()
        except BodyError as error:
            job.post(events.failed("refused", str(error)))
            return job
        followed = _Followed(job)
        job.at = followed.place(run)
        self._followed[run] = followed
        self._begin(self._place(followed, Waits(session, page, run, str(request.get("on", ""))), body))
        return job

    def resume(self, session: str, at: str) -> Job:
        """The rest of a run from where its page had got to. Its name is a secret of the page's: the cookie may be new,
        if the server is."""
        job = Job(session, {}, at=at)
        found = _PLACE.fullmatch(at)
        if found is None:
            job.post(_unknown())
            return job
        run, entry, attempt, number = found.groups()
        if run in self._followed:
            self._followed.pop(run).job.post(events.failed("superseded", "Another page follows this run now."))
        followed = self._followed[run] = _Followed(job, entry, int(attempt), int(number))
        self._begin(self._place_again(run, followed))
        return job

    def cancel(self, job: Job) -> None:
        """Stop a job wherever it is; its worker kills the process that runs it."""
        run = self._let_go(job)
        if run is None:
            return
        job.post(cancelled())
        self._begin(self._stop(job.session, run))

    def leave(self, job: Job) -> None:
        """Its page is gone, and may come back: the run goes on until nobody has waited for it for long enough."""
        if self._let_go(job) is not None:
            job.post(cancelled())

    def stop_taking(self) -> None:
        """Take no more jobs; those that are in the queue go on, and their pages may follow them from another server."""
        self._taking = False

    async def look(self) -> Standing:
        """What runs and waits in the whole queue; while it is away, what was there last."""
        with suppress(*DOWN):
            async with asyncio.timeout(LEAD_SECONDS):
                self._workers = list((await self._broker.workers()).values())
                state = await self._broker.state()
            line = state.line
            waiting = {session: len(own) for session, own in line.waiting.items()}
            self._standing = Standing(
                state.running.keys(), waiting, len(self._workers), line.longest, line.of_one, line.paused
            )
        return self._standing

    async def pause(self) -> None:
        """Have no worker begin a run; those that go on do so, and new ones wait. Raises AwayError."""
        await self._lead(self._broker.order("paused", 1))
        self._orders = replace(self._orders, paused=True)

    async def go_on(self) -> None:
        """Have workers begin runs again. Raises AwayError."""
        await self._lead(self._broker.order("paused", 0))
        self._orders = replace(self._orders, paused=False)

    async def let_wait(self, of_one: int) -> None:
        """Say how many runs of one session may wait from now on, at all servers. Raises AwayError."""
        await self._lead(self._broker.order("of_one", of_one))

    async def stop(self, session: str, why: str) -> None:
        """Stop all runs of a session, at whichever server it asked for them. Raises AwayError."""
        await self._lead(self._broker.stop(session, why))

    async def _lead(self, change: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(LEAD_SECONDS):
                await change
        except DOWN:
            raise AwayError(NO_ANSWER) from None

    async def close(self) -> None:
        """Stop reading; the runs go on."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(*DOWN):
            await self._broker.redis.aclose()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _let_go(self, job: Job) -> str | None:
        """Follow a job no more; its run's name, None if it was not followed."""
        run = next((run for run, followed in self._followed.items() if followed.job is job), None)
        if run is not None:
            del self._followed[run]
        return run

    def _in_order(self, session: str) -> asyncio.Lock:
        return self._order_of.setdefault(session, asyncio.Lock())

    async def _stop(self, session: str, run: str) -> None:
        """If the queue is away, the run's worker stops it for being unwatched."""
        async with self._in_order(session):
            with suppress(*DOWN):
                await self._broker.cancel(run)

    async def _place(self, followed: _Followed, waits: Waits, body: str) -> None:
        try:
            async with self._in_order(waits.session):
                if followed.job.ended:
                    return
                refused = await self._broker.submit(waits, body, self._pace)
        except DOWN as error:
            refused = _away(error)
        self._placed(waits.run, followed, refused)

    async def _place_again(self, run: str, followed: _Followed) -> None:
        try:
            await self._broker.watch([run])
            refused = None if await self._broker.is_known(run) else _unknown()
        except DOWN as error:
            refused = _away(error)
        self._placed(run, followed, refused)

    def _placed(self, run: str, followed: _Followed, refused: Event | None) -> None:
        if refused is not None:
            self._let_go(followed.job)
            followed.job.post(refused)
        followed.in_queue = refused is None
        self._some.set()

    def _pace(self, state: State) -> Pace:
        return Pace(max(1, len(self._workers)), self._seconds, state.typical_seconds)

    async def _read(self) -> None:
        """Events of all jobs that are followed, by one reader."""
        away_since: float | None = None
        while True:
            not_if_cancelled()
            read = {run: followed for run, followed in self._followed.items() if followed.in_queue}
            at = {run: followed.entry for run, followed in read.items()}
            if not at:
                self._some.clear()
                await self._some.wait()
                continue
            try:
                found = await self._broker.events_after(at, _BLOCK_MS)
            except DOWN as error:
                away_since = away_since or monotonic()
                self._tell_outage(at, error, monotonic() - away_since)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            away_since = None
            for run, posted in found.items():
                if self._followed.get(run) is read[run]:  # another page may have come back to it, from further before
                    self._hand_on(run, read[run], posted)

    def _hand_on(self, run: str, followed: _Followed, posted: Iterable[Posted]) -> None:
        """New events, but those of a worker that was taken for dead, and those that were written twice. A last event
        is of whoever ended the run, whichever attempt that was."""
        for each in posted:
            followed.entry = each.at
            is_last = events.is_last(each.event)
            place = (each.attempt, each.number)
            if not is_last and place <= (followed.attempt, followed.number):
                continue
            followed.attempt, followed.number = place
            event = {**each.event, "repeated": True} if is_last and each.attempt > 1 else each.event
            followed.job.post(event, followed.place(run))
            if is_last:
                self._followed.pop(run, None)

    def _tell_outage(self, runs: Iterable[str], error: Exception, seconds: float) -> None:
        """An outage is told once, and given up after so long."""
        for run in [run for run in runs if run in self._followed]:
            followed = self._followed[run]
            if seconds >= self._away_seconds:
                del self._followed[run]
                followed.job.post(_away(error))
            else:
                self._say(run, followed, events.progress("the queue of runs is away: waiting for it", 0, 1))

    def _say(self, run: str, followed: _Followed, event: Event) -> None:
        """What is no part of the run; not twice the same."""
        if followed.told != event:
            followed.told = event
            followed.job.post(event, followed.place(run))

    async def _repeat(self, seconds: float, do: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await do()
            except DOWN:
                self._unwatched.forget()
                self._unknown.forget()
                self._workers = []
            except Exception:
                logging.getLogger(__name__).exception("the queue of runs")
            not_if_cancelled()
            await asyncio.sleep(seconds)

    async def _attend(self) -> None:
        """Say which version this is and what is waited for; and take out what nobody waits for."""
        await self._broker.redis.set(VERSION, version(), ex=WATCH_SECONDS)
        await self._broker.watch([run for run, followed in self._followed.items() if followed.in_queue])
        state = await self._broker.state()
        self._unwatched.seen(await self._broker.unwatched([each.run for each in state.line.behind(())]))
        if gone := self._unwatched.longer_than(WATCH_SECONDS):
            await self._broker.drop(gone)

    async def _tell(self) -> None:
        """Tell those that wait where they stand."""
        self._workers = list((await self._broker.workers()).values())
        self._orders = await self._broker.orders()
        if not self._followed:
            return
        state = await self._broker.state()
        waiting = {each.run for each in state.line.behind(())} | {held.run for held in state.running.values()}
        self._unknown.seen([run for run, each in self._followed.items() if each.in_queue and run not in waiting])
        for run in self._unknown.longer_than(LOST_SECONDS):
            if run in self._followed:
                self._followed.pop(run).job.post(_unknown())
        for waits, event in self._positions(state):
            if waits.run in self._followed:
                self._say(waits.run, self._followed[waits.run], event)

    def _positions(self, state: State) -> Iterator[tuple[Waits, Event]]:
        behind = state.line.behind(state.running)
        if state.line.paused:
            return paused_positions(behind)
        left = [max(0.0, held.since + self._seconds - state.now) for held in state.running.values()]
        told = self._pace(state).positions(behind, left)
        return ((waits, self._without_worker(waits, event)) for waits, event in told)

    def _without_worker(self, waits: Waits, event: Event) -> Event:
        if any(waits.on in targets for targets in self._workers):
            return event
        told = f"No worker that runs '{waits.on[:20]}' is there: the run waits for one."
        return events.queued(event["position"], told)


def _away(error: Exception) -> Event:
    logging.getLogger(__name__).warning("the queue of runs cannot be reached: %s", error)
    return events.failed("away", "The queue of runs cannot be reached.", "Try again in a moment.")


def _unknown() -> Event:
    return events.failed("crashed", "The queue no longer knows this run.", "Run it again.")
