"""How much memory there is for a run, and whether its arrays fit, told before any of them is made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.storage import ROUNDED
from explorer.runtime import liveness
from explorer.runtime.arrays import extents_of, kernels_of
from explorer.runtime.data.triples import InputError
from explorer.runtime.encode.layers import tensor_shape
from explorer.runtime.targets.table import TARGETS, TargetName

MEMORY_LIMIT = 2 << 30
"""The most bytes that all arrays of a run may take together on the page, which a class shares; results of runs that
take more are checked by rows that are drawn."""
USABLE = 0.75
"""The share of the free memory that a run's arrays may take: the rest is for the reference and the process."""


MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True)
class Room:
    """The bytes that a run's arrays may take on its target, in words too, and on the host, which draws and checks
    them; `on` is the target."""

    target: int
    host: int
    shown: str
    on: TargetName = "cpu"

    @property
    def least(self) -> int:
        """What arrays may take that are on the host and on the target."""
        return min(self.target, self.host)

    def check(self, needed: int, host: int, who: str, what: str) -> None:
        """Raises InputError where so many bytes do not fit; `who` is what needs them, `what` is said behind."""
        if needed > self.target:
            raise InputError(f"{who} would take {gib(needed)}, more than {self.shown}: {what}")
        if host > self.host:
            raise InputError(
                f"{who} would take {gib(host)} of this machine's memory to draw and to check, more than the"
                f" {gib(self.host)} that may be used: {what}"
            )


def room_for(on: TargetName, memory: int | None) -> Room:
    """The room that a target has, or the `memory` that a run may take, where that is less."""
    host = int(USABLE * free_bytes())
    there, of = host, "that may be used of this machine's memory"
    target = TARGETS[on]
    if target.free_bytes is not None:
        there, of = target.free_bytes(), f"that are free on {target.title}"
    if memory is not None and memory <= there:
        return Room(memory, host, f"the limit of {gib(memory)}", on)
    return Room(there, host, f"the {gib(there)} {of}", on)


def free_bytes() -> int:
    """The memory of this machine that processes may still take, or of the container that this one is in."""
    if not MEMINFO.exists():
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    lines = dict(line.split(":", 1) for line in MEMINFO.read_text(encoding="ascii").splitlines())
    free = 1024 * int(lines["MemAvailable"].split()[0])
    try:
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        kept = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):  # there is no container, or "max"
        return free
    return max(0, min(free, limit - used + int(kept.get("inactive_file", "0"))))


def check_memory(
    graph: Graph,
    compilation: Compilation,
    counts: Mapping[str, int],
    on: str,
    remedy: str,
    room: Room,
    structure_bytes: int = 0,
) -> int:
    """The bytes that the tensors, the structure and what loops make take together. Raises InputError where there is no
    room for them, on a GPU with what its kernels make in place of that.

    `counts` are the sizes of the graph's sets, `on` names the data, `remedy` is what to try."""
    program = compilation.stages["loops"].program
    assert isinstance(program, Kernel | Module)
    shapes = {tensor.name: tensor_shape(graph, tensor, counts) for tensor in graph.tensors}
    # What is stored in less is drawn and checked in float32, and what is rounded stays beside until that is told.
    held = {tensor.name: 8 if tensor.storage in ROUNDED else 4 for tensor in graph.tensors}
    sizes = {name: held[name] * prod(shape) for name, shape in shapes.items()}
    kept = liveness.kept_to_the_end(program)
    extents = extents_of(graph, program, counts)
    made = liveness.peak_bytes(kernels_of(program), kept, extents)
    taken = TARGETS[room.on].taken
    there = made if taken is None else taken(compilation, extents)
    given = structure_bytes + sum(sizes.values())
    largest = max(sizes, key=lambda name: sizes[name])
    what = (
        f"{gib(there)} are made in the run, and of its tensors the largest, {largest}{list(shapes[largest])}, takes"
        f" {gib(sizes[largest])}; try {remedy}"
    )
    room.check(there + given, given, f"the {graph.family} on {on}", what)
    return made + given


def gib(size: int) -> str:
    """`2.50 GiB`."""
    return f"{size / 2**30:,.2f} GiB"
