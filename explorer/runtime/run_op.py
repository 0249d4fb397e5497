"""One run of an op on a target: its lists are encoded, its tensors are drawn, and the result is checked.

Row lengths: a preset that says what its rows look like (RM3: 128 elements) sets the dims of the table that the op
picks rows of, unless the request sets them. The result says which size came from where.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import prod, sqrt
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import Contract, Gather, Graph, Reduce, Segment, Tensor, Value
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Extent
from explorer.runtime import bounds_layer, dae_run, liveness, reference
from explorer.runtime.arrays import extents_of, kernels_of
from explorer.runtime.check import TOLERANCE, Check, compare
from explorer.runtime.events import Event, failed, progress, result, started, timed_sample
from explorer.runtime.gradient_check import GradientCheck, Probe, check_tensor, probe, size_of
from explorer.runtime.inputs import InputError
from explorer.runtime.layer_inputs import Floats, tensor_shape, upstream_name
from explorer.runtime.locality import reuse
from explorer.runtime.op_data import DEFAULT, DEFAULTS, load_lists
from explorer.runtime.op_inputs import EncodedLists, Sets, finish, is_weight, program_inputs, programs_of
from explorer.runtime.run import (
    BEYOND_FLOAT32,
    MACHINE,
    MISMATCH,
    Refused,
    RunRequest,
    compile_request,
    sentence,
    statistics,
    worse,
)
from explorer.runtime.sparse import MEMORY_LIMIT, SparseRows

MANY_TERMS = 16
"""The tolerance is TOLERANCE up to so many terms of a sum, and grows with the root of their number beyond: that is how
the rounding errors of a sum in float32 grow. A sum of dot products has as many as both together."""
GRADIENT_TERMS = 2_000_000
"""Up to so many elements looked up, each tensor's gradient is checked along directions of its own, beyond along one
direction of all tensors together."""
MOST_TRACED = 1_000_000
"""Up to so many entries, a result says how far apart accesses to the same row are."""
STEPS = 7
"""Steps that a run's progress counts to."""
ERROR_RELATIVE_TO = (
    "the magnitude of an element, a tenth of the median of its row, or of all elements that are not 0: the largest"
)
"""A row that sums thousands of terms keeps their rounding errors in elements that cancel to nearly nothing, so rows
have a scale each."""


@dataclass(frozen=True, eq=False)
class OpRun:
    """A compiled op with its lists, the tensors, and the result that they must give: all but the target."""

    request: RunRequest
    compilation: Compilation
    graph: Graph
    program: Kernel | Module
    encoded: EncodedLists
    tensors: dict[str, Floats]
    sizes_from: dict[str, str]
    want: npt.NDArray[np.float64]
    probe: Probe | None = None  # where gradients are asked for
    gradients: dict[str, GradientCheck] = field(default_factory=dict)

    @property
    def tolerance(self) -> float:
        """What float32 is allowed."""
        return tolerance_of(self.graph, self.encoded.lists)

    @property
    def upstream(self) -> Floats:
        """The gradient of the result."""
        return self.tensors[upstream_name(self.graph) or ""]

    @property
    def right(self) -> bool:
        """Whether all gradients that were checked match."""
        return all(check.max_relative_error < self.tolerance for check in self.gradients.values())

    def check(self, got: Floats) -> Check:
        """Holds a result against the one that the op must give."""
        if got.shape != self.want.shape or self.want.ndim < 2:
            return compare(got, self.want, self.tolerance)
        scale = row_scales(self.want)
        return compare((got / scale).astype(np.float32), self.want / scale, self.tolerance)

    def inputs(self) -> dict[str, Any]:
        """What the programs read."""
        return program_inputs(self.graph, self.program, self.encoded, self.tensors)

    def evaluate(self, replaced: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        """The reference's result, with some tensors replaced."""
        inputs = {**_given(self.encoded), **self.tensors, **replaced}
        return reference.op(self.request.text, inputs, self.compilation.sizes, self.compilation.name)

    def finished(self, got: Floats, gradients: Mapping[str, Floats]) -> tuple[Floats, dict[str, Floats]]:
        """A target's result and gradients as the reference has them."""
        return finish(self.graph, self.encoded, got, gradients)


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


def execute_op(request: RunRequest, compilation: Compilation) -> Iterator[Event]:
    """Runs a compiled op, yielding events; the last is `result`. Raises Refused and InputError."""
    setup = yield from prepare(request, compilation)
    yield from {"cpu": _run_cpu, "dae": _run_dae}[request.on](setup)


def default_data(compilation: Compilation) -> str:
    """What an op runs on where nothing is said."""
    graph = compilation.stages["graph"].program
    return DEFAULTS.get(Sets.of(graph).owner, DEFAULT) if isinstance(graph, Graph) else DEFAULT


def prepare(request: RunRequest, compilation: Compilation) -> Generator[Event, None, OpRun]:
    """Everything before the target is involved."""
    data = request.data or default_data(compilation)
    yield progress(f"loading {data}", 1, STEPS)
    lists = load_lists(data, None if request.data_dir is None else Path(request.data_dir))
    request, compilation, sizes_from = sized(request, compilation, lists)
    graph, program = programs_of(compilation)
    yield progress(f"encoding {lists.num_entries:,} entries of {lists.num_rows:,} lists", 2, STEPS)
    check_memory(graph, program, lists)
    encoded = EncodedLists(Sets.of(graph), lists)
    yield progress("drawing the tables and the parameters", 3, STEPS)
    tensors = draw_tensors(graph, encoded, request.seed)
    yield progress("computing the op in float64, for the check", 4, STEPS)
    inputs = {**_given(encoded), **tensors}
    want = reference.op(request.text, inputs, compilation.sizes, compilation.name)
    setup = OpRun(request, compilation, graph, program, encoded, tensors, sizes_from, want)
    if not compilation.options.grad:
        return setup
    yield progress("probing in float64 where its gradient is defined", 4, STEPS)
    learnt = {tensor.name: tensors[tensor.name] for tensor in graph.tensors if tensor.kind == "param"}
    found = probe(learnt, want, setup.evaluate, request.seed)
    setup.upstream[found.corners] = 0
    return replace(setup, probe=found)


def sized(
    request: RunRequest, compilation: Compilation, lists: SparseRows
) -> tuple[RunRequest, Compilation, dict[str, str]]:
    """The op compiled for the rows that the data brings, and by dim where its size is from.

    The last dims of the table that is picked from are set where they are named, and where the request leaves them."""
    graph = compilation.stages["graph"].program
    assert isinstance(graph, Graph)
    dims = picked_dims(graph)
    brought = dict(zip(dims[::-1], lists.row_shape[::-1], strict=False))
    wanted = {str(dim): size for dim, size in brought.items() if isinstance(dim, str) and dim not in request.sizes}
    changed = {dim: size for dim, size in wanted.items() if compilation.sizes[dim] != size}
    if changed:
        request = replace(request, sizes={**request.sizes, **changed})
        compilation = compile_request(request)
    sources = {dim: "given" if dim in request.sizes else "the text" for dim in compilation.sizes}
    return request, compilation, sources | dict.fromkeys(wanted, lists.name)


def picked_dims(graph: Graph) -> tuple[Extent, ...]:
    """The dims of the table whose rows the entries pick."""
    sets = Sets.of(graph)
    for value in graph.values:
        if isinstance(value.operator, Gather) and value.operator.indices == (sets.pick,):
            return next((t.dims for t in graph.tensors if t.name == value.operator.tensor), ())
    return ()


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


def check_memory(graph: Graph, program: Kernel | Module, lists: SparseRows, limit: int = MEMORY_LIMIT) -> None:
    """Raises InputError where the lists, the tensors and what kernels make would take more than `limit` bytes."""
    sets = Sets.of(graph)
    counts = {sets.owner: lists.num_rows, sets.picked: lists.num_cols, sets.entry: lists.num_entries}
    shapes = {tensor.name: tensor_shape(graph, tensor, counts) for tensor in graph.tensors}
    made = liveness.peak_bytes(
        kernels_of(program), liveness.kept_to_the_end(program), extents_of(graph, program, counts)
    )
    structure = 4 * (2 * lists.num_rows + 5 * lists.num_entries)
    total = made + structure + sum(4 * prod(shape) for shape in shapes.values())
    if total > limit:
        name = max(shapes, key=lambda name: prod(shapes[name]))
        raise InputError(
            f"the op would take {total / 2**30:,.2f} GiB on {lists.name}, more than the limit of"
            f" {limit / 2**30:,.2f} GiB: {made / 2**30:,.2f} GiB are made in the run, and of its tensors the largest,"
            f" {name}{list(shapes[name])}, takes {4 * prod(shapes[name]) / 2**30:,.2f} GiB; try smaller dimensions or a"
            " part of the data, as in com-Youtube/10"
        )


def _run_cpu(setup: OpRun) -> Iterator[Event]:
    """Compile the loops to machine code, check the first run, then time `repeat` more and check each."""
    from explorer.runtime import cpu

    yield started("cpu", cpu.device_name(), "measured")
    yield progress("compiling the loops to machine code", 5, STEPS)
    prepared = cpu.prepare_once(setup.program)
    bound = prepared.bind(setup.inputs())
    got, gradients = setup.finished(*bound.run())
    check = setup.check(got)
    if check.matches and gradients:
        yield progress("checking the gradients against differences in float64", 6, STEPS)
        _check_gradients(setup, gradients)
    samples: list[float] = []
    for index in range(setup.request.repeat):
        if not (check.matches and setup.right):
            break
        began = perf_counter()
        outcome = bound.run()
        samples.append((perf_counter() - began) * 1e3)
        check = worse(check, setup.check(setup.finished(*outcome)[0]))
        yield timed_sample(index, samples[-1])
    right = check.matches and setup.right
    times = statistics(samples) if right else dict.fromkeys(statistics([0.0]))
    yield result(
        {
            **_description(setup, check, "measured", prepared.device),
            "samples_ms": samples if right else None,
            **times,
            "cache": "warm",  # each repeat reads the arrays of the one before
            "repeat": setup.request.repeat,
            "compile_ms": prepared.compile_ms,
            "peak_bytes": bound.peak_bytes,
        }
    )


def _check_gradients(setup: OpRun, gradients: Mapping[str, Floats]) -> None:
    """Fills in the check of every gradient, or of all together where the op is large."""
    row = prod(tensor_shape(setup.graph, _table(setup.graph), setup.encoded.counts)[1:])
    if setup.probe is not None and setup.encoded.lists.num_entries * row > GRADIENT_TERMS:
        setup.gradients["(all together)"] = setup.probe.check(gradients, setup.upstream)
        return
    beside = size_of(gradients)
    for name, gradient in gradients.items():
        setup.gradients[name] = check_tensor(
            name, gradient, setup.tensors[name], setup.upstream, setup.evaluate, setup.request.seed, beside=beside
        )


def _table(graph: Graph) -> Tensor:
    """The largest tensor that rows are picked of, or the first there is."""
    picked = Sets.of(graph).picked
    return max(graph.tensors, key=lambda tensor: (picked in tensor.sets, len(tensor.dims)))


def _run_dae(setup: OpRun) -> Iterator[Event]:
    """Simulate the decoupled program, and what it is compared with, streaming the machine's state."""
    yield started("dae", MACHINE, "simulated")
    yield progress("simulating the machine (the first time on a computer, its simulator is compiled)", 5, STEPS)
    inputs = setup.inputs()
    try:
        simulated = yield from dae_run.simulate(setup.request, setup.compilation, inputs)
    except ValueError as error:
        # What the machine says of its parameters, and of a record that is larger than its queue.
        raise Refused(failed("refused", sentence(error))) from None
    got, gradients = setup.finished(simulated.output, simulated.gradients)
    check = setup.check(got)
    if check.matches and gradients:
        yield progress("checking the gradients against differences in float64", 6, STEPS)
        _check_gradients(setup, gradients)
    right = check.matches and setup.right
    figures = simulated.figures if right else dict.fromkeys(simulated.figures)
    yield result({**_description(setup, check, "simulated", MACHINE), **figures})


def _description(setup: OpRun, check: Check, source: Literal["measured", "simulated"], device: str) -> dict[str, Any]:
    """The part of a result that both targets have: what ran, on what, and whether it was right."""
    request, compilation, encoded, error = setup.request, setup.compilation, setup.encoded, check.max_relative_error
    right = check.matches and setup.right
    structure = bounds_layer.Structure(encoded.counts, encoded.maps, encoded.map_bytes)
    return {
        "matches_reference": right,
        "max_relative_error": error if np.isfinite(error) else None,
        "error_relative_to": ERROR_RELATIVE_TO,
        "median_magnitude": check.median_magnitude,
        "tolerance": check.tolerance,
        "rows_checked": check.rows,
        "message": "" if right else BEYOND_FLOAT32 if check.beyond_float32 else MISMATCH,
        "gradients": {name: found.to_json() for name, found in setup.gradients.items()},
        "name": compilation.name,
        "family": compilation.family,
        "target": request.on,
        "device": device,
        "source": source,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": encoded.lists.describe(),
        "reuse": reuse(encoded.lists.idx) if encoded.lists.num_entries <= MOST_TRACED else None,
        "preprocessing": [vars(step) for step in encoded.steps],
        "rows": check.rows,
        "seed": request.seed,
        "sizes": dict(compilation.sizes),
        "sizes_from": setup.sizes_from,
        "options": compilation.options.to_json(),
        "limits": bounds_layer.limits(setup.graph, structure),
    }
