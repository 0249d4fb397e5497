"""One run of a score with its backward pass: the scores and the gradients of what is learnt, all checked.

The inverses of the batch's maps are computed once and told as pre-processing; no time of theirs is in the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from explorer.compiler.compilation import Compilation
from explorer.runtime import batch, bounds_layer, reference, run, score_inputs
from explorer.runtime.check import Check, compare
from explorer.runtime.events import Event, failed, machine_sample, progress, result, started, timed_sample
from explorer.runtime.gradient_check import GradientCheck, Probe, check_tensor, probe, size_of
from explorer.runtime.inputs import InputError, Triples, load_triples
from explorer.runtime.score_inputs import Encoding, Floats

TOLERANCE = 1e-4
"""The largest relative error that float32 is allowed over a gradient's sums, which may have thousands of triples."""
GRADIENT_SCORES = 20_000
"""Up to so many scores, each tensor's gradient is checked along directions of its own. Of a larger batch, that is done
on its first triples, and on the whole batch along one direction of all tensors together."""
STEPS = 7
"""Steps that a run's progress counts to."""

Outcome = tuple[Floats, dict[str, Floats]]
Run = Callable[[Mapping[str, Any]], Outcome]
"""Runs the prepared program on the arrays that it reads."""


@dataclass(frozen=True, eq=False)
class _Setup:
    """A compiled score with its batch, the scores that it must give, and what is known of its gradients."""

    request: run.RunRequest
    compilation: Compilation
    triples: Triples
    tensors: dict[str, npt.NDArray[Any]]  # the maps too
    encoding: Encoding
    want: npt.NDArray[np.float64]
    probe: Probe | None = None
    gradients: dict[str, GradientCheck] = field(default_factory=dict)

    @property
    def upstream(self) -> Floats:
        """The gradient of the scores."""
        return self.tensors[score_inputs.upstream_name(score_inputs.graph_of(self.compilation)) or ""]

    def inputs(self) -> dict[str, Any]:
        """What the programs read."""
        return {**self.tensors, **self.encoding.arrays}

    def evaluate(self, replaced: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        """The reference's scores, with some tensors replaced."""
        return _reference(self.request, self.compilation, {**self.tensors, **replaced})

    def check(self, scores: Floats) -> Check:
        """Holds scores against those that the model must give."""
        return compare(scores, self.want, plain=lambda: self.plain)

    @cached_property
    def plain(self) -> npt.NDArray[np.float64]:
        """The scores that NumPy gives in float32."""
        return _reference(self.request, self.compilation, self.tensors, np.float32)

    @property
    def gradients_match(self) -> bool:
        """Whether all gradients that were checked are right."""
        return all(check.max_relative_error < TOLERANCE for check in self.gradients.values())

    def shaped(self, outcome: Outcome) -> Outcome:
        """The outcome with gradients in the shapes of their tensors."""
        graph = score_inputs.graph_of(self.compilation)
        return outcome[0], score_inputs.shaped(graph, self.tensors, outcome[1])


def execute_gradients(request: run.RunRequest, compilation: Compilation) -> Iterator[Event]:
    """Runs a compiled score with gradients, yielding events; the last is `result`. Raises Refused and InputError."""
    setup = yield from _prepare(request, compilation)
    yield from {"cpu": _run_cpu, "dae": _run_dae}[request.on](setup)


def _prepare(request: run.RunRequest, compilation: Compilation) -> Generator[Event, None, _Setup]:
    yield progress(f"loading {request.data}", 1, STEPS)
    triples = load_triples(request.data, None if request.data_dir is None else Path(request.data_dir))
    yield progress(f"drawing {request.batch:,} triples and the parameters", 2, STEPS)
    tensors = batch.draw(compilation, triples, request.batch, request.seed)
    yield progress("sorting the batch by each of its maps", 3, STEPS)
    setup = _made(request, compilation, triples, tensors)
    yield progress("scoring the batch in float64, and probing where its gradient is defined", 4, STEPS)
    return _probed(setup)


def _made(
    request: run.RunRequest, compilation: Compilation, triples: Triples, tensors: dict[str, npt.NDArray[Any]]
) -> _Setup:
    stage = compilation.stages["loops"]
    if not stage.available:
        raise run.Refused(failed("refused", f"There is no loops program to run: {stage.reason}"))
    encoding = score_inputs.encode(score_inputs.graph_of(compilation), stage.program, tensors)
    want = _reference(request, compilation, tensors)
    return _Setup(request, compilation, triples, tensors, encoding, want)


def _probed(setup: _Setup) -> _Setup:
    """The setup with a difference to check gradients against, and no upstream gradient where none can be checked."""
    graph = score_inputs.graph_of(setup.compilation)
    learnt = {name: setup.tensors[name] for name, _ in graph.gradients}
    found = probe(learnt, setup.want, setup.evaluate, setup.request.seed)
    setup.upstream[found.corners] = 0
    return replace(setup, probe=found)


def _reference(
    request: run.RunRequest,
    compilation: Compilation,
    tensors: Mapping[str, npt.NDArray[Any]],
    dtype: npt.DTypeLike = np.float64,
) -> npt.NDArray[np.float64]:
    negatives = str(compilation.options.to_json()["negatives"])
    return reference.score(request.text, tensors, compilation.sizes, compilation.name, negatives, dtype)


def _run_cpu(setup: _Setup) -> Iterator[Event]:
    """Compile the kernels to machine code, check the first run, then time `repeat` more and check each."""
    from explorer.runtime import cpu

    program: Any = setup.compilation.stages["loops"].program
    yield started("cpu", cpu.device_name(), "measured")
    yield progress("compiling the loops to machine code", 5, STEPS)
    try:
        prepared = cpu.prepare_once(program)
    except InputError as error:
        raise run.Refused(failed("refused", run.sentence(error))) from None
    bound = prepared.bind(setup.inputs())
    check = yield from _first_check(setup, lambda arrays: prepared.bind(arrays).run())
    samples: list[float] = []
    for index in range(setup.request.repeat):
        if not (check.matches and setup.gradients_match):
            break
        began = perf_counter()
        scores, _ = bound.run()
        samples.append((perf_counter() - began) * 1e3)
        check = run.worse(check, setup.check(scores))
        yield timed_sample(index, samples[-1])
    right = check.matches and setup.gradients_match
    times = run.statistics(samples) if right else dict.fromkeys(run.statistics([0.0]))
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


def _run_dae(setup: _Setup) -> Iterator[Event]:
    """Simulate the decoupled programs once, streaming the machine's state."""
    from explorer.machine.parameters import MachineParameters
    from explorer.runtime import dae

    stage = setup.compilation.stages["dlc"]
    if not stage.available:
        raise run.Refused(failed("refused", f"There is no dlc program to run: {stage.reason}"))
    program: Any = stage.program
    try:
        parameters = MachineParameters.of(setup.request.machine)
        yield started("dae", run.MACHINE, "simulated")
        yield progress("simulating the machine (the first time on a computer, its simulator is compiled)", 5, STEPS)
        inputs = setup.inputs()
        simulation = yield from run.streamed(
            lambda post: dae.simulate(
                program, inputs, parameters, lambda sample: post(machine_sample(sample)), core_alone=True
            )
        )
    except ValueError as error:
        # What the machine says of its parameters, and of a record that is larger than its queue.
        raise run.Refused(failed("refused", run.sentence(error))) from None
    outcome: list[Outcome] = [(simulation.output, simulation.gradients)]

    def again(arrays: Mapping[str, Any]) -> Outcome:
        if outcome:
            return outcome.pop()
        other = dae.simulate(program, arrays, parameters)
        return other.output, other.gradients

    check = yield from _first_check(setup, again)
    figures = simulation.to_json()
    if not (check.matches and setup.gradients_match):
        figures = dict.fromkeys(figures)
    yield result({**_description(setup, check, "simulated", run.MACHINE), **figures})


def _first_check(setup: _Setup, execute: Run) -> Generator[Event, None, Check]:
    """The check of the scores and, if they are right, of the gradients."""
    scores, gradients = setup.shaped(execute(setup.inputs()))
    check = setup.check(scores)
    if not (check.matches and gradients):
        return check
    yield progress("checking the gradients against differences in float64", 6, STEPS)
    part, found = setup, gradients
    if setup.want.size > GRADIENT_SCORES and setup.probe is not None:
        setup.gradients["(all together)"] = setup.probe.check(gradients, setup.upstream)
        part = _smaller(setup)
        found = part.shaped(execute(part.inputs()))[1]
    beside = size_of(found)
    for name, gradient in found.items():
        setup.gradients[name] = check_tensor(
            name, gradient, part.tensors[name], part.upstream, part.evaluate, setup.request.seed, beside=beside
        )
    return check


def _smaller(setup: _Setup) -> _Setup:
    """The same score of the batch's first triples."""
    triples = max(1, GRADIENT_SCORES // (setup.want.size // len(setup.want)))
    graph = score_inputs.graph_of(setup.compilation)
    cut = {entry.name for entry in graph.maps} | {score_inputs.upstream_name(graph)}
    tensors = {name: array[:triples].copy() if name in cut else array for name, array in setup.tensors.items()}
    return _probed(_made(setup.request, setup.compilation, setup.triples, tensors))


def _description(setup: _Setup, check: Check, source: Literal["measured", "simulated"], device: str) -> dict[str, Any]:
    """The part of a result that both targets have: what ran, on what, and whether it was right."""
    described = run.description(setup, check, source, device)
    right = check.matches and setup.gradients_match
    graph = score_inputs.graph_of(setup.compilation)
    return {
        **described,
        "matches_reference": right,
        "message": described["message"] or ("" if right else run.MISMATCH),
        "gradients": {name: found.to_json() for name, found in setup.gradients.items()},
        "inverses": setup.encoding.describe(),
        "limits": bounds_layer.limits(graph, score_inputs.structure_of(graph, setup.tensors)),
    }
