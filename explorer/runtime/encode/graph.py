"""What is computed once of a graph before a layer runs: sorted edges, compact maps, and the inverse of every map.

Hector's inspection of a graph (§3.2.2, Figure 7): its `unique_row_idx` and `unique_etype_ptr` are `src_pair_node` and
the segments of `src_pair_etype` here. Every step is timed and says what it found, for display as pre-processing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from explorer.compiler.ir.set_maps import graph_maps
from explorer.compiler.options import EDGES, USUAL_EDGES
from explorer.runtime.data.blocks import scattered, taken
from explorer.runtime.data.graphs import DeclaredMap, RelationalGraph
from explorer.runtime.data.ordering import order_by
from explorer.runtime.data.triples import Ids, InputError

MEMORY_LIMIT = 2 << 30
"""The most bytes that a graph and its encodings may take together, unless the caller says otherwise."""

Row = TypeVar("Row", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Segments:
    """The inverse of a map m: A -> B. What m takes to b is order[ptr[b] : ptr[b + 1]], in increasing order;
    `order` None stands for 0, 1, 2, ...: A is sorted by m."""

    ptr: Ids  # [B + 1]
    order: Ids | None  # [A]

    def members(self, place: int) -> Ids:
        """The elements that the map takes to `place`."""
        start, stop = int(self.ptr[place]), int(self.ptr[place + 1])
        return np.arange(start, stop, dtype=np.int32) if self.order is None else self.order[start:stop]

    @property
    def bytes(self) -> int:
        """What its arrays take."""
        return self.ptr.nbytes + (0 if self.order is None else self.order.nbytes)


@dataclass(frozen=True)
class Step:
    """One piece of pre-processing: its name, how long it took, and what came of it."""

    name: str
    ms: float
    found: str


@dataclass(frozen=True)
class Degrees:
    """How many in-edges (or out-edges) nodes have."""

    mean: float
    max: int
    without: int  # nodes that have none


@dataclass(eq=False)
class Encodings:
    """A graph with its edges sorted by (dst, etype, src) or (src, etype, dst), and what follows from that.

    Element i of everything per edge is edge edge_order[i] of the graph as given. Pairs are numbered so that those of
    a node are contiguous (of the end that edges are sorted by: by node, then etype, as the edges are) or those of a
    weight are (of the other end: by etype, then node). Segments are computed when they are first asked for, and kept.
    """

    graph: RelationalGraph
    edge_order: Ids  # [edges]
    maps: dict[str, Ids]
    counts: dict[str, int]  # the size of every index set
    norm: npt.NDArray[np.float32]  # [edges]: 1 / the number of in-edges of the edge's dst that have its type
    in_degree: npt.NDArray[np.float32]  # [nodes]; of two sets, the destinations
    domains: Mapping[str, tuple[str, str]]
    """The set that each map is over, and the set that it leads to."""
    steps: list[Step] = field(default_factory=list)
    _segments: dict[str, Segments] = field(default_factory=dict)

    def segments(self, name: str) -> Segments:
        """The inverse of a map."""
        if name not in self._segments:
            domain, codomain = self.domains[name]
            with _timed(self.steps, f"{codomain}s to {domain}s by {name}") as done:
                found = segments(self.maps[name], self.counts[codomain])
                form = {"dst": " (CSC)", "src": " (CSR)"}.get(name, "")
                done(f"{domain}s are sorted already{form}" if found.order is None else f"{domain}s reordered{form}")
            self._segments[name] = found
        return self._segments[name]

    @property
    def dst_ptr(self) -> Ids:
        """Where each node's in-edges start, [nodes + 1]."""
        return self.segments("dst").ptr

    def sort_edges(self, rows: npt.NDArray[Row]) -> npt.NDArray[Row]:
        """Rows in the order of the given edges, put into the sorted order."""
        return rows[self.edge_order]

    def restore_edges(self, rows: npt.NDArray[Row]) -> npt.NDArray[Row]:
        """Rows in the sorted order of edges, put back into the order given."""
        given = np.empty_like(rows)
        given[self.edge_order] = rows
        return given

    def ratio(self, pairs: str) -> float:
        """The share of `src_pair`s or `dst_pair`s among the edges (the compaction ratio, Hector §4.3)."""
        return self.counts[pairs] / max(1, self.counts["edge"])

    def degrees(self, end: str = "dst") -> Degrees:
        """In-degrees (of `dst`) or out-degrees (of `src`)."""
        count = np.bincount(self.maps[end], minlength=self.counts[self.domains[end][1]])
        return Degrees(float(count.mean()) if len(count) else 0.0, int(count.max(initial=0)), int((count == 0).sum()))

    @property
    def bytes(self) -> int:
        """What all arrays made so far take."""
        arrays = [self.edge_order, self.norm, self.in_degree, *self.maps.values()]
        return sum(array.nbytes for array in arrays) + sum(entry.bytes for entry in self._segments.values())

    def describe(self) -> dict[str, Any]:
        """The graph and its pre-processing, for display. Of two sets, `nodes` are those of both, each is a type, and
        `ends` are how many each has, by name."""
        ends = {end: self.counts[end] for end in dict.fromkeys(self.graph.ends)}
        degrees = {name: vars(self.degrees(end)) for name, end in (("in_degree", "dst"), ("out_degree", "src"))}
        return {
            "name": self.graph.name,
            "source": self.graph.source,
            "nodes": sum(ends.values()),
            "edges": self.counts["edge"],
            "etypes": self.counts["etype"],
            "ntypes": self.counts.get("ntype", len(ends)),
            **({"ends": ends} if len(ends) > 1 else {}),
            "etypes_used": len(np.unique(self.maps["etype"])),
            "src_pairs": self.counts["src_pair"],
            "dst_pairs": self.counts["dst_pair"],
            "compaction_ratio": self.ratio("src_pair"),
            "dst_compaction_ratio": self.ratio("dst_pair"),
            **degrees,
            "bytes": self.bytes,
            "preprocessing": [vars(step) for step in self.steps],
        }


def segments(array: Ids, count: int) -> Segments:
    """The inverse of a map into 0..count-1, itself given as an array."""
    ptr = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(array, minlength=count), out=ptr[1:])
    if _is_sorted(array):
        return Segments(ptr, None)
    return Segments(ptr, order_by((array, count)))


def _is_sorted(array: Ids) -> bool:
    return bool((array[1:] >= array[:-1]).all())


def encode(
    graph: RelationalGraph, limit: int = MEMORY_LIMIT, further: Sequence[str] = (), edges: str = USUAL_EDGES
) -> Encodings:
    """Sorts a graph's edges by the end `edges` and numbers its pairs. `further` are the sets of maps that will be made
    beside.

    Raises InputError where the arrays, with the segments of all maps, might take more than `limit` bytes; that is
    decided before any of them is made.
    """
    _check_memory(graph, limit, further)
    steps: list[Step] = []
    (other,) = {*EDGES} - {edges}
    with _timed(steps, f"sort edges by ({edges}, etype, {other})") as done:
        edge_order = _edge_order(graph, edges, other)
        src, dst, etype = (taken(array, edge_order) for array in (graph.src, graph.dst, graph.etype))
        done(f"{len(edge_order):,} edges")
    maps = {**graph.arrays(), "src": src, "dst": dst, "etype": etype}
    counts, domains = graph.sizes, graph.domains
    with _timed(steps, f"unique ({edges}, etype)") as done:
        first = _starts(maps[edges], etype)
        begins = np.flatnonzero(first)
        maps |= _pairs(edges, _numbers(first), maps[edges][begins], etype[begins])
        counts[f"{edges}_pair"] = len(begins)
        done(_share(len(begins), graph.num_edges))
    with _timed(steps, f"unique ({other}, etype)") as done:
        by_pair = order_by((etype, graph.num_etypes), (maps[other], counts[domains[other][1]]))
        first = _starts(taken(etype, by_pair), taken(maps[other], by_pair))
        kept = by_pair[first]
        own = scattered(_numbers(first), by_pair)
        maps |= _pairs(other, own, maps[other][kept], etype[kept])
        counts[f"{other}_pair"] = len(kept)
        ptr = np.append(np.flatnonzero(first), len(first)).astype(np.int32)
        done(_share(len(kept), graph.num_edges))
    with _timed(steps, "in-degrees, whole and by type") as done:
        alike = np.bincount(maps["dst_pair"], minlength=counts["dst_pair"])  # the edges of each pair
        norm = taken(np.float32(1) / alike.astype(np.float32), maps["dst_pair"])
        in_degree = np.bincount(maps["dst_pair_node"], weights=alike, minlength=counts[domains["dst"][1]]).astype(
            np.float32
        )
        done(f"at most {int(in_degree.max(initial=0)):,} in-edges a node")
    # The order that found the pairs is the inverse of their map: it need not be sorted for again.
    known = {f"{other}_pair": Segments(ptr, None if _is_sorted(own) else by_pair)}
    maps |= {name: _sorted(each, edge_order) for name, each in graph.declared.items()}
    counts = {each.codomain: each.count for each in graph.declared.values()} | counts
    return Encodings(graph, edge_order, maps, counts, norm, in_degree, domains, steps, known)


def _pairs(end: str, own: Ids, node: Ids, etype: Ids) -> dict[str, Ids]:
    """The maps of an end's pairs: each edge's own pair, and each pair's node and type."""
    return {f"{end}_pair": own, f"{end}_pair_node": node, f"{end}_pair_etype": etype}


def _sorted(declared: DeclaredMap, edge_order: Ids) -> Ids:
    """A declared map where edges are in the sorted order, as what is mapped and as what is mapped to."""
    ids = declared.ids
    if declared.codomain == "edge":
        places = np.empty_like(edge_order)
        places[edge_order] = np.arange(len(edge_order), dtype=edge_order.dtype)
        ids = places[ids]
    return ids[edge_order] if declared.domain == "edge" else ids


def _edge_order(graph: RelationalGraph, end: str, other: str) -> Ids:
    """The edges by (end, etype, other end); parallel edges in the order given."""
    ends, sizes = {"src": graph.src, "dst": graph.dst}, dict(zip(("src", "dst"), graph.ends, strict=True))
    first, last = ((ends[each], graph.sizes[sizes[each]]) for each in (end, other))
    return order_by(first, (graph.etype, graph.num_etypes), last)


def _starts(*columns: Ids) -> npt.NDArray[np.bool_]:
    """Which rows of sorted columns differ from the row before."""
    first = np.zeros(len(columns[0]), dtype=np.bool_)
    first[:1] = True
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first


def _numbers(first: npt.NDArray[np.bool_]) -> Ids:
    """Which run of equal rows each row is in, counting from 0."""
    numbers = np.cumsum(first, dtype=np.int32)
    numbers -= 1
    return numbers


def _share(pairs: int, edges: int) -> str:
    return f"{pairs:,} pairs" + (f", {100 * pairs / edges:.1f} % of the edges" if edges else "")


@contextmanager
def _timed(steps: list[Step], name: str) -> Iterator[Callable[[str], None]]:
    """Adds a step when its block ends; what is yielded takes the sentence on what was found."""
    said: list[str] = []
    began = time.perf_counter()
    yield said.append
    steps.append(Step(name, (time.perf_counter() - began) * 1e3, said[0]))


def _check_memory(graph: RelationalGraph, limit: int, further: Sequence[str]) -> None:
    """Bounds what encodings may come to: pairs are at most as many as edges."""
    own, sizes = graph_maps(graph.ends).values(), graph.sizes
    ends = {end: sizes[end] for end in graph.ends}
    by_edge = sum(domain not in ends for domain, _ in own)
    by_node = sum(count * (sum(codomain == end for _, codomain in own) + 3) for end, count in ends.items())
    # Each map and its order, the sorting of edges and norm; the node types with their order, pointers, in-degrees.
    domains = [*(each.domain for each in graph.declared.values()), *further]
    declared = [sizes.get(domain, graph.num_edges) for domain in domains]
    values = 4 * sum(declared) + sum(each.count for each in graph.declared.values())
    values += graph.num_edges * (2 * by_edge + 2 + 2) + by_node + 3 * graph.num_etypes
    if 4 * values > limit:
        raise InputError(
            f"{graph.name}: {sum(ends.values()):,} nodes and {graph.num_edges:,} edges might take"
            f" {4 * values / 2**30:,.2f} GiB with their encodings, more than the limit of {limit / 2**30:,.2f} GiB"
        )
