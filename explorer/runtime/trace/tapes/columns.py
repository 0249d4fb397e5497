"""Rows that ids of two dimensions gather, some for each row of a batch: those of each column of ids, side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch

MOST_COLUMNS = 64
"""Of as many ids of a row a text is still one to read."""
_GATHERS = {"aten::embedding": 1, "aten::index_select": 2, "aten::index": 1}
"""Where operators that gather have their ids."""
_FLATTENS = {"aten::view", "aten::_unsafe_view", "aten::_reshape_alias"}

Run = Callable[..., Any]
"""Calls an operator, so that it is on the tape."""


@dataclass(frozen=True)
class Columns:
    """Ids of two dimensions, of which rows of a batch go `along` one; `flat` where they were given one behind another,
    in one dimension."""

    ids: Any
    along: int
    flat: bool = False


def columns_of(ids: Any, sizes: Collection[int]) -> Columns | None:
    """Ids as columns; None of those that have one dimension, or none of whose dimensions, or both, are of rows. `sizes`
    are those of the batch or graph."""
    if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32) or 1 in ids.shape:
        return None
    rows = [dim for dim, size in enumerate(ids.shape) if size in sizes]
    return Columns(ids, rows[0]) if len(rows) == 1 and ids.shape[1 - rows[0]] <= MOST_COLUMNS else None


def flattened(name: str, args: tuple[Any, ...], made: Any, sizes: Collection[int]) -> Columns | None:
    """What an operator puts one behind another, where it is ids of two dimensions."""
    if name not in _FLATTENS or made.dim() != 1:
        return None
    found = columns_of(args[0], sizes)
    return None if found is None else Columns(found.ids, found.along, flat=True)


def ids_read(name: str, args: tuple[Any, ...]) -> tuple[Any, int] | None:
    """The ids that an operator gathers by, and the dimension of what it gathers of; None where there are none or
    several."""
    if name not in _GATHERS:
        return None
    if name != "aten::index":
        return args[_GATHERS[name]], (args[1] % args[0].dim() if name == "aten::index_select" else 0)
    given = [dim for dim, each in enumerate(args[1]) if each is not None]
    return (args[1][given[0]], given[0]) if len(given) == 1 else None


def gathered(run: Run, func: Any, args: tuple[Any, ...], columns: Columns, dim: int) -> Any:
    """What an operator gathers along a dimension, column by column."""
    across = 1 - columns.along
    parts = []
    for at in range(columns.ids.shape[across]):
        column = run(torch.ops.aten.select.int, columns.ids, across, at)
        parts.append(run(func, *_with_ids(func._schema.name, args, column)))
    made = run(torch.ops.aten.stack.default, parts, dim + across)
    if not columns.flat:
        return made
    shape = [*args[0].shape[:dim], columns.ids.numel(), *args[0].shape[dim + 1 :]]
    return run(torch.ops.aten.view.default, made, shape)


def _with_ids(name: str, args: tuple[Any, ...], ids: Any) -> list[Any]:
    """An operator's arguments with other ids."""
    at = _GATHERS[name]
    put = [None if each is None else ids for each in args[1]] if name == "aten::index" else ids
    return [*args[:at], put, *args[at + 1 :]]
