"""What the server tells its store while it works. Where there is none, or it fails, everything goes on without."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import time
from typing import Any

from explorer.queue.job import Job
from explorer.queue.line import cancelled
from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.store.database import StoreError
from explorer.store.store import Store, TooLongError
from explorer.web import limits
from explorer.web.entrance.students import is_student

PLACE = "kept-"
"""Where a page has got to with a run that only the store knows once the connection is lost."""
_WRITE_SECONDS = 1.0
_TIDY_EVERY = 600
"""Writings from one tidying to the next."""


@dataclass
class Record:
    """A run as the store has it; without an `id` where it has none. `goes_on`: a queue keeps it without its page."""

    id: str = ""
    goes_on: bool = False
    ended: bool = False

    @property
    def place(self) -> str:
        """What its page asks with for what became of it."""
        return f"{PLACE}{self.id}" if self.id and not self.goes_on else ""


@dataclass
class Keeper:
    """Writes texts and runs of students to a store, if there is one.

    `runs_go_on` where runs outlive the server, in a queue; `remember` is given the secret of cookies. One of several
    processes `tidies`.
    """

    store: Store | None
    runs_go_on: bool
    remember: Callable[[bytes], None]
    tidies: bool = True
    _texts: OrderedDict[str, tuple[str, dict[str, Any], float]] = field(default_factory=OrderedDict)
    _writing: asyncio.Task[None] | None = None
    _is_open: bool = False

    @property
    def knows_secret(self) -> bool:
        """Whether cookies are signed by the store's secret."""
        return self._is_open

    async def open(self) -> None:
        """Take up what a server before this one has left."""
        if self.store is not None:
            await self._take_up()
            self._writing = asyncio.create_task(self._write())

    async def close(self) -> None:
        """Write what is left."""
        if self.store is None or self._writing is None:
            return
        self._writing.cancel()
        with suppress(asyncio.CancelledError):
            await self._writing
        await self._write_texts(self.store)
        await self.store.close()

    def note_text(self, student: str, text: str, settings: Mapping[str, Any]) -> None:
        """A student has compiled a text; of those within a second the newest is written."""
        if self.store is None or not is_student(student):
            return
        self._texts[student] = text, dict(settings), time()
        self._texts.move_to_end(student)
        if len(self._texts) > limits.STUDENTS_KNOWN:
            self._texts.popitem(last=False)

    async def accept(self, job: Job, request: Mapping[str, Any]) -> Record:
        """Write down a run that was let in, before its page is told."""
        if self.store is None or job.ended or not is_student(job.session):
            return Record()
        run = _run_of(job) if self.runs_go_on else secrets.token_hex(16)
        settings = {name: value for name, value in request.items() if name not in ("text", "data_dir", "compiled")}
        with suppress(StoreError, TooLongError):
            await self.store.accept(run, job.session, str(request["text"]), settings)
            return Record(run, self.runs_go_on)
        return Record()

    def resumed(self, job: Job) -> Record:
        """The record of a run that a queue has kept."""
        return Record(_run_of(job), goes_on=True) if self.store is not None and job.at else Record()

    async def note(self, record: Record, event: Event) -> None:
        """An event of a run is about to be told."""
        if self.store is None or not record.id:
            return
        if event["event"] == "started":
            self.store.begin(record.id)
        elif events.is_last(event):
            record.ended = True
            with suppress(StoreError):
                await self.store.end(record.id, event)

    def left(self, record: Record) -> None:
        """The page of a run is gone, which ends one that no queue keeps."""
        if self.store is not None and record.id and not record.ended and not record.goes_on:
            self.store.end_later(record.id, cancelled("The run was stopped: its page's connection was lost."))

    async def became(self, student: str, place: str) -> Event:
        """What became of a run, for its page that has come back: its last event."""
        try:
            found = await self.store.item(student, "run", place.removeprefix(PLACE)) if self.store else None
        except StoreError as error:
            return events.failed("away", str(error), "Run it again.")
        if found is None:
            return events.failed("crashed", "The server knows nothing of this run.", "Run it again.")
        if found.state == "ended":
            gone = events.failed("crashed", "The run has ended; its result was too long to be kept.", "Run it again.")
            last: Event = found.body.get("last", gone)
            return last
        if found.state == "lost":
            return events.failed("crashed", "The server restarted before this run had ended.", "Run it again.")
        return events.failed("crashed", "A run ends here when its page's connection is lost.", "Run it again.")

    async def _take_up(self) -> None:
        assert self.store is not None
        try:
            self.remember(await self.store.secret())
            if not self.runs_go_on:
                await self.store.lose_open_runs()
            self._is_open = True
        except StoreError as error:
            logging.getLogger(__name__).warning("--store: %s Nothing is kept until it answers.", error)

    async def _write(self) -> None:
        assert self.store is not None
        writings = 0
        while True:
            await asyncio.sleep(_WRITE_SECONDS)
            if not self._is_open:
                await self._take_up()
            await self._write_texts(self.store)
            if self.tidies and writings % _TIDY_EVERY == 0:
                with suppress(StoreError):
                    await self.store.tidy()
            writings += 1

    async def _write_texts(self, store: Store) -> None:
        while self._texts:
            student, (text, settings, at) = self._texts.popitem(last=False)
            with suppress(StoreError, TooLongError):
                await store.note_text(student, text, settings, at)


def _run_of(job: Job) -> str:
    """What a queue calls a run: the first part of its page's place."""
    return job.at.partition("/")[0]
