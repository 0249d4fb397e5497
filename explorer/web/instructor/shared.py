"""A class of several servers, through the queue of runs that they have in common.

Each has a copy of what is set and who is there in its `Classroom`, asks four times a second whether that has changed,
and tells its pages. What it alone knows, such as its students' edits, it says once a second, for the others to add up.
While the queue is away it goes on with its copy: students come in by that, and the instructor changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, replace
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from starlette.datastructures import State
from starlette.requests import HTTPConnection

from explorer.queue.broker import DOWN, not_if_cancelled
from explorer.queue.classes import WORKS_AT_ONCE, ClassRecords, Document, Part, drop_works, keep_work, new_secret
from explorer.queue.job import NO_ANSWER, AwayError
from explorer.web import limits
from explorer.web.instructor.classroom import Classroom, Tally
from explorer.web.instructor.handins import HandIn, HandInError, HandIns, archived, path_of, write_down
from explorer.web.instructor.sharing import UNCHECKED, WAITS, Elsewhere

R = TypeVar("R")
LOOK_SECONDS = 0.25
"""How often it is asked whether anything has changed."""
PUBLISH_SECONDS = 1.0
"""How often it is said what this server alone knows."""
GONE_SECONDS = 5.0
"""A server that has said nothing for so long has no pages any more."""
_AWAY = "The queue cannot be reached: this is what this server knows, and other servers know nothing of it."
_NO_CLASS = "What the queue has of the class cannot be read: this is what this server knows. Its log says more."
_CANNOT = "The queue that keeps hand-ins cannot be reached. Try again in a moment."


class Shared:
    """This server's part in a class; of a server without one, only the secret of its cookies is shared.

    `state` is the application's: its runs, compiler and pages are looked at, and its store's secret goes before this.
    """

    checked_again = (UNCHECKED, WAITS)
    """The server that was to check one may have ended."""

    def __init__(self, records: ClassRecords, classroom: Classroom, state: State) -> None:
        self.trouble = ""
        self._name = secrets.token_hex(8)
        self._records = records
        self._classroom = classroom
        self._state = state
        self._secret = new_secret()
        self._knows_secret = False
        self._folder: Path | None = classroom.hand_ins.folder
        self._lock = asyncio.Lock()
        """One change of the copy at a time."""
        self._numbers: dict[Part, str | None] = {}
        """How often each part had changed when it was read."""
        self._roll: Document = classroom.roll()
        """Who is in the class as far as others know."""
        self._ahead = 0.0
        """How far the queue's clock is before this server's."""
        self._published = -PUBLISH_SECONDS
        self._elsewhere = Elsewhere()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take over what other servers know, and begin to keep up with them."""
        if self._classroom.instructor is not None:
            self._classroom.hand_ins = HandIns()
        await self._keep_up()
        self._task = asyncio.create_task(self._repeat())

    async def close(self) -> None:
        """Say that no pages are open here any more."""
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        if not self.trouble and self._classroom.instructor is not None:
            with suppress(*DOWN):
                await self._publish(())

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(PUBLISH_SECONDS if self._classroom.instructor is None else LOOK_SECONDS)
            await self._keep_up()
            not_if_cancelled()

    async def _keep_up(self) -> None:
        try:
            await self._look_and_say()
            self.trouble = ""
        except DOWN as error:
            if not self.trouble:
                logging.getLogger(__name__).warning("the class of the queue cannot be reached: %s", error)
            self.trouble = _AWAY
        except Exception:  # what is in the queue is no class
            if self.trouble != _NO_CLASS:
                logging.getLogger(__name__).exception("the class of the queue")
            self.trouble = _NO_CLASS

    async def _look_and_say(self) -> None:
        news = await self._records.news(self._secret)
        self._agree_on(news.secret)
        if self._classroom.instructor is None:
            return
        self._ahead = news.now - monotonic()
        await self._catch_up("desk", news.numbers["desk"])
        await self._catch_up("roll", news.numbers["roll"])
        if self._classroom.roll() != self._roll:
            await self._change("roll", lambda _: None)
        if monotonic() - self._published >= PUBLISH_SECONDS:
            await self._publish(self._state.sessions)
            self._published = monotonic()
        if self._classroom.notice(self._state.runs) != self._classroom.told:
            self._classroom.tell(self._state.sessions, self._state.runs)

    def _agree_on(self, secret: bytes) -> None:
        """Take over the secret that all servers have: where the queue has lost it, the one that they had."""
        if secret != self._secret or not self._knows_secret:
            self._secret, self._knows_secret = secret, True
            if not self._state.keeper.knows_secret:
                self._classroom.remember(secret)

    # --- the parts that all servers have

    async def _catch_up(self, part: Part, number: str | None) -> None:
        """Read a part that others have changed; write one that the queue has lost. A server that has just begun writes
        none: it would take from the others what they are about to write."""
        has_some = self._numbers.get(part) is not None or (part == "handed" and self._folder is not None)
        if number is None and has_some:
            await self._change(part, lambda _: None)
        elif number is not None and number != self._numbers.get(part):
            async with self._lock:
                self._numbers[part], document = await self._records.read(part)
                if document is not None:
                    self._take(part, document)

    async def _change(self, part: Part, apply: Callable[[Any], R]) -> R:
        """Change a part's newest state; `apply` is given a pipeline for what else the change writes."""
        async with self._lock:
            known = before = self._document(part)
            after: Document = {}
            folder = HandIns()
            if part == "handed" and (await self._records.news(self._secret)).numbers[part] is None:
                folder = await asyncio.to_thread(HandIns, self._folder)

            def decide(found: Document | None, pipe: Any) -> tuple[Document, R]:
                nonlocal before, after
                before = found or known
                if found is not None:
                    self._take(part, found)
                elif part == "handed":
                    self._restore(folder, pipe)
                answer = apply(pipe)
                after = self._document(part)
                return after, answer

            try:
                self._numbers[part], answer = await self._records.change(part, decide)
            except BaseException:
                if part != "roll":  # of students, what is known here alone is told later
                    self._take(part, before)
                raise
            self._take(part, after)
            return answer

    def _document(self, part: Part) -> Document:
        if part == "desk":
            return self._classroom.desk()
        return self._classroom.roll() if part == "roll" else self._classroom.hand_ins.document()

    def _take(self, part: Part, document: Document) -> None:
        if part == "desk":
            self._classroom.take_desk(document)
        elif part == "handed":
            self._classroom.hand_ins.take(document)
        else:
            self._classroom.merge_roll(document)
            self._classroom.close_removed(self._state.sessions)
            self._roll = document

    def _restore(self, folder: HandIns, pipe: Any) -> None:
        """The queue has no hand-ins: those of this server's folder are there again."""
        self._classroom.hand_ins.take(folder.document())
        for hand_in in folder:
            keep_work(pipe, hand_in.number, hand_in.work)

    async def on_desk(self, apply: Callable[[], R]) -> R:
        """Change what the instructor has set for all. Raises AwayError."""
        return await self._change_or_raise("desk", apply)

    async def on_roll(self, apply: Callable[[], R]) -> R:
        """Change who is in the class. Raises AwayError."""
        return await self._change_or_raise("roll", apply)

    async def _change_or_raise(self, part: Part, apply: Callable[[], R]) -> R:
        if self.trouble:  # to wait for the queue again and again would hold up a class
            raise AwayError(NO_ANSWER)
        try:
            return await self._change(part, lambda _: apply())
        except DOWN:
            raise AwayError(NO_ANSWER) from None

    async def may_enter(self, connection: HTTPConnection) -> bool:
        """Whether somebody may see the page and run; who has just been admitted elsewhere is asked for."""
        students = self._classroom.admission
        if students.may_enter(connection):
            return True
        if self.trouble or not students.is_signed(connection):
            return False
        with suppress(*DOWN):
            await self._catch_up("roll", (await self._records.news(self._secret)).numbers["roll"])
        return students.may_enter(connection)

    # --- what each server alone knows

    async def _publish(self, pages: Iterable[Any]) -> None:
        tallies = self._classroom.tallies(pages)
        students = {session: [*astuple(own)[:-1], own.seen + self._ahead] for session, own in tallies.items()}
        compiler = self._state.compiler
        known = {"at": monotonic() + self._ahead, "compiling": compiler.waiting + compiler.running}
        await self._records.publish(self._name, {**known, "students": students})

    async def look(self) -> Elsewhere:
        """What other servers do, with the newest hand-ins; while the queue is away, what they did last."""
        if self.trouble:
            return self._elsewhere
        try:
            await self._catch_up("handed", (await self._records.news(self._secret)).numbers["handed"])
            servers = await self._records.servers()
            servers.pop(self._name, None)
            gone = sorted(servers, key=lambda name: float(servers[name]["at"]))[: -limits.SERVERS_KNOWN]
            if gone:
                await self._records.forget(gone)
        except DOWN:
            return self._elsewhere
        self._elsewhere = self._added_up(servers)
        return self._elsewhere

    def _added_up(self, servers: Mapping[str, Document]) -> Elsewhere:
        now = monotonic() + self._ahead
        there = {name for name, known in servers.items() if now - float(known["at"]) < GONE_SECONDS}
        students: dict[str, Tally] = {}
        for name, known in servers.items():
            for session, (pages, edits, runs, seen) in known["students"].items():
                one = students.setdefault(session, Tally())
                one.pages += pages if name in there else 0
                one.edits += edits
                one.runs += runs
                one.seen = max(one.seen, seen - self._ahead)
        return Elsewhere(students, sum(int(servers[name]["compiling"]) for name in there), len(there))

    # --- hand-ins: the list as a copy of all servers', the works in the queue alone

    @property
    def kept(self) -> str:
        """Where hand-ins are."""
        if self._folder is None:
            return "They are in the queue, for as long as that keeps them: with --hand-ins DIR, in files too."
        return "They are in the queue, and each is a file in the folder of --hand-ins of the server that took it."

    async def hand_in(self, owner: str, student: str, assignment: str, work: dict[str, Any]) -> HandIn:
        """Keep a hand-in of a session's student. Raises HandInError."""

        def add(pipe: Any) -> tuple[HandIn, set[int]]:
            hand_ins = self._classroom.hand_ins
            before = set(hand_ins.numbers)
            found = hand_ins.add(owner, student, assignment, work)
            gone = before - set(hand_ins.numbers)
            hand_ins.forget_work(found.number)
            drop_works(pipe, gone)
            keep_work(pipe, found.number, work)
            return found, gone

        found, gone = await self._on_handed(add)
        if self._folder is not None:
            for number in gone:
                path_of(self._folder, number).unlink(missing_ok=True)
        await self._write_down(found)
        return found

    async def note_check(self, found: HandIn, check: dict[str, Any]) -> None:
        """Say what came of a hand-in's check; one that could not be told may be checked again."""
        found.check = check
        with suppress(HandInError):
            is_there = await self._on_handed(lambda _: self._classroom.hand_ins.note_check(found.number, check))
            if is_there and check["state"] != WAITS:
                await self._write_down(found)

    async def hand_in_of(self, number: int) -> HandIn | None:
        """A hand-in with its work. Raises HandInError."""
        await self.look()
        found = self._classroom.hand_ins.get(number)
        return None if found is None else next(iter(await self._with_works([found])), None)

    async def archive(self) -> bytes:
        """All hand-ins as a zip archive. Raises HandInError."""
        await self.look()
        return await asyncio.to_thread(archived, await self._with_works(list(self._classroom.hand_ins)))

    async def _with_works(self, hand_ins: list[HandIn]) -> list[HandIn]:
        found: list[HandIn] = []
        for some in _in_groups(hand_ins, WORKS_AT_ONCE):
            try:
                works = await self._records.works([each.number for each in some])
            except DOWN:
                raise HandInError(_CANNOT) from None
            found += [replace(each, work=work) for each, work in zip(some, works, strict=True) if work is not None]
        return found

    async def _on_handed(self, apply: Callable[[Any], R]) -> R:
        if self.trouble:
            raise HandInError(_CANNOT)
        try:
            return await self._change("handed", apply)
        except DOWN:
            raise HandInError(_CANNOT) from None

    async def _write_down(self, found: HandIn) -> None:
        if self._folder is None:
            return
        try:
            await asyncio.to_thread(write_down, self._folder, found)
        except OSError as error:
            logging.getLogger(__name__).warning("--hand-ins: hand-in %d is in the queue alone: %s", found.number, error)


def _in_groups(hand_ins: list[HandIn], size: int) -> Iterator[list[HandIn]]:
    return (hand_ins[at : at + size] for at in range(0, len(hand_ins), size))
