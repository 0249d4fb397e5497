"""What a compilation's kernels cost: what each takes of a GPU, and the bytes that it asks memory for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.compiler.codegen.binary.ptx import generate_ptx
from explorer.compiler.codegen.cuda.program import generate_cuda
from explorer.compiler.compilation import Compilation
from explorer.compiler.interpret.asked_bytes import asked_bytes
from explorer.compiler.interpret.inputs import each_fact
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.report import Report
from explorer.compiler.to_json import kernel_of, kernels_of
from explorer.compiler.unsupported import Unsupported
from explorer.runtime.data.graphs import load_graph
from explorer.runtime.data.triples import InputError, load_triples
from explorer.runtime.encode import batch, layers, ops, scores
from explorer.runtime.encode.declared import encoded
from explorer.runtime.runs.fitting import Fitted
from explorer.runtime.runs.layer import closed, ends_of, evenly, part_of, with_drawn_maps
from explorer.runtime.runs.op import encoded_with_drawn, first_lists
from explorer.runtime.runs.request import DEFAULT_DATA, ModelRequest

COUNTED_TRIPLES = 1_024
COUNTED_ENTRIES = 4_096
"""Triples of a batch, and edges of a graph or entries of lists, that bytes are counted on."""


def costs_json(fitted: Fitted, request: ModelRequest, made: Sequence[str]) -> dict[str, Any]:
    """By kernel its `bytes`, None where they cannot be counted, and what they were `counted_on`; for those named in
    `made`, whose machine code is made each by itself, its `resources` or the `reason` why there are none."""
    compilation = fitted.compilation
    kernels = kernels_of(compilation.stages["kernels"].program)
    asked: Mapping[str, int] = {}
    try:
        arrays, of = _arrays(fitted, request)
        asked, counted_on = asked_bytes(kernels, arrays), f"asked of memory, before any cache, by {of}"
    except InputError as error:
        counted_on = str(error)
    found: dict[str, Any] = {
        kernel.name: {"bytes": asked.get(kernel.name), "counted_on": counted_on} for kernel in kernels
    }
    for name in made:
        if kernel := kernel_of(compilation.stages["kernels"].program, name):
            found[name] |= _resources(kernel, compilation)
    return found


def _resources(kernel: ScheduledKernel, compilation: Compilation) -> dict[str, Any]:
    report = Report(compilation.options)
    try:
        code = generate_ptx(generate_cuda(kernel, report), report)
    except Unsupported as error:
        return {"reason": str(error)}
    taken = code.binary.resources if code.binary else ()
    return {"resources": taken[0].to_json()} if taken else {"reason": "ptxas does not say what it takes"}


def _arrays(fitted: Fitted, request: ModelRequest) -> tuple[Mapping[str, Any], str]:
    """What the kernels read of a small part of their data, and what it is; kept for other schedules of the text."""
    compilation = fitted.compilation
    key = (request.text, repr((compilation.sizes, compilation.options, request.data, request.folder)))
    if key not in _LATEST:
        _LATEST.clear()
        _LATEST[key] = DRAWN[compilation.family](compilation, request)
    return _LATEST[key]


_LATEST: dict[tuple[str, str], tuple[Mapping[str, Any], str]] = {}


def _batch(compilation: Compilation, request: ModelRequest) -> tuple[Mapping[str, Any], str]:
    triples = load_triples(request.data or DEFAULT_DATA, request.folder)
    graph = scores.graph_of(compilation)
    tensors = each_fact(graph, batch.draw(compilation, triples, COUNTED_TRIPLES))
    encoding = scores.encode(graph, compilation.stages["loops"].program, tensors)
    return {**tensors, **encoding.arrays}, f"{COUNTED_TRIPLES:,} triples of {triples.name}"


def _layer(compilation: Compilation, request: ModelRequest) -> tuple[Mapping[str, Any], str]:
    graph, module = layers.programs(compilation)
    data = with_drawn_maps(load_graph(request.data or "small", request.folder, graph.ends), graph, 0)
    kept = evenly(data, -(-data.num_edges // COUNTED_ENTRIES))
    edges = kept["edge"]
    encodings = encoded(part_of(data, closed(data, {**ends_of(data, edges), **kept})), graph)
    shapes = {tensor.name: layers.tensor_shape(graph, tensor, encodings.counts) for tensor in graph.tensors}
    arrays = layers.program_inputs(graph, module, encodings, _zeros(graph, shapes))
    return arrays, f"{len(edges):,} edges of {data.name}"


def _op(compilation: Compilation, request: ModelRequest) -> tuple[Mapping[str, Any], str]:
    from explorer.runtime.data.lists import DEFAULT, DEFAULTS, load_lists  # loads Numba, which only this needs

    graph, program = ops.programs_of(compilation)
    sets = ops.Sets.of(graph)
    lists = load_lists(request.data or DEFAULTS.get(sets.owner, DEFAULT), request.folder)
    part = first_lists(lists, COUNTED_ENTRIES, sets.owner == sets.picked)
    read = encoded_with_drawn(graph, part, 0)
    shapes = {tensor.name: layers.tensor_shape(graph, tensor, read.counts) for tensor in graph.tensors}
    arrays = ops.program_inputs(graph, program, read, _zeros(graph, shapes))
    return arrays, f"{part.num_entries:,} entries of {lists.name}"


def _zeros(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """An array of each shape that takes no memory."""
    return {tensor.name: np.broadcast_to(np.float32(0), shapes[tensor.name]) for tensor in graph.tensors}


DRAWN = {"score": _batch, "layer": _layer, "op": _op}
"""By family what its kernels read of a small part of its data."""
