"""The maps into products of sets that a backward pass adds, and those that are computed of ids, as arrays: they follow
from the maps of a run's data.

A tensor over several sets, `mu[ntype, etype]`, is picked by several maps at once; its rows, numbered in row-major
order, are the elements of the product, and a number of a row is what its gradient is summed by.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from explorer.compiler.ir.graph import Graph, IndexMap
from explorer.compiler.ir.index_functions import Ids, too_many
from explorer.compiler.ir.index_sets import CONTAINERS, SetNames, count_name, factors, with_products
from explorer.runtime.data.triples import MAX_COUNT, InputError
from explorer.runtime.encode.graph import segments


def product_ids(
    entries: Sequence[IndexMap], entry: IndexMap, maps: Mapping[str, Ids], counts: Mapping[str, int], every: Ids
) -> Ids:
    """Where a map of several paths, or one that is computed of ids, leads from each element of its domain, of which
    `every` has the numbers 0, 1, ...; it is one of a graph's `entries`.

    `maps` hold the data's maps, flat, `counts` the sizes of the sets. Raises InputError for a product of more elements
    than an index of 32 bits tells apart, and for computed ids that such an index cannot hold.
    """
    sets = factors(entries, entry)
    check_count(entry, sets, counts)
    starts = {known.name: known.domain for known in entries}

    def follow(path: str) -> Ids:
        rows, at = every, entry.domain
        for step in path.split("."):
            if step == at:
                continue
            if starts[step] == CONTAINERS.get(at):
                rows = rows // max(1, counts[at] // max(1, counts[starts[step]]))
            rows, at = maps[step][rows], ""
        ids: Ids = _wide(rows) if entry.widens else rows
        return ids

    found: Ids = entry.lead([follow(path) for path in entry.paths], [counts[each] for each in sets])
    return found


def check_count(entry: IndexMap, sets: Sequence[str], counts: Mapping[str, int]) -> None:
    """Raises InputError where a map whose paths lead to these sets may lead to more elements than an index of 32 bits
    tells apart."""
    count = entry.count([counts[each] for each in sets])
    if count <= MAX_COUNT:
        return
    if entry.computed:
        raise InputError(too_many(entry.name, count))
    sizes = " times ".join(f"{counts[each]:,} ({each})" for each in sets)
    raise InputError(f"a tensor over {sizes} has {count:,} rows, more than an index of 32 bits can tell apart")


def _wide(ids: Any) -> Any:
    """The same in 64 bits."""
    return ids.astype(np.int64) if isinstance(ids, np.ndarray) else ids.long()


def product_arrays(
    graph: Graph, read: Container[str], maps: Mapping[str, Any], counts: Mapping[str, int]
) -> dict[str, Any]:
    """The sizes of a layer's or an op's products of sets, and the inverses of the maps into them, of those arrays that
    programs `read`, by name; likewise of sets that computed ids lead to. Raises InputError."""
    sizes, inverses = with_products(graph, counts), SetNames.of(graph).inverses
    arrays: dict[str, Any] = {}
    for entry in graph.maps:
        names = inverses[entry.name]
        if not entry.paths or not any(name in read for name in names):
            continue
        every = np.arange(counts[entry.domain], dtype=np.int32)
        found = segments(product_ids(graph.maps, entry, maps, counts, every), sizes[entry.codomain])
        arrays |= dict(zip(names, (found.ptr, every if found.order is None else found.order), strict=True))
        arrays[str(count_name(entry.codomain))] = sizes[entry.codomain]
    return arrays
