"""The queue of runs that needs nothing beside the server: it keeps the line itself, and runs on its own workers.

Turns and room are those of `explorer.queue.line`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

from explorer.queue.job import Job, Standing
from explorer.queue.line import (
    CANCELLED,
    FIRST_GUESS_SECONDS,
    MADE_ROOM,
    Line,
    Pace,
    cancelled,
    paused_positions,
    stopping,
    superseded,
    typical,
)
from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.runtime.workers.pool import Pool
from explorer.web import limits


@dataclass(frozen=True)
class _Running:
    """A job at work, the task that follows it, and since when."""

    job: Job
    task: asyncio.Task[None]
    began: float


class RunQueue:
    """Takes jobs of many sessions and streams them through a pool of workers, `concurrent` at a time."""

    def __init__(
        self,
        pool: Pool,
        concurrent: int,
        seconds: float = limits.RUN_SECONDS,
        longest: int = limits.RUNS_WAITING,
        *,
        of_one: int = limits.RUNS_WAITING_PER_STUDENT,
        tell_seconds: float = limits.TELL_SECONDS,
        ended: Callable[[Mapping[str, Any], Event], None] = lambda *_: None,
    ) -> None:
        """`ended` is told what was asked for, and the last event of the job."""
        self._pool = pool
        self._concurrent = concurrent
        self._seconds = seconds
        self._tell_seconds = tell_seconds
        self._ended = ended
        self._telling: asyncio.TimerHandle | None = None
        self._moved = False
        """Whether positions have changed since they were told."""
        self._taking = True
        self._running: dict[str, _Running] = {}
        self._line: Line[Job] = Line(longest, of_one)
        self._typical_seconds = FIRST_GUESS_SECONDS

    @property
    def busy(self) -> bool:
        """Whether a job runs."""
        return bool(self._running)

    @property
    def taking(self) -> bool:
        """Whether new jobs are taken at all."""
        return self._taking

    @property
    def paused(self) -> bool:
        """Whether no job begins, until they may again."""
        return self._line.paused

    @property
    def running(self) -> Collection[str]:
        """The sessions whose jobs run."""
        return self._running.keys()

    @property
    def waiting(self) -> Mapping[str, int]:
        """How many jobs wait, by session."""
        return {session: len(own) for session, own in self._line.waiting.items()}

    def has_room(self, session: str) -> bool:
        """Whether there is room for one more job of a session."""
        return self._line.has_room(session)

    def submit(self, session: str, request: Mapping[str, Any], page: str = "") -> Job:
        """Queue a run; it fails at once where the queue is full, or the session has as many in it as it may.

        A newer run of a `page` supersedes the one of that page that waits.
        """
        job = Job(session, request, page, when_ended=partial(self._ended, request))
        if not self._taking:
            job.post(stopping())
            return job
        admission = self._line.admit(session, page)
        if admission.refused:
            job.post(self._pace.refused(admission.refused, admission.position))
            return job
        if admission.replaces is not None:
            self._line.replace(admission.replaces, job)
            admission.replaces.post(superseded())
        else:
            if admission.makes_room is not None:
                self._line.remove(admission.makes_room)
                admission.makes_room.post(self._pace.refused(MADE_ROOM, self._line.longest))
            self._line.add(job)
        self._advance()
        self._tell(job)
        return job

    def resume(self, session: str, at: str) -> Job:
        """Nothing can be gone on with here: a run ends with its page's connection."""
        job = Job(session, {})
        job.post(events.failed("refused", "A run ends here when its page's connection is lost.", "Run it again."))
        return job

    async def look(self) -> Standing:
        """What runs and waits now."""
        line = self._line
        return Standing(self.running, self.waiting, self._concurrent, line.longest, line.of_one, line.paused)

    async def pause(self) -> None:
        """Begin no more jobs; those that run go on, and new ones wait."""
        self._line.paused = True
        self._tell_positions()

    async def go_on(self) -> None:
        """Begin jobs again."""
        self._line.paused = False
        self._advance()

    async def let_wait(self, of_one: int) -> None:
        """Say how many jobs of one session may wait from now on."""
        self._line.of_one = of_one

    async def stop(self, session: str, why: str) -> None:
        """Stop all jobs of a session, which are told why."""
        running = self._running.get(session)
        for job in [*self._line.of(session), *([running.job] if running else [])]:
            self.cancel(job, why)

    def cancel(self, job: Job, why: str = CANCELLED) -> None:
        """Stop a job wherever it is; a running one's worker is killed. Nothing happens to one that has ended."""
        if job.ended:
            return
        job.post(cancelled(why))
        self._line.remove(job)
        running = self._running.get(job.session)
        if running is not None and running.job is job:
            running.task.cancel()
        self._tell_positions()

    def leave(self, job: Job) -> None:
        """Stop a job whose page is gone."""
        self.cancel(job)

    def stop_taking(self) -> None:
        """Take no more jobs, and drop those that wait; those that run go on."""
        self._taking = False
        for job in list(self._behind()):
            self._line.remove(job)
            job.post(stopping())

    async def close(self) -> None:
        """Cancel everything, and wait until the workers are let go."""
        if self._telling is not None:
            self._telling.cancel()
        running = list(self._running.values())
        for job in [*self._behind(), *(each.job for each in running)]:
            self.cancel(job)
        await asyncio.gather(*(each.task for each in running), return_exceptions=True)

    def _advance(self) -> None:
        """Start as many jobs as there is room for, and tell the others where they stand."""
        while len(self._running) < self._concurrent:
            job = self._line.next(self._running)
            if job is None:
                break
            self._line.remove(job)
            task = asyncio.create_task(self._run(job))
            self._running[job.session] = _Running(job, task, monotonic())
            task.add_done_callback(partial(self._done, job))
        self._tell_positions()

    def _behind(self) -> Iterator[Job]:
        return self._line.behind(self._running)

    @property
    def _pace(self) -> Pace:
        return Pace(self._concurrent, self._seconds, self._typical_seconds)

    def _tell_positions(self) -> None:
        """Tell all that wait where they stand, now or, so that many changes cost little, a little later."""
        self._moved = True
        if self._telling is None:
            self._tell_all()

    def _tell(self, job: Job) -> None:
        """Tell a job that has just come, if the others are told later."""
        if self._moved:
            for each, event in self._positions():
                if each is job:
                    job.post(event)

    def _tell_all(self) -> None:
        self._telling = None
        if self._moved:
            self._moved = False
            for job, event in self._positions():
                job.post(event)
            self._telling = asyncio.get_running_loop().call_later(self._tell_seconds, self._tell_all)

    def _positions(self) -> Iterator[tuple[Job, Event]]:
        """What each waiting job is told, in about the order in which they will run."""
        if self._line.paused:
            return paused_positions(self._behind())
        now = monotonic()
        left = [max(0.0, running.began + self._seconds_of(running.job) - now) for running in self._running.values()]
        return self._pace.positions(self._behind(), left)

    def _seconds_of(self, job: Job) -> float:
        """How long a job may run: what is compiled beside it has its own time."""
        return self._seconds + (job.request.get("compile_seconds") or 0.0)

    async def _run(self, job: Job) -> None:
        began = monotonic()
        async with aclosing(self._pool.stream(job.request, self._seconds_of(job))) as stream:
            async for event in stream:
                job.post(event)
        self._typical_seconds = typical(self._typical_seconds, monotonic() - began)

    def _done(self, job: Job, task: asyncio.Task[None]) -> None:
        """Make room after a run, however it ended; its session goes to the end of the line."""
        if not task.cancelled() and task.exception() is not None:
            logging.getLogger(__name__).error("a run failed in the server", exc_info=task.exception())
        job.post(events.failed("crashed", "The server could not finish this run.", "Try again."))
        del self._running[job.session]
        self._line.to_the_end(job.session)
        self._advance()
