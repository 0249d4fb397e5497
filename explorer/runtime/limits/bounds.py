"""The least memory traffic and arithmetic that a graph needs on given inputs: what a measured time is held against.

Everything is counted from the graph and the ids; nothing here knows a model. With rows of whole sectors the counts
are the closed forms of the literature: TransE at dimension D needs 4 D (distinct entities + distinct relations)
bytes for rows, 12 for the ids and 4 for the score of a triple, and 4 D operations a triple.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.ir.graph import Gather, Graph, Value, indices_of
from explorer.compiler.ir.index_sets import is_of_fact
from explorer.compiler.ir.storage import element_bytes
from explorer.compiler.ir.work import elements, row_flop, used_values

SECTOR = 32
"""The bytes that a GPU's memory moves at least; tables are taken to begin on a sector."""
FLOAT = 4
BATCH = "batch"
"""The set of a score's facts: what is over it has its row for each, picked by no map."""

NOTE = (
    "Compulsory bytes: each 32-byte sector of a row that any triple needs, once, the ids and the scores. "
    "Stream bytes: the same with every row read afresh. Of a row that is used in part, the whole is counted. "
    "FLOP: each operation of the graph once for every triple, or negative, that its value depends on; "
    "a function such as exp counts as one, a sum over n elements as n."
)

Inputs = Mapping[str, npt.NDArray[Any]]


def limits(graph: Graph, inputs: Inputs) -> dict[str, int | str]:
    """`compulsory_bytes`, `stream_bytes`, `flop`, and a `note` that says what they count.

    A kernel that starts with cold caches and moves fewer bytes than the first has not computed all scores.
    """
    used = used_values(graph)
    maps = {name: inputs[name] for name in sorted({name for value in used for name in value.depends} - {BATCH})}
    maps[BATCH] = np.arange(max((len(ids) for ids in maps.values()), default=1))
    sharing = {entry.name: entry.sharing for entry in graph.maps}
    ids = sum(array[:: sharing[name]].nbytes for name, array in maps.items() if name != BATCH)
    numbers = sum(elements(graph, graph.value(name)) for name in graph.results)
    fixed = ids + FLOAT * numbers * _count_rows(inputs[entry.name] for entry in graph.maps if is_of_fact(entry))
    compulsory, stream = _of_declared(used, inputs)
    for tensor in graph.tensors:
        reads = {
            value.operator.indices
            for value in used
            if isinstance(value.operator, Gather) and value.operator.tensor == tensor.name
        }
        if reads:
            array = inputs[tensor.name]
            extents = array.shape[: len(tensor.sets)]
            row_bytes = element_bytes(tensor.storage) * prod(array.shape[len(tensor.sets) :])
            rows = [_row_numbers([_followed(path, maps, inputs) for path in each], extents) for each in sorted(reads)]
            compulsory += SECTOR * distinct_sectors(np.unique(np.concatenate(rows)), row_bytes)
            stream += SECTOR * sum(touched_sectors(numbers, row_bytes) for numbers in rows)
    flop = sum(row_flop(graph, value) * _count_rows(maps[name] for name in value.depends) for value in used)
    return {"compulsory_bytes": fixed + compulsory, "stream_bytes": fixed + stream, "flop": flop, "note": NOTE}


def _of_declared(used: Iterable[Value], inputs: Inputs) -> tuple[int, int]:
    """The compulsory and the stream bytes of maps that the text declares, which lead on from others: of `h.kind` the
    ids that `kind` has for heads."""
    paths = {path for value in used for path in indices_of(value.operator)}
    read: dict[str, set[str]] = {}  # by map, the paths behind which it is read
    for path in paths:
        steps = path.split(".")
        for place in range(1, len(steps)):
            read.setdefault(steps[place], set()).add(".".join(steps[:place]))
    compulsory = stream = 0
    for before in read.values():
        rows = [_followed(path, inputs, inputs).ravel().astype(np.int64) for path in sorted(before)]
        compulsory += SECTOR * distinct_sectors(np.unique(np.concatenate(rows)), FLOAT)
        stream += SECTOR * sum(touched_sectors(each, FLOAT) for each in rows)
    return compulsory, stream


def _followed(path: str, maps: Inputs, inputs: Inputs) -> npt.NDArray[Any]:
    """Where a path leads from each fact: its first map is of facts, the others the text declares."""
    first, *others = path.split(".")
    ids = maps[first]
    for step in others:
        ids = inputs[step][ids]
    return ids


def _count_rows(ids: Iterable[npt.NDArray[Any]]) -> int:
    """How many rows a value has that depends on these maps: triples, negatives, or one where there are none."""
    return max((array.size for array in ids), default=1)


def _row_numbers(ids: list[npt.NDArray[Any]], extents: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """The rows of a tensor that maps pick, as numbers in row-major order of its index sets."""
    if not ids:
        return np.zeros(1, dtype=np.int64)
    aligned = [array.reshape(len(array), -1).astype(np.int64) for array in ids]
    return np.ravel_multi_index(tuple(np.broadcast_arrays(*aligned)), extents).ravel()


def touched_sectors(rows: npt.NDArray[np.int64], row_bytes: int) -> int:
    """The sectors that rows lie in, counted for each row by itself."""
    if row_bytes % SECTOR == 0 or SECTOR % row_bytes == 0:  # wherever it lies, a row is in as many: none is looked at
        return len(rows) * -(-row_bytes // SECTOR)
    return int(np.sum((rows * row_bytes + row_bytes - 1) // SECTOR - rows * row_bytes // SECTOR + 1))


def distinct_sectors(rows: npt.NDArray[np.int64], row_bytes: int) -> int:
    """The sectors that sorted, distinct rows lie in; short neighbours share them."""
    first, last = rows * row_bytes // SECTOR, (rows * row_bytes + row_bytes - 1) // SECTOR
    shared = int(np.sum(first[1:] == last[:-1]))
    return touched_sectors(rows, row_bytes) - shared
