"""A graph and the data named on its nodes and edges, for the reference's layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.numbers.primitives import (
    Array,
    Numbers,
    accumulate,
    blank,
    detached,
    exp,
    log,
    pick,
    put,
    segment_max,
    segment_sum,
    spread,
    widened,
)
from explorer.runtime.reference.text import ReferenceFailure

Ids = npt.NDArray[np.integer]
Ends = tuple[str, str]
"""The sets that edges lead from and to."""
NODES: Ends = ("node", "node")
"""Where they are one set, whose elements have types."""
Key = tuple[str, str]
"""The set and the name of data: ("edge", "att")."""

DIRECTIONS = {"incoming_edges": "dst", "outgoing_edges": "src"}
TYPES = {"incoming_etypes": "incoming_edges", "outgoing_etypes": "outgoing_edges"}


def number_of(index_set: str) -> str:
    """What the size of a set is given as: `num_nodes`, `num_users`, `num_cities`."""
    consonant = index_set.endswith("y") and index_set[-2:-1] not in "aeiou"
    return f"num_{index_set[:-1]}ies" if consonant else f"num_{index_set}s"


class ReferenceGraph:
    """The arrays of a graph, and the edges at each node. Those of a further graph begin with its name, `q_src`, and are
    called as every graph's here; its edges are `q_edge`, and their types `q_etype`. Types that are not given are all 0.
    """

    def __init__(
        self,
        inputs: Mapping[str, npt.NDArray[np.generic]],
        declared: Iterable[str] = (),
        ends: Ends = NODES,
        name: str = "",
    ) -> None:
        before = f"{name}_" if name else ""
        self.edge, self.etype = f"{before}edge", f"{before}etype"
        types = ("ntype",) if ends == NODES and not name else ()
        arrays = {each: inputs[each] for each in (*types, *declared)}
        arrays |= {each: inputs[f"{before}{each}"] for each in ("src", "dst")}
        arrays["etype"] = inputs.get(self.etype, np.zeros(len(arrays["src"])))
        self.maps: dict[str, Numbers] = {each: np.asarray(ids, dtype=np.int64) for each, ids in arrays.items()}
        self.ends = dict(zip(("src", "dst"), ends, strict=True))
        counted = {index_set: int(inputs[number_of(index_set)]) for index_set in (*ends, *types)}
        highest = int(self.maps["etype"].max(initial=-1)) + 1
        etypes = int(inputs.get(number_of(self.etype), highest))
        self.sizes = {**counted, self.etype: etypes, self.edge: len(self.maps["src"])}
        self._incidence: dict[str, tuple[Numbers, Numbers]] = {}

    def edges_at(self, nodes: Numbers, method: str) -> tuple[Numbers, Numbers]:
        """The edges into or out of these nodes, one node after another: their ids, and which of `nodes` each is at."""
        end = DIRECTIONS[method]
        if end not in self._incidence:
            counts = self.degrees(end)
            starts = np.concatenate([[0], np.cumsum(counts)])
            self._incidence[end] = starts, np.argsort(self.maps[end], kind="stable")
        starts, order = self._incidence[end]
        counts = starts[nodes + 1] - starts[nodes]
        parents = np.repeat(np.arange(len(nodes)), counts)
        within = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        return order[starts[nodes][parents] + within], parents

    def types_at(self, nodes: Numbers, method: str) -> tuple[Numbers, Numbers]:
        """The types of the edges into or out of these nodes, each once, and which of `nodes` has each."""
        edges, parents = self.edges_at(nodes, TYPES[method])
        pairs = np.unique(parents * self.sizes[self.etype] + self.maps["etype"][edges])
        return pairs % self.sizes[self.etype], pairs // self.sizes[self.etype]

    def degrees(self, end: str) -> Numbers:
        """The number of edges whose `end` is each node."""
        return np.bincount(self.maps[end], minlength=self.sizes[self.ends[end]])

    @cached_property
    def norm(self) -> Array:
        """For each edge, 1 over the number of edges of its type into its destination."""
        pairs = self.maps["dst"] * self.sizes[self.etype] + self.maps["etype"]
        _, inverse, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        return np.asarray(1 / counts[inverse.reshape(-1)], dtype=np.float64)


@dataclass
class GraphData:
    """Data of nodes and edges, `e["att"]`, as a whole array each.

    A loop runs in chunks of elements and every chunk runs its statements in order. So an assignment's rows go to
    an array of their own, the same for all chunks, and a chunk reads what its own last assignment wrote; what the
    loop began with stays readable until the loop ends.
    """

    sizes: Mapping[str, int]  # of every set whose elements have data

    def __post_init__(self) -> None:
        self.settled: dict[Key, Array] = {}
        self._written: dict[tuple[Key, int], Array] = {}
        self._version: dict[Key, int] = {}

    def begin_chunk(self) -> None:
        """Starts a chunk: nothing is written by it yet."""
        self._version.clear()

    def end_loop(self) -> None:
        """Makes the last assignments of a loop what is read from now on."""
        for key, version in self._version.items():
            self.settled[key] = self._written[key, version]
        self._written.clear()
        self._version.clear()

    def read(self, key: Key, ids: Ids) -> Array:
        """The rows of these elements."""
        if key in self._version:
            return pick(self._written[key, self._version[key]], (ids,))
        if key not in self.settled:
            raise ReferenceFailure(f'{key[0]} data "{key[1]}" is read before it is assigned')
        return pick(self.settled[key], (ids,))

    def __contains__(self, key: Key) -> bool:
        return key in self._version or key in self.settled

    def assign(self, key: Key, ids: Ids, values: Array) -> None:
        """Puts rows (or one for all) in place of these elements' data; the elements differ from each other."""
        version = self._version[key] = self._version.get(key, 0) + 1
        if (key, version) not in self._written:
            self._written[key, version] = blank(values, self.sizes[key[0]])
        array = self._written[key, version]
        rows = spread(widened(values, array.ndim), (len(ids), *array.shape[1:]))
        self._written[key, version] = put(array, ids, rows)

    def add(self, key: Key, ids: Ids, values: Array) -> None:
        """Adds rows to these elements' data, which starts from 0; elements may repeat."""
        if key not in self._version:
            self._version[key] = 1
            if (key, 1) not in self._written:
                base = self.settled.get(key)
                self._written[key, 1] = blank(values, self.sizes[key[0]]) if base is None else base.copy()
        place = key, self._version[key]
        array = self._written[place]
        if values.ndim > array.ndim:  # n["h"] = 0.0 stands for zeros of any shape
            array = spread(widened(array, values.ndim), (len(array), *values.shape[1:])).copy()
        values = spread(widened(values, array.ndim), (len(ids), *array.shape[1:]))
        self._written[place] = accumulate(array, ids, values)


def segment_product(values: Array, places: Numbers, count: int) -> Array:
    """The product of the rows of each place, 1 where there is none: of neighbours, until one is left of each place.

    Equal factors round alike, so all errors are taken as shared: those of rows that are picked twice are."""
    values = spread(values, (len(places), *values.shape[1:]))
    while len(places) > len(np.unique(places)):
        within = np.arange(len(places)) - np.searchsorted(places, places)
        first = np.flatnonzero(within % 2 == 0)
        second = np.minimum(first + 1, len(places) - 1)
        paired = widened(((second > first) & (places[second] == places[first])).astype(np.float32), values.ndim)
        values = pick(values, (np.concatenate([np.arange(len(places))] * 2),))
        values = pick(values, (first,)) * (pick(values, (second,)) * paired + (1 - paired))
        places = places[first]
    blanks = blank(values, count)
    filled = accumulate(blanks, places, values)
    return filled + widened((np.bincount(places, minlength=count) == 0).astype(np.float32), filled.ndim)


def reduce_runs(function: str, values: Array, places: Numbers, count: int) -> Array:
    """sum, mean, max, min, prod or logsumexp of the values at each of `count` places, of none 0, or as a product 1;
    `places` is sorted."""
    match function:
        case "max":
            return segment_max(values, places, count)
        case "min":
            return -segment_max(-values, places, count)
        case "prod":
            return segment_product(values, places, count)
        case "logsumexp":
            most = detached(segment_max(values, places, count))
            total = segment_sum(exp(values - pick(most, (places,))), places, count)
            nothing = (np.bincount(places, minlength=count) == 0).astype(np.float32)
            return most + log(total + widened(nothing, total.ndim))
    result = segment_sum(values, places, count)
    if function == "mean":
        counts = np.maximum(1, np.bincount(places, minlength=count)).astype(np.float32)
        result = result / widened(counts, result.ndim)
    return result


def softmax_of_runs(values: Array, places: Numbers, count: int) -> Array:
    """exp(x) over the sum of exp at each of `count` places; `places` is sorted."""
    most = detached(reduce_runs("max", values, places, count))
    powers = exp(values - pick(most, (places,)))
    return powers / pick(reduce_runs("sum", powers, places, count), (places,))
