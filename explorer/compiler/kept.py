"""What was made before, to be had again: for the same text where only a decision of one kernel has changed since, and
for the next one where a nest of it is still the same; and by content, whoever asks."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Generic, TypeVar

MOST_KEYS = 1_024
"""Nests of a text that are kept: more than one has that a page compiles in its time."""
MOST_VERSIONS = 8
"""Versions of each, so that values can be tried in turn."""

ENTRY_BYTES = 256
"""What the place of something kept takes, with its digest."""

Made = TypeVar("Made")


@dataclass
class Kept(Generic[Made]):
    """By key the latest versions of something, which `fits` tells apart; how many were `made` and `reused`."""

    made: int = 0
    reused: int = 0
    most_keys: int = MOST_KEYS
    _versions: OrderedDict[Hashable, list[Made]] = field(default_factory=OrderedDict, repr=False)

    def get(self, key: Hashable, fits: Callable[[Made], bool]) -> Made | None:
        """The version that fits, the latest first."""
        found = next(filter(fits, reversed(self._versions.get(key, []))), None)
        if found is not None:
            self.reused += 1
            self._versions.move_to_end(key)
        return found

    def put(self, key: Hashable, version: Made) -> None:
        """Keeps another version, and gives up the oldest where there are too many."""
        versions = self._versions.setdefault(key, [])
        versions.append(version)
        del versions[:-MOST_VERSIONS]
        self._versions.move_to_end(key)
        if len(self._versions) > self.most_keys:
            self._versions.popitem(last=False)


class ByContent(Generic[Made]):
    """The latest of what was made, by all that it depends on or a digest of that, so that nothing that is kept is
    stale: of `most_bytes` together at most, where `bytes_of` says what one takes.

    What is kept is handed out itself, so whoever takes it must not change it."""

    def __init__(self, most_bytes: int, bytes_of: Callable[[Made], int]) -> None:
        self._most_bytes = most_bytes
        self._bytes_of = bytes_of
        self._kept: OrderedDict[Hashable, tuple[Made, int]] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """What all that is kept takes."""
        return self._nbytes

    def get(self, key: Hashable) -> Made | None:
        """What was made for a key, or None."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def put(self, key: Hashable, made: Made) -> None:
        """Keeps what was made, unless it would take more than half of the room, in the place of much else, and gives up
        what was asked for longest ago."""
        size = self._bytes_of(made)
        if size > self._most_bytes // 2:
            return
        with self._lock:
            _, before = self._kept.pop(key, (None, 0))
            self._kept[key] = made, size
            self._nbytes += size - before
            while self._nbytes > self._most_bytes:
                _, (_, gone) = self._kept.popitem(last=False)
                self._nbytes -= gone

    def made(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What was made for a key, or is made now."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def clear(self) -> None:
        """Gives up all."""
        with self._lock:
            self._kept.clear()
            self._nbytes = 0


def content(*parts: Any) -> bytes:
    """A digest of values: of arrays with their types and shapes, of mappings whatever the order of their names, of
    numbers and texts with their types. Raises TypeError for anything else, which might not show all that it holds."""
    digest = sha256()
    _add(digest, parts)
    return digest.digest()


def _add(digest: Any, part: Any) -> None:
    import numpy as np  # which whoever compiles need not load

    match part:
        case np.ndarray() if not part.dtype.hasobject:
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            if part.size:
                digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        case Mapping():
            digest.update(f"mapping {len(part)}".encode())
            for name in sorted(part):
                _add(digest, name)
                _add(digest, part[name])
        case tuple() | list():
            digest.update(f"sequence {len(part)}".encode())
            for each in part:
                _add(digest, each)
        case None | bool() | int() | float() | str() | bytes() | np.generic():
            told = f"{type(part).__name__} {part!r}".encode()
            digest.update(f"{len(told)} ".encode() + told)
        case _:
            raise TypeError(f"the content of {type(part).__name__} is not known")
