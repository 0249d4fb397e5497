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
from explorer.machine.records import make_record

Integers = NDArray[np.int64]
Times = NDArray[np.float64]


class MemoryState:
    """Counts of requests by outcome, and times in ns."""

    requests: int
    l2_hits: int
    llc_hits: int
    misses: int
    channel: float  # when the way to the memory is free again
    left: float  # when the last request left
    l2_latency: float
    llc_latency: float
    hbm_latency: float
    line_time: float  # that a line takes of the channel


class Cache(NamedTuple):
    """Lines and their arrival times, [sets, ways], the ways in order of use, last first; -1 is an empty way."""

    lines: Integers
    arrivals: Times


class Memory(NamedTuple):
    """What a request meets on its way."""

    state: MemoryState
    l2: Cache
    llc: Cache
    returns: Times  # when the last misses came back, a ring of as many as may be in flight


def make_cache(kib: int, ways: int) -> Cache:
    """An empty cache, of one set at least."""
    shape = max(1, kib * 1024 // (LINE_BYTES * ways)), ways
    return Cache(np.full(shape, -1, np.int64), np.zeros(shape))


def make_memory(parameters: MachineParameters) -> Memory:
    """Cold caches before an idle memory."""
    state = make_record(
        MemoryState,
        l2_latency=parameters.l2_ns,
        llc_latency=parameters.llc_ns,
        hbm_latency=parameters.hbm_ns,
        line_time=LINE_BYTES / parameters.hbm_gbs,  # 1 GB/s is 1 B/ns
    )
    return Memory(
        state,
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
    state = memory.state
    register = state.misses % memory.returns.size
    state.left = max(now, memory.returns[register])
    state.channel = max(state.channel, state.left) + state.line_time
    here = state.channel + state.hbm_latency
    memory.returns[register] = here
    state.misses += 1
    return here


@part
def request(memory: Memory, line: int, now: float) -> float:
    """When the line that is asked for now is here. `left` says when the request left: a miss may have to wait."""
    state, l2, llc = memory.state, memory.l2, memory.llc
    state.requests += 1
    state.left = now
    way = find(l2.lines, line)
    if way >= 0:
        state.l2_hits += 1
        arrival: float = l2.arrivals[line % l2.lines.shape[0], way]
        here = max(now + state.l2_latency, arrival)
    else:
        way = l2.lines.shape[1] - 1
        way_below = find(llc.lines, line)
        if way_below >= 0:
            state.llc_hits += 1
            arrival = llc.arrivals[line % llc.lines.shape[0], way_below]
            here = max(now + state.llc_latency, arrival)
        else:
            way_below = llc.lines.shape[1] - 1
            here = _miss(memory, now)
            arrival = here
        put_first(llc.lines, llc.arrivals, line, way_below, arrival)
        arrival = here
    put_first(l2.lines, l2.arrivals, line, way, arrival)
    return here
