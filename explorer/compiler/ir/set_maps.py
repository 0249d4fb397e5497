"""Index sets of a layer: how maps lead from one to another, and what is computed on them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import pairwise

from explorer.compiler.counts import Counts
from explorer.compiler.ir.graph import NODES, Ends, Graph, IndexMap
from explorer.compiler.ir.index_sets import count_name, is_given
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.work import work_of
from explorer.compiler.options import EDGES

PAIRS = ("src_pair", "dst_pair")
"""The compact sets: the unique (end, type) pairs of edges."""

THROUGH = {("dst_pair", "dst"): "dst_pair_node", ("src_pair", "src"): "src_pair_node"}
"""An edge's end is its pair's node: along the first map, the second goes on as the third."""

SORTED_LISTS = {"bag": "entry", "query": "entry", "row": "nonzero"}
"""The maps of an op by which their domain, which is beside each, is sorted."""


@cache
def graph_maps(ends: Ends) -> Mapping[str, tuple[str, str]]:
    """The maps that every graph with these ends has, each with the set that it leads from and the one that it leads
    to: nodes have types where they are one set."""
    source, destination = ends
    return {
        "src": ("edge", source),
        "dst": ("edge", destination),
        "etype": ("edge", "etype"),
        **({"ntype": ("node", "ntype")} if ends == NODES else {}),
        **{name: place for pair in pair_maps(ends).values() for name, place in pair.items()},
    }


EDGE, ETYPE = "edge", "etype"
"""The edges of a layer's graph and their types; those of a further one have its name before them, `q_edge`."""


def beside_edges(name: str) -> tuple[str, str]:
    """The edges of a layer's further graph of that name, and their types."""
    return f"{name}_{EDGE}", f"{name}_{ETYPE}"


def edges_beside(graph: Graph) -> tuple[str, ...]:
    """The sets of edges of a layer's further graphs, in order: those that its maps lead from beside the first one's."""
    own = {*graph.ends, EDGE, *PAIRS}
    given = (entry.domain for entry in graph.maps if is_given(entry) and graph.family == "layer")
    return tuple(dict.fromkeys(domain for domain in given if domain not in own))


def beside_of(graph: Graph) -> Mapping[str, str]:
    """Those sets, each with that of its types, by what loops call their sizes."""
    both = (each for edges in edges_beside(graph) for each in beside_edges(edges.removesuffix(f"_{EDGE}")))
    return {str(count_name(index_set)): index_set for index_set in both}


def types_edges(entry: IndexMap) -> bool:
    """Whether a map leads from the edges of a layer's further graph to their types."""
    return (entry.domain, entry.codomain) == beside_edges(entry.name.removesuffix(f"_{ETYPE}"))


@cache
def pair_maps(ends: Ends) -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """The maps of the compact sets: from edges to the pairs, and from those to the element of an end and the type."""
    return {
        pair: {pair: ("edge", pair), f"{pair}_node": (pair, end), f"{pair}_etype": (pair, "etype")}
        for pair, end in zip(PAIRS, ends, strict=True)
    }


@cache
def homes(ends: Ends) -> tuple[tuple[frozenset[str], str, str], ...]:
    """The smallest set through which given dependencies of an edge value factor, and the map from edges to it."""
    source, destination = ends
    return (
        (frozenset({"etype"}), "etype", "etype"),
        (frozenset({"src"}), source, "src"),
        (frozenset({"dst"}), destination, "dst"),
        (frozenset({"src", "etype"}), "src_pair", "src_pair"),
        (frozenset({"dst", "etype"}), "dst_pair", "dst_pair"),
    )


@cache
def steps(ends: Ends) -> Mapping[str, Mapping[str, str]]:
    """For each of those maps, the maps of edges as seen from its set; the set's own name is its identity."""
    source, destination = ends
    return {
        "etype": {"etype": "etype"},
        "src": {"src": source},
        "dst": {"dst": destination},
        "src_pair": {"src": "src_pair_node", "etype": "src_pair_etype"},
        "dst_pair": {"dst": "dst_pair_node", "etype": "dst_pair_etype"},
    }


@cache
def sorted_maps(edges: str) -> Mapping[str, str]:
    """The maps by which their domain, which is beside each, is sorted, where edges are by the end `edges`, and then by
    etype: the pairs of that end and a type are numbered as the edges are, those of the other end by type. Entries of a
    bag and nonzeros of a row stand side by side likewise. A score's arguments may have such names, and no order."""
    (other,) = {*EDGES} - {edges}
    pair, others = f"{edges}_pair", f"{other}_pair"
    return {edges: "edge", pair: "edge", f"{pair}_node": pair, f"{others}_etype": others, **SORTED_LISTS}


def sorted_domain(name: str, edges: str) -> str:
    """The set that a sorted map of that name leads from, `entry` of `bag`, and of several bags `a_entry` of `a_bag`; ""
    where there is none. Edges are by the end `edges`."""
    prefix, bag, end = name.rpartition("_bag")
    return f"{prefix}_entry" if prefix and bag and not end else sorted_maps(edges).get(name, "")


def is_sorted(entry: IndexMap, edges: str) -> bool:
    """Whether a map's domain is in its order where edges are by the end `edges`: a segment's elements stand next to one
    another."""
    return sorted_domain(entry.name, edges) == entry.domain


def holds_sorted(array: Buffer, edges: str) -> bool:
    """Whether an array of indices is such a map, and so ascends."""
    domain = sorted_domain(array.name, edges)
    return bool(domain) and array.extents == (count_name(domain),)


def listed_in(graph: Graph) -> tuple[tuple[IndexMap, IndexMap], ...]:
    """Of an op's graph, for each of its lists the map from entries to their owners and that to what they pick: one
    pair, or of several bags one each."""
    return tuple((home, pick) for home, pick in pairwise(graph.maps) if is_sorted(home, graph.edges))


def ends_of(graph: Graph) -> Mapping[str, str]:
    """The sets that a layer's edges lead from and to, by what loops call their sizes."""
    return {str(count_name(index_set)): index_set for index_set in graph.ends}


def sets_of(graph: Graph) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """What counts are of: a layer's `ends_of` and `beside_of`."""
    return ends_of(graph), beside_of(graph)


def with_pairs(graph: Graph, sets: set[str]) -> tuple[IndexMap, ...]:
    """The graph's maps, and those of the compact sets that are not among them yet."""
    known = {entry.name for entry in graph.maps}
    added = [
        IndexMap(name=name, domain=domain, codomain=codomain, origin=())
        for index_set, maps in pair_maps(graph.ends).items()
        if index_set in sets
        for name, (domain, codomain) in maps.items()
        if name not in known
    ]
    return (*graph.maps, *added)


def total_work(graph: Graph, counts: Counts) -> int:
    """Floating-point operations of all values on their sets."""
    return sum(counts[index_set] * flop for index_set, flop in (work_of(graph, value) for value in graph.values))
