"""How near to each other the accesses to the same row are: reuse distances, exactly, and lists that have given ones.

The reuse distance of an access is the number of different other rows that were accessed since the last access to its
row (Ember §2.2). A cache that holds x rows and replaces the least recently used hits where it is below x.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.data.triples import Ids

Numbers = npt.NDArray[np.int64]

NEAR = 1_000
"""Ember's Table 1 draws the distribution up to here, and characterises inputs by its value here."""
FIRST = -1
"""The distance of a row's first access, which no cache can hit."""
BAR = 40
"""The width of the text figure's bars."""


def reuse_distances(ids: npt.NDArray[Any]) -> Numbers:
    """The reuse distance of every access, FIRST for a row's first. Takes O(n log n) steps."""
    _, rows = np.unique(np.asarray(ids).ravel(), return_inverse=True)
    rows = rows.reshape(-1).astype(np.int64)
    distances = np.empty(len(rows), dtype=np.int64)
    last = np.full(int(rows.max(initial=-1)) + 1, -1, dtype=np.int64)
    _counting()(rows, last, np.zeros(len(rows) + 1, dtype=np.int64), distances)
    return distances


@cache
def _counting() -> Callable[[Numbers, Numbers, Numbers, Numbers], None]:
    """Compiled once it is wanted: Numba takes half of the time in which a process for compilations comes up."""
    from explorer.machine.compiled import entry

    return entry(_count_between)


def _count_between(rows: Numbers, last: Numbers, tree: Numbers, distances: Numbers) -> None:
    """A Fenwick tree marks each row's last access; the marks behind a row's own are the rows accessed since."""
    marked = 0
    for now in range(len(rows)):
        before = last[rows[now]]
        if before < 0:
            distances[now] = -1
            marked += 1
        else:
            up_to = 0
            place = before + 1
            while place > 0:
                up_to += tree[place]
                place -= place & -place
            distances[now] = marked - up_to
            place = before + 1
            while place < len(tree):
                tree[place] -= 1
                place += place & -place
        place = now + 1
        while place < len(tree):
            tree[place] += 1
            place += place & -place
        last[rows[now]] = now


def reuse(ids: npt.NDArray[Any]) -> dict[str, Any]:
    """The distribution of reuse distances as JSON: of all accesses, the share that a cache of x rows would hit.

    `x` and `share` are the curve: every tenth x up to NEAR, and powers of two beyond, until nothing changes.
    """
    distances = reuse_distances(ids)
    again = np.sort(distances[distances != FIRST])
    count = max(1, len(distances))
    farthest = int(again[-1]) + 1 if len(again) else 0
    powers = [2**k for k in range(10, 40) if 2**k < 2 * farthest]
    x = sorted({*range(0, NEAR + 1, 10), *(2**k for k in range(10)), *powers})
    below = np.searchsorted(again, x, side="left")
    return {
        "accesses": len(distances),
        "distinct": len(distances) - len(again),
        "first_accesses": (len(distances) - len(again)) / count,
        "within_1000": int(np.searchsorted(again, NEAR, side="left")) / count,
        "x": x,
        "share": (below / count).tolist(),
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
