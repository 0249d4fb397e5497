"""The least memory traffic of a layer or an op, and the arithmetic of its graph program as the passes left it."""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from explorer.compiler.ir.graph import Gather, Graph, Segment, Tensor, Value
from explorer.compiler.ir.index_sets import CONTAINERS, with_products
from explorer.compiler.ir.storage import element_bytes
from explorer.compiler.ir.work import elements, work_of
from explorer.runtime.encode.layers import tensor_shape
from explorer.runtime.encode.structure import Structure
from explorer.runtime.limits.bounds import FLOAT, SECTOR, distinct_sectors, touched_sectors

NOTE = (
    "Compulsory bytes: each 32-byte sector of a row that any element needs, once, the index arrays once, and the "
    "results. Stream bytes: the same with every row read afresh for every element. Values that kernels leave for "
    "later ones count in neither. FLOP: each operation of the graph, as the passes left it, for every element of its "
    "set; a function such as exp counts as one, a sum over n elements as n."
)


def limits(graph: Graph, structure: Structure) -> dict[str, int | str]:
    """`compulsory_bytes`, `stream_bytes`, `flop`, and a `note` that says what they count."""
    counts = with_products(graph, {**structure.counts, "unit": 1})
    results = set(graph.outputs)
    fixed = sum(FLOAT * counts[v.index_set] * elements(graph, v) for v in graph.values if v.name in results)
    fixed += sum(structure.map_bytes.get(name, 0) for name in sorted(_maps_read(graph)))
    compulsory = stream = 0
    for tensor in graph.tensors:
        reads = [v for v in graph.values if isinstance(v.operator, Gather) and v.operator.tensor == tensor.name]
        if not reads:
            continue
        shape = tensor_shape(graph, tensor, structure.counts)
        row_bytes = element_bytes(tensor.storage) * prod(shape[len(tensor.sets) :])
        rows = [_row_numbers(value, tensor, structure, shape) for value in reads]
        compulsory += SECTOR * distinct_sectors(_distinct(rows, prod(shape[: len(tensor.sets)])), row_bytes)
        stream += SECTOR * sum(touched_sectors(numbers, row_bytes) for numbers in rows)
    flop = sum(counts[index_set] * work for index_set, work in (work_of(graph, value) for value in graph.values))
    return {"compulsory_bytes": fixed + compulsory, "stream_bytes": fixed + stream, "flop": flop, "note": NOTE}


def _distinct(rows: list[npt.NDArray[np.int64]], count: int) -> npt.NDArray[np.int64]:
    """Those of `count` rows that are picked, in order: marked where there are few of them, else sorted."""
    if count > sum(map(len, rows)):
        return np.unique(np.concatenate(rows))
    picked = np.zeros(count, dtype=np.bool_)
    for numbers in rows:
        picked[numbers] = True
    return np.flatnonzero(picked)


def _maps_read(graph: Graph) -> set[str]:
    gathers = [value.operator for value in graph.values if isinstance(value.operator, Gather)]
    steps = {step for gather in gathers for path in gather.indices for step in path.split(".")}
    return steps | {value.operator.map for value in graph.values if isinstance(value.operator, Segment)}


def _row_numbers(value: Value, tensor: Tensor, structure: Structure, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """The rows of a tensor that a value's elements pick, as numbers in row-major order of its index sets."""
    assert isinstance(value.operator, Gather)
    if not value.operator.indices:
        return np.zeros(1, dtype=np.int64)
    ids = [_follow(path, value.index_set, structure) for path in value.operator.indices]
    return np.ravel_multi_index(tuple(ids), shape[: len(tensor.sets)]).ravel()


def _follow(path: str, index_set: str, structure: Structure) -> npt.NDArray[np.int64]:
    rows: npt.NDArray[np.integer] = np.arange(1 if index_set == "unit" else structure.counts[index_set])
    for step in path.split("."):
        if step != index_set:
            found = structure.maps[step]
            if index_set in CONTAINERS and len(found) < len(rows):  # a map of the container
                rows = rows // (len(rows) // len(found))
            rows = found[rows]
    return rows.astype(np.int64)
