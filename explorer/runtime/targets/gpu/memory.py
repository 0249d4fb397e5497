"""Where the arrays that kernels make lie in one piece of a device's memory, and whether a run fits into the rest.

An array is needed from the first launch that names it to the last, those that a caller gets to the end. Two that are
never needed at once may lie in the same place, so what a run takes is little more than what it needs at its worst
moment, and nothing is allocated while kernels run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from explorer.compiler.codegen.text import Code, Launch
from explorer.compiler.ir.loops import Buffer
from explorer.runtime.data.triples import InputError

ALIGNMENT = 256
"""What cudaMalloc promises, and more than the widest access of a kernel needs."""
SHARED = 1 << 20
"""Bytes from which on an array shares its place with others."""
NAMED = 3
"""So many of the largest arrays are named where a run does not fit."""

Lifetime = tuple[int, int]
"""The numbers of the first and of the last launch that need an array."""


@dataclass(frozen=True)
class Placement:
    """By array: how many bytes from the beginning it lies; and the bytes that all together take."""

    offsets: Mapping[str, int]
    total: int


def sizes_of(code: Code, extents: Mapping[Any, int]) -> dict[str, int]:
    """The sizes of all extents that a code's arrays and launches have, and its counts, where those of what is given are
    these."""
    sizes = {str(name): int(size) for name, size in extents.items()}
    for name, count in code.counts:
        sizes[name] = count.value(sizes)
    return sizes


def buffer_bytes(buffer: Buffer, extents: Mapping[str, int]) -> int:
    """What an array takes, where its extents have these sizes."""
    return buffer.element_bytes * prod(shape_of(buffer, extents))


def shape_of(buffer: Buffer, extents: Mapping[str, int]) -> tuple[int, ...]:
    """An array's shape, where its extents have these sizes."""
    return tuple(extent if isinstance(extent, int) else extents[extent] for extent in buffer.extents)


def lifetimes(names: Iterable[str], launches: Sequence[Launch], kept: Iterable[str]) -> dict[str, Lifetime]:
    """When each of the arrays is needed; those `kept` to the end, what is made once always, and one that no launch
    names never."""
    used: dict[str, list[int]] = {name: [] for name in names}
    for number, launch in enumerate(launches):
        for name in launch.arguments:
            if name in used:
                used[name].append(number)
    last = len(launches)
    found = {name: (numbers[0], numbers[-1]) for name, numbers in used.items() if numbers}
    found |= {name: (0, last) for launch in launches if launch.once for name in launch.arguments if name in used}
    return found | {name: (found.get(name, (last, last))[0], last) for name in kept if name in used}


def apart(needed: Mapping[str, Lifetime], sizes: Mapping[str, int]) -> dict[str, Lifetime]:
    """The lifetimes with small arrays needed always, so that no kernel has to wait for another only because their
    arrays lie in one place."""
    last = max((until for _, until in needed.values()), default=0)
    return {name: span if sizes[name] >= SHARED else (0, last) for name, span in needed.items()}


def place(needed: Mapping[str, Lifetime], sizes: Mapping[str, int]) -> Placement:
    """Gives each array the first place that is free while it is needed; the largest choose first."""
    offsets: dict[str, int] = {}
    for name in sorted(needed, key=lambda name: (-sizes[name], name)):
        first, last = needed[name]
        others = [other for other in offsets if needed[other][0] <= last and first <= needed[other][1]]
        offset = 0
        for other in sorted(others, key=lambda other: offsets[other]):
            if offset + sizes[name] <= offsets[other]:
                break
            offset = max(offset, _aligned(offsets[other] + sizes[other]))
        offsets[name] = offset
    return Placement(offsets, max((offset + sizes[name] for name, offset in offsets.items()), default=0))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def check_fits(needed: int, available: int, buffers: Iterable[Buffer], extents: Mapping[str, int]) -> None:
    """Raises InputError, which names the largest arrays, where a run needs more bytes than are available."""
    if needed <= available:
        return
    largest = sorted(buffers, key=lambda buffer: -buffer_bytes(buffer, extents))[:NAMED]
    named = ", ".join(
        f"{buffer.name}{list(shape_of(buffer, extents))} with {buffer_bytes(buffer, extents) / 2**30:,.2f} GiB"
        for buffer in largest
    )
    raise InputError(
        f"the run would take {needed / 2**30:,.2f} GiB of the GPU's memory, of which {available / 2**30:,.2f} GiB may"
        f" be used; its largest arrays are {named}: make the sizes, the batch or the graph smaller"
    )
