"""The marks of rows' last accesses, counted by compiled code: see `explorer.runtime.data.locality`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.machine.compiled import called, entry

Numbers = npt.NDArray[np.int64]


@called
def _bits(word: np.uint64) -> np.uint64:
    """How many bits of a word are set."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@called
def _add(tree: npt.NDArray[np.int32], word: int, amount: int) -> None:
    place = word + 1
    while place < len(tree):
        tree[place] += amount
        place += place & -place


@called
def _move_together(
    last: npt.NDArray[np.int32],
    owners: npt.NDArray[np.int32],
    marks: npt.NDArray[np.uint64],
    tree: npt.NDArray[np.int32],
) -> int:
    """Gives the marks the first places, in their order; how many there are."""
    live = 0
    for place in range(len(owners)):
        row = owners[place]
        if last[row] == place:
            owners[live] = row
            last[row] = live
            live += 1
    marks[:] = 0
    tree[:] = 0
    for place in range(live):
        marks[place >> 6] |= np.uint64(1) << np.uint64(place & 63)
        tree[(place >> 6) + 1] += 1
    for place in range(1, len(tree)):
        above = place + (place & -place)
        if above < len(tree):
            tree[above] += tree[place]
    return live


@entry
def count_between(
    rows: npt.NDArray[np.int32],
    last: npt.NDArray[np.int32],
    owners: npt.NDArray[np.int32],
    marks: npt.NDArray[np.uint64],
    tree: npt.NDArray[np.int32],
    reached: Numbers,
    distances: Numbers,
) -> None:
    """The distances of some accesses, which go on where `reached` says; see `locality._pieces`."""
    now, marked = reached[0], reached[1]
    for number in range(len(rows)):
        if now == len(owners):
            now = _move_together(last, owners, marks, tree)
        row = rows[number]
        before = last[row]
        if before < 0:
            distances[number] = -1
            marked += 1
        else:
            word, bit = before >> 6, np.uint64(before & 63)
            up_to = np.int64(_bits(marks[word] << (np.uint64(63) - bit)))
            place = word
            while place > 0:
                up_to += tree[place]
                place -= place & -place
            distances[number] = marked - up_to
            marks[word] &= ~(np.uint64(1) << bit)
            _add(tree, word, -1)
        owners[now] = row
        last[row] = now
        marks[now >> 6] |= np.uint64(1) << np.uint64(now & 63)
        _add(tree, now >> 6, 1)
        now += 1
    reached[0], reached[1] = now, marked
