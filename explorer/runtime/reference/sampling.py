"""Which rows of a large result are checked, and what the reference needs for them.

A result of gigabytes is not computed in float64 as a whole: rows are drawn, those of highest degree among them, and
the reference is asked for these, on a part of the data that holds all that they depend on. What that is, the values of
the model's graph tell from the last to the first: a sum over a row's edges needs these edges, a value gathered by a map
the rows that the map leads to, a degree all edges that it counts. Were something left out, the reference would give
other numbers than the run and a right result be called wrong; a wrong one is never excused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.ir.graph import Gather, Graph, Segment, Value, operands
from explorer.compiler.ir.work import elements, row_flop, used_values
from explorer.compiler.returned import as_returned, each_returned, for_each_returned

Ids = npt.NDArray[np.integer]

MOST_ROWS = 512
"""So many rows are drawn, seven of eight among those that sum anything."""
HUBS = 8
"""So many of those of highest degree are taken besides."""
MOST_ELEMENTS = 1 << 26
"""Numbers that the widest computed value may have on the part; for more, fewer rows are taken."""


MOST_NUMBERS = 1 << 29
"""Numbers that the reference computes for a whole result: at 15 to 30 ns each, so many take some ten seconds."""
PRODUCTS = 128
"""So many operations of a matrix product take as long as a number does that is made by itself."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """The `rows` of a set that are checked, of how many, and the `places` where they lie in the reference's part."""

    rows: Ids
    places: Ids
    of: int

    def taken(self, result: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The checked rows of a whole result; what has another number of rows is left as it is."""
        return result[self.rows] if len(result) == self.of else result


@dataclass(frozen=True, eq=False)
class Sample:
    """What is checked of each result, drawn by a seed but for the `hubs` of highest degree.

    `kept` are by set the elements that the reference's part of the data has, ascending."""

    drawn: Drawn | tuple[Drawn, ...]
    seed: int
    hubs: int
    kept: Mapping[str, Ids] = field(default_factory=dict)

    @property
    def rows(self) -> Ids:
        """The checked rows of the first result."""
        return each_returned(self.drawn)[0].rows

    @property
    def of(self) -> int:
        """How many there are."""
        return each_returned(self.drawn)[0].of

    @property
    def places(self) -> Ids | tuple[Ids, ...]:
        """Where the rows of each result lie in that of the reference's part."""
        return for_each_returned(lambda drawn: drawn.places, self.drawn)

    def taken(self, result: Any) -> Any:
        """The checked rows of a whole result, or of each of several."""
        if isinstance(self.drawn, Drawn):
            return for_each_returned(self.drawn.taken, result)
        return for_each_returned(lambda drawn, rows: drawn.taken(rows), self.drawn, result)

    def to_json(self) -> dict[str, int]:
        return {"rows": len(self.rows), "of": self.of, "seed": self.seed, "highest_degree": self.hubs}


@dataclass(frozen=True)
class Data:
    """A model's graph with the arrays of its data's maps, from which set each leads to which, and the sizes of the sets
    that a part is taken of, and of the others, which are few: `whole`."""

    graph: Graph
    maps: Mapping[str, Ids]
    ends: Mapping[str, tuple[str, str]]
    counts: Mapping[str, int]
    whole: Mapping[str, int] = field(default_factory=dict)

    def ends_of(self, name: str) -> tuple[str, str]:
        """From which set a map leads to which: those to one place are not among the data's."""
        if name in self.ends:
            return self.ends[name]
        return next((entry.domain, entry.codomain) for entry in self.graph.maps if entry.name == name)


def takes_long(data: Data) -> bool:
    """Whether the reference computes so many numbers for all rows that some are drawn."""
    return sum(_numbers(data, value) for value in used_values(data.graph)) > MOST_NUMBERS


def _numbers(data: Data, value: Value) -> int:
    """The numbers of a value, or those that a sum reads, and the operations of a product as numbers. Matrices are not
    gathered."""
    if isinstance(value.operator, Gather) and len(value.shape) > 1:
        return 0
    read = data.graph.value(value.operator.operand) if isinstance(value.operator, Segment) else value
    rows = data.counts.get(read.index_set, 1)
    return rows * (elements(data.graph, read) + row_flop(data.graph, value) // PRODUCTS)


def draw(data: Data, seed: int) -> Sample:
    """A sample of the results' rows, the same of those of one set, with all that they depend on."""
    sets = [data.graph.value(name).index_set for name in data.graph.results]
    degrees = {each: _degrees(data, each) for each in dict.fromkeys(sets) if each in data.counts}
    computed = [value for value in data.graph.values if not isinstance(value.operator, Gather)]
    width = max((elements(data.graph, value) for value in computed), default=1)
    most, hubs = MOST_ROWS, HUBS
    while True:
        found = {each: _rows(known, len(known), most, hubs, seed) for each, known in degrees.items()}
        # Of no set there is one row.
        rows = {each: found[each][0] if each in found else np.arange(data.whole.get(each, 1)) for each in sets}
        kept = needed(data, as_returned(rows[each] for each in sets))
        least = not degrees or most + hubs <= 1
        if max(len(ids) for ids in kept.values()) * width <= MOST_ELEMENTS or least:
            sizes = {**data.whole, **data.counts}
            drawn = {each: _drawn(rows[each], kept.get(each), sizes.get(each, 1)) for each in sets}
            of_hubs = found[sets[0]][1] if sets[0] in found else 0
            return Sample(as_returned(drawn[each] for each in sets), seed, of_hubs, kept)
        most, hubs = most // 2, max(1, hubs // 2)


def numbered(sample: Sample, graph: Graph, counts: Mapping[str, int], members: str) -> Sample:
    """The sample with all elements of all sets but that of `members`: what is computed of their numbers stays."""
    kept: dict[str, Ids] = {name: np.arange(count) for name, count in counts.items()}
    kept[members] = sample.kept[members]

    def placed(drawn: Drawn, name: str) -> Drawn:
        return drawn if graph.value(name).index_set == members else replace(drawn, places=drawn.rows)

    return replace(sample, kept=kept, drawn=for_each_returned(placed, sample.drawn, graph.results))


def _drawn(rows: Ids, kept: Ids | None, count: int) -> Drawn:
    return Drawn(rows, rows if kept is None else np.searchsorted(kept, rows), count)


def draw_batch(count: int, seed: int) -> Sample:
    """A sample of a batch's rows, each of which depends on its own triple alone."""
    rows, _ = _rows(np.zeros(count), count, MOST_ROWS, 0, seed)
    return Sample(Drawn(rows, np.arange(len(rows)), count), seed, 0)


def _rows(degrees: npt.NDArray[Any], count: int, most: int, hubs: int, seed: int) -> tuple[Ids, int]:
    """Rows of highest degree, and others drawn; and how many the first are."""
    random, summing = np.random.default_rng(seed), np.flatnonzero(degrees)
    hubs = min(hubs, len(summing))
    first = np.argpartition(degrees, count - hubs)[count - hubs :] if hubs else np.zeros(0, dtype=np.int64)
    # Of most graphs most rows sum nothing: the greater part is of those that do.
    drawn = random.choice(summing, min(most - most // 8, len(summing)), replace=False)
    others = random.choice(count, min(most - len(drawn), count), replace=False)
    return np.unique(np.concatenate([first, drawn, others])).astype(np.int64), hubs


def _degrees(data: Data, index_set: str) -> npt.NDArray[Any]:
    """How many elements a row sums, or of how many it is one where sums are over rows like it."""
    found = np.zeros(data.counts[index_set], dtype=np.int64)
    for name in sorted({v.operator.map for v in data.graph.values if isinstance(v.operator, Segment)}):
        domain, codomain = data.ends_of(name)
        if index_set in (domain, codomain) and codomain in data.counts:
            sizes = np.bincount(data.maps[name], minlength=data.counts[codomain])
            found += sizes if index_set == codomain else sizes[data.maps[name]]
    return found


def needed(data: Data, rows: Ids | tuple[Ids, ...]) -> dict[str, Ids]:
    """By set, the elements that some rows of the result, or of each of several, depend on, with all that these belong
    to."""
    found = _Needs(data)
    for name, own in zip(data.graph.results, each_returned(rows), strict=True):
        found.mark(name, own)
    for value in reversed(data.graph.values):
        if value.name in found.of:
            found.operands_of(value)
    return found.elements()


class _Needs:
    """Marks elements of sets, and of each value those that are needed."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.sets = {value.name: value.index_set for value in data.graph.values}
        self.of: dict[str, npt.NDArray[np.bool_]] = {}  # by value
        self.present = {name: np.zeros(count, dtype=np.bool_) for name, count in data.counts.items()}

    def mark(self, name: str, rows: Ids | npt.NDArray[np.bool_]) -> None:
        """Elements of a value's set; what belongs to no set is always there."""
        index_set = self.sets[name]
        if index_set in self.present:
            self.of.setdefault(name, np.zeros(self.data.counts[index_set], dtype=np.bool_))[rows] = True
            self.present[index_set][rows] = True
        else:
            self.of.setdefault(name, np.ones(1, dtype=np.bool_))

    def operands_of(self, value: Value) -> None:
        """What the marked elements of a value need."""
        rows = self.of[value.name]
        match value.operator:
            case Gather(tensor=tensor, indices=indices):
                for path in indices:
                    ends, index_set = self.follow(path, value.index_set, rows)
                    if tensor in self.sets:
                        self.mark(tensor, ends)
                    elif index_set in self.present:
                        self.present[index_set][ends] = True
                        self.counted(tensor, index_set, ends)
                if not indices and tensor in self.sets:
                    self.mark(tensor, rows)
            case Segment(operand=operand, map=name):
                domain, codomain = self.data.ends_of(name)
                members = np.ones(self.data.counts.get(domain, 1), dtype=np.bool_)
                if codomain in self.present:
                    members = rows[self.data.maps[name]]
                self.mark(operand, members)
                if domain in self.present:  # all of them, also where they share one value
                    self.present[domain] |= members
            case _:
                for name in operands(value.operator):
                    self.mark(name, rows)

    def follow(self, path: str, index_set: str, rows: npt.NDArray[np.bool_]) -> tuple[Ids, str]:
        """Where a path of maps leads from marked elements, and of which set that is."""
        ends: Ids = np.flatnonzero(rows)
        for step in path.split("."):
            if step != index_set:
                ends, index_set = self.data.maps[step][ends], self.data.ends[step][1]
        return ends, index_set

    def counted(self, tensor: str, index_set: str, ends: Ids) -> None:
        """Edges that a number of the graph's own counts: those into a node, with those into an edge's destination."""
        kinds = {each.name: each.kind for each in self.data.graph.tensors}
        if self.data.graph.family == "layer" and kinds.get(tensor) == "structure":
            destination = self.data.ends["dst"][1]
            nodes = np.zeros(self.data.counts[destination], dtype=np.bool_)
            nodes[ends if index_set == destination else self.data.maps["dst"][ends]] = True
            self.present["edge"] |= nodes[self.data.maps["dst"]]

    def elements(self) -> dict[str, Ids]:
        """The marked elements of each set, and all that maps lead to from them: a map may lead from a set to itself."""
        marked = -1
        while marked < (marked := sum(int(marks.sum()) for marks in self.present.values())):
            for name, ids in self.data.maps.items():
                domain, codomain = self.data.ends[name]
                if domain in self.present and codomain in self.present:
                    self.present[codomain][ids[self.present[domain]]] = True
        return {name: np.flatnonzero(marks) for name, marks in self.present.items()}


def cut(tensors: Mapping[str, npt.NDArray[Any]], graph: Graph, kept: Mapping[str, Ids]) -> dict[str, Any]:
    """The tensors with those rows alone that are kept of their sets."""
    parts = dict(tensors)
    for tensor in graph.tensors:
        if tensor.name in parts:
            for axis, index_set in enumerate(tensor.sets):
                if index_set in kept:
                    parts[tensor.name] = np.take(parts[tensor.name], kept[index_set], axis=axis)
    return parts


def renumber(kept: Ids, count: int) -> Callable[[Ids], npt.NDArray[np.int32]]:
    """Gives ids of kept elements their places among these."""
    places = np.full(count, -1, dtype=np.int32)
    places[kept] = np.arange(len(kept), dtype=np.int32)
    return lambda ids: places[ids]
