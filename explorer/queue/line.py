"""The fair policy of runs: whose turn it is, who is let into the line, and what those that wait are told.

A session is a student, or the address of a script. It has at most one running job. Of each of its pages one waits
besides, and a newer one takes its place; a script may have several waiting. Sessions take turns: one whose run has just
ended goes behind all that wait. Where the line is full, who has most waiting makes room for who has less.

Nothing here waits, sends or stores. The queue inside a server keeps one `Line` for its life; over streams each decision
is made on a `Line` of what was read, and written only if nothing has changed meanwhile.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event

FIRST_GUESS_SECONDS = 4.0
"""What a run is taken to last until one has been timed."""


class Waiting(Protocol):
    """What the line asks of a job."""

    @property
    def session(self) -> str: ...

    @property
    def page(self) -> str: ...


J = TypeVar("J", bound=Waiting)


@dataclass(frozen=True)
class Admission(Generic[J]):
    """What happens to a job that comes: it is refused, or is let in, in the place of `replaces` where that is one, and
    after `makes_room` has gone."""

    refused: str = ""
    """Why it is not let in, in a sentence."""
    position: int = 0
    """Of a refused one, the place for which there would have been a wait."""
    replaces: J | None = None
    makes_room: J | None = None


class Line(Generic[J]):
    """Waiting jobs of each session, the sessions in the order of their turns; those that run are passed over."""

    def __init__(self, longest: int, of_one: int, paused: bool = False) -> None:
        self.longest = longest
        self.of_one = of_one
        self.paused = paused
        self.waiting: OrderedDict[str, deque[J]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self.waiting.values()))

    def of(self, session: str) -> Collection[J]:
        """What a session has waiting."""
        return self.waiting.get(session, ())

    @property
    def full(self) -> bool:
        """Whether as many jobs wait as may."""
        return len(self) >= self.longest

    def has_room(self, session: str) -> bool:
        """Whether there is room for one more job of a session."""
        return not self.full or max(map(len, self.waiting.values()), default=0) > len(self.of(session)) + 1

    def admit(self, session: str, page: str) -> Admission[J]:
        """Whether a job of a session and page may come in, and who goes for it; nothing changes yet."""
        own = self.of(session)
        older = next((each for each in own if page and each.page == page), None)
        if older is not None:
            return Admission(replaces=older)
        if len(own) >= self.of_one:
            return Admission(f"{self.of_one} runs of yours wait already, as many as may.", self.of_one)
        if not self.has_room(session):
            return Admission(f"The queue is full: {self.longest} runs wait already.", self.longest + 1)
        return Admission(makes_room=max(self.waiting.values(), key=len)[-1] if self.full else None)

    def add(self, job: J) -> None:
        """A job goes behind the others of its session; one that has none goes to the end of the line."""
        self.waiting.setdefault(job.session, deque()).append(job)

    def replace(self, older: J, newer: J) -> None:
        """A job takes the place of another of its session."""
        own = self.waiting[older.session]
        own[own.index(older)] = newer

    def remove(self, job: J) -> bool:
        """Take a job out; whether it waited."""
        own = self.waiting.get(job.session)
        if own is None or job not in own:
            return False
        own.remove(job)
        if not own:
            del self.waiting[job.session]
        return True

    def next(self, running: Collection[str], fits: Callable[[J], bool] = lambda _: True) -> J | None:
        """The job whose turn it is: the first of the first session that does not run, if whoever asks can do it. It is
        nobody's while the line is paused."""
        if self.paused:
            return None
        heads = (own[0] for session, own in self.waiting.items() if session not in running)
        return next((job for job in heads if fits(job)), None)

    def to_the_end(self, session: str) -> None:
        """A session whose run has ended goes behind all that wait."""
        if session in self.waiting:
            self.waiting.move_to_end(session)

    def behind(self, running: Collection[str]) -> Iterator[J]:
        """The waiting jobs in about the order in which they will run: each session's first, then its second."""
        places = [
            (turn + (session in running), place, job)
            for place, (session, own) in enumerate(self.waiting.items())
            for turn, job in enumerate(own)
        ]
        return (job for _, _, job in sorted(places, key=lambda each: each[:2]))


@dataclass(frozen=True)
class Pace:
    """How fast a line moves: runs at a time, seconds that one may take, and that they took lately."""

    concurrent: int
    seconds: float
    typical_seconds: float

    def about(self, position: int) -> float:
        """The seconds until this place in the queue runs, if runs last as long as they did lately."""
        return max(1.0, self.typical_seconds * position / self.concurrent)

    def positions(self, behind: Iterable[J], left: Iterable[float]) -> Iterator[tuple[J, Event]]:
        """What each waiting job is told; `left` are the seconds that each running one may still take."""
        ends = list(left)
        ends += [0.0] * (self.concurrent - len(ends))
        heapq.heapify(ends)
        for position, job in enumerate(behind, start=1):
            most = max(1.0, ends[0])
            heapq.heapreplace(ends, ends[0] + self.seconds)
            about = min(most, self.about(position))
            message = f"Position {position} in the queue, about {about:.0f} s, at most {most:.0f} s."
            yield job, events.queued(position, message)

    def refused(self, message: str, position: int) -> Event:
        """The last event of a job that is not let in."""
        hint = f"Try again in about {self.about(position):.0f} s, or run it on the command line with `explorer run`."
        return events.failed("refused", message, hint)


def paused_positions(behind: Iterable[J]) -> Iterator[tuple[J, Event]]:
    """What each job is told that waits in a line which is paused."""
    message = "The instructor has paused runs. This one is number {} when they go on."
    return ((job, events.queued(at, message.format(at))) for at, job in enumerate(behind, start=1))


MADE_ROOM = "The queue is full, and this run made room for somebody who has fewer."


def typical(before: float, took: float) -> float:
    """What runs take, after one more has ended."""
    return before + 0.2 * (took - before)


def superseded() -> Event:
    """The last event of a waiting job whose page has sent a newer one."""
    return events.failed("superseded", "A newer run took this one's place.", "Its result is on the way.")


CANCELLED = "The run was stopped."


def cancelled(why: str = CANCELLED) -> Event:
    """The last event of a job that somebody stopped."""
    return events.failed("cancelled", why, "")


def stopping() -> Event:
    """The last event of a job that comes to, or waits in, a server that ends."""
    return events.failed("refused", "The server is about to stop.", "Try again when it is back.")
