"""Draws what a run computes on: a batch of triples, its negatives, and a value for every tensor of the model."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import Graph, IndexMap, Tensor
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.runtime import liveness
from explorer.runtime.arrays import extents_of
from explorer.runtime.data.triples import InputError, Triples
from explorer.runtime.encode import scores as score_inputs

MEMORY_LIMIT = 2 << 30
"""The most bytes that all arrays of a run may take together, unless the caller says otherwise."""

ROLES = ("head", "relation", "tail")
"""What a score's first, second and third parameter is."""

PLURALS = {"entity": "entities", "relation": "relations"}


@dataclass(frozen=True)
class _Array:
    """An array to be drawn: how messages show it, its shape, and what makes it smaller."""

    shown: str
    shape: tuple[int, ...]
    remedy: str

    @property
    def bytes(self) -> int:
        """Its size; ids and values take 4 bytes each."""
        count = 4
        for extent in self.shape:
            count *= extent
        return count


def draw(
    compilation: Compilation,
    triples: Triples,
    batch: int = 1024,
    seed: int = 0,
    limit: int = MEMORY_LIMIT,
    shown: str = "",
) -> dict[str, npt.NDArray[Any]]:
    """The inputs of a run by name, the same for the same arguments.

    Ids are int32 [batch], drawn from the triples with replacement; with negatives the corrupted ids are
    [batch, count], uniform over the entities. Tensors are float32, normal with a deviation of 1 / sqrt(last
    dimension), so that sums over rows neither grow nor vanish with the sizes. Raises InputError where the arrays
    would take more than `limit` bytes (`shown` says what that is); that is decided before any of them is made.
    """
    if batch < 1:
        raise InputError(f"a batch has at least 1 triple, not {batch}")
    graph = compilation.stages["graph"].program
    if not isinstance(graph, Graph):
        raise TypeError("only a compilation that succeeded has inputs")
    negatives = compilation.options.negatives
    count = negatives.count if negatives else 0
    shapes = {tensor.name: _shape(graph, tensor, triples, (batch, count)) for tensor in graph.tensors}
    arrays = [*_plan(graph, shapes, batch, count), *_training(compilation, graph, triples, batch, count)]
    _check_memory(arrays, limit, shown or f"the limit of {_gib(limit)}")

    random = np.random.default_rng(seed)
    rows = random.integers(0, len(triples.h), size=batch)
    columns = dict(zip(ROLES, (triples.h, triples.r, triples.t), strict=True))
    inputs: dict[str, npt.NDArray[Any]] = {}
    for role, entry in zip(ROLES, _ends(graph), strict=True):
        inputs[entry.name] = columns[role][rows]
        if negatives and negatives.end == role:
            inputs[entry.name] = random.integers(0, triples.num_entities, size=(batch, count), dtype=np.int32)
    for name, shape in shapes.items():
        inputs[name] = _draw_tensor(name, shape, seed)
    return inputs


def ids_by_role(graph: Graph, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """A batch's heads, relations and tails: [batch], and [batch, count] of the end that negatives replace."""
    return {role: tensors[entry.name] for role, entry in zip(ROLES, _ends(graph), strict=True)}


def _ends(graph: Graph) -> list[IndexMap]:
    return [entry for entry in graph.maps if entry.codomain in PLURALS]


def _draw_tensor(name: str, shape: tuple[int, ...], seed: int) -> npt.NDArray[np.float32]:
    """A tensor's values; they do not depend on which other tensors there are."""
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    values = random.standard_normal(shape, dtype=np.float32)
    values /= np.float32(np.sqrt(shape[-1])) if shape else np.float32(1)
    return values


def _shape(graph: Graph, tensor: Tensor, triples: Triples, scores: tuple[int, int]) -> tuple[int, ...]:
    lead: dict[str, tuple[int, ...]] = {"entity": (triples.num_entities,), "relation": (triples.num_relations,)}
    lead |= {"batch": scores[:1], "negative": scores}
    return (*(size for name in tensor.sets for size in lead[name]), *(graph.size(extent) for extent in tensor.dims))


def _plan(graph: Graph, shapes: dict[str, tuple[int, ...]], batch: int, count: int) -> list[_Array]:
    """All arrays of a run, ids and scores too."""
    ids = "a smaller batch" + (" or fewer negatives" if count else "")
    rows = (batch, max(1, count))
    arrays = [_Array(f"the ids and scores [{batch} x {max(1, count)}]", (*rows, 4), ids)]
    for tensor in graph.tensors:
        shape = shapes[tensor.name]
        if tensor.kind == "upstream":
            arrays.append(_Array(f"the gradient of the scores {list(shape)}", shape, ids))
            continue
        names = [*tensor.sets, *(str(extent) for extent in tensor.dims)]
        extents = ", ".join(f"{name} {extent}" for name, extent in zip(names, shape, strict=True))
        dims = " or ".join(extent for extent in dict.fromkeys(tensor.dims) if isinstance(extent, str))
        fewer = [f"data with fewer {PLURALS[name]}" for name in tensor.sets]
        arrays.append(
            _Array(f"{tensor.name}[{extents}]", shape, ", or ".join([*([f"a smaller {dims}"] if dims else []), *fewer]))
        )
    return arrays


def _training(compilation: Compilation, graph: Graph, triples: Triples, batch: int, count: int) -> list[_Array]:
    """What a backward pass takes besides: the inverses of the maps, and all that its kernels make."""
    module = compilation.stages["loops"].program
    if not isinstance(module, Module):
        return []
    counts = {"entity": triples.num_entities, "relation": triples.num_relations, "unit": 1}
    counts |= {"batch": batch, "negative": batch * count}
    kernels = [program for program in module.programs if isinstance(program, Kernel)]
    extents = extents_of(graph, module, counts)
    made = liveness.peak_bytes(kernels, liveness.kept_to_the_end(module), extents)
    smaller = "a smaller batch, or smaller dimensions"
    inverses = score_inputs.encoded_bytes(graph, counts)
    return [
        _Array("the inverses of the maps", (inverses // 4,), smaller),
        _Array("the gradients with what their kernels leave for one another", (made // 4,), smaller),
    ]


def _check_memory(arrays: list[_Array], limit: int, shown: str) -> None:
    total = sum(array.bytes for array in arrays)
    if total > limit:
        largest = max(arrays, key=lambda array: array.bytes)
        raise InputError(
            f"the inputs would take {_gib(total)}, more than {shown}: the largest is"
            f" {largest.shown} with {_gib(largest.bytes)}; try {largest.remedy}"
        )


def _gib(count: int) -> str:
    return f"{count / 2**30:,.2f} GiB" if count >= 2**30 else f"{count / 2**20:,.1f} MiB"
