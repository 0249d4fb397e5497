"""Index sets of a layer: how large they are taken to be, and how maps lead from one to another."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.compiler.ir.graph import Contract, Elementwise, Graph, IndexMap, Reduce, Segment, Value

ASSUMED_COUNTS: Mapping[str, int] = {
    "batch": 1024,
    "negative": 1024 * 64,
    "node": 14_541,
    "edge": 620_232,
    "etype": 474,
    "ntype": 1,
    "src_pair": 161_260,
    "dst_pair": 161_260,
    "unit": 1,
}
"""Rows of each set where no data is given: those of FB15k-237 with inverse triples, which Hector calls fb15k."""

PAIR_MAPS = {
    "src_pair": (
        ("src_pair", "edge", "src_pair"),
        ("src_pair_node", "src_pair", "node"),
        ("src_pair_etype", "src_pair", "etype"),
    ),
    "dst_pair": (
        ("dst_pair", "edge", "dst_pair"),
        ("dst_pair_node", "dst_pair", "node"),
        ("dst_pair_etype", "dst_pair", "etype"),
    ),
}
"""The maps of the compact sets: from edges to the unique (end, type) pairs, and from those to node and type."""

THROUGH = {("dst_pair", "dst"): "dst_pair_node", ("src_pair", "src"): "src_pair_node"}
"""An edge's end is its pair's node: along the first map, the second goes on as the third."""

HOMES: tuple[tuple[frozenset[str], str, str], ...] = (
    (frozenset({"etype"}), "etype", "etype"),
    (frozenset({"src"}), "node", "src"),
    (frozenset({"dst"}), "node", "dst"),
    (frozenset({"src", "etype"}), "src_pair", "src_pair"),
    (frozenset({"dst", "etype"}), "dst_pair", "dst_pair"),
)
"""The smallest set through which given dependencies of an edge value factor, and the map from edges to it."""

STEPS = {
    "etype": {"etype": "etype"},
    "src": {"src": "node"},
    "dst": {"dst": "node"},
    "src_pair": {"src": "src_pair_node", "etype": "src_pair_etype"},
    "dst_pair": {"dst": "dst_pair_node", "etype": "dst_pair_etype"},
}
"""For each of those maps, the maps of edges as seen from its set; "node" and "etype" are the set's identity."""


def with_pairs(graph: Graph, sets: set[str]) -> tuple[IndexMap, ...]:
    """The graph's maps, and those of the compact sets that are not among them yet."""
    known = {entry.name for entry in graph.maps}
    added = [
        IndexMap(name=name, domain=domain, codomain=codomain, origin=())
        for index_set in ("src_pair", "dst_pair")
        if index_set in sets
        for name, domain, codomain in PAIR_MAPS[index_set]
        if name not in known
    ]
    return (*graph.maps, *added)


def work(graph: Graph, value: Value) -> int:
    """Floating-point operations for one row of a value, a multiplication and an addition counted as two.

    A segment's row counts one for each element that it adds, on average."""
    elements = 1
    for extent in value.shape:
        elements *= graph.size(extent)
    match value.operator:
        case Contract() as contract:
            inputs, _, out = contract.signature.partition("->")
            left, _, right = inputs.partition(",")
            shapes = graph.value(contract.left).shape + graph.value(contract.right).shape
            extents = dict(zip(left + right, shapes, strict=True))
            summed = [graph.size(extent) for letter, extent in extents.items() if letter not in out]
            for size in summed:
                elements *= size
            return 2 * elements if summed else elements
        case Reduce() as reduce:
            each = 2 if reduce.function.startswith("norm") else 1
            return each * elements * graph.size(graph.value(reduce.operand).shape[-1])
        case Elementwise():
            return elements
    return 0


def total_work(graph: Graph, counts: Mapping[str, int]) -> int:
    """Floating-point operations of all values on their sets."""
    total = 0
    for value in graph.values:
        rows = counts[value.index_set]
        if isinstance(value.operator, Segment):
            operand = graph.value(value.operator.operand)
            elements = 1
            for extent in value.shape:
                elements *= graph.size(extent)
            total += counts[operand.index_set] * elements
        total += rows * work(graph, value)
    return total
