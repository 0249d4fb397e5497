"""The files that students have dropped, each in a folder of its own under a random name, which is all that a path is
made of. Whoever knows the name may run on it; it is told to nobody but its student.

A file goes once no page of its student has been open, and nothing has asked for it, for a while; after some hours in
any case; and with the server.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from explorer.runtime import leftovers
from explorer.runtime.runs.events import Event
from explorer.runtime.workers.pool import WorkerPool
from explorer.web import limits

Offers = dict[str, dict[str, Any]]
"""By family of definitions, the file's entry in the list of data."""
DROPPED = "dropped-"
"""What the names of all of them begin with."""
FOLDER = "explorer-dropped-"
"""What the folders begin with, before the number of the server's process."""
_OF_ARCHIVE, _OF_GZIP = b"PK\x03\x04", b"\x1f\x8b"


class NotTakenError(Exception):
    """A file is not kept; the message is a sentence for its student, `status` that of the answer."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status, self.hint = status, hint


@dataclass
class Kept:
    """A file: its name here, whose it is, what that one calls it, its bytes, and the clock when it came and when its
    page was last there."""

    name: str
    student: str
    label: str
    size: int
    offers: Offers
    came: float
    wanted: float = field(init=False)

    def __post_init__(self) -> None:
        self.wanted = self.came

    def described(self) -> dict[str, Any]:
        """What its student is told of it."""
        return {"name": self.name, "label": self.label, "offers": self.offers}


class DroppedFiles:
    """All files of one server. `new_pool` makes the process that reads a file, with the folders that it may read;
    `is_open` says whether a student has a page open; `refused` is why no file is taken, where none is."""

    def __init__(
        self,
        new_pool: Callable[[list[Path]], WorkerPool],
        is_open: Callable[[str], bool],
        refused: str = "",
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.refused = refused
        self._folder: Path | None = None
        self._new_pool, self._is_open, self._clock = new_pool, is_open, clock
        self._kept: dict[str, Kept] = {}
        self._coming: set[str] = set()
        self._one_at_a_time = asyncio.Lock()
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def folder(self) -> Path:
        """Where they are, once this is open."""
        assert self._folder is not None
        return self._folder

    def open(self) -> None:
        """Make a folder for them, and begin to sweep it; those of servers that were killed go."""
        leftovers.sweep(FOLDER)
        self._folder = Path(tempfile.mkdtemp(prefix=leftovers.own_prefix(FOLDER)))
        self._sweeping = asyncio.create_task(self._keep_sweeping())

    async def close(self) -> None:
        """Delete all of them."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeping
        self._kept.clear()
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    def find(self, name: str) -> tuple[str, str, int] | None:
        """A file as workers open it: its name, its folder, and when it changed, which none does."""
        kept = self._kept.get(name)
        if kept is None:
            return None
        kept.wanted = self._clock()
        return name, str(self.folder / Path(name).stem), 0

    def offered(self, student: str, family: str) -> list[dict[str, Any]]:
        """The files of a student that a family runs on, the newest first."""
        own = [kept for kept in self._kept.values() if kept.student == student]
        return [kept.offers[family] for kept in reversed(own) if family in kept.offers]

    async def take(self, student: str, label: str, body: AsyncIterator[bytes]) -> dict[str, Any]:
        """Keep a file, in the place of the student's oldest where that one has too many. Raises NotTakenError."""
        self._check_room(student)
        stem = f"{DROPPED}{secrets.token_hex(12)}"
        folder = self.folder / stem
        self._coming.add(student)
        try:
            folder.mkdir(mode=0o700)
            path, size = await _written(folder / stem, body)
            offers = await self._offers_of(path, label)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            self._coming.discard(student)
        kept = self._kept[path.name] = Kept(path.name, student, label, size, offers, self._clock())
        for old in [each.name for each in self._kept.values() if each.student == student][: -limits.DROPPED_OF_STUDENT]:
            self._forget(old)
        return kept.described()

    def sweep(self) -> None:
        """Forget what nobody has a page open for any more, and what is too old."""
        now = self._clock()
        for kept in list(self._kept.values()):
            if self._is_open(kept.student):
                kept.wanted = now
            if now - kept.wanted > limits.DROPPED_GRACE_SECONDS or now - kept.came > limits.DROPPED_SECONDS:
                self._forget(kept.name)

    def _check_room(self, student: str) -> None:
        if self.refused:
            raise NotTakenError(409, self.refused, "Put it into the --data-dir of the server and of its workers.")
        if student in self._coming:
            raise NotTakenError(429, "Another file of yours is being read.", "Drop this one when that is done.")
        size = sum(kept.size for kept in self._kept.values()) + (len(self._coming) + 1) * limits.DROPPED_BYTES
        if size > limits.DROPPED_TOTAL_BYTES or len(self._coming) >= limits.DROPPED_COMING:
            raise NotTakenError(503, "The server keeps as many dropped files as it can.", "Try again later.")

    async def _offers_of(self, path: Path, label: str) -> Offers:
        """What the file may be run on as, told by a process that reads it. Raises NotTakenError."""
        last: Event = {}
        request = {"path": str(path), "most_bytes": limits.DROPPED_UNPACKED_BYTES}
        async with self._one_at_a_time:
            pool = self._new_pool([path.parent])
            try:
                async with aclosing(pool.stream(request, limits.DROPPED_READ_SECONDS)) as stream:
                    async for event in stream:
                        last = event
            finally:
                await pool.close()
        if last["event"] == "failed":
            hint = last["hint"] if last["kind"] == "refused" else "Make it smaller."
            raise NotTakenError(422, _sentence(last["message"].replace(path.name, label)), hint)
        return {family: _named(entry, label) for family, entry in last["offers"].items()}

    def _forget(self, name: str) -> None:
        del self._kept[name]
        shutil.rmtree(self.folder / Path(name).stem, ignore_errors=True)

    async def _keep_sweeping(self) -> None:
        while True:
            await asyncio.sleep(limits.DROPPED_LOOK_SECONDS)
            self.sweep()


def _sentence(message: str) -> str:
    return message if message.endswith(".") else f"{message}."


def _named(entry: dict[str, Any], label: str) -> dict[str, Any]:
    """An entry under what its student calls the file, which is said to be dropped."""
    shown = entry["label"].replace(entry["name"], label).replace("(file", "(dropped")
    return {**entry, "label": shown if "(dropped" in shown else f"{shown} (dropped)"}


async def _written(path: Path, body: AsyncIterator[bytes]) -> tuple[Path, int]:
    """Where a body was written, with the suffix of what it begins like, and its bytes. Raises NotTakenError for one
    that is too long, too slow, or packed as none is read."""
    size, first, most = 0, b"", limits.DROPPED_BYTES
    try:
        async with asyncio.timeout(limits.DROPPED_BODY_SECONDS):
            with path.open("xb") as file:
                async for part in body:
                    size += len(part)
                    first = first or part[:4]
                    if size <= most:
                        file.write(part)
                    elif size > limits.DRAIN_BYTES:
                        break
    except TimeoutError:
        raise NotTakenError(408, f"The file took more than {limits.DROPPED_BODY_SECONDS:.0f} s to arrive.") from None
    if size > most:
        raise NotTakenError(413, f"The file is larger than {most >> 20} MiB.", "Drop a part of it.")
    if not size:
        raise NotTakenError(422, "The file is empty.")
    if first.startswith(_OF_GZIP):
        raise NotTakenError(422, "The file is packed by gzip.", "Unpack it, and drop what is in it.")
    return path.rename(path.with_suffix(".npz" if first.startswith(_OF_ARCHIVE) else ".tsv")), size
