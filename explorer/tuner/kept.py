"""What searches have found, kept in a file of SQLite for later runs of the same model on the same device and data.

key = key_of(request, compilation, device)
with Kept(path) as kept:
    kept.keep(key, Found(...))
    found = kept.find(key)         None where there was no search, or none that found anything
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from explorer.compiler.codegen.binary.kept import folder
from explorer.compiler.compilation import Compilation
from explorer.compiler.decisions import Value
from explorer.runtime.runs.request import RunRequest
from explorer.version import version

NAME = "tuned.sqlite"
MOST = 10_000
"""Models of which something is kept; the oldest go first."""
WAIT_SECONDS = 5.0
"""How long another process that writes is waited for."""
TABLE = "CREATE TABLE IF NOT EXISTS tuned (key TEXT PRIMARY KEY, found TEXT NOT NULL, at TEXT NOT NULL)"
CUT = "DELETE FROM tuned WHERE key NOT IN (SELECT key FROM tuned ORDER BY at DESC, rowid DESC LIMIT ?)"


class KeptError(Exception):
    """The file cannot be used; the message says why."""


@dataclass(frozen=True)
class Found:
    """What a search chose instead of what is usual, how many times as fast that was, and when (ISO 8601)."""

    options: dict[str, Value]
    schedule: dict[str, Value]
    machine: dict[str, int | float]
    gain: float
    at: str
    part: str = ""
    """What the gain was found on, where that was not all of the data: "a part of the data"."""

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Found | None:
        """Of a search's result; None where it found nothing, or what it found was wrong."""
        tuned = result["tuned"]
        if not tuned["choices"] or not result["matches_reference"]:
            return None
        return cls(tuned["options"], tuned["schedule"], tuned["machine"], tuned["gain"], result["date"], tuned["part"])


def usual_file() -> Path | None:
    """The file in the platform's folder for caches, or the one that the environment names; None where that is none."""
    found = folder()
    return None if found is None else found.parent / NAME


def key_of(request: RunRequest, compilation: Compilation, device: str) -> str:
    """What tells a search from any other: the text, what it was compiled with, the data and the device, and the
    compiler and the machine that it searched with; not the seed, which says what numbers there are to compute with."""
    asked = {
        **{"text": request.text, "name": compilation.name, "sizes": dict(compilation.sizes)},
        **{"options": compilation.options.to_json(), "machine": dict(request.machine)},
        **{"data": request.data, "file": _digest_of(request.data), "batch": request.batch},
        **{"on": request.on, "device": device, "version": version("compiler", "machine")},
    }
    return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _digest_of(data: str) -> str:
    """What tells a file from any other; "" for data that is generated."""
    if not os.path.isfile(data):
        return ""
    with open(data, "rb") as file:
        digest = sha256()
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


class Kept:
    """The file. Raises KeptError wherever it cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)
            self._file.execute(TABLE)
        except (sqlite3.Error, OSError) as error:
            raise self._trouble(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def find(self, key: str) -> Found | None:
        """What the latest search found."""
        try:
            rows = self._file.execute("SELECT found FROM tuned WHERE key = ?", (key,)).fetchall()
            return Found(**json.loads(rows[0][0])) if rows else None
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise self._trouble(error) from None

    def keep(self, key: str, found: Found) -> bool:
        """Keeps it in the place of what an earlier search found: True."""
        try:
            self._file.execute(
                "INSERT OR REPLACE INTO tuned VALUES (?, ?, ?)", (key, json.dumps(asdict(found)), found.at)
            )
            self._file.execute(CUT, (MOST,))
            return True
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def _trouble(self, error: Exception) -> KeptError:
        return KeptError(f"{self._path}: no file to keep searches in: {error}")
