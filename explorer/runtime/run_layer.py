"""One run of a layer on a target: a graph is encoded, the layer's tensors are drawn, and the result is checked.

The encodings are computed once and told as pre-processing; no time of theirs is in the samples.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import Graph, Tensor
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.runtime import bounds_layer, liveness, reference
from explorer.runtime.arrays import extents_of
from explorer.runtime.check import Check, compare
from explorer.runtime.encodings import MEMORY_LIMIT, Encodings, encode
from explorer.runtime.events import Event, failed, machine_sample, progress, result, started, timed_sample
from explorer.runtime.gradient_check import GradientCheck, Probe, check_tensor, probe, size_of
from explorer.runtime.graphs import RelationalGraph, load_graph
from explorer.runtime.inputs import InputError
from explorer.runtime.layer_inputs import Floats, finish, program_inputs, programs, tensor_shape, upstream_name
from explorer.runtime.run import (
    BEYOND_FLOAT32,
    MACHINE,
    MISMATCH,
    Refused,
    RunRequest,
    compile_request,
    sentence,
    statistics,
    streamed,
    worse,
)

TOLERANCE = 1e-4
"""The largest relative error that float32 is allowed over a layer's sums, which may have thousands of edges."""
GRADIENT_EDGES = 20_000
"""Up to so many edges, each tensor's gradient is checked along directions of its own. Of a larger graph, that is done
on about so many of its edges, and on the whole graph along one direction of all tensors together."""
STEPS = 7
"""Steps that a run's progress counts to."""

Run = Callable[[Mapping[str, Any]], tuple[Floats, Mapping[str, Floats]]]
"""Runs the prepared program on the arrays that it reads."""


@dataclass(frozen=True, eq=False)
class _Setup:
    """A compiled layer with the graph, the tensors, and the result that they must give."""

    request: RunRequest
    compilation: Compilation
    graph: Graph
    module: Module
    encodings: Encodings
    tensors: dict[str, Floats]
    want: npt.NDArray[np.float64]
    probe: Probe | None = None  # where gradients are asked for
    gradients: dict[str, GradientCheck] = field(default_factory=dict)

    def check(self, got: Floats) -> Check:
        """Holds a result against the one that the layer must give."""
        return compare(got, self.want, TOLERANCE, lambda: self.plain)

    @cached_property
    def plain(self) -> npt.NDArray[np.float64]:
        """The result that NumPy gives in float32."""
        return _reference(self.request, self.compilation, self.encodings.graph, self.tensors, np.float32)

    @property
    def upstream(self) -> Floats:
        """The gradient of the result."""
        return self.tensors[upstream_name(self.graph) or ""]

    def inputs(self) -> dict[str, Any]:
        """What the programs read."""
        return program_inputs(self.graph, self.module, self.encodings, self.tensors)

    def evaluate(self, replaced: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        """The reference's result, with some tensors replaced."""
        return _reference(self.request, self.compilation, self.encodings.graph, {**self.tensors, **replaced})


def execute_layer(request: RunRequest, compilation: Compilation) -> Iterator[Event]:
    """Runs a compiled layer, yielding events; the last is `result`. Raises Refused and InputError."""
    setup = yield from _prepare(request, compilation)
    yield from {"cpu": _run_cpu, "dae": _run_dae}[request.on](setup)


def _prepare(request: RunRequest, compilation: Compilation) -> Generator[Event, None, _Setup]:
    yield progress(f"loading {request.data}", 1, STEPS)
    data = load_graph(request.data, None if request.data_dir is None else Path(request.data_dir))
    yield progress(f"encoding {data.num_edges:,} edges: sorted, and with their unique pairs", 2, STEPS)
    encodings = encode(data)
    # What pays depends on the graph, so the layer is compiled anew now that its sizes are known.
    counts = {f"{index_set}s": count for index_set, count in encodings.counts.items()}
    compilation = compile_request(request, counts, data.name)
    graph, module = programs(compilation)
    check_memory(graph, module, encodings)
    yield progress("drawing the features and the parameters", 3, STEPS)
    tensors = draw_tensors(graph, encodings.counts, request.seed)
    yield progress("computing the layer in float64, for the check", 4, STEPS)
    want = _reference(request, compilation, data, tensors)
    setup = _Setup(request, compilation, graph, module, encodings, tensors, want)
    if compilation.options.grad:
        yield progress("probing in float64 where its gradient is defined", 4, STEPS)
        setup = _probed(setup)
    return setup


def _probed(setup: _Setup) -> _Setup:
    """The setup with a difference to check gradients against, and no upstream gradient where none can be checked."""
    learnt = [tensor.name for tensor in setup.graph.tensors if tensor.kind == "param"]
    found = probe({name: setup.tensors[name] for name in learnt}, setup.want, setup.evaluate, setup.request.seed)
    setup.upstream[found.corners] = 0
    return replace(setup, probe=found)


def _reference(
    request: RunRequest,
    compilation: Compilation,
    data: RelationalGraph,
    tensors: Mapping[str, npt.NDArray[Any]],
    dtype: npt.DTypeLike = np.float64,
) -> npt.NDArray[np.float64]:
    counts = {"num_nodes": data.num_nodes, "num_etypes": data.num_etypes, "num_ntypes": data.num_ntypes}
    inputs: dict[str, Any] = {**data.arrays(), **counts, **tensors}
    return reference.layer(request.text, inputs, compilation.sizes, compilation.name, dtype)


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
    random = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
    values = random.standard_normal(shape, dtype=np.float32)
    if tensor.kind == "param" and tensor.dims:
        values /= np.float32(np.sqrt(graph.size(tensor.dims[-2:][0])))
    return values


def check_memory(graph: Graph, module: Module, encodings: Encodings, limit: int = MEMORY_LIMIT) -> None:
    """Raises InputError where the tensors, and the arrays that kernels make, would take more than `limit` bytes."""
    shapes = {tensor.name: tensor_shape(graph, tensor, encodings.counts) for tensor in graph.tensors}
    sizes = {name: 4 * prod(shape) for name, shape in shapes.items()}
    kernels = [program for program in module.programs if isinstance(program, Kernel)]
    made = liveness.peak_bytes(kernels, liveness.kept_to_the_end(module), extents_of(graph, module, encodings.counts))
    total = made + sum(sizes.values())
    if total > limit:
        largest = max(sizes, key=lambda name: sizes[name])
        raise InputError(
            f"the layer would take {total / 2**30:,.2f} GiB on {encodings.graph.name}, more than the limit of"
            f" {limit / 2**30:,.2f} GiB: {made / 2**30:,.2f} GiB are made in the run, and of its tensors the largest,"
            f" {largest}{list(shapes[largest])}, takes {sizes[largest] / 2**30:,.2f} GiB; try smaller dimensions or a"
            " smaller graph"
        )


def _run_cpu(setup: _Setup) -> Iterator[Event]:
    """Compile the kernels to machine code, check the first run, then time `repeat` more and check each."""
    from explorer.runtime import cpu

    yield started("cpu", cpu.device_name(), "measured")
    yield progress(f"compiling {len(setup.module.programs)} kernels to machine code", 5, STEPS)
    try:
        prepared = cpu.prepare_once(setup.module)
    except InputError as error:
        raise Refused(failed("refused", sentence(error))) from None
    bound = prepared.bind(setup.inputs())
    check = yield from _first_check(setup, lambda arrays: prepared.bind(arrays).run())
    samples: list[float] = []
    for index in range(setup.request.repeat):
        if not (check.matches and _gradients_match(setup)):
            break
        began = perf_counter()
        outcome = bound.run()
        samples.append((perf_counter() - began) * 1e3)
        check = worse(check, setup.check(_finished(setup, *outcome)[0]))
        yield timed_sample(index, samples[-1])
    right = check.matches and _gradients_match(setup)
    times = statistics(samples) if right else dict.fromkeys(statistics([0.0]))
    yield result(
        {
            **_description(setup, check, "measured", prepared.device),
            "samples_ms": samples if right else None,
            **times,
            "cache": "warm",  # each repeat reads the arrays of the one before
            "compile_ms": prepared.compile_ms,
            "peak_bytes": bound.peak_bytes,
        }
    )


def _first_check(setup: _Setup, run: Run) -> Generator[Event, None, Check]:
    """The check of the result and, if it is right, of the gradients."""
    got, gradients = _finished(setup, *run(setup.inputs()))
    check = setup.check(got)
    if not (check.matches and gradients):
        return check
    yield progress("checking the gradients against differences in float64", 6, STEPS)
    part, found = setup, gradients
    if setup.encodings.graph.num_edges > GRADIENT_EDGES and setup.probe is not None:
        setup.gradients["(all together)"] = setup.probe.check(gradients, setup.upstream)
        part = _smaller(setup)
        found = _finished(part, *run(part.inputs()))[1]
    beside = size_of(found)
    for name, gradient in found.items():
        setup.gradients[name] = check_tensor(
            name, gradient, part.tensors[name], part.upstream, part.evaluate, setup.request.seed, beside=beside
        )
    return check


def _smaller(setup: _Setup) -> _Setup:
    """The same layer on about GRADIENT_EDGES of the graph's edges, spread evenly, with new tensors over edges."""
    graph = setup.encodings.graph
    step = -(-graph.num_edges // GRADIENT_EDGES)
    part = replace(graph, src=graph.src[::step], dst=graph.dst[::step], etype=graph.etype[::step])
    encodings = encode(part)
    tensors = draw_tensors(setup.graph, encodings.counts, setup.request.seed)
    want = _reference(setup.request, setup.compilation, part, tensors)
    return _probed(replace(setup, encodings=encodings, tensors=tensors, want=want))


def _gradients_match(setup: _Setup) -> bool:
    return all(check.max_relative_error < TOLERANCE for check in setup.gradients.values())


def _finished(setup: _Setup, got: Floats, gradients: Mapping[str, Floats]) -> tuple[Floats, dict[str, Floats]]:
    return finish(setup.graph, setup.encodings, got, gradients)


def _run_dae(setup: _Setup) -> Iterator[Event]:
    """Simulate the decoupled programs once, streaming the machine's state."""
    from explorer.machine.parameters import MachineParameters
    from explorer.runtime import dae

    stage = setup.compilation.stages["dlc"]
    if not isinstance(stage.program, Module):
        raise Refused(failed("refused", f"There is no dlc program to run: {stage.reason}"))
    program = stage.program
    try:
        parameters = MachineParameters.of(setup.request.machine)
        yield started("dae", MACHINE, "simulated")
        yield progress("simulating the machine (the first time on a computer, its simulator is compiled)", 5, STEPS)
        inputs = setup.inputs()
        simulation = yield from streamed(
            lambda post: dae.simulate(
                program, inputs, parameters, lambda sample: post(machine_sample(sample)), core_alone=True
            )
        )
    except ValueError as error:
        # What the machine says of its parameters, and of a record that is larger than its queue.
        raise Refused(failed("refused", sentence(error))) from None
    simulated = [(simulation.output, simulation.gradients)]

    def run(arrays: Mapping[str, Any]) -> tuple[Floats, Mapping[str, Floats]]:
        if simulated:  # what the arrays of the whole graph gave
            return simulated.pop()
        part = dae.simulate(program, arrays, parameters)
        return part.output, part.gradients

    check = yield from _first_check(setup, run)
    figures = simulation.to_json()
    if not (check.matches and _gradients_match(setup)):
        figures = dict.fromkeys(figures)
    yield result({**_description(setup, check, "simulated", MACHINE), **figures})


def _description(setup: _Setup, check: Check, source: Literal["measured", "simulated"], device: str) -> dict[str, Any]:
    """The part of a result that both targets have: what ran, on what, and whether it was right."""
    request, compilation, error = setup.request, setup.compilation, check.max_relative_error
    right = check.matches and _gradients_match(setup)
    described = setup.encodings.describe()
    return {
        "matches_reference": right,
        "max_relative_error": error if np.isfinite(error) else None,
        "error_relative_to": "an element's magnitude, or a tenth of the median of those not 0 where that is larger",
        "median_magnitude": check.median_magnitude,
        "tolerance": check.tolerance,
        "plain_float32_error": check.plain_error,
        "rows_checked": check.rows,
        "message": "" if right else BEYOND_FLOAT32 if check.beyond_float32 else MISMATCH,
        "gradients": {name: found.to_json() for name, found in setup.gradients.items()},
        "name": compilation.name,
        "family": compilation.family,
        "target": request.on,
        "device": device,
        "source": source,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": {name: described[name] for name in ("name", "source", "nodes", "edges", "ntypes", "etypes")},
        "encodings": described,
        "rows": check.rows,
        **({"repeat": request.repeat} if request.on == "cpu" else {}),
        "seed": request.seed,
        "sizes": dict(compilation.sizes),
        "options": compilation.options.to_json(),
        "limits": bounds_layer.limits(setup.graph, _structure(setup.encodings)),
    }


def _structure(encodings: Encodings) -> bounds_layer.Structure:
    maps = encodings.maps
    return bounds_layer.Structure(encodings.counts, maps, {name: array.nbytes for name, array in maps.items()})
