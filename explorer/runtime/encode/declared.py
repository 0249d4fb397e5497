"""The maps that a text declares, `map when: edge -> time`, and those that it computes of ids, `i // M`: as arrays."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from explorer.compiler.ir.graph import Graph, IndexMap, plural
from explorer.compiler.ir.index_functions import MOST_ROWS
from explorer.compiler.ir.index_sets import factors, is_given, is_of_fact, number_of
from explorer.compiler.ir.set_maps import edges_beside, graph_maps, listed_in, types_edges
from explorer.runtime.data.graphs import DeclaredMap, RelationalGraph
from explorer.runtime.data.triples import Ids, InputError
from explorer.runtime.encode.graph import MEMORY_LIMIT, Encodings, encode
from explorer.runtime.encode.products import product_ids

DRAWN = 1_000
"""The elements of a set that no data has, as times or users: ids of it are drawn."""


def declared_in(graph: Graph) -> list[IndexMap]:
    """The maps that a text declares, beside those of its facts, its graph, its lists or its matrix."""
    if graph.family == "score":
        return [entry for entry in graph.maps if is_given(entry) and not is_of_fact(entry)]
    own = [each.name for pair in listed_in(graph) for each in pair] if graph.family == "op" else graph_maps(graph.ends)
    return [entry for entry in graph.maps if is_given(entry) and entry.name not in own]


def declared_maps(
    graph: Graph, inputs: Mapping[str, Any], sizes: Mapping[str, int], known: Mapping[str, int]
) -> dict[str, DeclaredMap]:
    """The declared maps as they are given, by name, checked. `sizes` are those of the data's own sets, `known` those
    that tensors tell of others. Raises InputError."""
    sizes = {**sizes, **{edges: _length(edges, graph, inputs) for edges in edges_beside(graph)}}
    return {entry.name: _given(entry, inputs, sizes, known) for entry in declared_in(graph)}


def _length(edges: str, graph: Graph, inputs: Mapping[str, Any]) -> int:
    """How many edges a layer's further graph has."""
    first = next(entry.name for entry in declared_in(graph) if entry.domain == edges)
    return len(_ids(first, inputs))


def least_beside(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, int]:
    """The fewest elements that the sets have which the edges of a layer's further graphs lead from and to."""
    ends = [e for e in declared_in(graph) if e.domain in edges_beside(graph) and e.codomain in graph.ends]
    highest = [(entry.codomain, least(_ids(entry.name, inputs))) for entry in ends]
    return {index_set: max(count for other, count in highest if other == index_set) for index_set, _ in highest}


def _ids(name: str, inputs: Mapping[str, Any]) -> Ids:
    if name not in inputs:
        raise InputError(f"There is no array for {name}.")
    return ids_of(inputs[name], name)


def _given(
    entry: IndexMap, inputs: Mapping[str, Any], sizes: Mapping[str, int], known: Mapping[str, int]
) -> DeclaredMap:
    length, types = sizes[entry.domain], types_edges(entry)
    none = types and entry.name not in inputs  # all are 0 then, as those of the first graph
    ids = np.zeros(length, dtype=np.int32) if none else _ids(entry.name, inputs)
    if len(ids) != length:
        raise InputError(f"{entry.name} has {len(ids):,} entries, but there are {length:,} {plural(entry.domain)}.")
    count = sizes.get(entry.codomain, known.get(entry.codomain, least(ids)))
    count = int(inputs.get(number_of(entry.codomain), count)) if types else count
    check_ids(entry.name, ids, count)
    return DeclaredMap(entry.domain, entry.codomain, count, ids)


def drawn_maps(graph: Graph, sizes: Mapping[str, int], seed: int) -> dict[str, DeclaredMap]:
    """Ids for each declared map, by name: uniform, into DRAWN elements where the set is not the data's own, the same
    for the same arguments. `sizes` are those of the data's own sets."""
    found = {}
    for entry in declared_in(graph):
        random = np.random.default_rng([seed, zlib.crc32(entry.name.encode())])
        count = sizes.get(entry.codomain, DRAWN)
        ids = random.integers(0, max(1, count), size=sizes[entry.domain], dtype=np.int32)
        found[entry.name] = DeclaredMap(entry.domain, entry.codomain, count, ids)
    return found


def encoded(data: RelationalGraph, graph: Graph, limit: int = MEMORY_LIMIT) -> Encodings:
    """A layer's data, encoded, with the maps that the layer computes of its ids. Raises InputError."""
    found = encode(data, limit, [entry.domain for entry in graph.maps if entry.computed], graph.edges)
    ends = {entry.name: (entry.domain, entry.codomain) for entry in graph.maps if entry.computed}
    found.maps |= made_maps(graph, found.maps, found.counts)
    found.counts |= made_sizes(graph.maps, found.counts)
    return replace(found, domains={**found.domains, **ends})


def made_maps(graph: Graph, maps: Mapping[str, Ids], counts: Mapping[str, int]) -> dict[str, Ids]:
    """The maps that are computed of ids, by name. `maps` are the data's, `counts` the sizes of the sets that these lead
    from."""
    return {entry.name: made_map(graph.maps, entry, maps, counts) for entry in graph.maps if entry.computed}


def made_map(entries: Sequence[IndexMap], entry: IndexMap, maps: Mapping[str, Ids], counts: Mapping[str, int]) -> Ids:
    """The ids that a map among `entries` computes of those of paths of maps, or of each element's own number. Raises
    InputError where they need more than 32 bits."""
    every = np.arange(counts[entry.domain], dtype=np.int32)
    return np.ascontiguousarray(product_ids(entries, entry, maps, counts, every), dtype=np.int32)


def made_sizes(maps: Sequence[IndexMap], counts: Mapping[str, int]) -> dict[str, int]:
    """How many elements the sets have that computed ids lead to: as many as there may be such ids, or more where
    `counts` says so."""
    sizes: dict[str, int] = {}
    for entry in maps:
        if entry.computed:
            count = entry.count([counts[each] for each in factors(maps, entry)])
            sizes[entry.codomain] = max(count, counts.get(entry.codomain, 0), sizes.get(entry.codomain, 0))
    return sizes


def check_ids(name: str, ids: Ids, limit: int) -> None:
    """Raises InputError unless all are below the limit."""
    if len(ids) and not (ids.min() >= 0 and ids.max() < limit):
        place = int(np.flatnonzero((ids < 0) | (ids >= limit))[0])
        raise InputError(f"{name}[{place}] is {ids[place]}, which is not in 0 to {limit - 1}.")


def ids_of(values: Any, name: str) -> Ids:
    """Ids as a caller gives them, int32. Raises InputError for what is no list of them."""
    array = np.asarray(values)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or not array.size):
        raise InputError(f"{name} has the shape {list(array.shape)} and holds {array.dtype}, not a list of ids.")
    if array.size and not (array.min() >= -(2**31) and array.max() < 2**31):
        raise InputError(f"{name} holds ids that do not fit in 32 bits.")
    return np.ascontiguousarray(array, dtype=np.int32)


def least(ids: Ids) -> int:
    """The fewest elements that a set has which these are of."""
    return int(ids.max(initial=-1)) + 1


def read_off(inputs: Mapping[str, Any], graph: Graph, told: Mapping[str, int] | None = None) -> dict[str, int]:
    """The sizes of sets that are `told`, or that the given tensors have rows for; of a set over which there is none, as
    many elements as the tables of what is computed of it are for, `T[e.when // 24]`."""
    known = dict(told or {})
    for tensor in graph.tensors:
        if tensor.name in inputs:
            known.update(zip(tensor.sets, np.shape(inputs[tensor.name]), strict=False))
    spanned: dict[str, int] = {}
    for entry in graph.maps:
        if entry.computed and entry.codomain in known:
            for end, count in _most(entry, factors(graph.maps, entry), known).items():
                spanned[end] = max(count, spanned.get(end, 0))
    return {**spanned, **known}


def _most(entry: IndexMap, ends: Sequence[str], known: Mapping[str, int]) -> dict[str, int]:
    """How many elements the one end of a computed map that is not known has at most, for all ids to be of the known
    rows that the map leads to; nothing where several are not known, or any number would do."""
    unknown, rows = {*ends} - known.keys(), known[entry.codomain]
    if len(unknown) != 1:
        return {}
    (end,) = unknown

    def wanted(count: int) -> int:
        return entry.count([known.get(each, count) for each in ends])

    most = bisect_right(range(MOST_ROWS + 1), rows, key=wanted) - 1
    return {end: most} if 0 <= most < MOST_ROWS else {}
