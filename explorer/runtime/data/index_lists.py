"""Lists of indices: the bags of lookups, the rows of a sparse matrix, the blocks that queries attend to.

One structure serves every op: entry e of list i picks row idx[e] of a table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.data.ordering import order_by
from explorer.runtime.data.triples import Ids, InputError

Floats = npt.NDArray[np.float32]

MEMORY_LIMIT = 2 << 30
"""The most bytes that all arrays of an op's run may take together, unless the caller says otherwise."""
MOST_ENTRIES = 2**31 - 1
"""Where a list begins is an int32."""
GENERATED = "preset, generated"


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Compressed lists: those of list i are idx[ptr[i]:ptr[i + 1]], each below `num_cols`.

    `value` is a number for each entry, where the source has one. `order` says which entry of the source each one is,
    where they had to be sorted. `row_shape` is what a row of the table looks like where the source says it: (128,) for
    vectors of 128 elements, (8, 512) for blocks of 8 vectors.
    """

    name: str
    source: str  # "preset, generated" or "file"
    num_cols: int
    ptr: Ids
    idx: Ids
    value: Floats | None = None
    order: Ids | None = None
    row_shape: tuple[int, ...] = ()
    about: str = ""

    @property
    def num_rows(self) -> int:
        """The number of lists."""
        return len(self.ptr) - 1

    @property
    def num_entries(self) -> int:
        """The number of entries of all lists."""
        return len(self.idx)

    def owners(self) -> Ids:
        """The list that each entry is in."""
        return np.repeat(np.arange(self.num_rows, dtype=np.int32), np.diff(self.ptr))

    def restore(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Rows of entries, put back into the order of the source."""
        if self.order is None:
            return rows
        given = np.empty_like(rows)
        given[self.order] = rows
        return given

    def sort(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Rows of entries in the order of the source, put into the lists' order."""
        return rows if self.order is None else rows[self.order]

    def describe(self) -> dict[str, Any]:
        """Its sizes, and how long the lists are, for display."""
        lengths = np.diff(self.ptr)
        return {
            "name": self.name,
            "source": self.source,
            "about": self.about,
            "lists": self.num_rows,
            "rows": self.num_cols,
            "entries": self.num_entries,
            "weights": self.value is not None,
            "length": {
                "mean": float(lengths.mean()) if len(lengths) else 0.0,
                "max": int(lengths.max(initial=0)),
                "empty": int((lengths == 0).sum()),
            },
        }


def by_row(rows: Ids, cols: Ids, num_rows: int, found: SparseRows) -> SparseRows:
    """`found` with coordinates sorted by row, those of a row in the order given, and the order if it changed."""
    ptr = np.zeros(num_rows + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows, minlength=num_rows), out=ptr[1:])
    if (rows[1:] >= rows[:-1]).all():
        return replace(found, ptr=ptr, idx=cols)
    order = order_by((rows, num_rows))
    value = None if found.value is None else found.value[order]
    return replace(found, ptr=ptr, idx=np.ascontiguousarray(cols[order]), value=value, order=order)


def check_size(name: str, rows: int, entries: int, remedy: str, limit: int = MEMORY_LIMIT) -> None:
    """Raises InputError where lists so large would not fit, before any of them is made.

    An entry takes its list, its column, its place in a sort and in the inverse, and a value, 4 bytes each."""
    total = 4 * (2 * rows + 5 * entries)
    if entries > MOST_ENTRIES or total > limit:
        raise InputError(
            f"{name}: {rows:,} lists with {entries:,} entries might take {total / 2**30:,.2f} GiB, more than the limit"
            f" of {limit / 2**30:,.2f} GiB; {remedy}"
        )
