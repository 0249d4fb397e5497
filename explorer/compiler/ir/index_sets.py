"""How a graph's index sets are called in memory: the extents of arrays over them, and the arrays of a map's inverse.

Layers and ops may not take the names (`nodes`, `dst_ptr`, `bags`), which are used as they are; for scores they make
way for the model's own. So the pass that writes the loops and the runtime that encodes a batch, a graph or lists agree
without asking each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.graph import Graph, IndexMap, plural
from explorer.compiler.ir.node import Extent, Names, once

CONTAINERS: Mapping[str, str] = {"negative": "batch"}
"""Sets whose elements belong to one of another, each to as many: a triple's negatives. Their arrays have two leading
dimensions, and a value of the container's is at hand wherever one of theirs is."""

SINGULAR = frozenset({"entity", "relation"})
"""The sets that a score's tensors are declared over: arrays over them have that name as their extent, others its plural
(`nodes`), since a layer's or an op's maps have the singular names."""

CONSTANT = frozenset({"unit", "etype", "ntype", "relation"})
"""The sets that do not grow with a graph or a batch: their elements are few, and each may have to do with all."""

ENTRIES = "entries"
"""The extent of what lists hold; a matrix has nonzeros, a graph edges."""
ENDS = "_ends"
"""The extent `node_ends` of the array that holds where each node's segment begins: one more than `nodes`."""


def counted(ends: Extent) -> str:
    """The extent of the set whose ends these are."""
    return str(count_name(str(ends).removesuffix(ENDS)))


def count_name(index_set: str) -> Extent:
    """The extent of arrays over a set: `nodes`, `entries`, `entity`."""
    if index_set in SINGULAR:
        return index_set
    return 1 if index_set == "unit" else plural(index_set)


def number_of(index_set: str) -> str:
    """What a call gives the number of a graph's elements as: `num_nodes`, `num_users`."""
    return f"num_{plural(index_set)}"


def is_of_lists(extent: Extent) -> bool:
    """Whether so many are the entries of lists; of several bags each has its own, `a_entries`."""
    return isinstance(extent, str) and (extent == ENTRIES or extent.endswith(f"_{ENTRIES}"))


def few(extent: Extent) -> bool:
    """Whether so many iterations are few, however large the graph or the batch is."""
    return isinstance(extent, int) or extent in {count_name(index_set) for index_set in CONSTANT}


def ends_of(index_set: str) -> str:
    """The extent of the array that holds where the segments of a set's elements begin."""
    return f"{index_set}{ENDS}"


def containment(entry: IndexMap) -> bool:
    """Whether a map leads from each element to the one that it belongs to."""
    return CONTAINERS.get(entry.domain) == entry.codomain


def is_given(entry: IndexMap) -> bool:
    """Whether a run's data has a map as an array; the others, which a backward pass adds, follow from these."""
    return entry.codomain != "unit" and not containment(entry) and not entry.paths


def shared_by(maps: Iterable[IndexMap], entry: IndexMap) -> int:
    """How many facts in a row have the same ids along one of a graph's maps: of computed ids, what divides those of all
    that they are computed of."""
    known = {each.name: each.sharing for each in maps}
    return gcd(*(known.get(path.split(".")[0], 1) for path in entry.paths)) or entry.sharing


def given_over(graph: Graph, index_set: str) -> str:
    """A map of a run's data that leads from a set."""
    return next(entry.name for entry in graph.maps if is_given(entry) and entry.domain == index_set)


def as_they_tell(maps: Iterable[IndexMap]) -> list[IndexMap]:
    """Maps in an order in which each may be checked: lists that facts share, behind what tells how many facts there
    are, and those that follow from others last."""
    return sorted(maps, key=lambda entry: (bool(entry.paths), entry.sharing > 1))


def is_of_fact(entry: IndexMap) -> bool:
    """Whether a map leads from a score's facts or their negatives, as its ids do; others its text declares."""
    return entry.domain in CONTAINERS or entry.domain in CONTAINERS.values()


def factors(maps: Iterable[IndexMap], entry: IndexMap) -> tuple[str, ...]:
    """The set that each path of a map leads to, among a graph's maps; one of several leads to their product."""
    codomains = {known.name: known.codomain for known in maps}
    return tuple(entry.domain if path == entry.domain else codomains[path.split(".")[-1]] for path in entry.paths)


def with_products(graph: Graph, counts: Mapping[str, int]) -> dict[str, int]:
    """The sizes of sets, with those of the graph's products of sets."""
    sizes: dict[str, int] = {}
    for entry in graph.maps:
        if entry.paths:
            count = entry.count([counts[each] for each in factors(graph.maps, entry)])
            known = counts.get(entry.codomain, 0) if entry.computed else 0  # a table may have more rows than are picked
            sizes[entry.codomain] = max(count, known, sizes.get(entry.codomain, 0))
    return {**counts, **sizes}


STARTS, ORDER = "_ptr", "_order"
"""Behind a map's name, the array of where each segment of its inverse begins, and the elements in that order."""


@dataclass(frozen=True)
class SetNames:
    """The names of one graph's extents and inverse maps."""

    counts: Mapping[str, Extent]  # by set
    inverses: Mapping[str, tuple[str, str]]  # by map: where each segment begins, and the elements in that order

    @classmethod
    def of(cls, graph: Graph) -> SetNames:
        """The same for every graph with these sets and the same names of its own."""
        return _set_names(graph)

    def taken(self) -> set[str]:
        """All of the names."""
        arrays = {name for pair in self.inverses.values() for name in pair}
        counts = {name for name in self.counts.values() if isinstance(name, str)}
        return arrays | counts | set(map(ends_of, self.counts))


@once
def _set_names(graph: Graph) -> SetNames:
    own = {name for name, _ in graph.sizes} | {tensor.name for tensor in graph.tensors}
    names = Names(own | {entry.name for entry in graph.maps})
    sets = [s for entry in graph.maps for s in (entry.domain, entry.codomain)]
    sets += [s for tensor in graph.tensors for s in tensor.sets]
    sets += [value.index_set for value in graph.values]
    counts: dict[str, Extent] = {}
    for index_set in dict.fromkeys(sets):
        counts[index_set] = count_name(index_set)
        if graph.family == "score" and index_set != "unit":
            counts[index_set] = names.new({"batch": "B", "negative": "BN"}.get(index_set, str(counts[index_set])))
    inverses = {e.name: (names.new(f"{e.name}{STARTS}"), names.new(f"{e.name}{ORDER}")) for e in graph.maps}
    return SetNames(counts, inverses)
