"""The arrays of a layer's run: from a graph and tensors by name to what the compiled programs read, and back.

Programs see edges in the order of the encodings; callers never do: tensors over edges are sorted on the way in, and
results over edges are put back on the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import NODES, Graph, Tensor, plural
from explorer.compiler.ir.index_sets import count_name, number_of
from explorer.compiler.ir.module import Module
from explorer.compiler.returned import each_returned, for_each_returned
from explorer.compiler.stored import numbers
from explorer.runtime.data.graphs import RelationalGraph
from explorer.runtime.data.triples import Ids, InputError
from explorer.runtime.encode.declared import check_ids, declared_maps, encoded, ids_of, least, least_beside, read_off
from explorer.runtime.encode.graph import Encodings
from explorer.runtime.encode.products import product_arrays

NO_IDS: Ids = np.zeros(0, dtype=np.int32)
Floats = npt.NDArray[np.float32]
Result = Floats | tuple[Floats, ...]
"""What a definition returns: an array, or a tuple of several."""
Outcome = tuple[Result, dict[str, Floats]]
"""The result, and gradients by tensor."""
Finish = Callable[[Result, Mapping[str, Floats]], Outcome]
"""From what programs give to what a caller expects."""


def encode_inputs(
    compilation: Compilation, inputs: Mapping[str, Any], upstream: Any | None
) -> tuple[dict[str, Any], Finish]:
    """What a layer's programs read, and the function that turns what they give into what the caller expects.

    `inputs` holds `src` and `dst`, and `etype`, `ntype`, `num_nodes`, `num_etypes`, `num_ntypes` where they are not
    to be derived (of a graph between two sets the number of each, `num_users`, in the place of `num_nodes`); every
    param and input by its name. `upstream` is the gradient of the result, a tuple of those of several. Raises
    InputError.
    """
    graph, module = programs(compilation)
    encodings = encoded(graph_of(inputs, graph), graph)
    tensors = with_upstream(graph, inputs, upstream)
    return program_inputs(graph, module, encodings, tensors), lambda result, gradients: finish(
        graph, encodings, result, gradients
    )


def programs(compilation: Compilation) -> tuple[Graph, Module]:
    """The graph and the kernels of a layer. Raises TypeError for what is no layer."""
    graph, module = (compilation.stages[name].program for name in ("graph", "loops"))
    if not isinstance(graph, Graph) or not isinstance(module, Module):
        raise TypeError("only a layer that compiles has encodings")
    return graph, module


def with_upstream(graph: Graph, inputs: Mapping[str, Any], upstream: Any | None) -> dict[str, Any]:
    """The inputs, and the gradient of the result where there is a backward pass. Raises InputError where it lacks."""
    return {**inputs, **upstream_given(graph, upstream, "result")}


def upstream_given(graph: Graph, upstream: Any | None, what: str) -> dict[str, Any]:
    """The gradients of the results by the names of their tensors, none without a backward pass. Raises InputError where
    they are not as many as there are results."""
    names = upstream_names(graph)
    if not names:
        return {}
    each = f"the gradient of its {what}" if len(names) == 1 else f"a tuple of those of its {len(names)} results"
    if upstream is None:
        raise InputError(f"{graph.name} is compiled with its backward pass: give grad, {each}")
    given = (upstream,) if len(names) == 1 else each_returned(upstream)
    if len(given) != len(names):
        count = f"{len(given)} gradients" if isinstance(upstream, tuple) else "one gradient"
        raise InputError(f"grad is {count}: give {each}")
    return dict(zip(names, given, strict=True))


def upstream_names(graph: Graph) -> tuple[str, ...]:
    """The tensors that the gradients of the results are given as, in their order; none without a backward pass."""
    return tuple(tensor.name for tensor in graph.tensors if tensor.kind == "upstream")


def graph_of(inputs: Mapping[str, Any], graph: Graph, told: Mapping[str, int] | None = None) -> RelationalGraph:
    """The relational graph that a caller's arrays describe.

    Types that are not given are all 0; counts that are not given are `told`, or read off the tensors over that set, or
    else taken as the least that holds the ids. Raises InputError for ids out of range.
    """
    for name in ("src", "dst"):
        if name not in inputs:
            raise InputError(f"There is no array for {name}.")
    src, dst = (ids_of(inputs[name], name) for name in ("src", "dst"))
    etype = ids_of(inputs["etype"], "etype") if "etype" in inputs else np.zeros(len(src), dtype=np.int32)
    if not len(src) == len(dst) == len(etype):
        raise InputError(f"src, dst and etype have {len(src)}, {len(dst)} and {len(etype)} edges, not one number.")
    known = read_off(inputs, graph, told)
    etypes = _count(inputs, known, "etype", least(etype))
    between = _between_nodes if graph.ends == NODES else _between_sets
    found = between(inputs, known, graph, RelationalGraph("inputs", "inputs", 0, etypes, 0, src, dst, etype, NO_IDS))
    for name, ids in found.arrays().items():
        check_ids(name, ids, found.sizes[found.domains[name][1]])
    known = read_off(inputs, graph, {**(told or {}), **found.sizes})
    return replace(found, declared=declared_maps(graph, inputs, found.sizes, known))


def _between_nodes(
    inputs: Mapping[str, Any], known: Mapping[str, int], graph: Graph, edges: RelationalGraph
) -> RelationalGraph:
    """The edges with the nodes of one set, and their types."""
    given = ids_of(inputs["ntype"], "ntype") if "ntype" in inputs else None
    highest = max(least(edges.src), least(edges.dst), *least_beside(graph, inputs).values())
    nodes = _count(inputs, known, "node", len(given) if given is not None else highest)
    ntype = np.zeros(nodes, dtype=np.int32) if given is None else given
    if len(ntype) != nodes:
        raise InputError(f"ntype has {len(ntype):,} entries, but there are {nodes:,} nodes.")
    return replace(edges, num_nodes=nodes, num_ntypes=_count(inputs, known, "ntype", least(ntype)), ntype=ntype)


def _between_sets(
    inputs: Mapping[str, Any], known: Mapping[str, int], graph: Graph, edges: RelationalGraph
) -> RelationalGraph:
    """The edges with the two sets that they lead between."""
    if "ntype" in inputs:
        sets = " to ".join(map(plural, graph.ends))
        raise InputError(f"{graph.name} is of a graph from {sets}, which have no types: ntype is of one set of nodes.")
    beside = least_beside(graph, inputs)
    sources, destinations = (
        _count(inputs, known, end, max(least(ids), beside.get(end, 0)))
        for end, ids in zip(graph.ends, (edges.src, edges.dst), strict=True)
    )
    return replace(edges, ends=graph.ends, num_nodes=sources, num_destinations=destinations)


def _count(inputs: Mapping[str, Any], known: Mapping[str, int], index_set: str, least: int) -> int:
    return int(inputs.get(number_of(index_set), known.get(index_set, least)))


def program_inputs(
    graph: Graph, module: Module, encodings: Encodings, tensors: Mapping[str, npt.NDArray[Any]]
) -> dict[str, Any]:
    """Every array that the programs of a layer read: maps, segments, structure, sizes, and the tensors sorted.

    Raises InputError for a tensor that is missing or does not fit.
    """
    arrays: dict[str, Any] = {str(count_name(index_set)): size for index_set, size in encodings.counts.items()}
    arrays |= {entry.name: encodings.maps[entry.name] for entry in graph.maps if entry.name in encodings.domains}
    read = {buffer.name for program in module.programs for buffer in program.buffers if buffer.kind == "index"}
    arrays |= product_arrays(graph, read, encodings.maps, encodings.counts)
    arrays |= {name: _segment_array(encodings, name) for name in sorted(read - arrays.keys())}
    structure = {"norm": encodings.norm, "in_degree": encodings.in_degree}
    for tensor in graph.tensors:
        if tensor.kind == "structure":
            arrays[tensor.name] = structure[tensor.name]
        else:
            arrays[tensor.name] = _tensor(graph, tensor, encodings, tensors)
    return arrays


def _segment_array(encodings: Encodings, name: str) -> Ids:
    """`dst_ptr` or `src_order`: one of the arrays of a map's inverse."""
    base, _, part = name.rpartition("_")
    found = encodings.segments(base)
    if part == "ptr":
        return found.ptr
    return np.arange(len(encodings.maps[base]), dtype=np.int32) if found.order is None else found.order


def _tensor(graph: Graph, tensor: Tensor, encodings: Encodings, tensors: Mapping[str, npt.NDArray[Any]]) -> Floats:
    if tensor.name not in tensors:
        raise InputError(f"There is no array for {tensor.name}.")
    array = numbers(tensors[tensor.name], tensor.storage)
    shape = tensor_shape(graph, tensor, encodings.counts)
    if array.shape != shape:
        raise InputError(f"{tensor.name} has the shape {list(array.shape)}, but is declared {list(shape)}.")
    return encodings.sort_edges(array) if tensor.sets[:1] == ("edge",) else array


def tensor_shape(graph: Graph, tensor: Tensor, counts: Mapping[str, int]) -> tuple[int, ...]:
    """The sizes of a tensor's sets, then of its dimensions."""
    known = {**counts, "unit": 1}
    return (*(known[index_set] for index_set in tensor.sets), *(graph.size(extent) for extent in tensor.dims))


def finish(graph: Graph, encodings: Encodings, result: Result, gradients: Mapping[str, Floats]) -> Outcome:
    """A program's results with their edges in the caller's order, and gradients in the shapes of their tensors."""
    result = restored(graph, result, "edge", encodings.restore_edges)
    tensors = {tensor.name: tensor for tensor in graph.tensors}
    shaped: dict[str, Floats] = {}
    for name, gradient in gradients.items():
        tensor = tensors[name]
        rows = gradient.reshape(tensor_shape(graph, tensor, encodings.counts))
        shaped[name] = encodings.restore_edges(rows) if tensor.sets[:1] == ("edge",) else rows
    return result, shaped


def restored(graph: Graph, result: Result, index_set: str, restore: Callable[[Floats], Floats]) -> Result:
    """The results, those over a set of whose elements programs have an order of their own in that of the caller."""

    def one(rows: Floats, name: str) -> Floats:
        return restore(rows) if graph.value(name).index_set == index_set else rows

    return for_each_returned(one, result, graph.results)
