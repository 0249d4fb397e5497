"""What Nsight Compute has measured of kernels, by the digest of their machine code: where warps stood, and why.

A file of the folder `recorded` is one device's: gzip of JSON, which `benchmarks/stalls` writes. A sample is a
warp at an instruction at a moment, and the reason why it did not go on (Nsight Compute, "Kernel Profiling Guide",
Warp Stall Reasons); `selected` is one that did go on. A kernel with any other instruction has none of them.

    {"device": "NVIDIA H200", "date": "2026-11-25", "tool": "ncu 2025.3.1",
     "kernels": {DIGEST: {"model": "kge/transr", "data": "FB15k-237", "samples": {"long_sb": {"1a0": 4711}}}}}
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from explorer.compiler.frozen import dataclass

FOLDER = Path(__file__).with_name("recorded")
SUFFIX = ".json.gz"

REASONS = {
    "barrier": "at a barrier of the block",
    "branch_resolve": "for a branch's target",
    "dispatch": "for the dispatcher",
    "drain": "for its stores before it ends",
    "gmma": "for a product of a warp group",
    "imc": "for constants",
    "lg": "for room in the queue of global memory",
    "long_sb": "for global memory",
    "math": "for an arithmetic pipe",
    "membar": "at a memory barrier",
    "mio": "for room in the queue of shared memory and special functions",
    "misc": "for something else",
    "no_inst": "for instructions",
    "not_selected": "ready, but another warp went on",
    "selected": "going on",
    "short_sb": "for shared memory or a special function",
    "sleeping": "asleep",
    "tex": "for room in the queue of textures",
    "unknown": "for what ncu does not say",
    "wait": "for a fixed number of cycles",
    "warpgroup_arrive": "for the others of its warp group",
}
"""What warps waited for, by ncu's name of it without `stall_`."""


@dataclass(frozen=True)
class Recording:
    """What was measured of one kernel: its samples by reason and address; on what device, when, by what, of what."""

    device: str
    date: str
    tool: str
    model: str
    data: str
    samples: Mapping[str, Mapping[int, int]]

    @property
    def label(self) -> str:
        """What stands beside every figure of it."""
        return f"measured on {self.device} with {self.tool}, {self.date}, at {self.data}"

    def at(self, address: int) -> dict[str, int]:
        """The samples at an instruction by reason, without those that have none."""
        return {reason: at[address] for reason, at in self.samples.items() if at.get(address)}


def recording_of(digest: str, folder: Path = FOLDER) -> Recording | None:
    """What was measured of the kernel whose machine code has this digest; None where nothing was."""
    return _all(folder).get(digest)


def has_recordings(folder: Path = FOLDER) -> bool:
    """Whether anything was measured of any kernel."""
    return bool(_all(folder))


@cache
def _all(folder: Path) -> dict[str, Recording]:
    """All recordings, the newest of each kernel."""
    found: dict[str, Recording] = {}
    for digest, recording in _read(folder):
        if digest not in found or recording.date >= found[digest].date:
            found[digest] = recording
    return found


def _read(folder: Path) -> Iterator[tuple[str, Recording]]:
    for file in sorted(folder.glob(f"*{SUFFIX}")):
        body: Mapping[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
        about = body["device"], body["date"], body["tool"]
        for digest, kernel in body["kernels"].items():
            samples = {
                reason: {int(address, 16): count for address, count in at.items()}
                for reason, at in kernel["samples"].items()
            }
            yield digest, Recording(*about, kernel["model"], kernel["data"], samples)
