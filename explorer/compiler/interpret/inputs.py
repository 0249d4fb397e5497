"""Whether a caller's arrays fit a score's graph: the same check, in the same words, for everything that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.compiler.ir.graph import Gather, Graph, IndexMap, Tensor
from explorer.compiler.ir.index_functions import MOST_ROWS, too_many
from explorer.compiler.ir.index_sets import as_they_tell, is_given, is_of_fact

BATCH = ("batch",)
"""The sets of a tensor with a row for each fact of the batch."""


class InputsError(ValueError):
    """Arrays that do not fit the model; the message is a sentence for the user."""


def check_inputs(graph: Graph, inputs: Mapping[str, Any], negatives: int = 0) -> None:
    """Checks the arrays of a score, by name: index maps [B], or [B, negatives] where corrupted, [chunks, negatives]
    where chunks of facts share these, maps that its text declares, as long as the sets that they lead from, and
    tensors.

    Raises InputsError for an array that is missing or has another shape, for maps of different lengths, and for ids
    that are no row of what they pick from, a tensor or a declared map. A tensor that nothing reads may be left out.
    """
    sizes: dict[str, int] = dict(graph.sizes)
    batch: dict[str, int] = {}
    tables: dict[str, str] = {}
    read = {value.operator.tensor for value in graph.values if isinstance(value.operator, Gather)}
    for tensor in graph.tensors:
        if tensor.name in read and tensor.kind != "upstream" and tensor.sets != BATCH:
            _check_tensor(tensor, inputs, sizes)
            tables |= {name: tables.get(name, tensor.name) for name in tensor.sets}
    given = {entry.name: _map(entry, inputs) for entry in graph.maps if is_given(entry)}  # others follow from these
    for entry in graph.maps:
        if entry.name in given and not is_of_fact(entry):
            _check_shape(entry.name, given[entry.name], (entry.domain,), sizes)
            tables.setdefault(entry.domain, entry.name)
    rows: dict[str, int] = {}  # by map, of how many elements its ids may be
    for entry in as_they_tell(graph.maps):
        if entry.name in given:
            ids = given[entry.name]
            if is_of_fact(entry):  # the first of them tells the length of the batch
                if entry.sharing > 1:
                    batch |= {"chunks": -(-batch["batch"] // entry.sharing)}
                lead = BATCH if entry.sharing == 1 else ("chunks",)
                _check_shape(entry.name, ids, lead if entry.domain == "batch" else (*lead, negatives), batch)
            _check_ids(entry, ids, tables.get(entry.codomain, ""), sizes.get(entry.codomain))
            rows[entry.name] = sizes.get(entry.codomain, int(ids.max(initial=-1)) + 1)
        elif entry.computed:
            wanted = entry.count([rows[path.rpartition(".")[2]] for path in entry.paths])
            if wanted > MOST_ROWS:
                raise InputsError(too_many(entry.name, wanted))
            if wanted > sizes.get(entry.codomain, wanted):
                table = tables[entry.codomain]
                message = f"{entry.name} leads to {wanted:,} rows, but {table} has {sizes[entry.codomain]:,}."
                raise InputsError(message)
    for tensor in graph.tensors:
        if tensor.name in read and tensor.kind != "upstream" and tensor.sets == BATCH:
            _check_tensor(tensor, inputs, {**sizes, **batch})


def each_fact(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A score's checked arrays as its programs read them: with a list of negatives for each fact, also where chunks of
    facts share one."""
    shared = [entry for entry in graph.maps if entry.sharing > 1]
    if not shared:
        return dict(inputs)
    batch = next(len(inputs[entry.name]) for entry in graph.maps if is_given(entry) and entry.domain == "batch")
    lists = {entry.name: np.asarray(inputs[entry.name])[np.arange(batch) // entry.sharing] for entry in shared}
    return {**inputs, **lists}


def _check_tensor(tensor: Tensor, inputs: Mapping[str, Any], sizes: dict[str, int]) -> None:
    array = _array(tensor.name, inputs)
    if not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)):
        raise InputsError(f"{tensor.name} holds {array.dtype} where values are numbers.")
    _check_shape(tensor.name, array, (*tensor.sets, *tensor.dims), sizes)


def _map(entry: IndexMap, inputs: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """A map's ids, which are whole numbers."""
    ids = _array(entry.name, inputs)
    if not np.issubdtype(ids.dtype, np.integer):
        raise InputsError(f"{entry.name} holds {ids.dtype} where indices are whole numbers.")
    return ids


def _check_shape(name: str, array: np.ndarray[Any, Any], extents: tuple[str | int, ...], sizes: dict[str, int]) -> None:
    """Compares with the extents whose sizes are known, and learns the others."""
    wanted = [extent if isinstance(extent, int) else sizes.get(extent) for extent in extents]
    if array.ndim != len(wanted) or any(
        size not in (None, given) for size, given in zip(wanted, array.shape, strict=True)
    ):
        pairs = zip(extents, wanted, strict=True)
        shape = ", ".join(str(extent) if size in (None, extent) else f"{extent} = {size}" for extent, size in pairs)
        raise InputsError(f"{name} has the shape {list(array.shape)}, but is declared [{shape}].")
    for extent, given in zip(extents, array.shape, strict=True):
        if isinstance(extent, str):
            sizes.setdefault(extent, given)


def _check_ids(entry: IndexMap, ids: np.ndarray[Any, Any], table: str, rows: int | None) -> None:
    """Every id by itself, so that none reaches a row of another entity by way of a flat address."""
    if not ids.size:
        return
    for place, wrong in ((ids.argmin(), ids.min() < 0), (ids.argmax(), rows is not None and ids.max() >= rows)):
        if wrong:
            at = ", ".join(str(int(part)) for part in np.unravel_index(int(place), ids.shape))
            known = "ids start at 0" if rows is None else f"{table} has {rows:,} rows, one for each {entry.codomain}"
            raise InputsError(f"{entry.name}[{at}] is {int(ids.reshape(-1)[place]):,}, but {known}.")


def _array(name: str, inputs: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    if name not in inputs:
        raise InputsError(f"There is no array for {name}.")
    return np.asarray(inputs[name])
