"""What the queue's records hold, each as a value, and under which keys those of a run lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.queue.line import Line
from explorer.runtime.runs.events import Event


def session_key(session: str) -> str:
    return f"explorer:session:{session}"


def run_key(run: str) -> str:
    return f"explorer:run:{run}"


def job_key(run: str) -> str:
    return f"explorer:job:{run}"


def watched_key(run: str) -> str:
    return f"explorer:watched:{run}"


def cancel_key(run: str) -> str:
    return f"explorer:cancel:{run}"


@dataclass(frozen=True)
class Waits:
    """A waiting run: its entry in its session's stream."""

    session: str
    page: str
    run: str
    on: str
    entry: str = ""


@dataclass(frozen=True)
class Held:
    """A run in a worker's hands, or, with no `worker`, one that another has let go of and that is to be done again."""

    session: str
    run: str
    on: str
    entry: str
    worker: str
    attempt: int
    since: float
    """By the queue's clock, in seconds."""


@dataclass(frozen=True)
class State:
    """What the records say at one moment, by the queue's clock `now`."""

    line: Line[Waits]
    turns: Mapping[str, float]
    running: Mapping[str, Held]
    typical_seconds: float
    now: float

    @property
    def end_of_turns(self) -> float:
        return max(self.turns.values(), default=0.0) + 1.0


@dataclass(frozen=True)
class Posted:
    """An event as a run's stream has it. Of those of one `attempt`, `number` counts."""

    at: str
    attempt: int
    number: int
    event: Event = field(repr=False)


@dataclass(frozen=True)
class Orders:
    """What an instructor has said of all runs; `of_one` is 0 where nothing was."""

    paused: bool = False
    of_one: int = 0
