"""How a run of a layer is set up: a graph is encoded, the layer's tensors are drawn, its result computed in float64.

The encodings are computed once and told as pre-processing; no time of theirs is in the samples.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import Graph, Tensor
from explorer.compiler.ir.module import Module
from explorer.runtime.data.graphs import RelationalGraph, load_graph
from explorer.runtime.data.normal import standard_normal
from explorer.runtime.encode.graph import DOMAINS, Encodings, encode
from explorer.runtime.encode.layers import finish, program_inputs, programs, tensor_shape, upstream_name
from explorer.runtime.encode.structure import Structure
from explorer.runtime.limits import layers as bounds_layer
from explorer.runtime.reference.compare import Check
from explorer.runtime.reference.evaluate import Meaning
from explorer.runtime.reference.sampling import Data, Sample, cut, draw, renumber, takes_long
from explorer.runtime.runs.events import Event, progress
from explorer.runtime.runs.footprint import MEMORY_LIMIT, check_memory, room_for
from explorer.runtime.runs.request import (
    STEPS,
    Floats,
    Outcome,
    RunRequest,
    Setup,
    coarser,
    compile_request,
    device_of_reference,
)

GRADIENT_EDGES = 20_000
"""Up to so many edges, all gradients are checked; of a larger graph, those on about so many of its edges."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerSetup(Setup):
    """A compiled layer with the graph, the tensors, and the result that they must give."""

    graph: Graph
    module: Module
    encodings: Encodings

    @property
    def upstream(self) -> Floats:
        return self.tensors[upstream_name(self.graph) or ""]

    @property
    def large(self) -> bool:
        return self.encodings.graph.num_edges > GRADIENT_EDGES or self.sample is not None

    def inputs(self) -> dict[str, Any]:
        return program_inputs(self.graph, self.module, self.encodings, self.tensors)

    @property
    def meaning(self) -> Meaning:
        return _meaning(self.request, self.compilation, self.encodings.graph, self.tensors)

    @property
    def learnt(self) -> list[str]:
        return [name for name, _ in self.graph.gradients]

    def finished(self, got: Floats, gradients: Mapping[str, Floats]) -> Outcome:
        return finish(self.graph, self.encodings, got, gradients)

    def smaller(self) -> LayerSetup:
        """The same layer on about GRADIENT_EDGES of the graph's edges, spread evenly, with new tensors over edges."""
        graph = self.encodings.graph
        step = -(-graph.num_edges // GRADIENT_EDGES)
        edges = np.arange(0, graph.num_edges, step)
        nodes = np.arange(graph.num_nodes)
        if self.sample is not None:  # all nodes would take too much
            nodes = np.union1d(graph.src[edges], graph.dst[edges])
        part = part_of(graph, {"node": nodes, "edge": edges})
        encodings = encode(part)
        tensors = draw_tensors(self.graph, encodings.counts, self.request.seed)
        bounds = _meaning(self.request, self.compilation, part, tensors).result()
        return replace(
            self, encodings=encodings, tensors=tensors, bounds=bounds, gradients={}, wanted={}, sample=None, part=None
        )

    def recompiled(self, options: Mapping[str, str | int | bool]) -> LayerSetup:
        compilation = self.compiled_with(options)
        graph, module = programs(compilation)
        return replace(self, compilation=compilation, graph=graph, module=module)

    def describe(self, check: Check) -> dict[str, Any]:
        described, maps = self.encodings.describe(), self.encodings.maps
        map_bytes = {name: array.nbytes for name, array in maps.items()}
        structure = Structure(self.encodings.counts, maps, map_bytes)
        return {
            "data": {name: described[name] for name in ("name", "source", "nodes", "edges", "ntypes", "etypes")},
            "encodings": described,
            "limits": bounds_layer.limits(self.graph, structure),
        }


def prepare(request: RunRequest, compilation: Compilation) -> Generator[Event, None, LayerSetup]:
    """Everything before the target is involved. Raises Refused and InputError."""
    yield progress(f"loading {request.data}", 1, STEPS)
    data = load_graph(request.data, request.folder)
    room = room_for(request.on, request.memory)
    yield progress(f"encoding {data.num_edges:,} edges: sorted, and with their unique pairs", 2, STEPS)
    encodings = encode(data, room.least)
    # What pays depends on the graph, so the layer is compiled anew now that its sizes are known.
    counts = {f"{index_set}s": count for index_set, count in encodings.counts.items()}
    compilation = compile_request(request, counts, data.name)
    graph, module = programs(compilation)
    total = check_memory(graph, module, encodings.counts, data.name, "smaller dimensions or a smaller graph", room)
    yield progress("drawing the features and the parameters", 3, STEPS)
    tensors = draw_tensors(graph, encodings.counts, request.seed)
    sample = _sample(request, data) if total > MEMORY_LIMIT or _takes_long(request, data) else None
    rows = "the layer" if sample is None else f"{len(sample.rows):,} rows of the layer"
    yield progress(f"computing {rows} in float64, for the check", 4, STEPS)
    part = None if sample is None else _sampled(request, compilation, data, tensors, sample)
    return LayerSetup(
        request=request,
        compilation=compilation,
        tensors=tensors,
        bounds=(part or _meaning(request, compilation, data, tensors)).result(),
        graph=graph,
        module=module,
        encodings=encodings,
        sample=sample,
        part=part,
    )


def _meaning(
    request: RunRequest, compilation: Compilation, data: RelationalGraph, tensors: Mapping[str, npt.NDArray[Any]]
) -> Meaning:
    counts = {"num_nodes": data.num_nodes, "num_etypes": data.num_etypes, "num_ntypes": data.num_ntypes}
    inputs: dict[str, Any] = {**data.arrays(), **counts, **tensors}
    coarse = coarser(compilation, request.on)
    device = device_of_reference(request.on)
    return Meaning(request.text, inputs, compilation.sizes, compilation.name, coarser=coarse, device=device)


def _sample(request: RunRequest, data: RelationalGraph) -> Sample:
    """Rows to check."""
    return draw(_as_written(request, data), request.seed)


def _takes_long(request: RunRequest, data: RelationalGraph) -> bool:
    return data.num_edges > GRADIENT_EDGES and takes_long(_as_written(request, data))


def _as_written(request: RunRequest, data: RelationalGraph) -> Data:
    """What results depend on in the graph as it is written: sets of pairs are the compiler's own."""
    plain = {"reorder": False, "compact": False, "aggregate": False, "grad": False}
    compilation = compile_request(replace(request, options={**request.options, **plain}, edited={}))
    counts = {"node": data.num_nodes, "edge": data.num_edges}
    return Data(programs(compilation)[0], data.arrays(), DOMAINS, counts)


def _sampled(
    request: RunRequest,
    compilation: Compilation,
    data: RelationalGraph,
    tensors: Mapping[str, npt.NDArray[Any]],
    sample: Sample,
) -> Meaning:
    """The sampled rows, of the nodes and edges that they depend on."""
    graph, _ = programs(compilation)
    meaning = _meaning(request, compilation, part_of(data, sample.kept), cut(tensors, graph, sample.kept))
    return replace(meaning, rows=sample.places)


def part_of(data: RelationalGraph, kept: Mapping[str, npt.NDArray[np.integer]]) -> RelationalGraph:
    """Some nodes and edges of a graph, the edges' ends among the nodes."""
    nodes, edges = kept["node"], kept["edge"]
    place = renumber(nodes, data.num_nodes)
    return replace(
        data,
        num_nodes=len(nodes),
        src=place(data.src[edges]),
        dst=place(data.dst[edges]),
        etype=data.etype[edges],
        ntype=data.ntype[nodes],
    )


def draw_tensors(graph: Graph, counts: Mapping[str, int], seed: int) -> dict[str, Floats]:
    """A value for every tensor that is not the graph's own, the same for the same arguments.

    Features and the gradient of the result are standard normal; what is learnt is divided by the root of the
    dimension that a product with it sums over, so that values keep their size through the layer.
    """
    return {
        tensor.name: _draw(graph, tensor, tensor_shape(graph, tensor, counts), seed)
        for tensor in graph.tensors
        if tensor.kind != "structure"
    }


def _draw(graph: Graph, tensor: Tensor, shape: tuple[int, ...], seed: int) -> Floats:
    learnt = tensor.kind == "param" and bool(tensor.dims)
    divisor = np.sqrt(graph.size(tensor.dims[-2:][0])) if learnt else 1.0
    return standard_normal([seed, zlib.crc32(tensor.name.encode())], shape, divisor)
