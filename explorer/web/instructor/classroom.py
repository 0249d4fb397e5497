"""What a server knows of a class: who is in it and what they did, and what the instructor has sent them."""

from __future__ import annotations

import hmac
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, TypeVar

from explorer.compiler.options import Options
from explorer.queue.job import Queue
from explorer.web import limits
from explorer.web.entrance.students import Students, is_student
from explorer.web.instructor.handins import HandIns
from explorer.web.instructor.token import Instructor, Secret

T = TypeVar("T")


class OpenPage(Protocol):
    """A student's page, as far as a class has to do with it."""

    @property
    def student(self) -> str: ...

    def tell(self, event: dict[str, Any]) -> None: ...

    def leave(self) -> None: ...


class Line(Protocol):
    """Whose runs go on and wait."""

    @property
    def running(self) -> Collection[str]: ...

    @property
    def waiting(self) -> Mapping[str, int]: ...


NEVER = float("-inf")


@dataclass
class Student:
    """One student: by number in the order in which they came, with a name where one was given."""

    number: int
    name: str = ""
    edits: int = 0
    runs: int = 0
    seen: float = field(default_factory=monotonic)
    """When it last asked this server for something."""


@dataclass
class Tally:
    """What other servers say of a student."""

    pages: int = 0
    edits: int = 0
    runs: int = 0
    seen: float = NEVER
    """By this server's clock."""


NOTHING: Mapping[str, Tally] = {}


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
        self.word = code or ""
        self.sent: Sent | None = None
        self.assignment: Assignment | None = None
        self.reference_check: dict[str, Any] = {}
        """What came of running the assignment's reference against itself."""
        self.hand_ins = HandIns(hand_ins)
        self._students: OrderedDict[str, Student] = OrderedDict()
        self._common: frozenset[str] = frozenset()
        """Those of the students that other servers know of."""
        self._came = 0
        self._sendings = 0
        self.told: dict[str, Any] = {}
        """What all pages were told last."""

    def remember(self, secret: bytes) -> None:
        """Know the students of other servers, or of those before this one, with the same secret and the same code."""
        self.admission.remember(hmac.digest(secret, self.word.encode(), "sha256"))

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

    @property
    def _most(self) -> int:
        return limits.STUDENTS_KNOWN if self.code is None else self.places

    def _student(self, session: str) -> Student:
        """A session's student, who has now asked for something."""
        found = self._students.get(session)
        if found is None:
            self._came += 1
            found = self._students[session] = Student(self._came)
            if len(self._students) > self._most:
                self._students.popitem(last=False)
        found.seen = monotonic()
        self._students.move_to_end(session)
        return found

    def join(self, session: str, name: str) -> bool:
        """Give a place to who knows the code, and a name if one was given; False where there is no place."""
        if not self.admission.seat(session):
            return False
        self.name(session, name)
        return True

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

    def close_removed(self, pages: Iterable[OpenPage]) -> None:
        """Close the pages of who has no place any more."""
        for page in [page for page in pages if not self.admission.has_place(page.student)]:
            page.leave()

    def send(self, name: str, text: str) -> None:
        """Offer a text to all, in the place of the one before."""
        self._sendings += 1
        self.sent = Sent(self._sendings, name, text)

    def unsend(self) -> None:
        """Offer it no more."""
        self.sent = None

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

    def unassign(self) -> None:
        """End the assignment."""
        self.assignment = None

    def note_reference(self, assignment: Assignment, check: dict[str, Any]) -> None:
        """What came of running an assignment's reference, if that is still set."""
        if self.assignment is not None and self.assignment.number == assignment.number:
            self.reference_check = check

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

    def tell(self, pages: Iterable[OpenPage], queue: Queue) -> None:
        """Show all pages what has changed."""
        self.told = self.notice(queue)
        for page in list(pages):
            page.tell(self.told)

    def rows(self, pages: Iterable[OpenPage], line: Line, elsewhere: Mapping[str, Tally] = NOTHING) -> list[Row]:
        """Who is in the class, as they came, with what they do at other servers too."""
        return sorted(self._rows(pages, line, elsewhere), key=lambda row: row.student.number)

    def _rows(self, pages: Iterable[OpenPage], line: Line, elsewhere: Mapping[str, Tally]) -> Iterator[Row]:
        opened = Counter(page.student for page in pages)
        waiting, now = line.waiting, monotonic()
        for session, own in self._students.items():
            other = elsewhere.get(session, Tally())
            seen = max(own.seen, other.seen)
            student = Student(own.number, own.name, own.edits + other.edits, own.runs + other.runs, seen)
            here, idle = opened[session] + other.pages, now - seen
            state = "away" if not here else "connected" if idle < limits.IDLE_SECONDS else f"idle {idle / 60:.0f} min"
            yield Row(student, here, state, session in line.running, waiting.get(session, 0))

    # --- what servers of one queue have in common

    def tallies(self, pages: Iterable[OpenPage]) -> dict[str, Tally]:
        """What this server alone knows of students."""
        opened = Counter(page.student for page in pages)
        here = {session: own for session, own in self._students.items() if own.seen != NEVER}
        return {session: Tally(opened[session], own.edits, own.runs, own.seen) for session, own in here.items()}

    def desk(self) -> dict[str, Any]:
        """What the instructor has set for all, as JSON."""
        assigned = self.assignment
        locks = {"options": sorted(self.locks.options), "stages": sorted(self.locks.stages)}
        return {
            "sendings": self._sendings,
            "sent": None if self.sent is None else asdict(self.sent),
            "assignment": None if assigned is None else {**asdict(assigned), "locks": locks},
            "reference_check": self.reference_check,
        }

    def take_desk(self, desk: Mapping[str, Any]) -> None:
        """Have set what another server's `desk` says."""
        sent, assigned = desk["sent"], desk["assignment"]
        self._sendings = int(desk["sendings"])
        self.sent = None if sent is None else Sent(**sent)
        self.assignment = None if assigned is None else Assignment(**{**assigned, "locks": _locks(assigned["locks"])})
        self.reference_check = desk["reference_check"]

    def roll(self) -> dict[str, Any]:
        """Who is in the class, as JSON."""
        students = {session: [own.number, own.name] for session, own in self._students.items()}
        return {"came": self._came, "students": students, **self.admission.document()}

    def merge_roll(self, roll: Mapping[str, Any]) -> None:
        """Have in the class who is in another server's `roll`, and who has come here alone since."""
        self.admission.merge(roll["admitted"], roll["removed"])
        before, self._students = self._students, OrderedDict()
        for session, (number, name) in roll["students"].items():
            if not self.admission.has_place(session):  # was removed here, of which others have yet to hear
                continue
            own = before.get(session) or Student(number, seen=NEVER)
            own.number, own.name = number, name
            self._students[session] = own
        self._came = int(roll["came"])
        for session, own in before.items():
            if session not in self._common and session not in self._students and self.admission.has_place(session):
                self._came += 1
                own.number = self._came
                self._students[session] = own
        while len(self._students) > self._most:
            self._students.popitem(last=False)
        self._common = frozenset(roll["students"])


def _locks(told: Mapping[str, Iterable[str]]) -> Locks:
    return Locks(frozenset(told["options"]), frozenset(told["stages"]))
