"""Compilations by content, for all processes of a server: each is made by one of them, while the others wait for it.

An answer is the line of JSON that a worker wrote, packed. A process that looks for one that is not there claims it; the
others look again until it is there, its process is gone, or they have waited for long enough to make it themselves.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import Any

from explorer.version import version
from explorer.web import limits
from explorer.web.shared.file import SharedFile, writing

Answer = dict[str, Any]
_LEVEL = 1
"""Of packing: a sixth of the bytes for a millisecond; the best is a seventh, for ten."""
_KEPT_SHARE = 0.9
"""Of the room, what is left taken once it was full, so that room is made for many at a time."""


@dataclass(frozen=True)
class Found:
    """What there is of an answer: the whole with its length as JSON, its first form, or whose it is to make."""

    answer: Answer | None = None
    size: int = 0
    first: Answer | None = None
    is_ours: bool = True


class SharedAnswers:
    """The answers in a file. Whatever fails there, an answer is only not found."""

    def __init__(self, file: SharedFile, most_bytes: int = limits.SHARED_CACHE_BYTES) -> None:
        self._file = file
        self._most_bytes = most_bytes
        self._owner = secrets.token_hex(8)
        self.hits = 0
        """Answers that were there."""

    async def look(self, asked: Mapping[str, Any], wants_first: bool = False) -> Found:
        """What there is of an answer, and of its first form if that is wanted; where nobody makes it, it is claimed for
        this process."""
        found = await self._file.do(partial(self._look, asked, wants_first), Found())
        self.hits += found.answer is not None
        return found

    def keep_first(self, asked: Mapping[str, Any], line: bytes) -> None:
        """Show those who wait the first form of an answer that is being made here."""
        self._file.later(partial(self._keep_first, asked, line))

    def keep(self, asked: Mapping[str, Any], line: bytes) -> None:
        """Keep an answer, and forget what was not asked for longest until all have room."""
        self._file.later(partial(self._keep, asked, line))

    def let_go(self, asked: Mapping[str, Any]) -> None:
        """Claim an answer no more, whether it was made or not."""
        self._file.later(partial(self._let_go, asked))

    def _look(self, asked: Mapping[str, Any], wants_first: bool, connection: sqlite3.Connection) -> Found:
        key = _key(asked)
        found = _read(connection, key)
        if found is not None:
            return found
        if _is_claimed(connection, key):
            return Found(first=_first_of(connection, key) if wants_first else None, is_ours=False)
        with writing(connection):
            # Whoever had it may have ended meanwhile, or another have claimed it.
            found = _read(connection, key)
            if found is not None or _is_claimed(connection, key):
                return found or Found(is_ours=False)
            claim = key, self._owner, os.getpid(), monotonic()
            connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, NULL)", claim)
            return Found()

    def _keep_first(self, asked: Mapping[str, Any], line: bytes, connection: sqlite3.Connection) -> None:
        packed = zlib.compress(line, _LEVEL)
        own = "UPDATE claims SET first = ? WHERE key = ? AND owner = ?"
        connection.execute(own, (packed, _key(asked), self._owner))

    def _keep(self, asked: Mapping[str, Any], line: bytes, connection: sqlite3.Connection) -> None:
        packed = zlib.compress(line, _LEVEL)
        key = _key(asked)
        if len(packed) > self._most_bytes // 2:  # it would take the place of all others
            return
        with writing(connection):
            row = key, _next_use(connection), len(key) + len(packed), packed
            connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", row)
            if _total(connection) > self._most_bytes:
                _make_room(connection, int(self._most_bytes * _KEPT_SHARE))

    def _let_go(self, asked: Mapping[str, Any], connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (_key(asked), self._owner))


def _key(asked: Mapping[str, Any]) -> bytes:
    """A digest of what was asked for, of this version."""
    return sha256(json.dumps([version(), asked], sort_keys=True).encode()).digest()


def _read(connection: sqlite3.Connection, key: bytes) -> Found | None:
    """An answer that is there and whole, which is now the last one used."""
    row = connection.execute("SELECT used, body FROM answers WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    line = zlib.decompress(row[1])
    answer: Answer = json.loads(line)
    if row[0] != _next_use(connection) - 1:
        with suppress(sqlite3.OperationalError):  # another process writes: it was used a little earlier, then
            connection.execute("UPDATE answers SET used = ? WHERE key = ?", (_next_use(connection), key))
    return Found(answer, len(line), is_ours=False)


def _is_claimed(connection: sqlite3.Connection, key: bytes) -> bool:
    """Whether somebody makes an answer, who lives and has not taken too long."""
    row = connection.execute("SELECT pid, since FROM claims WHERE key = ?", (key,)).fetchone()
    return row is not None and monotonic() - row[1] <= limits.CLAIM_SECONDS and _is_alive(row[0])


def _first_of(connection: sqlite3.Connection, key: bytes) -> Answer | None:
    """The first form of what is being made, if it is there."""
    row = connection.execute("SELECT first FROM claims WHERE key = ? AND first IS NOT NULL", (key,)).fetchone()
    if row is None:
        return None
    first: Answer = json.loads(zlib.decompress(row[0]))
    return first


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's, which has the number of one that is gone
        return False
    return True


def _next_use(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT COALESCE(MAX(used), 0) + 1 FROM answers").fetchone()[0])


def _total(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT COALESCE(SUM(bytes), 0) FROM answers").fetchone()[0])


def _make_room(connection: sqlite3.Connection, most: int) -> None:
    """Forget the answers that were used before the last ones that have room together."""
    summed = "SELECT used, SUM(bytes) OVER (ORDER BY used DESC) AS newer FROM answers"
    connection.execute(f"DELETE FROM answers WHERE used IN (SELECT used FROM ({summed}) WHERE newer > ?)", (most,))
