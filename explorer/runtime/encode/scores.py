"""The arrays of a score's backward pass: what its programs read besides the batch and the tensors.

A gradient of a tensor is summed over the triples that picked each of its rows, so every map is inverted once, before
the run: `h_order` holds the triples (or negatives, in row-major order) sorted by head, `h_ptr` where each head's begin.
The order is stable, so sums have one order on every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from time import perf_counter
from typing import Any

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.compiler.interpret.inputs import check_inputs, each_fact
from explorer.compiler.ir.graph import Graph, IndexMap
from explorer.compiler.ir.index_sets import CONTAINERS, SetNames, with_products
from explorer.compiler.ir.module import Module
from explorer.runtime.data.triples import Ids, InputError
from explorer.runtime.encode.declared import least, made_maps
from explorer.runtime.encode.graph import Step, segments
from explorer.runtime.encode.layers import Finish, Floats, upstream_given
from explorer.runtime.encode.products import product_ids
from explorer.runtime.encode.structure import Structure


@dataclass(frozen=True, eq=False)
class Encoding:
    """What the programs read besides the caller's arrays, by name, and how each came to be."""

    arrays: Mapping[str, Any]
    steps: tuple[Step, ...]

    @property
    def bytes(self) -> int:
        """What the inverse maps take."""
        return sum(array.nbytes for array in self.arrays.values() if isinstance(array, np.ndarray))

    def describe(self) -> dict[str, Any]:
        """The pre-processing, for display."""
        return {"bytes": self.bytes, "preprocessing": [vars(step) for step in self.steps]}


def encode_inputs(
    compilation: Compilation, inputs: Mapping[str, Any], upstream: Any | None
) -> tuple[dict[str, Any], Finish]:
    """What the programs of a score with gradients read, and the function that gives gradients their tensors' shapes.

    `inputs` holds every map and tensor by its name, `upstream` is the gradient of the scores, a tuple of
    those of several. Raises InputError.
    """
    graph = graph_of(compilation)
    negatives = compilation.options.negatives
    check_inputs(graph, inputs, negatives.count if negatives else 0)
    arrays = each_fact(graph, inputs)
    given = upstream_given(graph, upstream, "scores")
    dims = {tensor.name: tuple(map(graph.size, tensor.dims)) for tensor in graph.tensors}
    arrays |= {name: _checked(array, upstream_shape(graph, arrays) + dims[name]) for name, array in given.items()}
    encoding = encode(graph, compilation.stages["loops"].program, arrays)
    return {**arrays, **encoding.arrays}, lambda scores, gradients: (scores, shaped(graph, arrays, gradients))


def graph_of(compilation: Compilation) -> Graph:
    """The graph of a score. Raises TypeError for what did not compile."""
    graph = compilation.stages["graph"].program
    if not isinstance(graph, Graph):
        raise TypeError("only a score that compiles has inputs")
    return graph


def upstream_shape(graph: Graph, inputs: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of what the scores are of, facts or negatives, without what each has."""
    over = graph.value(graph.result).index_set
    return next(np.shape(inputs[e.name]) for e in graph.maps if e.name in inputs and e.domain == over)


def _checked(upstream: Any, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(upstream, dtype=np.float32)
    if array.shape != shape:
        raise InputError(f"grad has the shape {list(array.shape)}, but the scores have {list(shape)}.")
    return array


def encode(graph: Graph, program: object, inputs: Mapping[str, Any]) -> Encoding:
    """The sizes of all sets, and the inverse of every map that the program walks backwards."""
    if not isinstance(program, Module):
        return Encoding({}, ())
    names, counts = SetNames.of(graph), with_products(graph, set_sizes(graph, inputs))
    read = {buffer.name for kernel in program.programs for buffer in kernel.buffers}
    arrays: dict[str, Any] = {
        str(names.counts[index_set]): count for index_set, count in counts.items() if index_set in names.counts
    }
    made = computed_ids(graph, inputs)
    arrays |= made
    steps = []
    for entry, (ends, order) in _inverted(graph, names):
        if {ends, order} & read:
            began = perf_counter()
            found = segments(_ids(graph, entry, {**inputs, **made}, counts), counts[entry.codomain])
            arrays[ends] = found.ptr
            arrays[order] = _in_order(counts[entry.domain]) if found.order is None else found.order
            ms = (perf_counter() - began) * 1e3
            most = int(np.diff(found.ptr).max(initial=0))
            each = f"at most {most:,} of one {entry.codomain}"
            steps.append(Step(f"{entry.domain} rows sorted by {entry.name}", ms, each))
    return Encoding(arrays, tuple(steps))


def computed_ids(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Ids]:
    """The maps that are computed of ids, by name, each in the shape of those."""
    made = made_maps(graph, _flat_maps(graph, inputs), set_sizes(graph, inputs))
    shapes = {entry.domain: np.shape(inputs[entry.name]) for entry in graph.maps if entry.name in inputs}
    return {entry.name: made[entry.name].reshape(shapes[entry.domain]) for entry in graph.maps if entry.name in made}


def _ids(graph: Graph, entry: IndexMap, inputs: Mapping[str, Any], counts: Mapping[str, int]) -> Ids:
    """Where a map leads from each element of its domain."""
    if entry.paths:
        return product_ids(graph.maps, entry, _flat_maps(graph, inputs), counts, _in_order(counts[entry.domain]))
    return np.ascontiguousarray(inputs[entry.name], dtype=np.int32).reshape(-1)


def encoded_bytes(graph: Graph, counts: Mapping[str, int]) -> int:
    """What the inverse maps of a graph may take at most."""
    counts = with_products(graph, counts)
    return sum(4 * (counts[e.domain] + counts[e.codomain] + 1) for e, _ in _inverted(graph, SetNames.of(graph)))


def _inverted(graph: Graph, names: SetNames) -> Iterator[tuple[IndexMap, tuple[str, str]]]:
    """The maps that are arrays, with the names of their inverses."""
    for entry in graph.maps:
        if entry.codomain != "unit" and CONTAINERS.get(entry.domain) != entry.codomain:
            yield entry, names.inverses[entry.name]


def _in_order(count: int) -> Ids:
    return np.arange(count, dtype=np.int32)


def structure_of(graph: Graph, inputs: Mapping[str, Any]) -> Structure:
    """The sets and maps of a batch, with negatives numbered in row-major order."""
    maps = _flat_maps(graph, {**inputs, **computed_ids(graph, inputs)})
    sharing = {entry.name: entry.sharing for entry in graph.maps}
    read = {name: -(-array.nbytes // sharing[name]) for name, array in maps.items()}
    return Structure(set_sizes(graph, inputs), maps, read)


def _flat_maps(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Ids]:
    return {entry.name: np.asarray(inputs[entry.name]).reshape(-1) for entry in graph.maps if entry.name in inputs}


def set_sizes(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, int]:
    """How many elements each index set has, read off the maps and the tensors."""
    sizes = {"unit": 1}
    for tensor in graph.tensors:
        if tensor.kind != "upstream" and tensor.name in inputs:
            sizes |= dict(zip(tensor.sets, np.shape(inputs[tensor.name]), strict=False))
    for entry in graph.maps:
        if entry.name in inputs:
            sizes[entry.domain] = prod(np.shape(inputs[entry.name]))
            sizes.setdefault(entry.codomain, least(np.asarray(inputs[entry.name])))
    return sizes


def shaped(graph: Graph, inputs: Mapping[str, Any], gradients: Mapping[str, Floats]) -> dict[str, Floats]:
    """Gradients in the shapes of their tensors: one that belongs to no set has a row more than that."""
    return {name: gradient.reshape(np.shape(inputs[name])) for name, gradient in gradients.items()}
