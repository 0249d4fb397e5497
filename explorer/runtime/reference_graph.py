"""A graph and the data named on its nodes and edges, for the reference's layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference_functions import Array
from explorer.runtime.reference_text import ReferenceFailure

Numbers = npt.NDArray[np.int64]
Ids = npt.NDArray[np.integer]
Key = tuple[str, str]
"""The set and the name of data: ("edge", "att")."""

DIRECTIONS = {"incoming_edges": "dst", "outgoing_edges": "src"}


class ReferenceGraph:
    """The arrays of a graph, and the edges at each node."""

    def __init__(self, inputs: Mapping[str, npt.NDArray[np.generic]]) -> None:
        self.maps: dict[str, Numbers] = {
            name: np.asarray(inputs[name], dtype=np.int64) for name in ("src", "dst", "etype", "ntype")
        }
        self.sizes = {
            "node": int(inputs["num_nodes"]),
            "edge": len(self.maps["src"]),
            "etype": int(inputs["num_etypes"]),
            "ntype": int(inputs["num_ntypes"]),
        }
        self._incidence: dict[str, tuple[Numbers, Numbers]] = {}

    def edges_at(self, nodes: Numbers, method: str) -> tuple[Numbers, Numbers]:
        """The edges into or out of these nodes, one node after another: their ids, and which of `nodes` each is at."""
        end = DIRECTIONS[method]
        if end not in self._incidence:
            counts = np.bincount(self.maps[end], minlength=self.sizes["node"])
            starts = np.concatenate([[0], np.cumsum(counts)])
            self._incidence[end] = starts, np.argsort(self.maps[end], kind="stable")
        starts, order = self._incidence[end]
        counts = starts[nodes + 1] - starts[nodes]
        parents = np.repeat(np.arange(len(nodes)), counts)
        within = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        return order[starts[nodes][parents] + within], parents

    def degrees(self, end: str) -> Numbers:
        """The number of edges whose `end` is each node."""
        return np.bincount(self.maps[end], minlength=self.sizes["node"])

    @cached_property
    def norm(self) -> Array:
        """For each edge, 1 over the number of edges of its type into its destination."""
        pairs = self.maps["dst"] * self.sizes["etype"] + self.maps["etype"]
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
            return self._written[key, self._version[key]][ids]
        if key not in self.settled:
            raise ReferenceFailure(f'{key[0]} data "{key[1]}" is read before it is assigned')
        return self.settled[key][ids]

    def __contains__(self, key: Key) -> bool:
        return key in self._version or key in self.settled

    def assign(self, key: Key, ids: Ids, values: Array) -> None:
        """Puts rows (or one for all) in place of these elements' data; the elements differ from each other."""
        version = self._version[key] = self._version.get(key, 0) + 1
        if (key, version) not in self._written:
            self._written[key, version] = np.zeros((self.sizes[key[0]], *values.shape[1:]))
        array = self._written[key, version]
        array[ids] = _widened(values, array.ndim)

    def add(self, key: Key, ids: Ids, values: Array) -> None:
        """Adds rows to these elements' data, which starts from 0; elements may repeat."""
        if key not in self._version:
            self._version[key] = 1
            if (key, 1) not in self._written:
                base = self.settled.get(key)
                shape = (self.sizes[key[0]], *values.shape[1:])
                self._written[key, 1] = np.zeros(shape) if base is None else base.copy()
        place = key, self._version[key]
        array = self._written[place]
        if values.ndim > array.ndim:  # n["h"] = 0.0 stands for zeros of any shape
            array = np.broadcast_to(_widened(array, values.ndim), (len(array), *values.shape[1:])).copy()
            self._written[place] = array
        values = np.broadcast_to(_widened(values, array.ndim), (len(ids), *array.shape[1:]))
        order = np.argsort(ids, kind="stable")
        for places, sums in _runs(ids[order], values[order], np.add):
            array[places] += sums


def _widened(values: Array, rank: int) -> Array:
    """With axes of size 1 behind, so that a prefix shape repeats."""
    return values.reshape(values.shape + (1,) * (rank - values.ndim))


def _runs(ids: Ids, values: Array, function: np.ufunc) -> Iterator[tuple[Ids, Array]]:
    """The values of each run of equal ids reduced; nothing where there are none."""
    if len(ids):
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        yield ids[starts], function.reduceat(values, starts, axis=0)


def reduce_runs(function: str, values: Array, places: Numbers, count: int) -> Array:
    """sum, mean, max or min of the values at each of `count` places, 0 where there is none; `places` is sorted."""
    ufunc = {"sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum}[function]
    result = np.zeros((count, *values.shape[1:]))
    for ids, reduced in _runs(places, values, ufunc):
        result[ids] = reduced
    if function == "mean":
        result /= _widened(np.maximum(1, np.bincount(places, minlength=count)).astype(np.float64), result.ndim)
    return result
