"""What a server takes of its host: memory, descriptors and processor time of its whole tree of processes (Linux)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
USER, SYSTEM, OF_CHILDREN = 13, 14, (15, 16)
"""Fields of /proc/PID/stat, from 0, once the command's name is taken out: proc(5) counts from 1."""


@dataclass(frozen=True)
class Sample:
    """Of all processes together: bytes of memory (PSS, what is shared divided among those who share it), open
    descriptors, seconds of processor time since they began, those of children that have ended included."""

    processes: int
    pss: int
    descriptors: int
    cpu: float


def sample(root: int) -> Sample:
    """Of a process and all that it started. One that ends meanwhile is left out."""
    pss = descriptors = processes = 0
    cpu = 0.0
    for pid in _tree(root):
        with suppress(OSError, IndexError, StopIteration):
            folder = Path(f"/proc/{pid}")
            pss += _pss(folder)
            descriptors += len(list((folder / "fd").iterdir()))
            fields = folder.joinpath("stat").read_text().rpartition(")")[2].split()
            cpu += sum(int(fields[place - 2]) for place in (USER, SYSTEM, *OF_CHILDREN)) / TICKS
            processes += 1
    return Sample(processes, pss, descriptors, cpu)


def _pss(folder: Path) -> int:
    lines = folder.joinpath("smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) * 1024


def _tree(root: int) -> Iterator[int]:
    yield root
    with suppress(OSError):
        for task in Path(f"/proc/{root}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))
