"""How what is done to a class at one server holds at all: here for one that is alone, where it is simply done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from starlette.requests import HTTPConnection

from explorer.web.instructor.classroom import Classroom, Tally
from explorer.web.instructor.handins import HandIn, HandInError, archived

R = TypeVar("R")
WAITS, UNCHECKED = "waiting", "unchecked"
"""The states of a check whose turn has not come, and of one that has come to nothing."""


@dataclass(frozen=True)
class Elsewhere:
    """What other servers say of themselves: of each student, and how many compilations wait and go on."""

    students: Mapping[str, Tally] = field(default_factory=dict)
    compiling: int = 0
    servers: int = 0


class Sharing(Protocol):
    """Reaches what the servers of a class have in common, of which each has a copy in its `Classroom`."""

    @property
    def trouble(self) -> str:
        """Why others are not reached now, in a sentence; empty where they are."""

    @property
    def kept(self) -> str:
        """Where hand-ins are, in a sentence."""

    @property
    def checked_again(self) -> Collection[str]:
        """The states of hand-ins' checks after which another may be asked for."""

    async def open(self) -> None:
        """Begin to keep up with others."""

    async def close(self) -> None:
        """End that."""

    async def look(self) -> Elsewhere:
        """What other servers do, and the list of hand-ins brought up to date."""

    async def on_desk(self, apply: Callable[[], R]) -> R:
        """Change what the instructor has set for all. Raises AwayError."""

    async def on_roll(self, apply: Callable[[], R]) -> R:
        """Change who is in the class. Raises AwayError."""

    async def may_enter(self, connection: HTTPConnection) -> bool:
        """Whether somebody may see the page and run."""

    async def hand_in(self, owner: str, student: str, assignment: str, work: dict[str, Any]) -> HandIn:
        """Keep a hand-in of a session's student. Raises HandInError."""

    async def note_check(self, found: HandIn, check: dict[str, Any]) -> None:
        """Say what came of a hand-in's check, if it is still there."""

    async def hand_in_of(self, number: int) -> HandIn | None:
        """A hand-in with its work. Raises HandInError where that cannot be asked."""

    async def archive(self) -> bytes:
        """All hand-ins as a zip archive. Raises HandInError where they cannot be asked."""


class Alone:
    """The only server of a class."""

    trouble = ""
    checked_again = (UNCHECKED,)

    def __init__(self, classroom: Classroom) -> None:
        self._classroom = classroom

    @property
    def kept(self) -> str:
        """Where hand-ins are."""
        if self._classroom.hand_ins.folder is not None:
            return "Each is a file in the folder of --hand-ins."
        told = "They are in memory alone and are lost when the server stops"
        return f"{told}: start it with --hand-ins DIR to keep them."

    async def open(self) -> None:
        """There is nobody to keep up with."""

    async def close(self) -> None:
        """Nothing is to be ended."""

    async def look(self) -> Elsewhere:
        """There is nobody else."""
        return Elsewhere()

    async def on_desk(self, apply: Callable[[], R]) -> R:
        """Change it."""
        return apply()

    async def on_roll(self, apply: Callable[[], R]) -> R:
        """Change it."""
        return apply()

    async def may_enter(self, connection: HTTPConnection) -> bool:
        """Whether somebody may see the page and run."""
        return self._classroom.admission.may_enter(connection)

    async def hand_in(self, owner: str, student: str, assignment: str, work: dict[str, Any]) -> HandIn:
        """Keep a hand-in. Raises HandInError."""
        return self._classroom.hand_ins.add(owner, student, assignment, work)

    async def note_check(self, found: HandIn, check: dict[str, Any]) -> None:
        """Say what came of a hand-in's check, if no newer one has taken its place."""
        found.check = check
        if check["state"] != WAITS and self._classroom.hand_ins.get(found.number) is found:
            with suppress(HandInError):  # then memory has what the folder does not take
                self._classroom.hand_ins.store(found)

    async def hand_in_of(self, number: int) -> HandIn | None:
        """A hand-in."""
        return self._classroom.hand_ins.get(number)

    async def archive(self) -> bytes:
        """All hand-ins as a zip archive."""
        return await asyncio.to_thread(archived, list(self._classroom.hand_ins))
