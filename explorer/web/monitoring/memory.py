"""The memory of this process and of all that it has started, as Linux tells it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")


def tree_bytes(own: int | None = None) -> dict[str, int]:
    """The bytes of the `server`'s own process, this one where none is named, and of the `workers` below it. A page that
    several share counts in parts, so that the sum is what the host gives. Nothing where there is no /proc."""
    own = own or os.getpid()
    if not (_PROC / str(own) / "smaps_rollup").exists():
        return {}
    return {"server": _bytes_of(own), "workers": sum(map(_bytes_of, _below(own)))}


def bytes_of_several(supervisor: int) -> dict[str, int]:
    """The same where one process has several servers as its children: all that is theirs, wherever it is asked for."""
    if not (_PROC / str(supervisor) / "smaps_rollup").exists():
        return {}
    servers = list(_children(supervisor))
    workers = [pid for server in servers for pid in _below(server)]
    return {"server": sum(map(_bytes_of, [supervisor, *servers])), "workers": sum(map(_bytes_of, workers))}


def _below(pid: int) -> Iterator[int]:
    """All processes that one has started, and those that these have."""
    for child in _children(pid):
        yield child
        yield from _below(child)


def _children(pid: int) -> list[int]:
    """Those that its threads have started; none once it is gone."""
    try:
        return [int(child) for task in (_PROC / f"{pid}/task").iterdir() for child in _words(task / "children")]
    except OSError:
        return []


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:  # a thread may end meanwhile
        return []


def _bytes_of(pid: int) -> int:
    """Its proportional set size; 0 once it is gone."""
    words = _words(_PROC / f"{pid}/smaps_rollup")
    return int(words[words.index("Pss:") + 1]) << 10 if "Pss:" in words else 0
