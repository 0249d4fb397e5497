"""A file of SQLite that the processes of one server share while it runs. It is worth nothing after that, and whatever
fails in it is as if nothing were there."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from explorer.store.database import let_read_while_written

T = TypeVar("T")
WAIT_SECONDS = 1.0
"""How long another process's writing is waited for; each takes a thousandth of that."""
_ERRORS = sqlite3.Error, zlib.error, OSError, ValueError
_TABLES = (
    # The body last, so that looking at the others does not read through it.
    """CREATE TABLE IF NOT EXISTS answers (
        key BLOB PRIMARY KEY, used INTEGER NOT NULL, bytes INTEGER NOT NULL, body BLOB NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS answers_by_use ON answers (used, bytes)",
    """CREATE TABLE IF NOT EXISTS claims (
        key BLOB PRIMARY KEY, owner TEXT NOT NULL, pid INTEGER NOT NULL, since REAL NOT NULL, first BLOB)""",
    "CREATE TABLE IF NOT EXISTS numbers (process INTEGER PRIMARY KEY, at REAL NOT NULL, families TEXT NOT NULL)",
)


class SharedFile:
    """One process's connection to it, in a thread of its own: what is to be done is done in its order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, "shared")
        self._connection: sqlite3.Connection | None = None
        self._said = False

    async def do(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """What comes of some work, or the other value where the file fails."""
        return await asyncio.wrap_future(self._thread.submit(self._do, work, otherwise))

    def later(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Do work that nobody waits for."""
        self._thread.submit(self._do, work, None)

    async def close(self) -> None:
        """Do what was begun, and let go of the file."""
        await asyncio.wrap_future(self._thread.submit(self._close))
        self._thread.shutdown()

    def _do(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        try:
            return work(self._reached())
        except _ERRORS as error:
            if not self._said:  # once: it would fail at every text that somebody types
                self._said = True
                logging.getLogger(__name__).warning("what web processes share fails: %s", type(error).__name__)
            return otherwise

    def _reached(self) -> sqlite3.Connection:
        if self._connection is None:
            found = sqlite3.connect(self._path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
            try:
                _prepare(found)
            except BaseException:
                found.close()
                raise
            self._connection = found
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()


def _prepare(connection: sqlite3.Connection) -> None:
    let_read_while_written(connection, WAIT_SECONDS)
    connection.execute("PRAGMA synchronous = OFF")  # after the computer's crash nobody looks for it
    connection.execute("PRAGMA journal_size_limit = 4194304")
    with writing(connection):
        for statement in _TABLES:
            connection.execute(statement)


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """What is done within is done whole or not at all, beside no other writer."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
