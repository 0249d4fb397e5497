"""The memory: two levels of cache with least-recently-used replacement, misses in flight bounded by the miss
registers, and a channel to the memory with a latency and a bandwidth. Lines of 64 bytes.

Caches are cold at the start; requests leave in program order; L2 and last-level cache are filled together. A line on
its way is shared: a second request for it waits for the same arrival. What the core itself touches, its outputs, lies
in caches of the same sizes beside those of the access unit: the two do not evict each other (an assumption).

All cores share the last-level cache and the channel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.machine.compiled import part
from explorer.machine.memory.cache import Cache, arrival_of, find, look_up, make_cache, put_first
from explorer.machine.parameters import LINE_BYTES, MachineParameters
from explorer.machine.records import make_record

Times = NDArray[np.float64]

LEVELS = {"": 1, "L2": 0, "LLC": 1, "HBM": 2}
"""Where a request goes first; what is nearer is passed by. Without a hint that is the last-level cache, as in Ember's
Figure 18: lines that are gathered once do not drive the queues out of the L2."""


class MemoryState:
    """Counts of requests by outcome, and times in ns."""

    requests: int
    l2_lookups: int
    l2_hits: int
    llc_lookups: int
    llc_hits: int
    misses: int
    core_lookups: int  # of the core itself, for its outputs
    core_misses: int
    stored: int  # lines that the access unit wrote
    left: float  # when the last request left, its miss register being free
    queued: float  # how long it then waited for the channel
    l2_latency: float
    llc_latency: float
    hbm_latency: float


class Channel:
    """The way to the memory: when it is free again, what a line takes of it, how many it carried."""

    free: float
    line_time: float
    lines: int


class Shared(NamedTuple):
    """What all cores share."""

    llc: Cache
    channel: Channel


class Memory(NamedTuple):
    """What a request meets on its way."""

    state: MemoryState
    l2: Cache
    shared: Shared
    core_l1: Cache
    core_l2: Cache
    returns: Times  # when the last misses came back, a ring of as many as may be in flight


def make_shared(parameters: MachineParameters) -> Shared:
    """The last-level slices and the bandwidth of the cores at work."""
    line_time = LINE_BYTES / (parameters.hbm_gbs * parameters.cores)  # 1 GB/s is 1 B/ns
    llc = make_cache(parameters.llc_kib * parameters.cores, parameters.llc_ways)
    return Shared(llc, make_record(Channel, line_time=line_time))


def make_memory(parameters: MachineParameters, shared: Shared) -> Memory:
    """Cold caches of one core before an idle memory."""
    state = make_record(
        MemoryState,
        l2_latency=parameters.l2_ns,
        llc_latency=parameters.llc_ns,
        hbm_latency=parameters.hbm_ns,
    )
    return Memory(
        state,
        make_cache(parameters.l2_kib, parameters.l2_ways),
        shared,
        make_cache(parameters.l1_kib, parameters.l1_ways),
        make_cache(parameters.l2_kib, parameters.l2_ways),
        np.zeros(parameters.mshrs),
    )


@part
def _miss(memory: Memory, now: float, ahead: int) -> float:
    """When a line arrives from the memory: a register must be free, then the channel.

    What was asked for ahead of the requests before it does not wait behind them for the channel, which they do for it.
    """
    state, channel = memory.state, memory.shared.channel
    register = state.misses % memory.returns.size
    state.left = max(now, memory.returns[register])
    if ahead > 0:
        channel.free += channel.line_time
        here = state.left + channel.line_time + state.hbm_latency
    else:
        state.queued = max(0.0, channel.free - state.left)
        channel.free = max(channel.free, state.left) + channel.line_time
        here = channel.free + state.hbm_latency
    channel.lines += 1
    memory.returns[register] = here
    state.misses += 1
    return here


@part
def _from_llc(memory: Memory, line: int, now: float, temporal: int, ahead: int) -> float:
    """When a line arrives that the L2 does not have, or was not asked for."""
    state, llc = memory.state, memory.shared.llc
    state.llc_lookups += 1
    way = find(llc.lines, line)
    if way >= 0:
        state.llc_hits += 1
        arrival = arrival_of(llc, line, way)
        here = max(now + state.llc_latency, arrival)
    else:
        way = llc.lines.shape[1] - 1
        here = _miss(memory, now, ahead)
        arrival = here
    if temporal > 0:
        put_first(llc.lines, llc.arrivals, line, way, arrival)
    return here


@part
def request(memory: Memory, line: int, now: float, level: int, temporal: int, ahead: int) -> float:
    """When the line that is asked for now is here. `left` says when the request left: a miss may have to wait.

    What is asked for nearer than it was found is left there, unless the request is not temporal."""
    state, l2 = memory.state, memory.l2
    state.requests += 1
    state.left = now
    state.queued = 0.0
    way = -1
    if level == 0:
        state.l2_lookups += 1
        way = find(l2.lines, line)
    if way >= 0:
        state.l2_hits += 1
        arrival = arrival_of(l2, line, way)
        here = max(now + state.l2_latency, arrival)
    else:
        way = l2.lines.shape[1] - 1
        here = _from_llc(memory, line, now, temporal, ahead) if level < 2 else _miss(memory, now, ahead)
        arrival = here
    if level == 0 and temporal > 0:
        put_first(l2.lines, l2.arrivals, line, way, arrival)
    return here


@part
def touch(memory: Memory, line: int) -> None:
    """The core looks up a line of an output. A miss fetches it, and one day it is written back."""
    state = memory.state
    state.core_lookups += 1
    if look_up(memory.core_l1, line) or look_up(memory.core_l2, line):
        return
    state.core_misses += 1
    memory.shared.channel.free += 2 * memory.shared.channel.line_time
    memory.shared.channel.lines += 2


@part
def write_line(memory: Memory) -> None:
    """The access unit writes a line of an output."""
    memory.state.stored += 1
    memory.shared.channel.free += memory.shared.channel.line_time
    memory.shared.channel.lines += 1
