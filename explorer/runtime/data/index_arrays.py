"""Lists of indices from arrays by name, as files and callers have them: checked, each problem in a sentence.

| arrays | what they are |
|---|---|
| `ptr`, `idx`, and `weight`, `num_rows` | bags: those of bag b are idx[ptr[b]:ptr[b + 1]] |
| `ptr`, `blocks`, and `num_blocks` | the blocks that each query gathers |
| `rowptr`, `col`, and `value`, `num_cols` | a matrix, its nonzeros row by row |
| `row`, `col`, and `value`, `num_rows`, `num_cols` | a matrix, its nonzeros in any order |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.data.index_lists import SparseRows, by_row, check_size
from explorer.runtime.data.triples import MAX_COUNT, Ids, InputError


@dataclass(frozen=True)
class Form:
    """One of the ways to write lists down: the arrays that say where lists begin (or each entry's list), what the
    entries pick, their values, and how many lists and rows there are."""

    lists: str
    picks: str
    value: str
    num_lists: str
    num_picked: str

    @property
    def compressed(self) -> bool:
        """Whether `lists` says where each list begins, and not for each entry which list it is in."""
        return self.lists.endswith("ptr")


FORMS = (
    Form("ptr", "idx", "weight", "", "num_rows"),
    Form("ptr", "blocks", "", "", "num_blocks"),
    Form("rowptr", "col", "value", "", "num_cols"),
    Form("row", "col", "value", "num_rows", "num_cols"),
)
NUMBERS = frozenset(name for form in FORMS for name in (form.num_lists, form.num_picked) if name)


def form_of(names: Collection[str]) -> Form | None:
    """The form that arrays of these names are in."""
    return next((form for form in FORMS if form.lists in names and form.picks in names), None)


def sparse_from(arrays: Mapping[str, Any], name: str, source: str, num_picked: int | None = None) -> SparseRows:
    """The lists that the arrays describe. `num_picked` is how many rows there are to pick where the arrays do not say;
    without it, as many as the ids need. Raises InputError."""
    form = form_of(arrays)
    if form is None:
        known = "; ".join(f"{form.lists} and {form.picks}" for form in FORMS)
        held = ", ".join(sorted(arrays)) or "nothing"
        raise InputError(f"{name}: there are no lists of indices in it (it holds {held[:200]}); they are {known}")
    return sparse_in(form, arrays, name, source, num_picked)


def sparse_in(
    form: Form, arrays: Mapping[str, Any], name: str, source: str, num_picked: int | None = None
) -> SparseRows:
    """The same of arrays in a known form."""
    picks = _ids(arrays[form.picks], form.picks, name)
    rows = _limit(arrays, form.num_picked, num_picked, picks, name)
    _check_range(picks, form.picks, rows, form.num_picked, name)
    value = _values(arrays.get(form.value), form.value, picks, name) if form.value else None
    if form.compressed:
        ptr = _pointers(arrays[form.lists], form.lists, len(picks), form.picks, name)
        check_size(name, len(ptr), len(picks), "take a part of it")
        return SparseRows(name, source, rows, ptr, picks, value)
    owners = _ids(arrays[form.lists], form.lists, name)
    if len(owners) != len(picks):
        raise InputError(
            f"{name}: {form.lists} has {len(owners):,} entries and {form.picks} {len(picks):,}, not one number"
        )
    lists = _limit(arrays, form.num_lists, None, owners, name)
    _check_range(owners, form.lists, lists, form.num_lists, name)
    check_size(name, lists, len(picks), "take a part of it")
    return by_row(owners, picks, lists, SparseRows(name, source, rows, picks[:0], picks[:0], value))


def _ids(given: Any, array: str, name: str) -> Ids:
    ids = np.asarray(given)
    if ids.ndim != 1:
        raise InputError(f"{name}: {array} has the shape {list(ids.shape)}, not [n]")
    if ids.size and not np.issubdtype(ids.dtype, np.integer):
        raise InputError(f"{name}: {array} holds {ids.dtype} where indices are whole numbers")
    if ids.size and not (ids.min() >= 0 and ids.max() <= MAX_COUNT):
        wrong = int(np.flatnonzero((ids < 0) | (ids > MAX_COUNT))[0])
        raise InputError(f"{name}: {array}[{wrong}] is {int(ids[wrong])}, not between 0 and {MAX_COUNT}")
    return np.ascontiguousarray(ids, dtype=np.int32)


def _limit(arrays: Mapping[str, Any], count: str, known: int | None, ids: Ids, name: str) -> int:
    """How many rows there are to pick, or lists: as the arrays say, as is known, or as many as the ids need."""
    if count in arrays:
        given = np.asarray(arrays[count])
        if given.ndim or not np.issubdtype(given.dtype, np.integer) or not 0 <= int(given) <= MAX_COUNT:
            raise InputError(f"{name}: {count} is not a whole number between 0 and {MAX_COUNT}")
        return int(given)
    return int(ids.max(initial=-1)) + 1 if known is None else known


def _check_range(ids: Ids, array: str, limit: int, count: str, name: str) -> None:
    if ids.size and int(ids.max()) >= limit:
        wrong = int(np.flatnonzero(ids >= limit)[0])
        raise InputError(f"{name}: {array}[{wrong}] is {int(ids[wrong]):,}, but {count} is {limit:,}")


def _pointers(given: Any, array: str, entries: int, picks: str, name: str) -> Ids:
    ptr = _ids(given, array, name)
    if not len(ptr) or ptr[0] != 0:
        raise InputError(f"{name}: {array} must begin with 0")
    falls = np.flatnonzero(ptr[1:] < ptr[:-1])
    if len(falls):
        at = int(falls[0])
        raise InputError(f"{name}: {array} falls from {int(ptr[at]):,} to {int(ptr[at + 1]):,} at position {at + 1}")
    if ptr[-1] != entries:
        raise InputError(f"{name}: {array} ends with {int(ptr[-1]):,}, but {picks} has {entries:,} entries")
    return ptr


def _values(given: Any, array: str, picks: Ids, name: str) -> npt.NDArray[np.float32] | None:
    if given is None:
        return None
    values = np.asarray(given)
    if values.shape != picks.shape:
        raise InputError(f"{name}: {array} has the shape {list(values.shape)}, but there are {len(picks):,} entries")
    if values.dtype.kind not in "iuf":
        raise InputError(f"{name}: {array} holds {values.dtype} where values are numbers")
    return np.ascontiguousarray(values, dtype=np.float32)
