"""Where a layer's graph comes from: generated presets, and files of triples read as relational graphs.

A problem with a source is an InputError, as for triples.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.ir.graph import NODES, Ends, plural
from explorer.compiler.ir.index_sets import count_name
from explorer.compiler.ir.set_maps import graph_maps
from explorer.runtime.data import triples as inputs
from explorer.runtime.data.blocks import blocks_of
from explorer.runtime.data.triples import MAX_COUNT, Ids, InputError, Triples, available_files, load_triples

GENERATED = "preset, generated"
MAX_NTYPE_BYTES = 1 << 30
"""The most that an array with an entry a node may take: an archive of a few bytes may claim any number of nodes."""


@dataclass(frozen=True)
class GraphPreset:
    """The size of a published graph, and the share of a type's nodes that the edges of one type start or end at."""

    num_nodes: int
    num_edges: int
    num_ntypes: int
    num_etypes: int
    reach: float = 0.4
    node_counts: tuple[int, ...] = ()
    """The nodes of each type, where they are known; otherwise they are shared out."""
    joins: tuple[tuple[int, int, int], ...] = ()
    """Of each edge type the types of its source and its destination, and its edges; otherwise they are drawn."""
    pairs: tuple[int, int] | None = None
    """The unique (source, type) and (destination, type) pairs that `generate` makes, found by generating it once."""


GRAPH_PRESETS: dict[str, GraphPreset] = {
    "tiny": GraphPreset(12, 30, 3, 6, reach=0.6, pairs=(12, 10)),
    "small": GraphPreset(400, 3_000, 3, 8, reach=0.6, pairs=(601, 577)),
    "aifb": GraphPreset(7_262, 48_810, 7, 104, pairs=(21_814, 21_608)),
    "mutag": GraphPreset(27_163, 148_100, 5, 50, pairs=(61_013, 61_992)),
    "bgs": GraphPreset(94_806, 672_884, 27, 122, pairs=(166_508, 145_591)),
    "am": GraphPreset(1_885_136, 5_668_682, 7, 108, reach=0.316, pairs=(3_229_324, 3_145_543)),
    "mag": GraphPreset(
        *(1_939_743, 21_111_007, 4, 4),
        reach=1.0,
        # Papers, authors, institutions, fields of study; affiliated with, writes, cites, has topic (OGB).
        node_counts=(736_389, 1_134_649, 8_740, 59_965),
        joins=((1, 2, 1_043_998), (1, 0, 7_145_660), (0, 0, 5_416_271), (0, 3, 7_505_078)),
        pairs=(3_153_132, 1_530_351),
    ),
    "wikikg2": GraphPreset(2_500_604, 16_109_182, 1, 535, pairs=(14_723_476, 14_723_192)),
    "fb15k": GraphPreset(14_541, 620_232, 1, 474, reach=0.029, pairs=(159_568, 159_649)),
    "biokg": GraphPreset(93_773, 4_762_678, 5, 51, pairs=(473_191, 437_620)),
}
"""The graphs of Hector's Table 3, with the exact counts that DGL and OGB publish for what it rounds, and two small
ones. Only the sizes are theirs: the edges are generated."""

NODE_SKEW, ETYPE_SKEW = 0.55, 0.52
"""P(rank < x * n) = x ** (1 - skew), as for generated triples: the busiest 1 % of the edge types of a preset have
about a tenth of its edges. `reach` is chosen so that the share of distinct pairs of source and edge type among the
edges is Hector's for fb15k (26 %) and am (57 %), §4.3."""


@dataclass(frozen=True, eq=False)
class DeclaredMap:
    """A map from edges or nodes to a set of so many elements, which a layer's text declares."""

    domain: str
    codomain: str
    count: int
    ids: Ids


@dataclass(frozen=True, eq=False)
class RelationalGraph:
    """Edge i goes from src[i] to dst[i] and has type etype[i]; node v has type ntype[v].

    Where edges lead from one set to another, `ends`, `num_nodes` are of the first and `num_destinations` of the second,
    and neither has types."""

    name: str
    source: str  # "preset, generated" or "file, with inverse triples"
    num_nodes: int
    num_etypes: int
    num_ntypes: int
    src: Ids
    dst: Ids
    etype: Ids
    ntype: Ids
    declared: Mapping[str, DeclaredMap] = field(default_factory=dict)
    """The maps that a layer declares beside these, by name, and those of its further graphs."""
    ends: Ends = NODES
    num_destinations: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        """How many elements the sets of its own have, and the edges of the graphs that a layer has beside it."""
        one = self.ends == NODES
        ends = dict(zip(self.ends, (self.num_nodes, self.num_nodes if one else self.num_destinations), strict=True))
        types = {"ntype": self.num_ntypes} if one else {}
        own = {**ends, "edge": self.num_edges, "etype": self.num_etypes, **types}
        return {**{each.domain: len(each.ids) for each in self.declared.values()}, **own}

    @property
    def members(self) -> tuple[str, ...]:
        """The sets of edges, its own and those of the graphs that a layer has beside it."""
        own = {*self.ends, "edge"}
        return ("edge", *dict.fromkeys(e.domain for e in self.declared.values() if e.domain not in own))

    @property
    def domains(self) -> dict[str, tuple[str, str]]:
        """The set that each of its maps is over, and the set that it leads to; those of pairs too."""
        declared = {name: (each.domain, each.codomain) for name, each in self.declared.items()}
        return {**graph_maps(self.ends), **declared}

    @property
    def num_edges(self) -> int:
        """The number of edges, parallel ones counted one by one."""
        return len(self.src)

    def arrays(self) -> dict[str, Ids]:
        """Its arrays by the names that a layer's maps have."""
        declared = {name: each.ids for name, each in self.declared.items()}
        types = {"ntype": self.ntype} if self.ends == NODES else {}
        return {"src": self.src, "dst": self.dst, "etype": self.etype, **types, **declared}


def load_graph(source: str, data_dir: Path | None = None, ends: Ends = NODES) -> RelationalGraph:
    """The graph of a preset, or of a file of triples with their inverses; for a layer whose edges lead from one set to
    another, `ends`, that of `from_heads` or `twice`.

    A triple is an edge from its head to its tail, of its relation's type; its inverse goes back with the type
    relation + the number of relations. `data_dir` restricts what is looked up, as for `load_triples`; a preset of
    triples that is no preset of graphs is taken like a file. Raises InputError.
    """
    if source.lower() in GRAPH_PRESETS:
        made = generate(source.lower(), GRAPH_PRESETS[source.lower()])
        return made if ends == NODES else twice(made, ends)
    _refuse_unknown(source, data_dir)
    triples = load_triples(source, data_dir)
    return with_inverses(triples) if ends == NODES else from_heads(triples, ends)


def available_graphs(data_dir: Path | None) -> list[dict[str, Any]]:
    """What a page may offer: the files of `data_dir` that hold triples, then the presets."""
    generated = [
        {
            "name": name,
            "label": f"{name} (generated)",
            "generated": True,
            "nodes": preset.num_nodes,
            "edges": preset.num_edges,
            "ntypes": preset.num_ntypes,
            "etypes": preset.num_etypes,
        }
        for name, preset in GRAPH_PRESETS.items()
    ]
    return [*map(as_graph, available_files(data_dir)), *generated]


def as_graph(triples: Mapping[str, Any]) -> dict[str, Any]:
    """A file's entry among graphs, of that among triples: `load_graph` adds their inverses."""
    return {
        "name": triples["name"],
        "label": f"{triples['name']} (file, with inverse triples)",
        "generated": False,
        "nodes": triples["entities"],
        "edges": 2 * triples["triples"],
        "ntypes": 1,
        "etypes": 2 * triples["relations"],
    }


def graph_counts(source: str, data_dir: Path | None = None, ends: Ends = NODES) -> dict[str, int]:
    """The sizes of a graph's index sets as `explorer.compile` takes them, between `ends`; those of presets without
    making the graph.

    `source` is what `load_graph` takes. Raises InputError.
    """
    preset = GRAPH_PRESETS.get(source.lower())
    if preset is None or preset.pairs is None:
        path = Path(source) if data_dir is None else data_dir / source
        return dict(_file_counts(source, data_dir, ends, path.stat().st_mtime_ns if path.is_file() else 0))
    types = {"ntype": preset.num_ntypes} if ends == NODES else {}
    sizes = dict.fromkeys(ends, preset.num_nodes) | {"edge": preset.num_edges, "etype": preset.num_etypes, **types}
    return _named(sizes, *preset.pairs)


@lru_cache(maxsize=32)
def _file_counts(source: str, data_dir: Path | None, ends: Ends, changed: int) -> dict[str, int]:
    graph = load_graph(source, data_dir, ends)
    pairs = [np.unique(ids.astype(np.int64) * graph.num_etypes + graph.etype) for ids in (graph.src, graph.dst)]
    return _named(graph.sizes, *map(len, pairs))


def _named(sizes: Mapping[str, int], src_pairs: int, dst_pairs: int) -> dict[str, int]:
    """The sizes of sets, and how many pairs there are, by what counts are called."""
    named = {str(count_name(name)): size for name, size in sizes.items()}
    return {**named, "src_pairs": src_pairs, "dst_pairs": dst_pairs}


def _refuse_unknown(source: str, data_dir: Path | None) -> None:
    """Raises InputError for what is no graph, no triples and no file, in the words of whoever wants a graph."""
    if source.lower() in {name.lower() for name in inputs.PRESETS}:
        return
    if data_dir is not None:
        files = [path.name for path in inputs.data_files(data_dir)]
        if source not in files:
            raise InputError(inputs.unknown_name(source, [*GRAPH_PRESETS, *files]))
    elif inputs.is_plain_name(source) and len(source) < 256 and not Path(source).exists():
        raise InputError(inputs.unknown_name(source, list(GRAPH_PRESETS)))


def with_inverses(triples: Triples) -> RelationalGraph:
    """The triples as edges of a graph with one type of node, followed by their inverses. Raises InputError."""
    count = triples.num_relations
    if 2 * count > MAX_COUNT:
        raise InputError(f"{triples.name}: {count:,} relations and their inverses are more than {MAX_COUNT:,}")
    if 4 * triples.num_entities > MAX_NTYPE_BYTES:
        raise InputError(
            f"{triples.name}: the types of {triples.num_entities:,} nodes would take"
            f" {4 * triples.num_entities / 2**30:,.2f} GiB, more than the limit of {MAX_NTYPE_BYTES >> 30} GiB"
        )
    return RelationalGraph(
        name=triples.name,
        source=f"{triples.source.split(',')[0]}, with inverse triples",
        num_nodes=triples.num_entities,
        num_etypes=2 * count,
        num_ntypes=1,
        src=np.concatenate([triples.h, triples.t]),
        dst=np.concatenate([triples.t, triples.h]),
        etype=np.concatenate([triples.r, triples.r + np.int32(count)]),
        ntype=np.zeros(triples.num_entities, dtype=np.int32),
    )


def twice(graph: RelationalGraph, ends: Ends) -> RelationalGraph:
    """The graph's edges from its nodes, as elements of one set, to its nodes as those of another."""
    source, destination = map(plural, ends)
    return replace(
        graph,
        source=f"{graph.source}, its nodes as {source} and as {destination}",
        num_ntypes=0,
        ntype=np.zeros(0, dtype=np.int32),
        ends=ends,
        num_destinations=graph.num_nodes,
    )


def from_heads(triples: Triples, ends: Ends) -> RelationalGraph:
    """The triples as edges from one set, the heads that there are, to another, the tails that there are; of their
    relations' types, without inverses."""
    (heads, src), (tails, dst) = (np.unique(ids, return_inverse=True) for ids in (triples.h, triples.t))
    source, destination = map(plural, ends)
    return RelationalGraph(
        name=triples.name,
        source=f"{triples.source.split(',')[0]}, heads as {source} and tails as {destination}",
        num_nodes=len(heads),
        num_etypes=triples.num_relations,
        num_ntypes=0,
        src=src.reshape(-1).astype(np.int32),
        dst=dst.reshape(-1).astype(np.int32),
        etype=triples.r,
        ntype=np.zeros(0, dtype=np.int32),
        ends=ends,
        num_destinations=len(tails),
    )


def graph_from_edges(
    edges: Iterable[tuple[int, int, int]], ntypes: Iterable[int], num_etypes: int, name: str = "edges"
) -> RelationalGraph:
    """A graph written out: an edge is (source, edge type, destination); `ntypes` has one entry a node.

    Raises InputError where an id is out of range.
    """
    columns = np.array(list(edges), dtype=np.int64).reshape(-1, 3)
    ntype = np.array(list(ntypes), dtype=np.int64)
    num_ntypes = int(ntype.max(initial=0)) + 1
    for role, ids, limit in (
        ("source", columns[:, 0], len(ntype)),
        ("edge type", columns[:, 1], num_etypes),
        ("destination", columns[:, 2], len(ntype)),
        ("node type", ntype, num_ntypes),
    ):
        wrong = np.flatnonzero((ids < 0) | (ids >= limit))
        if len(wrong):
            raise InputError(f"{name}: row {wrong[0]} has {role} {ids[wrong[0]]}, which is not in 0..{limit - 1}")
    src, etype, dst = (np.ascontiguousarray(columns[:, column], dtype=np.int32) for column in range(3))
    return RelationalGraph(name, name, len(ntype), num_etypes, num_ntypes, src, dst, etype, ntype.astype(np.int32))


def generate(name: str, preset: GraphPreset) -> RelationalGraph:
    """A preset's graph, the same on every call.

    Nodes of a type are numbered one after another, as DGL's homogeneous form of a graph has them. Each edge type
    joins one type of nodes with one type of nodes (canonical types) and has at least one edge. Busy nodes and busy
    types have far more edges than others; some nodes have none, and some edges are parallel.
    """
    random = np.random.default_rng(zlib.crc32(name.encode()))
    starts = _type_starts(preset)
    ends, etype = _edge_types(random, preset, np.diff(starts))
    order = np.concatenate([random.permutation(np.arange(a, b, dtype=np.int32)) for a, b in _pairs(starts)])
    endpoints = [_pick_nodes(random, order, starts, ntypes, etype, preset.reach) for ntypes in ends]
    return RelationalGraph(
        name=name,
        source=GENERATED,
        num_nodes=preset.num_nodes,
        num_etypes=preset.num_etypes,
        num_ntypes=preset.num_ntypes,
        src=endpoints[0],
        dst=endpoints[1],
        etype=etype,
        ntype=np.repeat(np.arange(preset.num_ntypes, dtype=np.int32), np.diff(starts)),
    )


def _pairs(starts: npt.NDArray[np.int64]) -> Iterable[tuple[int, int]]:
    return zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)


def _type_starts(preset: GraphPreset) -> npt.NDArray[np.int64]:
    """Where each node type's nodes start, [ntypes + 1]: type k has a share of 1 / (k + 1), and at least a node."""
    if preset.node_counts:
        return np.cumsum([0, *preset.node_counts])
    shares = 1 / np.arange(1, preset.num_ntypes + 1)
    spare = preset.num_nodes - preset.num_ntypes
    ends = np.floor(spare * np.cumsum(shares) / shares.sum() + 1e-9).astype(np.int64)
    return np.concatenate([[0], ends + np.arange(1, preset.num_ntypes + 1)])


def _edge_types(
    random: np.random.Generator, preset: GraphPreset, counts: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int32], Ids]:
    """The node types that each edge type joins, [2, etypes], and the type of each edge.

    Drawn ones leave no node type without an edge type that starts, or one that ends, at it; types with many nodes
    have more of them.
    """
    if preset.joins:
        sources, targets, edges = zip(*preset.joins, strict=True)
        return np.array([sources, targets], dtype=np.int32), np.repeat(np.arange(len(edges), dtype=np.int32), edges)
    shares = np.sqrt(counts)
    ends = random.choice(preset.num_ntypes, size=(2, preset.num_etypes), p=shares / shares.sum()).astype(np.int32)
    covered = min(preset.num_ntypes, preset.num_etypes)
    for column in range(2):
        ends[column, random.permutation(preset.num_etypes)[:covered]] = random.permutation(preset.num_ntypes)[:covered]
    order = random.permutation(preset.num_etypes).astype(np.int32)
    return ends, inputs.skewed(random, preset.num_edges, order, ETYPE_SKEW)


def _pick_nodes(
    random: np.random.Generator, order: Ids, starts: npt.NDArray[np.int64], ntypes: Ids, etype: Ids, reach: float
) -> Ids:
    """An end for every edge, among the shuffled nodes: `ntypes` [etypes] is the type of node that it must have.

    The edges of one type fall on a window of that type's nodes, mostly on its first; windows start mostly at the
    first nodes of all, so that some nodes are busy in many types.
    """
    counts = np.diff(starts)[ntypes]
    widths = np.maximum(1, (counts * reach).astype(np.int64))
    offsets = (counts * inputs.shares(random, len(ntypes), NODE_SKEW)).astype(np.int64)
    first, found = starts[ntypes], np.empty(len(etype), dtype=np.int32)
    for rows in blocks_of(len(etype)):
        types = etype[rows]
        places = (widths[types] * inputs.shares(random, len(types), NODE_SKEW)).astype(np.int64)
        places += offsets[types]
        places -= counts[types] * (places >= counts[types])  # a window that ends goes on at the first
        places += first[types]
        found[rows] = order[places]
    return found
