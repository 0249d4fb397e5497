"""One run that a session asked for, as the server sees it; and what every queue of runs does with one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event


@dataclass(eq=False)
class Job:
    """One run that a session asked for; its events come out of `events()` as they happen."""

    session: str
    request: Mapping[str, Any]
    page: str = ""
    at: str = ""
    """Where its page has got to, with which it can go on over another connection; "" where it cannot."""
    when_ended: Callable[[Event], None] = lambda _: None
    """Is told the last event."""
    ended: bool = False
    _outbox: asyncio.Queue[tuple[str, Event]] = field(default_factory=asyncio.Queue)

    async def events(self) -> AsyncIterator[Event]:
        """Every event of the job, up to and with its last; `at` moves along."""
        while True:
            self.at, event = await self._outbox.get()
            yield event
            if events.is_last(event):
                return

    def post(self, event: Event, at: str = "") -> None:
        """Hand on an event; nothing follows a last one."""
        if not self.ended:
            self.ended = events.is_last(event)
            self._outbox.put_nowait((at, event))
            if self.ended:
                self.when_ended(event)


NO_ANSWER = "The queue does not answer, so this was perhaps not done: try again when it does."


class AwayError(Exception):
    """The queue cannot be reached to change anything in it; the text is a sentence."""


@dataclass(frozen=True)
class Standing:
    """What runs and waits at one moment, for whoever leads the runs."""

    running: Collection[str]
    """The sessions whose jobs run."""
    waiting: Mapping[str, int]
    """How many jobs wait, by session."""
    concurrent: int
    """How many may run at a time."""
    longest: int
    """How many may wait."""
    of_one: int
    """Of those, how many of one session."""
    paused: bool


class Queue(Protocol):
    """What the web asks of a queue of runs, wherever they are done."""

    @property
    def busy(self) -> bool:
        """Whether a run would be lost if the server ended now."""

    @property
    def taking(self) -> bool:
        """Whether new jobs are taken at all."""

    @property
    def paused(self) -> bool:
        """Whether no job begins, until an instructor lets them."""

    def has_room(self, session: str) -> bool:
        """Whether there is room for one more job of a session, as far as is known here."""

    def submit(self, session: str, request: Mapping[str, Any], page: str = "") -> Job:
        """Queue a run; its last event says so where it is not let in."""

    def resume(self, session: str, at: str) -> Job:
        """The rest of a run from where its page had got to."""

    def cancel(self, job: Job) -> None:
        """Stop a job wherever it is."""

    def leave(self, job: Job) -> None:
        """Its page is gone; where it may come back, the run goes on for a while."""

    def stop_taking(self) -> None:
        """Take no more jobs: the server is about to end."""

    async def look(self) -> Standing:
        """What runs and waits; where that cannot be asked, what was there last."""

    async def pause(self) -> None:
        """Begin no more jobs; those that run go on, and new ones wait. Raises AwayError."""

    async def go_on(self) -> None:
        """Begin jobs again. Raises AwayError."""

    async def let_wait(self, of_one: int) -> None:
        """Say how many jobs of one session may wait from now on. Raises AwayError."""

    async def stop(self, session: str, why: str) -> None:
        """Stop all jobs of a session, which are told why. Raises AwayError."""

    async def close(self) -> None:
        """Let go of everything."""
