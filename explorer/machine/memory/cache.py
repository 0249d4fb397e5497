"""A cache whose sets replace what was used least recently, and which knows when its lines arrive, or did.

A line on its way is held already: who asks for it again waits for the same arrival.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.machine.compiled import part
from explorer.machine.parameters import LINE_BYTES

Integers = NDArray[np.int64]
Times = NDArray[np.float64]


class Cache(NamedTuple):
    """Lines and their arrival times, [sets, ways], the ways in order of use, last first; -1 is an empty way."""

    lines: Integers
    arrivals: Times


def make_cache(kib: int, ways: int) -> Cache:
    """An empty cache, of one set at least."""
    shape = max(1, kib * 1024 // (LINE_BYTES * ways)), ways
    return Cache(np.full(shape, -1, np.int64), np.zeros(shape))


@part
def set_of(lines: Integers, line: int) -> int:
    """The set of a line: nearly all caches have a power of two of them, which takes no division."""
    sets: int = lines.shape[0]
    return line & (sets - 1) if sets & (sets - 1) == 0 else line % sets


@part
def find(lines: Integers, line: int) -> int:
    """The way that holds the line in its set, or -1."""
    row = set_of(lines, line)
    for way in range(lines.shape[1]):
        if lines[row, way] == line:
            return way
    return -1


@part
def arrival_of(cache: Cache, line: int, way: int) -> float:
    """When the line that a way of its set holds arrives, or did."""
    arrival: float = cache.arrivals[set_of(cache.lines, line), way]
    return arrival


@part
def put_first(lines: Integers, arrivals: Times, line: int, way: int, arrival: float) -> None:
    """Makes a line the one used last, in place of what the way holds: itself, or the line to be replaced."""
    row = set_of(lines, line)
    while way > 0:
        lines[row, way] = lines[row, way - 1]
        arrivals[row, way] = arrivals[row, way - 1]
        way -= 1
    lines[row, 0] = line
    arrivals[row, 0] = arrival


@part
def look_up(cache: Cache, line: int) -> bool:
    """Whether a cache holds a line; afterwards it does, as the one used last. One that it did not hold is there at
    once, unless its arrival is put there behind this."""
    way = find(cache.lines, line)
    if way < 0:
        put_first(cache.lines, cache.arrivals, line, cache.lines.shape[1] - 1, 0.0)
        return False
    if way > 0:  # else it is
        put_first(cache.lines, cache.arrivals, line, way, arrival_of(cache, line, way))
    return True
