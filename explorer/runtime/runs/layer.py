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
from explorer.compiler.ir.graph import NODES, Graph, Tensor, plural
from explorer.compiler.ir.index_sets import count_name, number_of
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.set_maps import PAIRS, beside_of, edges_beside
from explorer.compiler.stages import Stages
from explorer.runtime.data.graphs import RelationalGraph, load_graph
from explorer.runtime.data.normal import standard_normal, whole
from explorer.runtime.data.triples import Ids
from explorer.runtime.encode.declared import drawn_maps, encoded, made_maps, made_sizes
from explorer.runtime.encode.graph import Encodings
from explorer.runtime.encode.layers import (
    finish,
    program_inputs,
    programs,
    tensor_shape,
)
from explorer.runtime.encode.stored import as_stored, rounding
from explorer.runtime.encode.structure import Structure
from explorer.runtime.limits import layers as bounds_layer
from explorer.runtime.reference.compare import Check
from explorer.runtime.reference.evaluate import Meaning
from explorer.runtime.reference.sampling import Data, Sample, cut, draw, numbered, renumber, takes_long
from explorer.runtime.runs.events import Event, progress
from explorer.runtime.runs.footprint import MEMORY_LIMIT, check_memory, room_for
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

DESCRIBED = ("name", "source", "nodes", "edges", "ntypes", "etypes", "ends")
"""What is told of the graph of a run; `ends` of one between two sets."""
GRADIENT_EDGES = 20_000
"""Up to so many edges, all gradients are checked; of a larger graph, those on about so many of its edges."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerSetup(Setup):
    """A compiled layer with the graph, the tensors, and the result that they must give."""

    module: Module
    encodings: Encodings

    @property
    def large(self) -> bool:
        return self.encodings.graph.num_edges > GRADIENT_EDGES or self.sample is not None

    def inputs(self) -> dict[str, Any]:
        return program_inputs(self.graph, self.module, self.encodings, self.tensors)

    @property
    def meaning(self) -> Meaning:
        return _meaning(self.request, self.compilation, self.encodings.graph, self.tensors)

    def finished(self, got: Result, gradients: Mapping[str, Floats]) -> Outcome:
        return finish(self.graph, self.encodings, got, gradients)

    def smaller(self) -> LayerSetup:
        """The same layer on about GRADIENT_EDGES of the graph's edges, spread evenly, with new tensors over edges."""
        graph = self.encodings.graph
        step = -(-graph.num_edges // GRADIENT_EDGES)
        nodes = {end: np.arange(graph.sizes[end]) for end in graph.ends}
        kept = evenly(graph, step)
        if self.sample is not None:  # all nodes would take too much
            nodes = ends_of(graph, kept["edge"])
        part = part_of(graph, closed(graph, {**nodes, **kept}))
        encodings = encoded(part, self.graph)
        tensors = as_stored(self.graph, draw_tensors(self.graph, encodings.counts, self.request.seed))
        bounds = _meaning(self.request, self.compilation, part, tensors).result()
        return replace(
            self, encodings=encodings, tensors=tensors, bounds=bounds, gradients={}, wanted={}, sample=None, part=None
        )

    def recompiled(self, options: Mapping[str, str | int | bool]) -> LayerSetup:
        compilation = self.compiled_with(options)
        graph, module = programs(compilation)
        same = graph.edges == self.graph.edges
        encodings = self.encodings if same else encoded(self.encodings.graph, graph)
        return replace(self, compilation=compilation, graph=graph, module=module, encodings=encodings)

    def describe(self, check: Check) -> dict[str, Any]:
        described, maps = self.encodings.describe(), self.encodings.maps
        map_bytes = {name: array.nbytes for name, array in maps.items()}
        structure = Structure(self.encodings.counts, maps, map_bytes)
        return {
            "data": {name: described[name] for name in DESCRIBED if name in described},
            "encodings": described,
            "limits": bounds_layer.limits(self.graph, structure),
        }


def prepare(request: RunRequest, compilation: Compilation) -> Generator[Event, None, LayerSetup]:
    """Everything before the target is involved. Raises Refused and InputError."""
    yield progress(f"loading {request.data}", 1, STEPS)
    assert isinstance(compilation.stages, Stages)
    checked = compilation.stages.checked
    data = with_drawn_maps(load_graph(request.data, request.folder, checked.ends), checked, request.seed)
    room = room_for(request.on, request.memory)
    yield progress(f"encoding {data.num_edges:,} edges: sorted, and with their unique pairs", 2, STEPS)
    encodings = encoded(data, checked, room.least)
    # What pays depends on the graph, so the layer is compiled anew now that its sizes are known.
    counts = {str(count_name(name)): encodings.counts[name] for name in (*data.sizes, *PAIRS)}
    compilation = compile_request(request, counts, data.name)
    graph, module = programs(compilation)
    total = check_memory(graph, compilation, encodings.counts, data.name, "smaller dimensions or a smaller graph", room)
    yield progress("drawing the features and the parameters", 3, STEPS)
    drawn = draw_tensors(graph, encodings.counts, request.seed)
    tensors = as_stored(graph, drawn)
    sample = _sample(request, data) if total > MEMORY_LIMIT or _takes_long(request, data) else None
    rows = "the layer" if sample is None else f"{len(sample.rows):,} rows of the layer"
    yield progress(f"computing {rows} in float64, for the check", 4, STEPS)

    def meaning(tensors: Mapping[str, npt.NDArray[Any]]) -> Meaning:
        if sample is not None:
            return _sampled(request, compilation, data, tensors, sample)
        return _meaning(request, compilation, data, tensors)

    whole = meaning(tensors)
    bounds = result_of(whole)
    return LayerSetup(
        request=request,
        compilation=compilation,
        tensors=tensors,
        bounds=bounds,
        graph=graph,
        module=module,
        encodings=encodings,
        sample=sample,
        part=None if sample is None else whole,
        rounding=rounding(graph, bounds, lambda: meaning(drawn)),
    )


def _meaning(
    request: RunRequest, compilation: Compilation, data: RelationalGraph, tensors: Mapping[str, npt.NDArray[Any]]
) -> Meaning:
    counts = {number_of(name): size for name, size in data.sizes.items() if name not in data.members}
    return meaning_of(request, compilation, {**data.arrays(), **counts, **tensors})


def _sample(request: RunRequest, data: RelationalGraph) -> Sample:
    """Rows to check."""
    written = _as_written(request, data)
    sample = draw(written, request.seed)
    if any(entry.computed for entry in written.graph.maps):
        return numbered(sample, written.graph, written.counts, "edge")
    return sample


def _takes_long(request: RunRequest, data: RelationalGraph) -> bool:
    if data.num_edges <= GRADIENT_EDGES:
        return False
    written = _as_written(request, data)
    result = written.graph.value(written.graph.result).index_set
    return result in (*written.counts, "unit") and takes_long(written)  # of types there are few: all are checked


def _as_written(request: RunRequest, data: RelationalGraph) -> Data:
    """What results depend on in the graph as it is written; sets of pairs are there where the text goes over them."""
    plain = {"reorder": False, "compact": False, "aggregate": False, "grad": False}
    compilation = compile_request(replace(request, options={**request.options, **plain}, edited={}))
    counts = {name: data.sizes[name] for name in (*data.ends, *data.members)}
    known = {each.codomain: each.count for each in data.declared.values()} | data.sizes
    graph, maps = programs(compilation)[0], data.arrays()
    for pair in {entry.codomain for entry in graph.maps} & {*PAIRS}:
        node, etype, own = _pairs(data, pair)
        maps |= {pair: own, f"{pair}_node": node, f"{pair}_etype": etype}
        counts[pair] = len(node)
    made = made_maps(graph, maps, known | counts)
    ends = {entry.name: (entry.domain, entry.codomain) for entry in graph.maps if entry.computed}
    whole = known | made_sizes(graph.maps, known | counts)
    return Data(graph, maps | made, {**data.domains, **ends}, counts, whole)


def _pairs(data: RelationalGraph, pair: str) -> tuple[Ids, Ids, Ids]:
    """The node and the type of each pair that edges have, and each edge's pair."""
    node = data.dst if pair == "dst_pair" else data.src
    numbers = node.astype(np.int64) * data.num_etypes + data.etype
    found, own = np.unique(numbers, return_inverse=True)
    return (found // data.num_etypes).astype(np.int32), (found % data.num_etypes).astype(np.int32), own.reshape(-1)


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


def closed(graph: RelationalGraph, kept: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Nodes and edges, with all that the graph's maps lead to from them."""
    ends, found, size = graph.domains, dict(kept), 0
    while size < (size := sum(map(len, found.values()))):
        for name, ids in graph.arrays().items() if graph.declared else ():
            domain, codomain = ends[name]
            if domain in found and codomain in found:
                found[codomain] = np.union1d(found[codomain], ids[found[domain]])
    return found


def part_of(data: RelationalGraph, kept: Mapping[str, npt.NDArray[np.integer]]) -> RelationalGraph:
    """Some nodes and edges of a graph, the edges' ends among the nodes."""
    edges, (source, destination) = kept["edge"], data.ends
    places = {name: renumber(kept[name], data.sizes[name]) for name in (*data.ends, *data.members)}
    declared = {}
    for name, each in data.declared.items():
        ids, size = each.ids[kept[each.domain]], len(kept.get(each.codomain, range(each.count)))
        ids = places[each.codomain](ids) if each.codomain in places else ids
        declared[name] = replace(each, ids=ids, count=size)
    return replace(
        data,
        declared=declared,
        num_nodes=len(kept[source]),
        num_destinations=0 if source == destination else len(kept[destination]),
        src=places[source](data.src[edges]),
        dst=places[destination](data.dst[edges]),
        etype=data.etype[edges],
        ntype=data.ntype[kept[source]] if data.ends == NODES else data.ntype,
    )


def evenly(data: RelationalGraph, step: int) -> dict[str, npt.NDArray[Any]]:
    """One in so many of the edges, those of further graphs too."""
    return {edges: np.arange(0, data.sizes[edges], step) for edges in data.members}


def ends_of(data: RelationalGraph, edges: npt.NDArray[np.integer]) -> dict[str, npt.NDArray[Any]]:
    """The nodes at some edges, by set."""
    src, dst = np.unique(data.src[edges]), np.unique(data.dst[edges])
    return {"node": np.union1d(src, dst)} if data.ends == NODES else dict(zip(data.ends, (src, dst), strict=True))


def with_drawn_maps(data: RelationalGraph, graph: Graph, seed: int) -> RelationalGraph:
    """The graph with ids for each map that the layer declares, and with further graphs that it is over: as many edges
    of as many types, between nodes that are drawn."""
    beside = {name: data.sizes["etype" if name.endswith("_etype") else "edge"] for name in beside_of(graph).values()}
    source = data.source
    if edges := edges_beside(graph):
        names = " and ".join(each.removesuffix("_edge") for each in edges)
        source += f", {names} drawn over the same {' and '.join(map(plural, dict.fromkeys(graph.ends)))}"
    return replace(data, source=source, declared=drawn_maps(graph, data.sizes | beside, seed))


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
    drawn = standard_normal([seed, zlib.crc32(tensor.name.encode())], shape, divisor)
    return whole(drawn) if tensor.storage == "i8" else drawn
