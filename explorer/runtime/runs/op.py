"""How a run of an op is set up: its lists are encoded, its tensors are drawn, its result is computed in float64."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import Graph, Tensor
from explorer.compiler.ir.index_sets import with_products
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.set_maps import listed_in
from explorer.compiler.returned import for_each_returned
from explorer.runtime.data.index_lists import SparseRows
from explorer.runtime.data.lists import DEFAULT, DEFAULTS, load_lists
from explorer.runtime.data.locality import reuse
from explorer.runtime.data.normal import standard_normal, whole
from explorer.runtime.encode.bags import drawn_beside, given_bags, most_beside
from explorer.runtime.encode.declared import DRAWN, declared_in, drawn_maps
from explorer.runtime.encode.layers import tensor_shape
from explorer.runtime.encode.ops import EncodedLists, Sets, finish, own_counts, program_inputs, programs_of
from explorer.runtime.encode.stored import as_stored, rounding
from explorer.runtime.encode.structure import Structure
from explorer.runtime.limits import layers as bounds_layer
from explorer.runtime.reference.compare import Check
from explorer.runtime.reference.evaluate import Meaning
from explorer.runtime.reference.sampling import Data, Drawn, Sample, cut, draw, numbered, renumber, takes_long
from explorer.runtime.runs.events import Event, progress
from explorer.runtime.runs.fitting import fit_op
from explorer.runtime.runs.footprint import MEMORY_LIMIT, check_memory, room_for
from explorer.runtime.runs.request import (
    STEPS,
    Floats,
    Outcome,
    Result,
    RunRequest,
    Setup,
    meaning_of,
    result_of,
)

GRADIENT_TERMS = 2_000_000
"""Up to so many elements looked up, all gradients are checked; beyond, those of the first lists."""
REMEDY = "smaller dimensions or a part of the data, as in com-Youtube/10"
"""What makes an op's run take less memory."""
MOST_TRACED = 1_000_000
"""Up to so many entries, a result says how far apart accesses to the same row are."""


@dataclass(frozen=True, eq=False, kw_only=True)
class OpSetup(Setup):
    """A compiled op with its lists, the tensors, and the result that they must give."""

    executable: Kernel | Module
    encoded: EncodedLists

    compared = True

    @property
    def large(self) -> bool:
        looked_up = max(self.encoded.lists.num_entries, self.encoded.lists.num_cols) * self._row
        return looked_up > GRADIENT_TERMS or self.sample is not None

    @property
    def _row(self) -> int:
        """The elements of a row that is looked up."""
        return prod(tensor_shape(self.graph, _table(self.graph), self.encoded.counts)[1:])

    def inputs(self) -> dict[str, Any]:
        return program_inputs(self.graph, self.executable, self.encoded, self.tensors)

    @property
    def meaning(self) -> Meaning:
        return _meaning(self.request, self.compilation, self.encoded, self.tensors)

    def finished(self, got: Result, gradients: Mapping[str, Floats]) -> Outcome:
        return finish(self.graph, self.encoded, got, gradients)

    def smaller(self) -> OpSetup:
        """The same op on the first lists, over a part of the rows, with new tensors."""
        most = max(1, GRADIENT_TERMS // self._row)
        sets = self.encoded.sets
        lists = first_lists(self.encoded.lists, most, sets.owner == sets.picked)
        encoded = encoded_with_drawn(self.graph, lists, self.request.seed)
        tensors = as_stored(self.graph, draw_tensors(self.graph, encoded, self.request.seed))
        bounds = _meaning(self.request, self.compilation, encoded, tensors).result()
        return replace(
            self, encoded=encoded, tensors=tensors, bounds=bounds, gradients={}, wanted={}, sample=None, part=None
        )

    def recompiled(self, options: Mapping[str, str | int | bool]) -> OpSetup:
        compilation = self.compiled_with(options)
        graph, program = programs_of(compilation)
        return replace(self, compilation=compilation, graph=graph, executable=program)

    def describe(self, check: Check) -> dict[str, Any]:
        encoded, lists = self.encoded, self.encoded.lists
        structure = Structure(encoded.counts, encoded.maps, encoded.map_bytes)
        return {
            "data": lists.describe(),
            "reuse": reuse(lists.idx) if lists.num_entries <= MOST_TRACED else None,
            "preprocessing": [vars(step) for step in encoded.steps],
            "limits": bounds_layer.limits(self.graph, structure),
        }


def first_lists(lists: SparseRows, most: int, square: bool) -> SparseRows:
    """The first lists, up to so many entries, which pick among as many rows: the ids beyond start over."""
    count = max(1, min(most, int(np.searchsorted(lists.ptr, most, side="right")) - 1))
    count = min(count, lists.num_rows)
    ptr = np.minimum(lists.ptr[: count + 1], most).astype(np.int32)
    rows = count if square else min(lists.num_cols, most)
    value = None if lists.value is None else lists.value[: ptr[-1]]
    return replace(lists, ptr=ptr, idx=lists.idx[: ptr[-1]] % np.int32(rows), num_cols=rows, value=value, order=None)


def default_data(compilation: Compilation) -> str:
    """What an op runs on where nothing is said."""
    graph = compilation.stages["graph"].program
    return DEFAULTS.get(Sets.of(graph).owner, DEFAULT) if isinstance(graph, Graph) else DEFAULT


def prepare(request: RunRequest, compilation: Compilation) -> Generator[Event, None, OpSetup]:
    """Everything before the target is involved. Raises Refused and InputError."""
    data = request.data or default_data(compilation)
    yield progress(f"loading {data}", 1, STEPS)
    room = room_for(request.on, request.memory)
    lists = load_lists(data, request.folder, room.least)
    fitted = fit_op(request, compilation, lists)
    compilation, sizes_from = fitted.compilation, fitted.sizes_from
    request = replace(request, sizes=compilation.sizes)  # what it is compared with is compiled of these too
    graph, program = programs_of(compilation)
    yield progress(f"encoding {lists.num_entries:,} entries of {lists.num_rows:,} lists", 2, STEPS)
    sets = Sets.of(graph)
    drawn_sets = dict.fromkeys((entry.codomain for entry in declared_in(graph)), DRAWN)
    counts = with_products(graph, {**drawn_sets, **most_beside(graph, lists), **sets.counts(lists)})
    further = sum(3 * counts[entry.domain] for entry in (*sets.computed, *declared_in(graph)))
    further += sum(5 * counts[home.domain] for home, _ in listed_in(graph)[1:])
    structure_bytes = 4 * (2 * lists.num_rows + 5 * lists.num_entries + further)
    total = check_memory(graph, compilation, counts, lists.name, REMEDY, room, structure_bytes)
    encoded = encoded_with_drawn(graph, lists, request.seed)
    yield progress("drawing the tables and the parameters", 3, STEPS)
    drawn = draw_tensors(graph, encoded, request.seed)
    tensors = as_stored(graph, drawn)
    large = total > MEMORY_LIMIT or takes_long(_data(graph, encoded))
    sample = _sample(graph, encoded, request.seed) if large else None
    rows = "the op" if sample is None else f"{len(sample.rows):,} rows of the op"
    yield progress(f"computing {rows} in float64, for the check", 4, STEPS)

    def meaning(tensors: Mapping[str, npt.NDArray[Any]]) -> Meaning:
        if sample is not None:
            return _sampled(request, compilation, encoded, tensors, sample)
        return _meaning(request, compilation, encoded, tensors)

    checked = meaning(tensors)
    bounds = result_of(checked)
    return OpSetup(
        request=request,
        compilation=compilation,
        tensors=tensors,
        bounds=bounds,
        graph=graph,
        executable=program,
        encoded=encoded,
        sizes_from=sizes_from,
        sample=sample,
        part=None if sample is None else checked,
        rounding=rounding(graph, bounds, lambda: meaning(drawn)),
    )


def encoded_with_drawn(graph: Graph, lists: SparseRows, seed: int) -> EncodedLists:
    """Lists with ids for each map that the op declares, and of several bags the others' lists. The entries of bags are
    those of the lists, in their order."""
    sets = Sets.of(graph)
    lists = replace(lists, order=None) if sets.owner in DEFAULTS else lists
    beside = drawn_beside(graph, lists, seed)
    return EncodedLists(sets, lists, drawn_maps(graph, own_counts(sets, lists, beside), seed), beside)


def _data(graph: Graph, encoded: EncodedLists) -> Data:
    """What results depend on."""
    ends = {entry.name: (entry.domain, entry.codomain) for entry in graph.maps if entry.name in encoded.maps}
    return Data(graph, encoded.maps, ends, encoded.counts)


def _sample(graph: Graph, encoded: EncodedLists, seed: int) -> Sample:
    """Rows to check; of entries, as the caller has them."""
    sample = draw(_data(graph, encoded), seed)
    if encoded.sets.computed:
        sample = numbered(sample, graph, encoded.counts, encoded.sets.entry)
    order = encoded.lists.order
    if order is None:
        return sample

    def as_given(drawn: Drawn, name: str) -> Drawn:
        of_entries = graph.value(name).index_set == encoded.sets.entry
        return replace(drawn, rows=order[drawn.rows]) if of_entries else drawn

    return replace(sample, drawn=for_each_returned(as_given, sample.drawn, graph.results))


def _sampled(
    request: RunRequest,
    compilation: Compilation,
    encoded: EncodedLists,
    tensors: Mapping[str, npt.NDArray[Any]],
    sample: Sample,
) -> Meaning:
    """The sampled rows, of the lists and entries that they depend on, sorted."""
    graph, _ = programs_of(compilation)
    sets, lists, kept = encoded.sets, encoded.lists, sample.kept
    entries = kept[sets.entry]
    placed = {name: renumber(ids, encoded.counts[name]) for name, ids in kept.items()}

    def part_of(lists: SparseRows, home: str, entry: str, picked: str) -> SparseRows:
        """The lists of the owners that are kept, of the entries that are."""
        lengths = np.bincount(placed[sets.owner](encoded.maps[home][kept[entry]]), minlength=len(kept[sets.owner]))
        return replace(
            lists,
            num_cols=len(kept[picked]),
            ptr=np.concatenate(([0], np.cumsum(lengths))).astype(np.int32),
            idx=placed[picked](lists.idx[kept[entry]]),
            value=None if lists.value is None else lists.value[kept[entry]],
            order=None,
        )

    declared = {
        name: replace(
            each,
            ids=placed[each.codomain](encoded.maps[name][kept[each.domain]]),
            count=len(kept[each.codomain]),
        )
        for name, each in encoded.declared.items()
    }
    part = part_of(lists, sets.home, sets.entry, sets.picked)
    beside = tuple(
        replace(bag, lists=part_of(bag.lists, bag.home.name, bag.home.domain, bag.pick.codomain))
        for bag in encoded.beside
    )
    given = entries if lists.order is None else lists.order[entries]
    rows = cut(tensors, graph, {**kept, sets.entry: given})
    found = EncodedLists(sets, part, declared, beside)
    return replace(_meaning(request, compilation, found, rows), rows=sample.places)


def _meaning(
    request: RunRequest, compilation: Compilation, encoded: EncodedLists, tensors: Mapping[str, npt.NDArray[Any]]
) -> Meaning:
    return meaning_of(request, compilation, {**_given(encoded), **tensors})


def _given(encoded: EncodedLists) -> dict[str, Any]:
    """The lists as the reference takes them: as their source has them, so that nonzeros keep its order. A text may
    name weights that its result does not take, `dot(x[i], x[j]) for j, a in A.row(i)`: then any will do."""
    lists, sets = encoded.lists, encoded.sets
    values = np.ones(lists.num_entries, np.float32) if lists.value is None else lists.restore(lists.value)
    given = {"value": values, **{name: each.ids for name, each in encoded.declared.items()}}
    if encoded.beside:
        return given | given_bags(encoded.by_home)
    if sets.entry == "entry":
        return {**given, "ptr": lists.ptr, "idx": lists.idx, "blocks": lists.idx, "weight": values}
    if lists.order is None:
        return {**given, "rowptr": lists.ptr, "col": lists.idx, "num_cols": lists.num_cols}
    counts = {"num_rows": lists.num_rows, "num_cols": lists.num_cols}
    return {**given, "row": lists.restore(encoded.maps[sets.home]), "col": lists.restore(lists.idx), **counts}


def draw_tensors(graph: Graph, encoded: EncodedLists, seed: int) -> dict[str, Floats]:
    """A value for every tensor that the lists do not bring, the same for the same arguments: normal with a deviation
    of 1 / sqrt(last dimension), so that dot products keep their size; weights lie between 0.5 and 1.5."""
    tensors: dict[str, Floats] = {}
    for tensor in graph.tensors:
        shape = tensor_shape(graph, tensor, encoded.counts)
        drawn_by = [seed, zlib.crc32(tensor.name.encode())]
        if tensor.kind == "structure":
            given = encoded.weights(tensor)
            drawn = np.random.default_rng(drawn_by).random(shape, dtype=np.float32) + np.float32(0.5)
            tensors[tensor.name] = drawn if given is None else encoded.lists.restore(given)
        else:
            divisor = sqrt(shape[-1]) if tensor.dims and tensor.kind != "upstream" else 1.0
            drawn = standard_normal(drawn_by, shape, divisor)
            tensors[tensor.name] = whole(drawn) if tensor.storage == "i8" else drawn
    return tensors


def _table(graph: Graph) -> Tensor:
    """The largest tensor that rows are picked of, or the first there is."""
    picked = Sets.of(graph).picked
    return max(graph.tensors, key=lambda tensor: (picked in tensor.sets, len(tensor.dims)))
