"""What a server keeps of students: links, histories and runs, all within bounds, the oldest going first."""

from __future__ import annotations

import hashlib
import json
import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from time import time
from typing import Any, Literal

from explorer.store.database import Connection, Database, StoreError
from explorer.store.schema import about, prepare

Kind = Literal["link", "history", "run"]
State = Literal["queued", "running", "ended", "lost"]
TYPING_SECONDS = 20.0
"""A text that another follows within so many seconds, and that was not run, was still being written."""
_DROPPED_AT_A_TIME = 100


@dataclass(frozen=True)
class Bounds:
    """How much is kept: bytes of an item with its text, items and bytes of a student by kind, seconds, bytes in all."""

    item_bytes: int = 384 << 10
    of_student: int = 100
    student_bytes: int = 4 << 20
    seconds: float = 180 * 24 * 3600
    total_bytes: int = 512 << 20
    run_seconds: float = 6 * 3600
    """How long a run may wait and go on: a queue forgets it then. What has not ended by then was lost."""


@dataclass(frozen=True)
class Item:
    """One thing that is kept of a student: the `text`, and in `body` a link's settings or a run's last event."""

    id: str
    kind: Kind
    state: str
    text: str
    body: dict[str, Any]
    at: float
    """Seconds since 1970."""


_KEEP = """INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE
    SET state = CASE WHEN items.state = '' THEN excluded.state ELSE items.state END,
        body = excluded.body, bytes = excluded.bytes, at = excluded.at"""
_FIND = """SELECT id, kind, state, text, body, at FROM items JOIN texts ON texts.hash = items.hash"""
_TOO_MANY = """DELETE FROM items WHERE id IN (SELECT id FROM (
    SELECT id, SUM(bytes) OVER later AS total, COUNT(*) OVER later AS number FROM items
    WHERE student = ? AND kind = ? WINDOW later AS (ORDER BY at DESC, id)) AS own WHERE number > ? OR total > ?)"""
_OLDEST = "DELETE FROM items WHERE id IN (SELECT id FROM items ORDER BY at, id LIMIT ?)"
_UNUSED = "DELETE FROM texts WHERE NOT EXISTS (SELECT 1 FROM items WHERE items.hash = texts.hash)"


class Store:
    """The store at an address: a path, `sqlite:///PATH` or `postgresql://...`.

    Raises AddressError. Every method may raise StoreError: whoever calls goes on without.
    """

    def __init__(self, address: str, bounds: Bounds | None = None, clock: Callable[[], float] = time) -> None:
        self._database = Database(address, prepare)
        self._bounds = bounds or Bounds()
        self._clock = clock

    @property
    def trouble(self) -> str:
        """Why it cannot be used now, in a sentence; empty where it can."""
        return self._database.trouble

    async def secret(self) -> bytes:
        """What the cookies of its students are signed with."""
        return bytes.fromhex(await self._database.do(lambda found: about(found, "secret")))

    async def share(self, student: str, text: str, settings: Mapping[str, Any]) -> str:
        """Keep a text with its settings for a link: its short id, the same for the same of the same student."""
        name = _digest("link", student, text, json.dumps(settings, sort_keys=True))
        await self._database.do(partial(self._keep, Item(name, "link", "", text, dict(settings), 0), student))
        return name

    async def note_text(self, student: str, text: str, settings: Mapping[str, Any], at: float | None = None) -> None:
        """Enter a text that a student compiled in the history, in the place of one that was still being written.

        `at` is when that was, if not now: another process may have entered a newer one since."""
        when = self._clock() if at is None else at
        item = Item(_digest("history", student, text), "history", "", text, dict(settings), when)

        def enter(found: Connection) -> None:
            newer = "SELECT 1 FROM items WHERE student = ? AND kind = 'history' AND at > ? AND at < ?"
            if found.run(newer, (student, when, when + TYPING_SECONDS)):
                return
            typed = "DELETE FROM items WHERE student = ? AND kind = 'history' AND state = '' AND at > ?"
            found.run(typed, (student, self._clock() - TYPING_SECONDS))
            self._keep(item, student, found)

        await self._database.do(enter)

    async def accept(self, run: str, student: str, text: str, request: Mapping[str, Any]) -> None:
        """Write down a run that was let in, and that its text was run."""
        settings = dict(request)

        def write(found: Connection) -> None:
            self._keep(Item(run, "run", "queued", text, {"asked": settings}, 0), student, found)
            self._keep(Item(_digest("history", student, text), "history", "ran", text, settings, 0), student, found)

        await self._database.do(write)

    def begin(self, run: str) -> None:
        """A run has begun; written behind what was written before."""
        self._later("UPDATE items SET state = 'running' WHERE id = ? AND state = 'queued'", (run,))

    async def end(self, run: str, event: Mapping[str, Any]) -> None:
        """A run has ended, with this event."""
        await self._database.do(partial(self._end, run, event))

    def end_later(self, run: str, event: Mapping[str, Any]) -> None:
        """The same, where nobody can wait."""
        self._database.begin(partial(self._end, run, event)).add_done_callback(_note)

    async def lose_open_runs(self) -> None:
        """Those that have not ended were a server's that is no more."""
        lost = "UPDATE items SET state = 'lost' WHERE kind = 'run' AND state IN ('queued', 'running')"
        await self._database.do(lambda found: found.run(lost))

    async def link(self, name: str) -> Item | None:
        """What a link leads to."""
        return await self._one("id = ? AND kind = 'link'", name)

    async def item(self, student: str, kind: Kind, name: str) -> Item | None:
        """One thing of a student."""
        return await self._one("id = ? AND kind = ? AND student = ?", name, kind, student)

    async def items(self, student: str, kind: Kind) -> list[Item]:
        """All of a kind that a student has, the newest first."""
        order = f"{_FIND} WHERE student = ? AND kind = ? ORDER BY at DESC, id"
        rows = await self._database.do(lambda found: found.run(order, (student, kind)))
        return [self._item(row) for row in rows]

    async def forget(self, student: str) -> None:
        """Delete all of a student."""

        def delete(found: Connection) -> None:
            found.run("DELETE FROM items WHERE student = ?", (student,))
            found.run(_UNUSED)

        await self._database.do(delete)

    async def tidy(self) -> None:
        """Delete what is too old, then the oldest until all has room, then texts that nothing has."""
        await self._database.do(self._tidy)

    async def close(self) -> None:
        """Write what is still to be written, and let go of the database."""
        await self._database.close()

    async def _one(self, where: str, *values: str) -> Item | None:
        if not all(value.isascii() and value.isprintable() for value in values):
            return None
        rows = await self._database.do(lambda found: found.run(f"{_FIND} WHERE {where}", values))
        return self._item(rows[0]) if rows else None

    def _item(self, row: tuple[Any, ...]) -> Item:
        """A row as it is told: a run whose server was killed before it could say so is lost, not queued for ever."""
        name, kind, state, text, body, at = row
        if kind == "run" and state in ("queued", "running") and self._clock() - at > self._bounds.run_seconds:
            state = "lost"
        return Item(name, kind, state, json.loads(text), json.loads(body), at)

    def _keep(self, item: Item, student: str, found: Connection) -> None:
        text, body = json.dumps(item.text), json.dumps(item.body)
        size = len(text) + len(body)
        if size > self._bounds.item_bytes:
            raise TooLongError(f"A text with its settings may have {self._bounds.item_bytes // 1024} KiB.")
        name = hashlib.sha256(text.encode()).hexdigest()
        found.run("INSERT INTO texts VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", (name, text))
        found.run(_KEEP, (item.id, item.kind, student, name, item.state, body, size, item.at or self._clock()))
        found.run(_TOO_MANY, (student, item.kind, self._bounds.of_student, self._bounds.student_bytes))
        self._make_room(found)

    def _end(self, run: str, event: Mapping[str, Any], found: Connection) -> None:
        rows = found.run("SELECT body FROM items WHERE id = ?", (run,))
        before = json.loads(rows[0][0]) if rows else {}
        asked = {name: before[name] for name in ("asked",) if name in before}
        body = json.dumps({**asked, "last": dict(event)})
        if len(body) > self._bounds.item_bytes:
            body = json.dumps(asked)
        end = "UPDATE items SET state = 'ended', body = ?, bytes = bytes + ? WHERE id = ? AND state <> 'ended'"
        found.run(end, (body, len(body), run))
        for (student,) in found.run("SELECT student FROM items WHERE id = ?", (run,)):
            found.run(_TOO_MANY, (student, "run", self._bounds.of_student, self._bounds.student_bytes))
        self._make_room(found)

    def _tidy(self, found: Connection) -> None:
        found.run("DELETE FROM items WHERE at < ?", (self._clock() - self._bounds.seconds,))
        self._make_room(found)
        found.run(_UNUSED)

    def _make_room(self, found: Connection) -> None:
        while _total(found) > self._bounds.total_bytes:
            found.run(_OLDEST, (_DROPPED_AT_A_TIME if _count(found) > 10 * _DROPPED_AT_A_TIME else 1,))
            found.run(_UNUSED)

    def _later(self, statement: str, values: tuple[Any, ...]) -> None:
        self._database.begin(lambda found: found.run(statement, values)).add_done_callback(_note)


class TooLongError(Exception):
    """What was to be kept is longer than one thing may be; the message says so."""


def _total(found: Connection) -> int:
    return int(found.run("SELECT COALESCE(SUM(bytes), 0) FROM items")[0][0])


def _count(found: Connection) -> int:
    return int(found.run("SELECT COUNT(*) FROM items")[0][0])


def _digest(*parts: str) -> str:
    """A short name for these, which nobody guesses who has not all of them."""
    whole = hashlib.sha256(json.dumps(parts).encode()).digest()
    return urlsafe_b64encode(whole[:9]).decode()


def _note(done: Future[Any]) -> None:
    """What nobody waited for and failed is told by `trouble`; anything but the store's own faults is ours."""
    error = done.exception()
    if error is not None and not isinstance(error, StoreError):
        logging.getLogger(__name__).error("the store failed", exc_info=error)
