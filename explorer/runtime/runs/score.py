"""How a run of a score is set up: a batch of triples and the parameters are drawn and scored in float64.

With a backward pass, the inverses of the batch's maps are computed once and told as pre-processing; no time of theirs
is in the samples.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.counts import BATCH
from explorer.compiler.interpret.asked_bytes import asked_bytes
from explorer.compiler.interpret.inputs import each_fact
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.index_sets import is_of_fact
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.kept import ByContent, content
from explorer.compiler.options import INSPECTIONS
from explorer.compiler.to_json import kernels_of
from explorer.runtime import compiling
from explorer.runtime.data.triples import Triples, load_triples
from explorer.runtime.encode import batch
from explorer.runtime.encode import scores as score_inputs
from explorer.runtime.encode.scores import Encoding
from explorer.runtime.encode.stored import as_stored, rounding
from explorer.runtime.limits import bounds
from explorer.runtime.limits import layers as bounds_layer
from explorer.runtime.limits.chunks import shared_by_chunks
from explorer.runtime.reference.compare import Check
from explorer.runtime.reference.evaluate import Meaning
from explorer.runtime.reference.sampling import Sample, draw_batch
from explorer.runtime.runs.events import Event, progress
from explorer.runtime.runs.footprint import MEMORY_LIMIT, room_for
from explorer.runtime.runs.request import (
    STEPS,
    Floats,
    Outcome,
    Result,
    RunRequest,
    Setup,
    compile_request,
    meaning_of,
    result_of,
)

GRADIENT_SCORES = 20_000
"""Up to so many scores, all gradients are checked; of a larger batch, those of its first triples."""
CHUNKED_TRIPLES = 1_000_000
"""Of a larger batch, what chunks share is not counted."""
COUNTED_SCORES = 2_048
"""Of a larger batch, what the inspector's settings ask for is counted of so many scores of its first triples: those of
cuKE's group, 128 chunks of 16."""

_ASKED = ByContent[dict[str, int]](256 << 10, lambda asked: 1024)
"""What each setting of the inspector asks memory for, of the latest models."""

Tensors = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreSetup(Setup):
    """A compiled score with its batch, whose maps are among the tensors, and the scores that it must give."""

    triples: Triples
    encoding: Encoding

    @property
    def renews(self) -> bool:  # type: ignore[override]
        """A batch is scored once; of a training step, only its encoding is known beforehand."""
        return not self.compilation.options.grad

    @property
    def large(self) -> bool:
        return self.want.size > GRADIENT_SCORES or self.sample is not None

    def inputs(self) -> dict[str, Any]:
        return {**self.tensors, **self.encoding.arrays}

    @property
    def meaning(self) -> Meaning:
        return _meaning(self.request, self.compilation, self.tensors)

    def finished(self, got: Result, gradients: Mapping[str, Floats]) -> Outcome:
        return got, score_inputs.shaped(self.graph, self.tensors, gradients)

    def smaller(self) -> ScoreSetup:
        """The same score of the batch's first triples."""
        tensors, _ = self._first(GRADIENT_SCORES)
        return _made(self.request, self.compilation, self.triples, tensors)

    def _first(self, scores: int) -> tuple[dict[str, npt.NDArray[Any]], int]:
        """The tensors of the batch's first triples, which have so many scores at most, and how many triples these are:
        one at least."""
        triples = max(1, scores // (self.want.size // len(self.want)))
        cut = _of_batch(self.graph)
        tensors = {name: array[:triples].copy() if name in cut else array for name, array in self.tensors.items()}
        return tensors, min(triples, self.request.batch)

    def recompiled(self, options: Mapping[str, str | int | bool]) -> ScoreSetup:
        compilation = self.compiled_with(options)
        graph, loops = score_inputs.graph_of(compilation), compilation.stages["loops"].program
        encoding = score_inputs.encode(graph, loops, self.tensors)
        return replace(self, compilation=compilation, graph=graph, encoding=encoding)

    def describe(self, check: Check) -> dict[str, Any]:
        triples, graph = self.triples, self.graph
        described: dict[str, Any] = {
            "data": {
                "name": triples.name,
                "source": triples.source,
                "entities": triples.num_entities,
                "relations": triples.num_relations,
                "triples": len(triples.h),
            },
            "batch": self.request.batch,
            "negatives": self.compilation.options.to_json()["negatives"],
            **self._chunks(),
        }
        if not self.compilation.options.grad:
            described |= self._inspected()
        if graph.is_one_nest:
            return {**described, "limits": bounds.limits(graph, self.inputs())}
        structure = score_inputs.structure_of(graph, self.tensors)
        sorted_by = {"inverses": self.encoding.describe()} if self.encoding.steps else {}
        return {**described, **sorted_by, "limits": bounds_layer.limits(graph, structure)}

    def _chunks(self) -> dict[str, Any]:
        """What the chunks of the option `inspect_edges` ask for, whether or not the kernels are made by chunks; of
        negatives, and of a batch that is too large, nothing."""
        ids = batch.ids_by_role(self.graph, self.tensors)
        if not ids or self.compilation.options.negatives or len(ids["relation"]) > CHUNKED_TRIPLES:
            return {}
        chunk, group = self.compilation.options.inspect_edges, self.compilation.options.inspect_group
        return {"chunks": {"edges": chunk, "group": group, **shared_by_chunks(ids, chunk, group)}}

    def _inspected(self) -> dict[str, Any]:
        """What each setting of the inspector asks memory for (cuKE Fig. 9), of the batch's first triples."""
        tensors, triples = self._first(COUNTED_SCORES)
        graph, program = self.graph, self.compilation.stages["loops"].program
        inputs = {**tensors, **score_inputs.encode(graph, program, tensors).arrays}
        made = self.compilation
        unnamed = re.sub(rf"\b{re.escape(made.name)}\b", "", self.request.text)
        key = content(unnamed, made.sizes, made.options.to_json(), inputs)
        asked = _ASKED.made(key, lambda: _asked_by_setting(self.request.text, made, inputs))
        return {"inspected": {"triples": triples, "bytes": asked}} if asked else {}


def prepare(request: RunRequest, compilation: Compilation) -> Generator[Event, None, ScoreSetup]:
    """Everything before the target is involved. Raises Refused and InputError."""
    compilation = _for_batch(request, compilation)
    yield progress(f"loading {request.data}", 1, STEPS)
    triples = load_triples(request.data, request.folder)
    yield progress(f"drawing {request.batch:,} triples and the parameters", 2, STEPS)
    room = room_for(request.on, request.memory)
    graph = score_inputs.graph_of(compilation)
    drawn = batch.draw(compilation, triples, request.batch, request.seed, room.least, room.shown)
    tensors = each_fact(graph, drawn)
    sample = _sample(request, compilation, tensors)
    told = "the batch" if sample is None else f"{len(sample.rows):,} triples of the batch"
    yield progress(f"scoring {told} in float64, for the check", 3, STEPS)
    made = _made(request, compilation, triples, as_stored(graph, tensors), sample)
    rows = tensors if sample is None else _rows(graph, tensors, sample)
    return replace(made, rounding=rounding(graph, made.bounds, lambda: _meaning(request, compilation, rows)))


def _for_batch(request: RunRequest, compilation: Compilation) -> Compilation:
    """The score compiled for as many triples as a GPU gets, by which schedules go; for any number, where a reader was
    shown that program. Raises Refused."""
    if request.on != "gpu" or request.compiled is not None:
        return compilation
    return compile_request(request, {BATCH: request.batch})


def _sample(request: RunRequest, compilation: Compilation, tensors: Tensors) -> Sample | None:
    """Triples to check, where the rows that all of them pick would take more than MEMORY_LIMIT in float64."""
    graph = score_inputs.graph_of(compilation)
    scores = prod(score_inputs.upstream_shape(graph, tensors))
    widest = max(prod(map(graph.size, tensor.dims)) for tensor in graph.tensors)
    return draw_batch(request.batch, request.seed) if 8 * scores * widest > MEMORY_LIMIT else None


def _of_batch(graph: Graph) -> set[str]:
    """The arrays with a row for each fact: its ids, what comes with it, and the gradient of its score."""
    sets = ({entry.name} for entry in graph.maps if is_of_fact(entry))
    return {tensor.name for tensor in graph.tensors if tensor.sets[:1] in (("batch",), ("negative",))}.union(*sets)


def _made(
    request: RunRequest, compilation: Compilation, triples: Triples, tensors: Tensors, sample: Sample | None = None
) -> ScoreSetup:
    graph = score_inputs.graph_of(compilation)
    encoding = score_inputs.encode(graph, compilation.stages["loops"].program, tensors)
    part = None if sample is None else _meaning(request, compilation, _rows(graph, tensors, sample))
    return ScoreSetup(
        request=request,
        compilation=compilation,
        graph=graph,
        tensors=tensors,
        bounds=result_of(part or _meaning(request, compilation, tensors)),
        triples=triples,
        encoding=encoding,
        sample=sample,
        part=part,
    )


def _rows(graph: Graph, tensors: Tensors, sample: Sample) -> Tensors:
    """The tensors with the sampled facts alone."""
    cut = _of_batch(graph)
    return {name: array[sample.rows] if name in cut else array for name, array in tensors.items()}


def _meaning(request: RunRequest, compilation: Compilation, tensors: Tensors) -> Meaning:
    """What the tensors mean, which have a list of negatives for each triple."""
    negatives = compilation.options.negatives
    listed = str(replace(negatives, sharing=1)) if negatives else "none"
    return meaning_of(request, compilation, tensors, listed)


def _asked_by_setting(text: str, compilation: Compilation, inputs: Mapping[str, Any]) -> dict[str, int]:
    """By setting of the option `inspect` the bytes that a score's kernels ask memory for on a GPU, before any cache:
    of those that the compiler makes of the text, whatever schedule or edited stage a run has. A setting is left out
    where no kernels are to be had, and where numbers decide what they ask for."""
    found = {}
    for setting in INSPECTIONS:
        kernels = _kernels(text, compilation, setting)
        asked = asked_bytes(kernels, inputs)
        if kernels and all(kernel.name in asked for kernel in kernels):
            found[setting] = sum(asked.values())
    return found


def _kernels(text: str, compilation: Compilation, setting: str) -> list[ScheduledKernel]:
    """The kernels of a setting; none where it is of chunks, and a chunk's block does none of the work."""
    options = {**compilation.options.to_json(), "inspect": setting}
    made = compiling.compile(text, sizes=compilation.sizes, options=options, name=compilation.name, on_demand=True)
    stage = made.stages["kernels"]
    kernels = kernels_of(stage.program) if stage.available else []
    chunked = any(kernel.template == "chunks" for kernel in kernels)
    return kernels if chunked or setting != "chunks" else []
