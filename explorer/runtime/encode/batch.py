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
from explorer.compiler.ir.index_sets import is_given, is_of_fact
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.storage import ROUNDED
from explorer.compiler.ir.work import elements
from explorer.compiler.language.names.structures import NEGATIVE
from explorer.runtime import liveness
from explorer.runtime.arrays import extents_of
from explorer.runtime.data.normal import whole
from explorer.runtime.data.triples import InputError, Triples
from explorer.runtime.encode import scores as score_inputs
from explorer.runtime.encode.declared import DRAWN, declared_in, drawn_maps, made_sizes

MEMORY_LIMIT = 2 << 30
"""The most bytes that all arrays of a run may take together, unless the caller says otherwise."""

TRIPLE = {"head": "entity", "relation": "relation", "tail": "entity"}
"""What a triple has, and the set that each is of."""

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
    [batch, count], uniform over their set, and so are a text's own negatives; where chunks of triples share these, they
    are [chunks, count]. A score's first entity is a triple's
    head, its second the tail, its first relation the triple's, and all other ids are uniform over their sets, those
    of maps that the text declares too. Tensors
    are float32, normal with a deviation of 1 / sqrt(last dimension), so that sums over rows neither grow nor vanish
    with the sizes. Raises InputError where the arrays would take more than `limit` bytes (`shown` says what that is);
    that is decided before any of them is made.
    """
    if batch < 1:
        raise InputError(f"a batch has at least 1 triple, not {batch}")
    graph = compilation.stages["graph"].program
    if not isinstance(graph, Graph):
        raise TypeError("only a compilation that succeeded has inputs")
    negatives = compilation.options.negatives
    count, replaces = (negatives.count, negatives.replaces) if negatives else (0, False)
    shapes = {tensor.name: _shape(graph, tensor, triples, (batch, count)) for tensor in graph.tensors}
    arrays = [*_plan(graph, shapes, batch, count), *_training(compilation, graph, triples, batch, count)]
    _check_memory(arrays, limit, shown or f"the limit of {_gib(limit)}")

    random = np.random.default_rng(seed)
    rows = random.integers(0, len(triples.h), size=batch)
    columns = {"entity": [triples.h, triples.t], "relation": [triples.r]}
    sizes, inputs = set_sizes(graph, triples), dict[str, npt.NDArray[Any]]()
    for entry in _ids(graph):
        known, corrupted = columns.get(entry.codomain), entry.domain == NEGATIVE
        column = known.pop(0) if known and (replaces or not corrupted) else None
        if column is None or corrupted:
            size = (-(-batch // entry.sharing), count) if corrupted else batch
            inputs[entry.name] = random.integers(0, sizes[entry.codomain], size=size, dtype=np.int32)
        else:
            inputs[entry.name] = column[rows]
    inputs |= {name: drawn.ids for name, drawn in drawn_maps(graph, sizes, seed).items()}
    for tensor in graph.tensors:
        drawn = _draw_tensor(tensor.name, shapes[tensor.name], seed)
        inputs[tensor.name] = whole(drawn) if tensor.storage == "i8" else drawn
    return inputs


def ids_by_role(graph: Graph, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """A batch's heads, relations and tails: [batch], and [batch, count] of the end that negatives replace; empty for
    a score of anything but triples."""
    ids = _ids(graph)
    if [entry.codomain for entry in ids] != list(TRIPLE.values()):
        return {}
    return {role: tensors[entry.name] for role, entry in zip(TRIPLE, ids, strict=True)}


def set_sizes(graph: Graph, triples: Triples) -> dict[str, int]:
    """How many elements each set of a score has in a run on the triples: those of its header, and those that its own
    maps and computed ids lead to."""
    known = {"entity": triples.num_entities, "relation": triples.num_relations}
    known |= {entry.codomain: DRAWN for entry in (*_ids(graph), *declared_in(graph)) if entry.codomain not in known}
    return known | made_sizes(graph.maps, known)


def _ids(graph: Graph) -> list[IndexMap]:
    """The maps of a score's header."""
    return [entry for entry in graph.maps if is_given(entry) and is_of_fact(entry)]


def _draw_tensor(name: str, shape: tuple[int, ...], seed: int) -> npt.NDArray[np.float32]:
    """A tensor's values; they do not depend on which other tensors there are."""
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    values = random.standard_normal(shape, dtype=np.float32)
    values /= np.float32(np.sqrt(shape[-1])) if shape else np.float32(1)
    return values


def _shape(graph: Graph, tensor: Tensor, triples: Triples, scores: tuple[int, int]) -> tuple[int, ...]:
    lead: dict[str, tuple[int, ...]] = {name: (size,) for name, size in set_sizes(graph, triples).items()}
    lead |= {"batch": scores[:1], NEGATIVE: scores}
    return (*(size for name in tensor.sets for size in lead[name]), *(graph.size(extent) for extent in tensor.dims))


def _plan(graph: Graph, shapes: dict[str, tuple[int, ...]], batch: int, count: int) -> list[_Array]:
    """All arrays of a run, ids and scores too."""
    ids = "a smaller batch" + (" or fewer negatives" if count else "")
    rows = (batch, max(1, count))
    made = sum(bool(entry.computed) for entry in graph.maps)
    made += sum(elements(graph, graph.value(name)) - 1 for name in graph.results)
    arrays = [_Array(f"the ids and scores [{batch} x {max(1, count)}]", (*rows, 4 + made), ids)]
    for tensor in graph.tensors:
        shape = shapes[tensor.name]
        if tensor.kind == "upstream":
            arrays.append(_Array(f"the gradient of the scores {list(shape)}", shape, ids))
            continue
        names = [*tensor.sets, *(str(extent) for extent in tensor.dims)]
        extents = ", ".join(f"{name} {extent}" for name, extent in zip(names, shape, strict=True))
        dims = " or ".join(extent for extent in dict.fromkeys(tensor.dims) if isinstance(extent, str))
        fewer = [f"data with fewer {PLURALS[name]}" for name in tensor.sets if name in PLURALS]
        fewer += [ids for name in tensor.sets if name == "batch"]
        arrays.append(
            _Array(
                f"{tensor.name}[{extents}]",
                (*shape, 2) if tensor.storage in ROUNDED else shape,  # what is rounded stays beside until that is told
                ", or ".join([*([f"a smaller {dims}"] if dims else []), *fewer]),
            )
        )
    return arrays


def _training(compilation: Compilation, graph: Graph, triples: Triples, batch: int, count: int) -> list[_Array]:
    """What a backward pass takes besides: the inverses of the maps, and all that its kernels make."""
    module = compilation.stages["loops"].program
    if not isinstance(module, Module):
        return []
    counts = {**set_sizes(graph, triples), "unit": 1}
    counts |= {"batch": batch, NEGATIVE: batch * count}
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
