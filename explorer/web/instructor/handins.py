"""What students hand in: kept in memory within a bound, and in a folder too where one is given.

Servers of one queue keep the works there; each then has here the list of all, by which there is room or is none.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from explorer.web import limits


@dataclass
class HandIn:
    """One hand-in: who, when, for which assignment, the `work` (text, sizes, options, ...) and what the check said."""

    number: int
    student: str
    at: str
    assignment: str
    work: dict[str, Any]
    check: dict[str, Any]

    def to_json(self) -> str:
        """As it is stored and downloaded."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)

    @property
    def folder(self) -> str:
        """What it is called in an archive: of the name only what any file system takes."""
        name = re.sub(r"[^A-Za-z0-9]+", "-", self.student).strip("-")[:40]
        return f"{self.number:05d}-{name}" if name else f"{self.number:05d}"


class HandInError(Exception):
    """A hand-in is not taken; the message is a sentence for the student."""


class HandIns:
    """All hand-ins of a server. With a `folder`, each is a file there, and those that are there already are among them.

    Raises OSError where the folder cannot be read or written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._kept: dict[int, HandIn] = {}
        self._sizes: dict[int, int] = {}
        self._owners: dict[int, str] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(folder.glob("hand-in-*.json")):
                self._load(path)
        self._last = max(self._kept, default=0)

    def _load(self, path: Path) -> None:
        with suppress(ValueError, TypeError):  # some other file
            text = path.read_text(encoding="utf-8")
            found = HandIn(**json.loads(text))
            if path == self._path(found.number):
                self._kept[found.number] = found
                self._sizes[found.number] = len(text.encode())

    def __iter__(self) -> Iterator[HandIn]:
        return iter(self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def total(self) -> int:
        """The bytes that all take together."""
        return sum(self._sizes.values())

    @property
    def numbers(self) -> Iterable[int]:
        """The numbers of all."""
        return self._kept.keys()

    def get(self, number: int) -> HandIn | None:
        return self._kept.get(number)

    def add(self, owner: str, student: str, assignment: str, work: dict[str, Any]) -> HandIn:
        """Keep a hand-in of a session's student, whose oldest makes room where there are too many of one.

        Raises HandInError where there is no room, or the folder does not take it.
        """
        own = [number for number, each in self._owners.items() if each == owner]
        at = datetime.now(UTC).isoformat(timespec="seconds")
        found = HandIn(self._last + 1, student, at, assignment, work, {"state": "none", "message": ""})
        size = len(found.to_json().encode())
        replaced = own[0] if len(own) >= limits.HAND_INS_PER_STUDENT else None
        left = self.total - self._sizes.get(replaced or 0, 0) + size
        if left > limits.HAND_INS_BYTES or (len(self) >= limits.HAND_INS and replaced is None):
            raise HandInError("There is no room for more hand-ins. Tell the instructor.")
        self._last = found.number
        self.store(found)
        self._owners[found.number] = owner
        if replaced is not None:
            self._drop(replaced)
        return found

    def store(self, hand_in: HandIn) -> None:
        """Keep a hand-in as it is now. Raises HandInError where the folder does not take it."""
        if self.folder is not None:
            try:
                write_down(self.folder, hand_in)
            except OSError:
                raise HandInError("The server could not write it down. Tell the instructor.") from None
        self._kept[hand_in.number], self._sizes[hand_in.number] = hand_in, len(hand_in.to_json().encode())

    # --- the list of what several servers keep elsewhere

    def forget_work(self, number: int) -> None:
        """Keep of a hand-in all but its work, which another place has."""
        self._kept[number] = replace(self._kept[number], work={})

    def note_check(self, number: int, check: dict[str, Any]) -> bool:
        """Say what came of a check; False where the hand-in is there no more."""
        if number not in self._kept:
            return False
        self._kept[number] = replace(self._kept[number], check=check)
        return True

    def document(self) -> dict[str, Any]:
        """All but the works, as JSON."""
        entries = [
            [self._owners.get(number, ""), self._sizes[number], {**asdict(each), "work": {}}]
            for number, each in self._kept.items()
        ]
        return {"last": self._last, "entries": entries}

    def take(self, document: Mapping[str, Any]) -> None:
        """Have the hand-ins that another server's `document` says, and no others."""
        self._last = int(document["last"])
        self._kept, self._sizes, self._owners = {}, {}, {}
        for owner, size, told in document["entries"]:
            found = HandIn(**told)
            self._kept[found.number], self._sizes[found.number] = found, int(size)
            if owner:
                self._owners[found.number] = owner

    def _drop(self, number: int) -> None:
        del self._kept[number], self._sizes[number], self._owners[number]
        if self.folder is not None:
            self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        assert self.folder is not None
        return path_of(self.folder, number)


def path_of(folder: Path, number: int) -> Path:
    """The file of a hand-in."""
    return folder / f"hand-in-{number:05d}.json"


def write_down(folder: Path, hand_in: HandIn) -> None:
    """Write a hand-in's file, whole or not at all. Raises OSError."""
    path = path_of(folder, hand_in.number)
    whole = path.with_suffix(".part")
    whole.write_bytes(hand_in.to_json().encode())
    whole.replace(path)


def archived(hand_ins: Iterable[HandIn]) -> bytes:
    """Hand-ins as a zip archive: of each a folder with its text, and all that is known of it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for hand_in in hand_ins:
            archive.writestr(f"{hand_in.folder}/model.emb", str(hand_in.work.get("text", "")))
            archive.writestr(f"{hand_in.folder}/hand-in.json", hand_in.to_json())
    return packed.getvalue()
