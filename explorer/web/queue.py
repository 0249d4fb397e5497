"""Who runs next: a fair queue over sessions with a bounded number of runs at a time.

A session has at most one running job. A page has one waiting besides, and a newer one takes its place; a script,
whose session is its address, may have several. Sessions take turns: one whose run has just ended goes behind all
that wait.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.runtime.workers.pool import Pool
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
    _began: float = 0.0
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
        self._line: OrderedDict[str, deque[Job]] = OrderedDict()
        """Waiting jobs of each session, the sessions in the order of their turns; those that run are passed over."""
        self._typical_seconds = _FIRST_GUESS_SECONDS

    @property
    def full(self) -> bool:
        """Whether one more job would be refused."""
        return sum(map(len, self._line.values())) >= self._longest

    def submit(self, session: str, request: Mapping[str, Any], waiting: int | None = None) -> Job:
        """Queue a run; it fails at once where the queue is full.

        `waiting` is how many jobs the session may have in the queue; without it there is one, which a newer one
        supersedes.
        """
        job = Job(session, request)
        own = self._line.get(session, deque())
        if own and waiting is None:
            older = own.pop()
            older._post(events.failed("superseded", "A newer run took this one's place.", "Its result is on the way."))
        elif self.full:
            self._refuse(job, f"The queue is full: {self._longest} runs wait already.", self._longest + 1)
            return job
        elif waiting is not None and len(own) >= waiting:
            self._refuse(job, f"{waiting} runs from this address wait already, as many as may.", waiting)
            return job
        own.append(job)
        self._line[session] = own
        self._advance()
        return job

    def _refuse(self, job: Job, message: str, position: int) -> None:
        wait = self._about(position)
        hint = f"Try again in about {wait:.0f} s, or run it on the command line with `explorer run`."
        job._post(events.failed("refused", message, hint))

    def cancel(self, job: Job) -> None:
        """Stop a job wherever it is; a running one's worker is killed."""
        job._post(events.failed("cancelled", "The run was stopped.", ""))
        own = self._line.get(job.session, deque())
        if job in own:
            own.remove(job)
            if not own:
                del self._line[job.session]
        if job._task is not None:
            job._task.cancel()
        self._tell_positions()

    async def close(self) -> None:
        """Cancel everything, and wait until the workers are let go."""
        running = list(self._running.values())
        for job in [*self._behind(), *running]:
            self.cancel(job)
        await asyncio.gather(*(job._task for job in running if job._task), return_exceptions=True)

    def _advance(self) -> None:
        """Start as many jobs as there is room for, and tell the others where they stand."""
        while len(self._running) < self._concurrent:
            session = next((name for name in self._line if name not in self._running), None)
            if session is None:
                break
            job = self._line[session].popleft()
            if not self._line[session]:
                del self._line[session]
            self._running[session] = job
            job._began = monotonic()
            job._task = asyncio.create_task(self._run(job))
            job._task.add_done_callback(partial(self._done, job))
        self._tell_positions()

    def _behind(self) -> Iterator[Job]:
        """The waiting jobs in about the order in which they will run: each session's first, then its second."""
        places = [
            (turn + (session in self._running), place, job)
            for place, (session, own) in enumerate(self._line.items())
            for turn, job in enumerate(own)
        ]
        return (job for _, _, job in sorted(places, key=lambda each: each[:2]))

    def _tell_positions(self) -> None:
        ends = [max(0.0, job._began + self._seconds - monotonic()) for job in self._running.values()]
        ends += [0.0] * (self._concurrent - len(ends))
        heapq.heapify(ends)
        for position, job in enumerate(self._behind(), start=1):
            most = max(1.0, ends[0])
            heapq.heapreplace(ends, ends[0] + self._seconds)
            about = min(most, self._about(position))
            message = f"Position {position} in the queue, about {about:.0f} s, at most {most:.0f} s."
            job._post(events.queued(position, message))

    def _about(self, position: int) -> float:
        """The seconds until this place in the queue runs, if runs last as long as they did lately."""
        return max(1.0, self._typical_seconds * position / self._concurrent)

    async def _run(self, job: Job) -> None:
        async with aclosing(self._pool.stream(job.request, self._seconds)) as stream:
            async for event in stream:
                job._post(event)
        self._typical_seconds += 0.2 * (monotonic() - job._began - self._typical_seconds)

    def _done(self, job: Job, task: asyncio.Task[None]) -> None:
        """Make room after a run, however it ended; its session goes to the end of the line."""
        if not task.cancelled() and task.exception() is not None:
            logging.getLogger(__name__).error("a run failed in the server", exc_info=task.exception())
        job._post(events.failed("crashed", "The server could not finish this run.", "Try again."))
        del self._running[job.session]
        if job.session in self._line:
            self._line.move_to_end(job.session)
        self._advance()
