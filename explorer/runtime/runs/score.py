"""How a run of a score is set up: a batch of triples and the parameters are drawn and scored in float64.

With a backward pass, the inverses of the batch's maps are computed once and told as pre-processing; no time of theirs
is in the samples.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.runtime.data.triples import Triples, load_triples
from explorer.runtime.encode import batch
from explorer.runtime.encode import scores as score_inputs
from explorer.runtime.encode.layers import upstream_name
from explorer.runtime.encode.scores import Encoding
from explorer.runtime.limits import bounds
from explorer.runtime.limits import layers as bounds_layer
from explorer.runtime.limits.chunks import shared_by_chunks
from explorer.runtime.reference.compare import Check
from explorer.runtime.reference.evaluate import Meaning
from explorer.runtime.reference.sampling import Sample, draw_batch
from explorer.runtime.runs.events import Event, progress
from explorer.runtime.runs.footprint import MEMORY_LIMIT, room_for
from explorer.runtime.runs.request import STEPS, Floats, Outcome, RunRequest, Setup, coarser, device_of_reference

GRADIENT_SCORES = 20_000
"""Up to so many scores, all gradients are checked; of a larger batch, those of its first triples."""
CHUNKED_TRIPLES = 1_000_000
"""Of a larger batch, what chunks share is not counted."""

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
    def upstream(self) -> Floats:
        return self.tensors[upstream_name(score_inputs.graph_of(self.compilation)) or ""]

    @property
    def large(self) -> bool:
        return self.want.size > GRADIENT_SCORES or self.sample is not None

    def inputs(self) -> dict[str, Any]:
        return {**self.tensors, **self.encoding.arrays}

    @property
    def meaning(self) -> Meaning:
        return _meaning(self.request, self.compilation, self.tensors)

    @property
    def learnt(self) -> list[str]:
        return [name for name, _ in score_inputs.graph_of(self.compilation).gradients]

    def finished(self, got: Floats, gradients: Mapping[str, Floats]) -> Outcome:
        return got, score_inputs.shaped(score_inputs.graph_of(self.compilation), self.tensors, gradients)

    def smaller(self) -> ScoreSetup:
        """The same score of the batch's first triples."""
        triples = max(1, GRADIENT_SCORES // (self.want.size // len(self.want)))
        graph = score_inputs.graph_of(self.compilation)
        cut = {entry.name for entry in graph.maps} | {upstream_name(graph)}
        tensors = {name: array[:triples].copy() if name in cut else array for name, array in self.tensors.items()}
        return _made(self.request, self.compilation, self.triples, tensors)

    def recompiled(self, options: Mapping[str, str | int | bool]) -> ScoreSetup:
        compilation = self.compiled_with(options)
        graph, loops = score_inputs.graph_of(compilation), compilation.stages["loops"].program
        return replace(self, compilation=compilation, encoding=score_inputs.encode(graph, loops, self.tensors))

    def describe(self, check: Check) -> dict[str, Any]:
        triples, graph = self.triples, score_inputs.graph_of(self.compilation)
        described = {
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
            return {**described, "limits": bounds.limits(graph, self.tensors)}
        structure = score_inputs.structure_of(graph, self.tensors)
        return {**described, "inverses": self.encoding.describe(), "limits": bounds_layer.limits(graph, structure)}

    def _chunks(self) -> dict[str, Any]:
        """What the chunks of the option `inspect_edges` ask for, whether or not the kernels are made by chunks; of
        negatives, and of a batch that is too large, nothing."""
        ids = batch.ids_by_role(score_inputs.graph_of(self.compilation), self.tensors)
        if self.compilation.options.negatives or len(ids["relation"]) > CHUNKED_TRIPLES:
            return {}
        chunk, group = self.compilation.options.inspect_edges, self.compilation.options.inspect_group
        return {"chunks": {"edges": chunk, "group": group, **shared_by_chunks(ids, chunk, group)}}


def prepare(request: RunRequest, compilation: Compilation) -> Generator[Event, None, ScoreSetup]:
    """Everything before the target is involved. Raises Refused and InputError."""
    yield progress(f"loading {request.data}", 1, STEPS)
    triples = load_triples(request.data, request.folder)
    yield progress(f"drawing {request.batch:,} triples and the parameters", 2, STEPS)
    room = room_for(request.on, request.memory)
    tensors = batch.draw(compilation, triples, request.batch, request.seed, room.least, room.shown)
    sample = _sample(request, compilation, tensors)
    rows = "the batch" if sample is None else f"{len(sample.rows):,} triples of the batch"
    yield progress(f"scoring {rows} in float64, for the check", 3, STEPS)
    return _made(request, compilation, triples, tensors, sample)


def _sample(request: RunRequest, compilation: Compilation, tensors: Tensors) -> Sample | None:
    """Triples to check, where the rows that all of them pick would take more than MEMORY_LIMIT in float64."""
    graph = score_inputs.graph_of(compilation)
    scores = prod(score_inputs.upstream_shape(graph, tensors))
    widest = max(prod(map(graph.size, tensor.dims)) for tensor in graph.tensors)
    return draw_batch(request.batch, request.seed) if 8 * scores * widest > MEMORY_LIMIT else None


def _made(
    request: RunRequest, compilation: Compilation, triples: Triples, tensors: Tensors, sample: Sample | None = None
) -> ScoreSetup:
    graph = score_inputs.graph_of(compilation)
    encoding = score_inputs.encode(graph, compilation.stages["loops"].program, tensors)
    maps = {entry.name for entry in graph.maps}
    part = None
    if sample is not None:
        rows = {name: array[sample.rows] if name in maps else array for name, array in tensors.items()}
        part = _meaning(request, compilation, rows)
    return ScoreSetup(
        request=request,
        compilation=compilation,
        tensors=tensors,
        bounds=(part or _meaning(request, compilation, tensors)).result(),
        triples=triples,
        encoding=encoding,
        sample=sample,
        part=part,
    )


def _meaning(request: RunRequest, compilation: Compilation, tensors: Tensors) -> Meaning:
    negatives = str(compilation.options.to_json()["negatives"])
    coarse = coarser(compilation, request.on)
    device = device_of_reference(request.on)
    return Meaning(request.text, tensors, compilation.sizes, compilation.name, negatives, coarse, device=device)
