"""Who runs next: a fair queue over sessions with a bounded number of runs at a time.

A session has at most one running and one waiting job; a newer job takes the waiting one's place in the queue.
Sessions take turns: one whose run has just ended goes behind all that wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from explorer.runtime import events
from explorer.runtime.events import Event
from explorer.runtime.jobs import Pool
from explorer.web import limits

_FIRST_GUESS_SECONDS = 4.0
"""What a run is taken to last until one has been timed."""


@dataclass(eq=False)
class Job:
    """One run that a session asked for; its events come out of `events()` as they happen."""

    session: str
    request: Mapping[str, Any]
    _outbox: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    _task: asyncio.Task[None] | None = None
    _ended: bool = False

    async def events(self) -> AsyncIterator[Event]:
        """Every event of the job, up to and with its last."""
        while True:
            event = await self._outbox.get()
            yield event
            if events.is_last(event):
                return

    def _post(self, event: Event) -> None:
        """Hand on an event; nothing follows a last one."""
        if not self._ended:
            self._ended = events.is_last(event)
            self._outbox.put_nowait(event)


class RunQueue:
    """Takes jobs of many sessions and streams them through a pool of workers, `concurrent` at a time."""

    def __init__(
        self,
        pool: Pool,
        concurrent: int,
        seconds: float = limits.RUN_SECONDS,
        longest: int = limits.RUNS_WAITING,
    ) -> None:
        self._pool = pool
        self._concurrent = concurrent
        self._seconds = seconds
        self._longest = longest
        self._running: dict[str, Job] = {}
        self._held: dict[str, Job] = {}
        """Waiting jobs of sessions that have one running: out of the line until that one ends."""
        self._line: OrderedDict[str, Job] = OrderedDict()
        self._typical_seconds = _FIRST_GUESS_SECONDS

    @property
    def full(self) -> bool:
        """Whether one more job would be refused."""
        return len(self._line) + len(self._held) >= self._longest

    def submit(self, session: str, request: Mapping[str, Any]) -> Job:
        """Queue a run. The job fails at once where the queue is full; an older waiting one is superseded."""
        job = Job(session, request)
        waiting = self._held if session in self._running else self._line
        older = waiting.get(session)
        if older is not None:
            older._post(events.failed("superseded", "A newer run took this one's place.", "Its result is on the way."))
        elif self.full:
            wait = self._seconds_until(self._longest + 1)
            job._post(
                events.failed(
                    "refused",
                    f"The queue is full: {self._longest} runs wait already.",
                    f"Try again in about {wait:.0f} s, or run it on the command line with `explorer run`.",
                )
            )
            return job
        waiting[session] = job
        self._advance()
        return job

    def cancel(self, job: Job) -> None:
        """Stop a job wherever it is; a running one's worker is killed."""
        job._post(events.failed("cancelled", "The run was stopped.", ""))
        for waiting in (self._line, self._held):
            if waiting.get(job.session) is job:
                del waiting[job.session]
        if job._task is not None:
            job._task.cancel()
        self._tell_positions()

    async def close(self) -> None:
        """Cancel everything, and wait until the workers are let go."""
        running = list(self._running.values())
        for job in [*self._line.values(), *self._held.values(), *running]:
            self.cancel(job)
        await asyncio.gather(*(job._task for job in running if job._task), return_exceptions=True)

    def _advance(self) -> None:
        """Start as many jobs as there is room for, and tell the others where they stand."""
        while self._line and len(self._running) < self._concurrent:
            session, job = self._line.popitem(last=False)
            self._running[session] = job
            job._task = asyncio.create_task(self._run(job))
            job._task.add_done_callback(partial(self._done, job))
        self._tell_positions()

    def _tell_positions(self) -> None:
        behind = [*self._line.values(), *self._held.values()]
        for position, job in enumerate(behind, start=1):
            wait = self._seconds_until(position)
            job._post(events.queued(position, f"Position {position} in the queue, about {wait:.0f} s."))

    def _seconds_until(self, position: int) -> float:
        return max(1.0, self._typical_seconds * position / self._concurrent)

    async def _run(self, job: Job) -> None:
        began = monotonic()
        async with aclosing(self._pool.stream(job.request, self._seconds)) as stream:
            async for event in stream:
                job._post(event)
        self._typical_seconds += 0.2 * (monotonic() - began - self._typical_seconds)

    def _done(self, job: Job, task: asyncio.Task[None]) -> None:
        """Make room after a run, however it ended; its session goes to the end of the line."""
        if not task.cancelled() and task.exception() is not None:
            logging.getLogger(__name__).error("a run failed in the server", exc_info=task.exception())
        job._post(events.failed("crashed", "The server could not finish this run.", "Try again."))
        del self._running[job.session]
        if job.session in self._held:
            self._line[job.session] = self._held.pop(job.session)
        self._advance()
