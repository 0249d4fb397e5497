"""Launches as a CUDA graph: each kernel waits for those whose arrays it touches, and for no others.

Launched one after another, a small kernel waits for the last block of the one before, whatever that computes, and the
device for the next launch. Of kernels that are launched again with the same arrays, the driver can be told once what
waits for what (CUDA C++ Programming Guide, "CUDA Graphs"); those that have nothing to do with one another then run
side by side. Recording takes longer than a launch, so whoever launches only once has nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from explorer.runtime.targets.gpu.device import cupy_module

if TYPE_CHECKING:
    from explorer.runtime.targets.gpu.program import BoundLaunch

FEWEST = 2
"""Launches that a graph is worth recording for."""

Span = tuple[int, int]
"""The first address of an array, and the one behind it."""


class Replayed:
    """Launches in their order the first time, and as a graph from the second on."""

    def __init__(self, launches: Sequence[BoundLaunch]) -> None:
        self._launches = launches
        self._launched = False
        self._graph: Any = None

    def launch(self, stream: Any) -> None:
        """Queues all on a CuPy stream, None for the current one. Raises CUDA's errors."""
        if self._launched and len(self._launches) >= FEWEST:
            self._graph = self._graph or recorded(self._launches)
            self._graph.launch(cupy_module().cuda.get_current_stream() if stream is None else stream)
            return
        for each in self._launches:
            each.run(stream)
        self._launched = True


def recorded(launches: Sequence[BoundLaunch]) -> Any:
    """The launches as a graph. Streams stand for the order: a launch goes to one whose last launch it waits for
    anyway, or else to one of its own, and events of others are waited for."""
    cuda = cupy_module().cuda
    first = cuda.Stream(non_blocking=True)
    streams, last, done, at = [first], dict[int, int](), list[Any](), list[int]()
    first.begin_capture()
    begun = cuda.Event(disable_timing=True)
    begun.record(first)
    for number, (each, waits) in enumerate(zip(launches, waiting([launch.spans for launch in launches]), strict=True)):
        own = next((place for place, latest in last.items() if latest in waits), len(last))
        if own == len(streams):
            streams.append(cuda.Stream(non_blocking=True))
            streams[own].wait_event(begun)
        for other in waits:
            if at[other] != own:
                streams[own].wait_event(done[other])
        each.run(streams[own])
        done.append(cuda.Event(disable_timing=True))
        done[number].record(streams[own])
        at.append(own)
        last[own] = number
    for place, latest in last.items():
        if place:
            first.wait_event(done[latest])
    return first.end_capture()


def waiting(spans: Sequence[tuple[Sequence[Span], Sequence[Span]]]) -> list[tuple[int, ...]]:
    """For each launch, of which these are the arrays that it touches and those of them that it writes, the earlier
    launches that it waits for: those that write what it touches, or touch what it writes. What others of them wait
    for is left out."""
    found: list[tuple[int, ...]] = []
    before: list[set[int]] = []
    for number, (touched, written) in enumerate(spans):
        waits: list[int] = []
        reached: set[int] = set()
        for other in reversed(range(number)):
            if other not in reached and (_meet(touched, spans[other][1]) or _meet(written, spans[other][0])):
                waits.append(other)
                reached |= {other, *before[other]}
        found.append(tuple(reversed(waits)))
        before.append(reached)
    return found


def _meet(spans: Sequence[Span], others: Sequence[Span]) -> bool:
    return any(begin < until and start < end for begin, end in spans for start, until in others)
