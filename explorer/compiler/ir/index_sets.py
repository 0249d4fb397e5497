"""How a graph's index sets are called in memory: the extents of arrays over them, and the arrays of a map's inverse.

Names that a model may not take (`node`, `entity`) are used as they are; the others make way for the model's own. So
the pass that writes the loops and the runtime that encodes a batch or a graph agree without asking each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.compiler.ir.graph import Graph, IndexMap, count_name
from explorer.compiler.ir.node import Extent, Names

CONTAINERS: Mapping[str, str] = {"negative": "batch"}
"""Sets whose elements belong to one of another, each to as many: a triple's negatives. Their arrays have two leading
dimensions, and a value of the container's is at hand wherever one of theirs is."""

PLURAL = frozenset({"node", "edge", "etype", "ntype", "src_pair", "dst_pair"})
"""The sets of graphs: arrays over them have the plural as their extent."""

ENDS = "_ends"
"""The extent `node_ends` of the array that holds where each node's segment begins: one more than `nodes`."""


def counted(ends: Extent) -> str:
    """The extent of the set whose ends these are."""
    index_set = str(ends).removesuffix(ENDS)
    return f"{index_set}s" if index_set in PLURAL else index_set


def ends_of(index_set: str) -> str:
    """The extent of the array that holds where the segments of a set's elements begin."""
    return f"{index_set}{ENDS}"


def containment(entry: IndexMap) -> bool:
    """Whether a map leads from each element to the one that it belongs to."""
    return CONTAINERS.get(entry.domain) == entry.codomain


@dataclass(frozen=True)
class SetNames:
    """The names of one graph's extents and inverse maps."""

    counts: Mapping[str, Extent]  # by set
    inverses: Mapping[str, tuple[str, str]]  # by map: where each segment begins, and the elements in that order

    @classmethod
    def of(cls, graph: Graph) -> SetNames:
        """The same for every graph with these sets and the same names of its own."""
        own = {name for name, _ in graph.sizes} | {tensor.name for tensor in graph.tensors}
        names = Names(own | {entry.name for entry in graph.maps})
        sets = [s for entry in graph.maps for s in (entry.domain, entry.codomain)]
        sets += [s for tensor in graph.tensors for s in tensor.sets]
        sets += [value.index_set for value in graph.values]
        counts: dict[str, Extent] = {}
        for index_set in dict.fromkeys(sets):
            if index_set == "unit" or index_set in PLURAL:
                counts[index_set] = count_name(index_set)
            else:
                counts[index_set] = names.new({"batch": "B", "negative": "BN"}.get(index_set, index_set))
        inverses = {e.name: (names.new(f"{e.name}_ptr"), names.new(f"{e.name}_order")) for e in graph.maps}
        return cls(counts, inverses)

    def taken(self) -> set[str]:
        """All of the names."""
        arrays = {name for pair in self.inverses.values() for name in pair}
        return arrays | {name for name in self.counts.values() if isinstance(name, str)}
