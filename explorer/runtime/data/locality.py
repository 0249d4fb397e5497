"""How near to each other the accesses to the same row are: reuse distances, exactly, and lists that have given ones.

The reuse distance of an access is the number of different other rows that were accessed since the last access to its
row (Ember §2.2). A cache that holds x rows and replaces the least recently used hits where it is below x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.data.triples import Ids

Numbers = npt.NDArray[np.int64]
Told = Callable[[int], None]
"""Hears of progress."""

NEAR = 1_000
"""Ember's Table 1 draws the distribution up to here, and characterises inputs by its value here."""
FIRST = -1
"""The distance of a row's first access, which no cache can hit."""
WORD = 64
"""Bits of a word of marks."""
PIECE = 1 << 20
"""Accesses that are counted between two words of progress."""
SPARSE = 4
"""Ids up to so many times their number are taken as numbers of rows."""
BAR = 40
"""The width of the text figure's bars."""


def reuse_distances(ids: npt.NDArray[Any], told: Told = lambda done: None) -> Numbers:
    """The reuse distance of every access, FIRST for a row's first; `told` hears how many are counted, now and then."""
    return np.concatenate([np.zeros(0, np.int64), *_pieces(ids, told)])


def _pieces(ids: npt.NDArray[Any], told: Told) -> Iterator[Numbers]:
    """The reuse distances, PIECE accesses at a time. Takes O(n log n) steps, in memory that the rows need.

    Each row has a mark at its last access, and marks lie in the order of these: a distance is the number of marks
    behind the row's own. A word has the marks of 64 places, and a Fenwick tree sums whole words, so that both stay in
    a processor's cache; when all places are used, the marks move together.
    """
    from explorer.machine.memory.last_accesses import (
        count_between,  # loads Numba, half of the time in which a compiler comes up
    )

    rows = _numbered(np.asarray(ids).ravel())
    most = min(len(rows), int(rows.max(initial=-1)) + 1)
    words = max(1, -(-2 * most // WORD))
    last = np.full(int(rows.max(initial=-1)) + 1, -1, dtype=np.int32)
    owners = np.zeros(words * WORD, dtype=np.int32)
    marks, tree = np.zeros(words, dtype=np.uint64), np.zeros(words + 1, dtype=np.int32)
    reached = np.zeros(2, dtype=np.int64)  # the next place, and how many marks there are
    for first in range(0, len(rows), PIECE):
        piece = rows[first : first + PIECE]
        distances = np.empty(len(piece), dtype=np.int64)
        count_between(piece, last, owners, marks, tree, reached, distances)
        told(first + len(piece))
        yield distances


def _numbered(ids: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """The ids as they are where they are numbers of rows, or else numbered."""
    if not len(ids) or (int(ids.min()) >= 0 and int(ids.max()) < max(SPARSE * len(ids), PIECE)):
        return np.ascontiguousarray(ids, dtype=np.int32)
    return np.unique(ids, return_inverse=True)[1].reshape(-1).astype(np.int32)


def reuse(ids: npt.NDArray[Any], told: Told = lambda done: None) -> dict[str, Any]:
    """The distribution of reuse distances as JSON: of all accesses, the share that a cache of x rows would hit.

    `x` and `share` are the curve: every tenth x up to NEAR, and powers of two beyond, until nothing changes. `told`
    hears how many accesses are counted, now and then.
    """
    accesses, counted = int(np.asarray(ids).size), np.zeros(1, dtype=np.int64)  # by distance + 1
    for distances in _pieces(ids, told):
        found = np.bincount(distances + 1)
        if len(found) > len(counted):
            counted = np.pad(counted, (0, len(found) - len(counted)))
        counted[: len(found)] += found
    distinct, below = int(counted[0]), np.cumsum(counted[1:])
    farthest, count = len(counted) - 1, max(1, accesses)
    powers = [2**k for k in range(10, 40) if 2**k < 2 * farthest]
    x = sorted({*range(0, NEAR + 1, 10), *(2**k for k in range(10)), *powers})
    hits = [int(below[min(each, farthest) - 1]) if each and farthest else 0 for each in x]
    return {
        "accesses": accesses,
        "distinct": distinct,
        "first_accesses": distinct / count,
        "within_1000": hits[x.index(NEAR)] / count,
        "x": x,
        "share": [each / count for each in hits],
    }


def figure(found: dict[str, Any]) -> str:
    """The distribution in a few lines of text, one for each power of two."""
    shares = dict(zip(found["x"], found["share"], strict=True))
    rows = [x for x in shares if x and x & (x - 1) == 0]
    lines = [f"  {'rows':>9}  hit by a cache of so many rows"]
    for x in rows:
        bar = "█" * round(BAR * shares[x])
        lines.append(f"  {x:>9,}  {bar:<{BAR}} {100 * shares[x]:5.1f} %")
    return "\n".join(lines)


def describe(found: dict[str, Any]) -> str:
    """A distribution with what it is of, as text."""
    about = f"  {found['about']}\n" if found["about"] else ""
    return (
        f"{found['name']} ({found['source']}): {found['accesses']:,} accesses to {found['distinct']:,} of"
        f" {found['rows']:,} rows\n{about}"
        f"  {100 * found['within_1000']:.1f} % of accesses have fewer than 1,000 other rows since the last to theirs\n"
        f"{figure(found)}"
    )


def uniform(random: np.random.Generator, count: int, rows: int) -> Ids:
    """`count` accesses to rows 0..rows-1, each as likely as any other."""
    return random.integers(0, rows, size=count, dtype=np.int32)


def stack_mix(random: np.random.Generator, count: int, rows: int, share: float, near: int = NEAR) -> Ids:
    """`count` accesses of which exactly the given share, rounded, have a reuse distance below `near`.

    Their distances are log-uniform, as far as so many rows have been accessed; every other access goes to any of the
    rows that were not among the last `near`, accessed before or not.
    """
    repeats = np.zeros(count, dtype=np.bool_)
    if count > 1:
        repeats[1 + random.permutation(count - 1)[: round(share * count)]] = True
    uniform_draws = random.random(count)
    fresh = random.permutation(rows).tolist()
    stack: list[int] = []  # the rows accessed so far, the last one first
    ids = np.empty(count, dtype=np.int32)
    for position in range(count):
        u, reach = uniform_draws[position], min(near, len(stack))
        if repeats[position]:
            row = stack.pop(int((reach + 1) ** u) - 1 if reach else 0)
        else:
            place = int(u * (rows - reach))
            row = stack.pop(reach + place) if place < len(stack) - reach else fresh.pop()
        stack.insert(0, row)
        ids[position] = row
    return ids
