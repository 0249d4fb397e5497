"""The memory as the core alone sees it: L1D, L2, its slice of the last-level cache, pages, and its share of the memory.

Times are in core cycles. All caches replace what was used least recently; a line on its way is shared. What is in the
L1D has its page in the table of known pages; a line that is not needs the page, and pages that are not known are walked
one at a time.
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

LONGER = np.array([1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0])
"""Times the latency of the L1D: loads that take longer are counted, by each of these (Ember Fig. 3a)."""
PAGE_WAYS = 5
"""Associativity of the table of pages (Arm Neoverse N1: 1,280 entries, 5 ways)."""


class CoreMemoryState:
    """Counts of lines by where they were found, and times in core cycles."""

    l1_hits: int
    l2_hits: int
    llc_hits: int
    misses: int
    prefetched: int  # lines asked for beside those that were needed, not in the L2
    walks: int
    next_load: int  # the register of the next miss
    next_store: int
    prefetch_lines: int
    page_lines: int
    load_left: float  # when the last register was free again: they are, in the order in which they were taken
    store_left: float
    walker_free: float
    channel_free: float
    in_flight: float  # of loads that missed the L1D, from the request to the arrival, summed
    loads_missed: int
    l1_latency: float
    l2_latency: float
    llc_latency: float
    hbm_latency: float
    line_time: float
    walk_time: float


class CoreMemory(NamedTuple):
    """Caches, pages, and when the last misses came back."""

    state: CoreMemoryState
    l1: Cache
    l2: Cache
    llc: Cache
    pages: Cache
    loads: Times  # rings, of as many as may be in flight
    stores: Times
    longer: NDArray[np.int64]  # loads of lines that took over so many times the L1D's latency, by LONGER


def make_core_memory(parameters: MachineParameters) -> CoreMemory:
    """Cold."""
    cycles = parameters.core_ghz
    state = make_record(
        CoreMemoryState,
        prefetch_lines=parameters.prefetch_lines,
        page_lines=max(1, parameters.page_bytes // LINE_BYTES),
        l1_latency=parameters.l1_cycles,
        l2_latency=parameters.l2_ns * cycles,
        llc_latency=parameters.llc_ns * cycles,
        hbm_latency=parameters.hbm_ns * cycles,
        line_time=LINE_BYTES / parameters.hbm_gbs * cycles,
        walk_time=parameters.walk_cycles,
    )
    sets = max(1, parameters.tlb_entries // PAGE_WAYS)
    return CoreMemory(
        state,
        make_cache(parameters.l1_kib, parameters.l1_ways),
        make_cache(parameters.l2_kib, parameters.l2_ways),
        make_cache(parameters.llc_kib, parameters.llc_ways),
        Cache(np.full((sets, PAGE_WAYS), -1, np.int64), np.zeros((sets, PAGE_WAYS))),
        np.zeros(parameters.l1_mshrs),
        np.zeros(parameters.l1_mshrs),
        np.zeros(LONGER.size, np.int64),
    )


@part
def _walk(memory: CoreMemory, line: int, now: float) -> float:
    """When the page of a line is known."""
    state = memory.state
    if look_up(memory.pages, line // state.page_lines):
        return now
    state.walks += 1
    state.walker_free = max(state.walker_free, now) + state.walk_time
    return state.walker_free


@part
def _beyond(memory: CoreMemory, line: int, now: float, entered: float) -> float:
    """When a line arrives that the L2 does not have. The channel is taken in the order in which instructions entered
    the window, at `entered`: one that waits long for its address does not keep those after it from their lines."""
    state, llc = memory.state, memory.llc
    way = find(llc.lines, line)
    if way >= 0:
        state.llc_hits += 1
        here = max(now + state.llc_latency, arrival_of(llc, line, way))
    else:
        way = llc.lines.shape[1] - 1
        state.misses += 1
        state.channel_free = max(state.channel_free, entered) + state.line_time
        here = max(state.channel_free, now + state.line_time) + state.hbm_latency
    put_first(llc.lines, llc.arrivals, line, way, here)
    return here


@part
def _from_l2(memory: CoreMemory, line: int, now: float, entered: float) -> float:
    """When a line arrives that the L1D does not have."""
    state, l2 = memory.state, memory.l2
    way = find(l2.lines, line)
    if way >= 0:
        state.l2_hits += 1
        here = max(now + state.l2_latency, arrival_of(l2, line, way))
    else:
        way = l2.lines.shape[1] - 1
        here = _beyond(memory, line, now, entered)
    put_first(l2.lines, l2.arrivals, line, way, here)
    return here


@part
def _prefetch(memory: CoreMemory, line: int, now: float, entered: float) -> None:
    """The lines after one that missed, in its page, go to the L2."""
    state, l2 = memory.state, memory.l2
    end = min(line + state.prefetch_lines, line - line % state.page_lines + state.page_lines - 1)
    for following in range(line + 1, end + 1):
        if find(l2.lines, following) < 0:
            state.prefetched += 1
            here = _beyond(memory, following, now, entered)
            put_first(l2.lines, l2.arrivals, following, l2.lines.shape[1] - 1, here)


@part
def _note_latency(memory: CoreMemory, latency: float) -> None:
    for at in range(LONGER.size):
        if latency <= LONGER[at] * memory.state.l1_latency:
            break
        memory.longer[at] += 1


@part
def fetch_load(memory: CoreMemory, line: int, now: float, entered: float) -> float:
    """When a line that a load asks for now is in the L1D; the load entered the window before."""
    state, l1 = memory.state, memory.l1
    if look_up(l1, line):
        state.l1_hits += 1
        found = max(now + state.l1_latency, arrival_of(l1, line, 0))
        _note_latency(memory, found - now)
        return found
    known = _walk(memory, line, now)
    sent = max(known, memory.loads[state.next_load])
    here = _from_l2(memory, line, sent, entered)
    _prefetch(memory, line, sent, entered)
    state.load_left = max(state.load_left, here)
    memory.loads[state.next_load] = state.load_left
    state.next_load += 1
    if state.next_load == memory.loads.size:
        state.next_load = 0
    state.loads_missed += 1
    state.in_flight += here - sent
    _note_latency(memory, here - now)
    put_first(l1.lines, l1.arrivals, line, 0, here)
    return here


@part
def fetch_store(memory: CoreMemory, line: int, now: float, entered: float) -> float:
    """When a line that a store writes now is in the L1D; stores have registers of their own (a simplification)."""
    state, l1 = memory.state, memory.l1
    if look_up(l1, line):
        state.l1_hits += 1
        return max(now, arrival_of(l1, line, 0))
    sent = max(_walk(memory, line, now), memory.stores[state.next_store])
    here = _from_l2(memory, line, sent, entered)
    state.store_left = max(state.store_left, here)
    memory.stores[state.next_store] = state.store_left
    state.next_store += 1
    if state.next_store == memory.stores.size:
        state.next_store = 0
    put_first(l1.lines, l1.arrivals, line, 0, here)
    return here
