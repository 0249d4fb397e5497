"""The order of rows by columns of ids."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.runtime.data.blocks import blocks_of

Ids = npt.NDArray[np.int32]
Column = tuple[Ids, int]
"""Ids, and the number that they are below."""


def order_by(*columns: Column) -> Ids:
    """The rows' order by these columns, the first the most significant; rows that are alike stay as they are.

    With each column comes the number that its ids are below. As many columns at a time as fit are packed into 64 bits
    with the row's place behind them, and the numbers sorted: a sort of plain numbers takes a tenth of what NumPy's
    stable `argsort` does, measured at 21 million rows. What does not fit is sorted by its last columns first.
    """
    count = len(columns[0][0])
    place_bits = max(1, (count - 1).bit_length())
    packed, order, pending = np.empty(count, dtype=np.int64), None, list(columns)
    while pending:
        taken, bits = [pending.pop()], place_bits
        bits += _bits(taken[0])
        while pending and bits + _bits(pending[-1]) < 64:
            bits += _bits(pending[-1])
            taken.insert(0, pending.pop())
        for rows in blocks_of(count):
            packed[rows] = _packed(taken, rows if order is None else order[rows], rows, place_bits)
        packed.sort()
        found = np.empty(count, dtype=np.int32)
        for rows in blocks_of(count):
            places = packed[rows] & ((1 << place_bits) - 1)
            found[rows] = places if order is None else order[places]
        order = found
    assert order is not None
    return order


def _bits(column: Column) -> int:
    return max(0, column[1] - 1).bit_length()


def _packed(columns: list[Column], ids: slice | Ids, places: slice, place_bits: int) -> npt.NDArray[np.int64]:
    """Of some rows the columns' ids and then the rows' places, each in bits of its own."""
    key = np.zeros(places.stop - places.start, dtype=np.int64)
    for column in columns:
        key <<= _bits(column)
        key |= column[0][ids]
    key <<= place_bits
    key |= np.arange(places.start, places.stop)
    return key
