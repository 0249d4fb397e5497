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
from explorer.compiler.ir.graph import Contract, Graph, Reduce, Segment, Tensor, Value
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.runtime import bounds_layer, reference
from explorer.runtime.check import TOLERANCE, Check, compare
from explorer.runtime.events import Event, progress
from explorer.runtime.fitting import fit_op
from explorer.runtime.gradient_check import probe
from explorer.runtime.layer_inputs import tensor_shape, upstream_name
from explorer.runtime.locality import reuse
from explorer.runtime.memory import check_memory
from explorer.runtime.op_data import DEFAULT, DEFAULTS, load_lists
from explorer.runtime.op_inputs import EncodedLists, Sets, finish, is_weight, program_inputs, programs_of
from explorer.runtime.setup import STEPS, Floats, Outcome, RunRequest, Setup
from explorer.runtime.sparse import SparseRows

MANY_TERMS = 16
"""The tolerance is TOLERANCE up to so many terms of a sum, and grows with the root of their number beyond: that is how
the rounding errors of a sum in float32 grow. A sum of dot products has as many as both together."""
GRADIENT_TERMS = 2_000_000
"""Up to so many elements looked up, each tensor's gradient is checked along directions of its own, beyond along one
direction of all tensors together."""
REMEDY = "smaller dimensions or a part of the data, as in com-Youtube/10"
"""What makes an op's run take less memory."""
MOST_TRACED = 1_000_000
"""Up to so many entries, a result says how far apart accesses to the same row are."""
ERROR_RELATIVE_TO = (
    "the magnitude of an element, a tenth of the median of its row, or of all elements that are not 0: the largest"
)
"""A row that sums thousands of terms keeps their rounding errors in elements that cancel to nearly nothing, so rows
have a scale each."""


@dataclass(frozen=True, eq=False, kw_only=True)
class OpSetup(Setup):
    """A compiled op with its lists, the tensors, and the result that they must give."""

    graph: Graph
    executable: Kernel | Module
    encoded: EncodedLists

    compared = True
    error_relative_to = ERROR_RELATIVE_TO

    @property
    def gradient_tolerance(self) -> float:
        return tolerance_of(self.graph, self.encoded.lists)

    @property
    def upstream(self) -> Floats:
        return self.tensors[upstream_name(self.graph) or ""]

    @property
    def large(self) -> bool:
        row = prod(tensor_shape(self.graph, _table(self.graph), self.encoded.counts)[1:])
        return self.encoded.lists.num_entries * row > GRADIENT_TERMS

    def inputs(self) -> dict[str, Any]:
        return program_inputs(self.graph, self.executable, self.encoded, self.tensors)

    def evaluate(self, replaced: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        inputs = {**_given(self.encoded), **self.tensors, **replaced}
        return reference.op(self.request.text, inputs, self.compilation.sizes, self.compilation.name)

    def check(self, got: Floats) -> Check:
        tolerance = tolerance_of(self.graph, self.encoded.lists)
        if got.shape != self.want.shape or self.want.ndim < 2:
            return compare(got, self.want, tolerance)
        scale = row_scales(self.want)
        return compare((got / scale).astype(np.float32), self.want / scale, tolerance)

    def finished(self, got: Floats, gradients: Mapping[str, Floats]) -> Outcome:
        return finish(self.graph, self.encoded, got, gradients)

    def smaller(self) -> None:
        """None: of a large op, all tensors together are enough."""

    def recompiled(self, options: Mapping[str, str | int | bool]) -> OpSetup:
        compilation = self.compiled_with(options)
        graph, program = programs_of(compilation)
        return replace(self, compilation=compilation, graph=graph, executable=program)

    def describe(self, check: Check) -> dict[str, Any]:
        encoded, lists = self.encoded, self.encoded.lists
        structure = bounds_layer.Structure(encoded.counts, encoded.maps, encoded.map_bytes)
        return {
            "data": lists.describe(),
            "reuse": reuse(lists.idx) if lists.num_entries <= MOST_TRACED else None,
            "preprocessing": [vars(step) for step in encoded.steps],
            "limits": bounds_layer.limits(self.graph, structure),
        }


def tolerance_of(graph: Graph, lists: SparseRows) -> float:
    """What float32 is allowed where so many terms are added up for an element of the result or of a gradient."""
    longest = int(np.diff(lists.ptr).max(initial=1))
    if graph.gradients and lists.num_entries:
        longest = max(longest, int(np.bincount(lists.idx).max()))
    segments = any(isinstance(value.operator, Segment) for value in graph.values)
    terms = max(1, longest if segments else 1) * max(_summed(graph, value) for value in graph.values)
    return TOLERANCE * max(1.0, sqrt(terms / MANY_TERMS))


def _summed(graph: Graph, value: Value) -> int:
    """How many terms an element of a value adds up within a row."""
    match value.operator:
        case Contract(left=left, right=right):
            return prod(graph.size(e) for e in {*graph.value(left).shape, *graph.value(right).shape} - {*value.shape})
        case Reduce(operand=operand):
            return graph.size(graph.value(operand).shape[-1])
    return 1


def row_scales(want: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """How many times as large as the median of all elements the median of each row is, or 1 where it is smaller."""
    magnitude = np.abs(want)
    counted = magnitude[np.isfinite(want) & (want != 0)]
    typical = float(np.median(counted)) if counted.size else 1.0
    medians = np.median(magnitude.reshape(len(want), -1), axis=1) if want.size else np.ones(len(want))
    scales = np.where(np.isfinite(medians), np.maximum(1.0, medians / typical), 1.0)
    return np.asarray(scales.reshape(-1, *(1,) * (want.ndim - 1)))


def default_data(compilation: Compilation) -> str:
    """What an op runs on where nothing is said."""
    graph = compilation.stages["graph"].program
    return DEFAULTS.get(Sets.of(graph).owner, DEFAULT) if isinstance(graph, Graph) else DEFAULT


def prepare(request: RunRequest, compilation: Compilation) -> Generator[Event, None, OpSetup]:
    """Everything before the target is involved. Raises Refused and InputError."""
    data = request.data or default_data(compilation)
    yield progress(f"loading {data}", 1, STEPS)
    lists = load_lists(data, request.folder)
    fitted = fit_op(request, compilation, lists)
    compilation, sizes_from = fitted.compilation, fitted.sizes_from
    request = replace(request, sizes=compilation.sizes)  # what it is compared with is compiled of these too
    graph, program = programs_of(compilation)
    yield progress(f"encoding {lists.num_entries:,} entries of {lists.num_rows:,} lists", 2, STEPS)
    sets = Sets.of(graph)
    counts = {sets.owner: lists.num_rows, sets.picked: lists.num_cols, sets.entry: lists.num_entries}
    structure_bytes = 4 * (2 * lists.num_rows + 5 * lists.num_entries)
    check_memory(graph, program, counts, lists.name, REMEDY, structure_bytes)
    encoded = EncodedLists(Sets.of(graph), lists)
    yield progress("drawing the tables and the parameters", 3, STEPS)
    tensors = draw_tensors(graph, encoded, request.seed)
    yield progress("computing the op in float64, for the check", 4, STEPS)
    inputs = {**_given(encoded), **tensors}
    want = reference.op(request.text, inputs, compilation.sizes, compilation.name)
    setup = OpSetup(
        request=request,
        compilation=compilation,
        tensors=tensors,
        want=want,
        graph=graph,
        executable=program,
        encoded=encoded,
        sizes_from=sizes_from,
    )
    if not compilation.options.grad:
        return setup
    yield progress("probing in float64 where its gradient is defined", 4, STEPS)
    learnt = {tensor.name: tensors[tensor.name] for tensor in graph.tensors if tensor.kind == "param"}
    found = probe(learnt, want, setup.evaluate, request.seed)
    setup.upstream[found.corners] = 0
    return replace(setup, probe=found)


def _given(encoded: EncodedLists) -> dict[str, Any]:
    """The lists as the reference takes them: as their source has them, so that nonzeros keep its order. A text may
    name weights that its result does not take, `dot(x[i], x[j]) for j, a in A.row(i)`: then any will do."""
    lists, sets = encoded.lists, encoded.sets
    values = np.ones(lists.num_entries, np.float32) if lists.value is None else lists.restore(lists.value)
    if sets.entry == "entry":
        return {"ptr": lists.ptr, "idx": lists.idx, "blocks": lists.idx, "weight": values}
    if lists.order is None:
        return {"rowptr": lists.ptr, "col": lists.idx, "num_cols": lists.num_cols, "value": values}
    counts = {"num_rows": lists.num_rows, "num_cols": lists.num_cols, "value": values}
    return {"row": lists.restore(encoded.maps[sets.home]), "col": lists.restore(lists.idx), **counts}


def draw_tensors(graph: Graph, encoded: EncodedLists, seed: int) -> dict[str, Floats]:
    """A value for every tensor that the lists do not bring, the same for the same arguments: normal with a deviation
    of 1 / sqrt(last dimension), so that dot products keep their size; weights lie between 0.5 and 1.5."""
    tensors: dict[str, Floats] = {}
    for tensor in graph.tensors:
        shape = tensor_shape(graph, tensor, encoded.counts)
        random = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
        if is_weight(tensor, encoded.sets):
            given = encoded.lists.value
            drawn = random.random(shape, dtype=np.float32) + np.float32(0.5)
            tensors[tensor.name] = drawn if given is None else encoded.lists.restore(given)
        else:
            tensors[tensor.name] = random.standard_normal(shape, dtype=np.float32)
            tensors[tensor.name] /= np.float32(sqrt(shape[-1]) if tensor.dims and tensor.kind != "upstream" else 1)
    return tensors


def _table(graph: Graph) -> Tensor:
    """The largest tensor that rows are picked of, or the first there is."""
    picked = Sets.of(graph).picked
    return max(graph.tensors, key=lambda tensor: (picked in tensor.sets, len(tensor.dims)))
