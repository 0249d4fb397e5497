"""The memory side of the access unit: two levels of cache with least-recently-used replacement, misses in flight
bounded by the miss registers, and a memory with a latency and a bandwidth. Lines of 64 bytes.

A first model. Caches are cold at the start; requests leave in program order; L2 and last-level cache are filled
together. A line on its way is shared: a second request for it waits for the same arrival.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.machine.compiled import part
from explorer.machine.parameters import LINE_BYTES, MachineParameters

Integers = NDArray[np.int64]
Times = NDArray[np.float64]

# Memory.counts
REQUESTS, L2_HITS, LLC_HITS, MISSES = 0, 1, 2, 3
COUNTS_SIZE = 4
# Memory.clocks, ns: when the channel is free again, when the last request left, and constants
CHANNEL, LEFT, L2_LATENCY, LLC_LATENCY, HBM_LATENCY, LINE_TIME = 0, 1, 2, 3, 4, 5


class Cache(NamedTuple):
    """Tags, last uses and arrival times, [sets, ways]; tag -1 is an empty way."""

    tags: Integers
    uses: Integers
    arrivals: Times


class Memory(NamedTuple):
    """What a request meets on its way."""

    counts: Integers
    clocks: Times
    l2: Cache
    llc: Cache
    returns: Times  # when the last misses came back, a ring of as many as may be in flight


def make_cache(kib: int, ways: int) -> Cache:
    """An empty cache, of one set at least."""
    shape = max(1, kib * 1024 // (LINE_BYTES * ways)), ways
    return Cache(np.full(shape, -1, np.int64), np.zeros(shape, np.int64), np.zeros(shape))


def make_memory(parameters: MachineParameters) -> Memory:
    """Cold caches before an idle memory."""
    line_time = LINE_BYTES / parameters.hbm_gbs  # 1 GB/s is 1 B/ns
    clocks = np.array([0.0, 0.0, parameters.l2_ns, parameters.llc_ns, parameters.hbm_ns, line_time])
    return Memory(
        np.zeros(COUNTS_SIZE, np.int64),
        clocks,
        make_cache(parameters.l2_kib, parameters.l2_ways),
        make_cache(parameters.llc_kib, parameters.llc_ways),
        np.zeros(parameters.mshrs),
    )


@part
def find(cache: Cache, line: int, use: int) -> int:
    """The way that holds the line, now used, or -1."""
    row = line % cache.tags.shape[0]
    for way in range(cache.tags.shape[1]):
        if cache.tags[row, way] == line:
            cache.uses[row, way] = use
            return way
    return -1


@part
def fill(cache: Cache, line: int, use: int, arrival: float) -> None:
    """Puts a line in place of the one in its set that was used least recently."""
    row = line % cache.tags.shape[0]
    oldest = 0
    for way in range(1, cache.tags.shape[1]):
        if cache.uses[row, way] < cache.uses[row, oldest]:
            oldest = way
    cache.tags[row, oldest] = line
    cache.uses[row, oldest] = use
    cache.arrivals[row, oldest] = arrival


@part
def request(memory: Memory, line: int, now: float) -> float:
    """When the line that is asked for now is here. clocks[LEFT] says when the request left: a miss needs a register."""
    counts, clocks = memory.counts, memory.clocks
    clocks[LEFT] = now
    counts[REQUESTS] += 1
    use = counts[REQUESTS]
    way = find(memory.l2, line, use)
    if way >= 0:
        counts[L2_HITS] += 1
        here: float = max(now + clocks[L2_LATENCY], memory.l2.arrivals[line % memory.l2.tags.shape[0], way])
        return here
    way = find(memory.llc, line, use)
    if way >= 0:
        counts[LLC_HITS] += 1
        here = max(now + clocks[LLC_LATENCY], memory.llc.arrivals[line % memory.llc.tags.shape[0], way])
    else:
        register = counts[MISSES] % memory.returns.size
        clocks[LEFT] = max(now, memory.returns[register])
        clocks[CHANNEL] = max(clocks[CHANNEL], clocks[LEFT]) + clocks[LINE_TIME]
        here = clocks[CHANNEL] + clocks[HBM_LATENCY]
        memory.returns[register] = here
        counts[MISSES] += 1
        fill(memory.llc, line, use, here)
    fill(memory.l2, line, use, here)
    return here
