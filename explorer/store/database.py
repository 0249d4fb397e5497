"""One connection to SQLite or PostgreSQL, in a thread of its own: whole transactions go in, one after another.

What the two differ in is here: how they are reached, how a parameter is written, and how there comes to be one writer.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")
Row = tuple[Any, ...]
WAIT_SECONDS = 5
"""How long a lock, or an answer of a database elsewhere, is waited for."""
_AGAIN_SECONDS = 0.01
AWAY_SECONDS = 2.0
"""How long nothing is tried after a fault, so that those who wait in line do not each wait for the next one."""


class StoreError(Exception):
    """The store cannot be used now; the message says why, without anything that was to be stored."""


class AddressError(Exception):
    """No store can be at this address; the message says why."""


class Connection(Protocol):
    """A database that is reached. Every method may raise an error of the driver's own."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of one statement, whose parameters are written as `?`."""

    def transaction(self) -> AbstractContextManager[None]:
        """What is done within is done whole or not at all, and beside no other writer."""

    def close(self) -> None:
        """Let go of it."""


class _Sqlite:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Texts of students and the secret of their cookies: for nobody else on this computer.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._found = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            let_read_while_written(self._found, WAIT_SECONDS)
            self._found.execute("PRAGMA synchronous = FULL")
        except BaseException:
            self._found.close()
            raise

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._found.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._found.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._found.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._found.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._found.close()


def let_read_while_written(connection: sqlite3.Connection, seconds: float) -> None:
    """Turn on SQLite's log of what is written ahead. Where several processes open a new file at a time, SQLite says at
    once that it is locked, however long it was told to wait for others."""
    end = monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if monotonic() > end:
                raise
            sleep(_AGAIN_SECONDS)


_WRITER = 0x6578706C
"""The name of the lock that makes one writer of PostgreSQL's many, as SQLite has one: no deadlocks, no lost updates."""


class _Postgres:
    def __init__(self, url: str) -> None:
        import psycopg

        limited = f"-c statement_timeout={WAIT_SECONDS * 1000}"
        self._found: Any = psycopg.connect(url, autocommit=True, connect_timeout=WAIT_SECONDS, options=limited)

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        found = self._found.execute(statement.replace("?", "%s"), values or None)
        return found.fetchall() if found.description else []

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._found.transaction():
            self._found.execute("SELECT pg_advisory_xact_lock(%s)", [_WRITER])
            yield

    def close(self) -> None:
        self._found.close()


def _connector(address: str) -> tuple[Callable[[], Connection], tuple[type[Exception], ...]]:
    """How an address is reached, and the errors of its driver. Raises AddressError."""
    if address.startswith(("postgresql://", "postgres://")):
        try:
            import psycopg
        except ImportError:
            raise AddressError("it needs the Python package psycopg: pip install -e '.[store]'") from None
        return lambda: _Postgres(address), (psycopg.Error, OSError)
    scheme, separator, rest = address.partition("://")
    if separator and (scheme != "sqlite" or not rest.startswith("/")):
        raise AddressError("it takes a path, sqlite:///PATH or postgresql://USER@HOST/NAME")
    path = Path(rest[1:] if separator else address)
    if not path.name or path.is_dir() or "\0" in address:
        raise AddressError("it takes a file's path, not a folder's")
    return lambda: _Sqlite(path), (sqlite3.Error, OSError)


class Database:
    """A store's connection, made when it is first needed and made anew after a fault."""

    def __init__(self, address: str, prepare: Callable[[Connection], None]) -> None:
        """`prepare` is given each new connection, within a transaction. Raises AddressError."""
        self._connect, of_driver = _connector(address)
        self._errors: tuple[type[Exception], ...] = (*of_driver, StoreError)
        self._prepare = prepare
        self._connection: Connection | None = None
        self._thread = ThreadPoolExecutor(1, "store")
        self._away_until = 0.0
        self.trouble = ""
        """Why the last transaction failed, in a sentence; empty where it did not."""

    async def do(self, work: Callable[[Connection], T]) -> T:
        """Do work as one transaction. Raises StoreError."""
        return await asyncio.wrap_future(self.begin(work))

    def begin(self, work: Callable[[Connection], T]) -> Future[T]:
        """The same, behind all that was begun before; nobody need wait for it."""
        return self._thread.submit(self._do, work)

    def _do(self, work: Callable[[Connection], T]) -> T:
        if monotonic() < self._away_until:
            raise StoreError(self.trouble)
        try:
            connection = self._reached()
            with connection.transaction():
                done = work(connection)
        except self._errors as error:
            self._drop()
            self.trouble = _sentence(error)
            self._away_until = monotonic() + AWAY_SECONDS
            raise StoreError(self.trouble) from None
        self.trouble = ""
        return done

    def _reached(self) -> Connection:
        if self._connection is None:
            connection = self._connect()
            try:
                with connection.transaction():
                    self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(*self._errors):
                self._connection.close()
            self._connection = None

    async def close(self) -> None:
        """Do what was begun, and let go of the connection."""
        await asyncio.wrap_future(self._thread.submit(self._drop))
        self._thread.shutdown()


def _sentence(error: Exception) -> str:
    """A fault without an address, a password, a path or a value, which a driver's own words may quote."""
    if isinstance(error, StoreError):
        return str(error)
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorname", type(error).__name__)
        known = {
            "SQLITE_FULL": "The disk is full.",
            "SQLITE_BUSY": "Another program has locked the store.",
            "SQLITE_CANTOPEN": "The store's file cannot be opened.",
            "SQLITE_NOTADB": "The store's file is no database.",
        }
        if code.startswith("SQLITE_READONLY"):
            return "The store's file cannot be written to."
        return known.get(code, f"The store's file fails ({code}).")
    if isinstance(error, OSError):
        return f"The store cannot be opened: {error.strerror or type(error).__name__}."
    return f"The store's database fails ({type(error).__name__})."
