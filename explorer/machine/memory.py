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
    """Lines and their arrival times, [sets, ways], the ways in order of use, last first; -1 is an empty way."""

    lines: Integers
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
    return Cache(np.full(shape, -1, np.int64), np.zeros(shape))


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
def find(lines: Integers, line: int) -> int:
    """The way that holds the line in its set, or -1."""
    row = line % lines.shape[0]
    for way in range(lines.shape[1]):
        if lines[row, way] == line:
            return way
    return -1


@part
def put_first(lines: Integers, arrivals: Times, line: int, way: int, arrival: float) -> None:
    """Makes a line the one used last, in place of what the way holds: itself, or the line to be replaced."""
    row = line % lines.shape[0]
    while way > 0:
        lines[row, way] = lines[row, way - 1]
        arrivals[row, way] = arrivals[row, way - 1]
        way -= 1
    lines[row, 0] = line
    arrivals[row, 0] = arrival


@part
def _miss(memory: Memory, now: float) -> float:
    """When a line arrives from the memory: a register must be free, then the channel."""
    counts, clocks = memory.counts, memory.clocks
    register = counts[MISSES] % memory.returns.size
    clocks[LEFT] = max(now, memory.returns[register])
    clocks[CHANNEL] = max(clocks[CHANNEL], clocks[LEFT]) + clocks[LINE_TIME]
    here: float = clocks[CHANNEL] + clocks[HBM_LATENCY]
    memory.returns[register] = here
    counts[MISSES] += 1
    return here


@part
def request(memory: Memory, line: int, now: float) -> float:
    """When the line that is asked for now is here. clocks[LEFT] says when the request left: a miss may have to wait."""
    counts, clocks, l2, llc = memory.counts, memory.clocks, memory.l2, memory.llc
    counts[REQUESTS] += 1
    clocks[LEFT] = now
    way = find(l2.lines, line)
    if way >= 0:
        counts[L2_HITS] += 1
        arrival: float = l2.arrivals[line % l2.lines.shape[0], way]
        here: float = max(now + clocks[L2_LATENCY], arrival)
    else:
        way = l2.lines.shape[1] - 1
        way_below = find(llc.lines, line)
        if way_below >= 0:
            counts[LLC_HITS] += 1
            arrival = llc.arrivals[line % llc.lines.shape[0], way_below]
            here = max(now + clocks[LLC_LATENCY], arrival)
        else:
            way_below = llc.lines.shape[1] - 1
            here = _miss(memory, now)
            arrival = here
        put_first(llc.lines, llc.arrivals, line, way_below, arrival)
        arrival = here
    put_first(l2.lines, l2.arrivals, line, way, arrival)
    return here
