"""The arrays of an op's run: from lists of indices and tensors by name to what the compiled programs read, and back.

Programs see entries in the order of the lists; callers never do: tensors over entries are sorted on the way in, and
results over entries are put back on the way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import Graph, IndexMap, Tensor, plural
from explorer.compiler.ir.index_sets import count_name
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.set_maps import listed_in
from explorer.compiler.stored import numbers
from explorer.runtime.arrays import inputs_of, kernels_of
from explorer.runtime.data.graphs import DeclaredMap
from explorer.runtime.data.index_arrays import sparse_from
from explorer.runtime.data.index_lists import SparseRows
from explorer.runtime.data.triples import Ids, InputError
from explorer.runtime.encode.bags import Bag, bags_from, has_several_bags
from explorer.runtime.encode.declared import declared_maps, made_map, made_sizes, read_off
from explorer.runtime.encode.graph import Segments, Step, segments
from explorer.runtime.encode.layers import Finish, Floats, Outcome, Result, restored, tensor_shape, with_upstream
from explorer.runtime.encode.products import product_arrays


@dataclass(frozen=True)
class Sets:
    """The sets of an op: lists own entries, and an entry picks a row of a table."""

    owner: str  # bag, query, or the first set of a matrix
    entry: str
    picked: str
    home: str  # the map from entries to owners
    pick: str  # the map from entries to what they pick
    maps: tuple[IndexMap, ...] = ()  # all of the op's

    @property
    def computed(self) -> tuple[IndexMap, ...]:
        """The maps of ids that are computed of others."""
        return tuple(entry for entry in self.maps if entry.computed)

    @classmethod
    def of(cls, graph: Graph) -> Sets:
        """The sets of an op's graph."""
        home, pick = listed_in(graph)[0]
        return cls(home.codomain, home.domain, pick.codomain, home.name, pick.name, graph.maps)

    def counts(self, lists: SparseRows) -> dict[str, int]:
        """How many elements the sets of lists have."""
        return {self.picked: lists.num_cols, self.owner: lists.num_rows, self.entry: lists.num_entries}


@dataclass(eq=False)
class EncodedLists:
    """The lists of a run, and the maps that its text declares as they are given, as an op's maps and the sizes of its
    sets, with the inverses that programs ask for, each made once; `steps` says what was done. Of several bags `lists`
    are the first's, and the others stand beside."""

    sets: Sets
    lists: SparseRows
    declared: Mapping[str, DeclaredMap] = field(default_factory=dict)
    beside: tuple[Bag, ...] = ()
    steps: list[Step] = field(default_factory=list)
    maps: dict[str, Ids] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    _segments: dict[str, Segments] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sets, lists = self.sets, self.lists
        if sets.owner == sets.picked and lists.num_rows != lists.num_cols:
            raise InputError(
                f"{lists.name} has {lists.num_rows:,} rows and {lists.num_cols:,} columns, but the op's matrix is"
                f" {sets.owner} by {sets.picked}, so square"
            )
        if lists.order is not None:
            self.steps.append(Step(f"sort {lists.num_entries:,} entries by row", 0.0, "they were in another order"))
        with self._timed(f"{sets.home} of each entry") as found:
            self.maps = {sets.home: lists.owners(), sets.pick: lists.idx}
            found.append(f"{lists.num_entries:,} entries in {lists.num_rows:,} lists")
        for bag in self.beside:
            with self._timed(f"{bag.home.name} of each entry") as found:
                self.maps |= bag.maps
                found.append(f"{bag.lists.num_entries:,} entries in {bag.lists.num_rows:,} lists")
        self.maps |= {name: self._placed(each) for name, each in self.declared.items()}
        self.counts = {each.codomain: each.count for each in self.declared.values()}
        self.counts |= own_counts(sets, lists, self.beside)
        self.counts |= made_sizes(sets.maps, self.counts)
        for entry in sets.computed:
            with self._timed(f"{entry.codomain} of each {entry.domain}") as found:
                self.maps[entry.name] = made_map(sets.maps, entry, self.maps, self.counts)
                found.append(f"of {self.counts[entry.codomain]:,} that there may be")

    def _placed(self, declared: DeclaredMap) -> Ids:
        """A declared map where entries are in the lists' order, as what is mapped and as what is mapped to."""
        ids, entry = declared.ids, self.sets.entry
        if declared.codomain == entry:
            ids = self.lists.restore(np.arange(self.lists.num_entries, dtype=np.int32))[ids]
        return self.lists.sort(ids) if declared.domain == entry else ids

    def segments(self, name: str) -> Segments:
        """The inverse of a map."""
        if name not in self._segments:
            if name in self.by_home:
                self._segments[name] = Segments(self.by_home[name].ptr, None)
            else:
                domain, leads_to = next((e.domain, e.codomain) for e in self.sets.maps if e.name == name)
                with self._timed(f"{plural(leads_to)} to {plural(domain)} by {name}") as found:
                    inverse = self._segments[name] = segments(self.maps[name], self.counts[leads_to])
                    found.append("entries are sorted already" if inverse.order is None else "entries reordered")
        return self._segments[name]

    @property
    def by_home(self) -> dict[str, SparseRows]:
        """The lists by the map from entries to them: one pair, or of several bags one each."""
        return {self.sets.home: self.lists, **{bag.home.name: bag.lists for bag in self.beside}}

    def weights(self, tensor: Tensor) -> npt.NDArray[np.float32] | None:
        """What the lists themselves bring of a tensor, where it is the weight of an entry, the value of a nonzero."""
        if tensor.kind != "structure":
            return None
        by_entry = {self.sets.entry: self.lists, **{bag.home.domain: bag.lists for bag in self.beside}}
        return next((lists.value for entry, lists in by_entry.items() if tensor.sets == (entry,)), None)

    @property
    def map_bytes(self) -> dict[str, int]:
        """What reading each map takes at the least: the owners of sorted entries follow from where lists begin."""
        own = {name: lists.ptr.nbytes for name, lists in self.by_home.items()}
        return {name: ids.nbytes for name, ids in self.maps.items()} | own

    @contextmanager
    def _timed(self, name: str) -> Iterator[list[str]]:
        found: list[str] = []
        began = perf_counter()
        yield found
        self.steps.append(Step(name, (perf_counter() - began) * 1e3, found[0]))


def own_counts(sets: Sets, lists: SparseRows, beside: Iterable[Bag]) -> dict[str, int]:
    """How many elements the sets of lists have, those of bags beside the first too."""
    return {**{name: count for bag in beside for name, count in bag.counts.items()}, **sets.counts(lists)}


def programs_of(compilation: Compilation) -> tuple[Graph, Kernel | Module]:
    """The graph and the kernels of an op. Raises InputError for what has no loops."""
    graph, loops = compilation.stages["graph"], compilation.stages["loops"]
    if not isinstance(graph.program, Graph) or not isinstance(loops.program, Kernel | Module):
        raise InputError(f"there are no loops to run: {loops.reason}")
    return graph.program, loops.program


def encode_inputs(
    compilation: Compilation, inputs: Mapping[str, Any], upstream: Any | None
) -> tuple[dict[str, Any], Finish]:
    """What an op's programs read, and the function that turns what they give into what the caller expects.

    `inputs` holds the lists in one of the forms of `sparse_arrays`, and every param and input by its name; how many
    rows there are to pick is read off the tensors where no number says it. Raises InputError.
    """
    graph, program = programs_of(compilation)
    sets = Sets.of(graph)
    known = read_off(inputs, graph)
    beside: Sequence[Bag] = ()
    if has_several_bags(graph):
        first, *beside = bags_from(graph, inputs, known)
        lists = first.lists
    else:
        lists = sparse_from(inputs, graph.name, "given", known.get(sets.picked))
    own = own_counts(sets, lists, beside)
    declared = declared_maps(graph, inputs, own, read_off(inputs, graph, own))
    encoded = EncodedLists(sets, lists, declared, tuple(beside))
    tensors = with_upstream(graph, inputs, upstream)
    return program_inputs(graph, program, encoded, tensors), lambda result, gradients: finish(
        graph, encoded, result, gradients
    )


def program_inputs(
    graph: Graph, program: Kernel | Module, encoded: EncodedLists, tensors: Mapping[str, npt.NDArray[Any]]
) -> dict[str, Any]:
    """Every array that the programs of an op read: maps, inverses, sizes, and the tensors, those of entries sorted.

    Raises InputError for a tensor that is missing or does not fit.
    """
    arrays: dict[str, Any] = {str(count_name(index_set)): size for index_set, size in encoded.counts.items()}
    arrays |= encoded.maps
    read = {buffer.name for buffer in inputs_of(kernels_of(program))}
    arrays |= product_arrays(graph, read, encoded.maps, encoded.counts)
    for buffer in inputs_of(kernels_of(program)):
        if buffer.kind == "index" and buffer.name not in arrays:
            base, _, part = buffer.name.rpartition("_")
            found = encoded.segments(base)
            order = np.arange(len(encoded.maps[base]), dtype=np.int32) if found.order is None else found.order
            arrays[buffer.name] = found.ptr if part == "ptr" else order
    for tensor in graph.tensors:
        arrays[tensor.name] = _tensor(graph, tensor, encoded, tensors)
    return arrays


def _tensor(
    graph: Graph, tensor: Tensor, encoded: EncodedLists, tensors: Mapping[str, npt.NDArray[Any]]
) -> npt.NDArray[Any]:
    weights = encoded.weights(tensor)
    if weights is not None:
        return weights
    if tensor.name not in tensors:
        raise InputError(f"There is no array for {tensor.name}.")
    array = numbers(tensors[tensor.name], tensor.storage)
    shape = tensor_shape(graph, tensor, encoded.counts)
    if array.shape != shape:
        raise InputError(f"{tensor.name} has the shape {list(array.shape)}, but is declared {list(shape)}.")
    return encoded.lists.sort(array) if tensor.sets[:1] == (encoded.sets.entry,) else array


def finish(graph: Graph, encoded: EncodedLists, result: Result, gradients: Mapping[str, Floats]) -> Outcome:
    """A program's results with their entries in the caller's order, and gradients in the shapes of their tensors."""
    result = restored(graph, result, encoded.sets.entry, encoded.lists.restore)
    tensors = {tensor.name: tensor for tensor in graph.tensors}
    shaped: dict[str, Floats] = {}
    for name, gradient in gradients.items():
        rows = gradient.reshape(tensor_shape(graph, tensors[name], encoded.counts))
        shaped[name] = encoded.lists.restore(rows) if tensors[name].sets[:1] == (encoded.sets.entry,) else rows
    return result, shaped
