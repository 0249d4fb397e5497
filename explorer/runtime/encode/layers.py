"""The arrays of a layer's run: from a graph and tensors by name to what the compiled programs read, and back.

Programs see edges in the order of the encodings; callers never do: tensors over edges are sorted on the way in, and
results over edges are put back on the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import Graph, Tensor
from explorer.compiler.ir.index_sets import count_name
from explorer.compiler.ir.module import Module
from explorer.runtime.data.graphs import RelationalGraph
from explorer.runtime.data.triples import Ids, InputError
from explorer.runtime.encode.graph import DOMAINS, Encodings, encode
from explorer.runtime.encode.products import product_arrays

Floats = npt.NDArray[np.float32]
Outcome = tuple[Floats, dict[str, Floats]]
"""The result, and gradients by tensor."""


def encode_inputs(
    compilation: Compilation, inputs: Mapping[str, Any], upstream: Any | None
) -> tuple[dict[str, Any], Callable[[Floats, Mapping[str, Floats]], Outcome]]:
    """What a layer's programs read, and the function that turns what they give into what the caller expects.

    `inputs` holds `src` and `dst`, and `etype`, `ntype`, `num_nodes`, `num_etypes`, `num_ntypes` where they are not
    to be derived; every param and input by its name. `upstream` is the gradient of the result. Raises InputError.
    """
    graph, module = programs(compilation)
    encodings = encode(graph_of(inputs, graph))
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
    name = upstream_name(graph)
    if name is not None and upstream is None:
        raise InputError(f"{graph.name} is compiled with its backward pass: give grad, the gradient of its result")
    return {**inputs, name: upstream} if name is not None else dict(inputs)


def upstream_name(graph: Graph) -> str | None:
    """The tensor that the gradient of the result is given as; None without a backward pass."""
    return next((tensor.name for tensor in graph.tensors if tensor.kind == "upstream"), None)


def graph_of(inputs: Mapping[str, Any], graph: Graph) -> RelationalGraph:
    """The relational graph that a caller's arrays describe.

    Types that are not given are all 0; counts that are not given are read off the tensors over that set, or else
    taken as the least that holds the ids. Raises InputError for ids out of range.
    """
    for name in ("src", "dst"):
        if name not in inputs:
            raise InputError(f"There is no array for {name}.")
    src, dst = (_ids(inputs[name], name) for name in ("src", "dst"))
    etype = _ids(inputs["etype"], "etype") if "etype" in inputs else np.zeros(len(src), dtype=np.int32)
    if not len(src) == len(dst) == len(etype):
        raise InputError(f"src, dst and etype have {len(src)}, {len(dst)} and {len(etype)} edges, not one number.")
    known = _read_off(inputs, graph)
    given = _ids(inputs["ntype"], "ntype") if "ntype" in inputs else None
    nodes = _count(inputs, known, "node", len(given) if given is not None else max(_least(src), _least(dst)))
    ntype = np.zeros(nodes, dtype=np.int32) if given is None else given
    if len(ntype) != nodes:
        raise InputError(f"ntype has {len(ntype):,} entries, but there are {nodes:,} nodes.")
    etypes = _count(inputs, known, "etype", _least(etype))
    ntypes = _count(inputs, known, "ntype", _least(ntype))
    for name, ids, limit in (
        ("src", src, nodes),
        ("dst", dst, nodes),
        ("etype", etype, etypes),
        ("ntype", ntype, ntypes),
    ):
        if len(ids) and not (ids.min() >= 0 and ids.max() < limit):
            place = int(np.flatnonzero((ids < 0) | (ids >= limit))[0])
            raise InputError(f"{name}[{place}] is {ids[place]}, which is not in 0 to {limit - 1}.")
    return RelationalGraph("inputs", "inputs", nodes, etypes, ntypes, src, dst, etype, ntype)


def _ids(values: Any, name: str) -> Ids:
    array = np.asarray(values)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or not array.size):
        raise InputError(f"{name} has the shape {list(array.shape)} and holds {array.dtype}, not a list of ids.")
    if array.size and not (array.min() >= -(2**31) and array.max() < 2**31):
        raise InputError(f"{name} holds ids that do not fit in 32 bits.")
    return np.ascontiguousarray(array, dtype=np.int32)


def _read_off(inputs: Mapping[str, Any], graph: Graph) -> dict[str, int]:
    """The sizes of sets that the given tensors have rows for."""
    known: dict[str, int] = {}
    for tensor in graph.tensors:
        if tensor.name in inputs:
            known.update(zip(tensor.sets, np.shape(inputs[tensor.name]), strict=False))
    return known


def _count(inputs: Mapping[str, Any], known: Mapping[str, int], index_set: str, least: int) -> int:
    return int(inputs.get(f"num_{index_set}s", known.get(index_set, least)))


def _least(ids: Ids) -> int:
    return int(ids.max(initial=-1)) + 1


def program_inputs(
    graph: Graph, module: Module, encodings: Encodings, tensors: Mapping[str, npt.NDArray[Any]]
) -> dict[str, Any]:
    """Every array that the programs of a layer read: maps, segments, structure, sizes, and the tensors sorted.

    Raises InputError for a tensor that is missing or does not fit.
    """
    arrays: dict[str, Any] = {str(count_name(index_set)): size for index_set, size in encodings.counts.items()}
    arrays |= {entry.name: encodings.maps[entry.name] for entry in graph.maps if entry.name in DOMAINS}
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
    array = np.asarray(tensors[tensor.name], dtype=np.float32)
    shape = tensor_shape(graph, tensor, encodings.counts)
    if array.shape != shape:
        raise InputError(f"{tensor.name} has the shape {list(array.shape)}, but is declared {list(shape)}.")
    return encodings.sort_edges(array) if tensor.sets[:1] == ("edge",) else array


def tensor_shape(graph: Graph, tensor: Tensor, counts: Mapping[str, int]) -> tuple[int, ...]:
    """The sizes of a tensor's sets, then of its dimensions."""
    known = {**counts, "unit": 1}
    return (*(known[index_set] for index_set in tensor.sets), *(graph.size(extent) for extent in tensor.dims))


def finish(graph: Graph, encodings: Encodings, result: Floats, gradients: Mapping[str, Floats]) -> Outcome:
    """A program's result with its edges in the caller's order, and gradients in the shapes of their tensors."""
    if graph.value(graph.result).index_set == "edge":
        result = encodings.restore_edges(result)
    tensors = {tensor.name: tensor for tensor in graph.tensors}
    shaped: dict[str, Floats] = {}
    for name, gradient in gradients.items():
        tensor = tensors[name]
        rows = gradient.reshape(tensor_shape(graph, tensor, encodings.counts))
        shaped[name] = encodings.restore_edges(rows) if tensor.sets[:1] == ("edge",) else rows
    return result, shaped
