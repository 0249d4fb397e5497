"""Records: named numbers side by side in memory, which Python and the compiled interpreter both read and write.

A record is declared as a class with annotations, `int` (64 bits) and `float` (f64). What is made is NumPy's record of
the same fields: it reads like an instance of the class, and that is its type for mypy.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, Protocol, TypeVar, cast, get_type_hints

import numpy as np

AnyRecord = TypeVar("AnyRecord")
Row = TypeVar("Row", covariant=True)


class Table(Protocol[Row]):
    """An array of records."""

    @property
    def size(self) -> int:
        """How many there are."""

    def __getitem__(self, number: int) -> Row:
        """A record, as a view: writing to it writes to the table."""


@cache
def record_type(record: type[object]) -> np.dtype[Any]:
    """NumPy's type for a record class."""
    kinds = {int: np.int64, float: np.float64}
    return np.dtype([(name, kinds[kind]) for name, kind in get_type_hints(record).items()])


def make_table(record: type[AnyRecord], size: int) -> Table[AnyRecord]:
    """So many records of zeros."""
    return cast(Table[AnyRecord], np.zeros(size, record_type(cast(Hashable, record))).view(np.recarray))


def make_record(record: type[AnyRecord], **values: float) -> AnyRecord:
    """One record; fields that are not given are 0."""
    made = make_table(record, 1)[0]
    for name, value in values.items():
        setattr(made, name, value)
    return made


def numbers(record: object) -> dict[str, float]:
    """All fields of a record at once, by name, many times as fast as one after another."""
    fields = cast(np.record, record)
    return dict(zip(fields.dtype.names or (), fields.item(), strict=True))
