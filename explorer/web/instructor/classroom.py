"""What a server knows of a class: who is in it and what they did, and what the instructor has sent them."""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, TypeVar

from explorer.compiler.options import Options
from explorer.queue.job import Queue
from explorer.web import limits
from explorer.web.entrance.students import Students, is_student
from explorer.web.instructor.handins import HandIns
from explorer.web.instructor.token import Instructor, Secret
from explorer.web.queue import RunQueue

T = TypeVar("T")


class OpenPage(Protocol):
    """A student's page, as far as a class has to do with it."""

    @property
    def student(self) -> str: ...

    def tell(self, event: dict[str, Any]) -> None: ...


@dataclass
class Student:
    """One student: by number in the order in which they came, with a name where one was given."""

    number: int
    name: str = ""
    edits: int = 0
    runs: int = 0
    seen: float = field(default_factory=monotonic)
    """When it last asked for something."""


@dataclass(frozen=True)
class Sent:
    """A text that the instructor has sent to all."""

    number: int
    name: str
    text: str


@dataclass(frozen=True)
class Locks:
    """What nobody may use while an assignment is set: options, which keep their usual values, and stages."""

    options: frozenset[str] = frozenset()
    stages: frozenset[str] = frozenset()

    def open_options(self, chosen: Mapping[str, T]) -> dict[str, T]:
        """What was chosen of options that are not locked."""
        return {name: value for name, value in chosen.items() if name not in self.options}

    def open_stages(self, names: Iterable[str]) -> list[str]:
        """The stages that are not locked."""
        return [name for name in names if name not in self.stages]

    def told(self, options: Mapping[str, object], stages: Iterable[str] = ()) -> str:
        """Why a script may not have these, in a sentence; empty where it may."""
        usual = Options().to_json()
        asked = [name for name, value in options.items() if name in self.options and value != usual[name]]
        asked += [name for name in stages if name in self.stages]
        return f"The instructor has locked {', '.join(asked)} for the assignment." if asked else ""


NO_LOCKS = Locks()


@dataclass(frozen=True)
class Assignment:
    """What students are to do: a text to begin with, and a reference that what they hand in is held against.

    The reference is a text in the language, which no student sees; where it is empty, nothing is checked.
    """

    number: int
    title: str
    text: str
    reference: str = ""
    seeds: int = 1
    locks: Locks = NO_LOCKS


@dataclass(frozen=True)
class Row:
    """A student as the instructor sees one."""

    student: Student
    pages: int
    state: str
    running: bool
    waiting: int


class Classroom:
    """A class: with a `code`, its students are those who know that, for whom there are so many `places`.

    Without an `instructor` it only counts, of the students that came last. What is handed in is kept in the folder
    `hand_ins`, or in memory. Raises OSError where that folder is of no use.
    """

    def __init__(
        self,
        instructor: Instructor | None = None,
        code: str | None = None,
        places: int = limits.CLASS_PLACES,
        hand_ins: Path | None = None,
    ) -> None:
        self.instructor = instructor
        self.code = None if code is None else Secret(code, limits.WRONG_CODES)
        self.places = places
        self.admission = Students(None if code is None else places)
        self._word = code or ""
        self.sent: Sent | None = None
        self.assignment: Assignment | None = None
        self.reference_check: dict[str, Any] = {}
        """What came of running the assignment's reference against itself."""
        self.hand_ins = HandIns(hand_ins)
        self._students: OrderedDict[str, Student] = OrderedDict()
        self._came = 0
        self._sendings = 0

    def remember(self, secret: bytes) -> None:
        """Know the students of servers before this one, which had the same secret and the same code."""
        self.admission.remember(hmac.digest(secret, self._word.encode(), "sha256"))

    def note_edit(self, session: str) -> None:
        """A student has changed a text."""
        if is_student(session):
            self._student(session).edits += 1

    def note_run(self, session: str) -> None:
        """A student has asked for a run."""
        if is_student(session):
            self._student(session).runs += 1

    def note_page(self, session: str) -> None:
        """A student has opened a page."""
        if is_student(session):
            self._student(session)

    def _student(self, session: str) -> Student:
        """A session's student, who has now asked for something."""
        found = self._students.get(session)
        if found is None:
            self._came += 1
            found = self._students[session] = Student(self._came)
            most = limits.STUDENTS_KNOWN if self.code is None else self.places
            if len(self._students) > most:
                self._students.popitem(last=False)
        found.seen = monotonic()
        self._students.move_to_end(session)
        return found

    def name(self, session: str, name: str) -> None:
        """What a student wants to be called: one line, without what nobody sees."""
        shown = "".join(letter if letter.isprintable() else " " for letter in name)
        self._student(session).name = " ".join(shown.split())[: limits.NAME_LENGTH]

    def session(self, number: int) -> str | None:
        """The session of the student of a number."""
        return next((session for session, student in self._students.items() if student.number == number), None)

    def remove(self, session: str) -> None:
        """Forget a student, who has to give the code again."""
        self._students.pop(session, None)
        self.admission.remove(session)

    def send(self, name: str, text: str) -> None:
        """Offer a text to all, in the place of the one before."""
        self._sendings += 1
        self.sent = Sent(self._sendings, name, text)

    @property
    def locks(self) -> Locks:
        """What is locked now."""
        return NO_LOCKS if self.assignment is None else self.assignment.locks

    def assign(self, title: str, text: str, reference: str, seeds: int, locks: Locks = NO_LOCKS) -> Assignment:
        """Set an assignment, in the place of the one before; what was handed in stays."""
        self._sendings += 1
        self.reference_check = {}
        self.assignment = Assignment(self._sendings, title, text, reference, seeds, locks)
        return self.assignment

    def called(self, session: str) -> str:
        """What a student is called: the name that was given, or a number."""
        student = self._student(session)
        return student.name or f"student {student.number}"

    def notice(self, queue: Queue) -> dict[str, Any]:
        """What every page shows of the class."""
        sent = None if self.sent is None else {"number": self.sent.number, "name": self.sent.name}
        assigned = self.assignment
        assignment = None if assigned is None else {"number": assigned.number, "title": assigned.title}
        locked = {"options": sorted(self.locks.options), "stages": sorted(self.locks.stages)}
        return {"event": "class", "paused": queue.paused, "sent": sent, "assignment": assignment, "locked": locked}

    def tell(self, pages: Iterable[OpenPage], queue: RunQueue) -> None:
        """Show all pages what has changed."""
        notice = self.notice(queue)
        for page in list(pages):
            page.tell(notice)

    def rows(self, pages: Collection[OpenPage], queue: RunQueue) -> list[Row]:
        """Who is in the class, as they came."""
        return sorted(self._rows(pages, queue), key=lambda row: row.student.number)

    def _rows(self, pages: Collection[OpenPage], queue: RunQueue) -> Iterator[Row]:
        opened: dict[str, int] = {}
        for page in pages:
            opened[page.student] = opened.get(page.student, 0) + 1
        waiting, now = queue.waiting, monotonic()
        for session, student in self._students.items():
            here = opened.get(session, 0)
            idle = now - student.seen
            state = "away" if not here else "connected" if idle < limits.IDLE_SECONDS else f"idle {idle / 60:.0f} min"
            yield Row(student, here, state, session in queue.running, waiting.get(session, 0))
