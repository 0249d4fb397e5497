"""Which of several processes one is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Among:
    """A process's number among those of one server, and what all of them are told."""

    number: int
    processes: int
    folder: Path
    """Theirs alone, gone with the server."""
    secret: bytes
    """What cookies are signed with, so that each knows the students of all."""

    @property
    def file(self) -> Path:
        """Where they keep what they share."""
        return self.folder / "shared.db"


def share(total: int, among: Among | None) -> int:
    """What one process has of a total; all of it where it is the only one. The first ones have what is left over."""
    if among is None:
        return total
    return total // among.processes + (among.number < total % among.processes)
