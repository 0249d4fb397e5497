"""A run on this processor: the loops as machine code, checked at the first run, then timed and checked each time.

What it is compared with takes turns with it: side A of a comparison, and PyTorch where that was asked for.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Any

from explorer.runtime import against
from explorer.runtime.peers.compiled import compiled_peer, setting_up
from explorer.runtime.peers.timed import Peer, peers_of
from explorer.runtime.peers.turns import SIDE_A, Contender, by_turns
from explorer.runtime.reference.compare import Check, same_bits
from explorer.runtime.runs.events import Event, failed, progress, result, started
from explorer.runtime.runs.request import (
    CHECKING,
    OUTSIDE,
    PREPARING,
    RUNNING,
    STEPS,
    Outcome,
    Refused,
    Result,
    RunRequest,
    Setup,
    worse,
)
from explorer.runtime.shares.nests import work_of
from explorer.runtime.shares.times import APPORTIONED, Timed, of_times
from explorer.runtime.targets import cpu
from explorer.runtime.targets.cpu_ceilings import ceilings
from explorer.runtime.times import statistics, unsteady

PASSES, PASSES_MS = 5, 300.0
"""In which each nest is timed, at most so many and for so long; one in any case."""
BINDING = "checks and groups the batch"
TRIES = 3
"""Of a repeat, where each time somebody else had the core meanwhile."""
PEER_SAMPLES = 30
"""PyTorch is timed so many times at most, spread over our repeats."""


def ready(request: RunRequest) -> RunRequest:
    """The request as it is: there is always a processor."""
    return request


class Program:
    """A setup's loops as machine code, bound to its arrays; checked at every run. Raises Refused and InputError."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.prepared = cpu.prepare_once(setup.program("loops"), bool(setup.compilation.edits))
        self.inputs = setup.inputs()
        began = perf_counter()
        self.bound = self.prepared.bind(self.inputs)
        try:
            self._first = self.bound.run()
        except IndexError as error:
            raise Refused(failed("refused", OUTSIDE, "Correct the edited stage.")) from error
        self.first_ms = _since(began)
        self.check: Check
        self._held: Result

    def check_first(self) -> Iterator[Event]:
        """Holds what the first run gave against the reference."""
        yield progress("checking the result against that in float64", CHECKING, STEPS)
        self._held, gradients = self.setup.finished(*self._first)
        self.check = self.setup.check(self._held)
        if self.check.matches and gradients:
            yield progress("checking the gradients against those in float64", CHECKING, STEPS)
            self.setup.check_gradients(gradients, lambda arrays: self.prepared.bind(arrays).run())

    @property
    def is_right(self) -> bool:
        return self.setup.right(self.check)

    @property
    def wrong(self) -> str:
        """Why its times are not shown, if so."""
        return "" if self.is_right else self.setup.why_not(self.check)

    def measure(self) -> float | None:
        """Milliseconds of one run; None once a result was wrong. One that has every bit of the first, which was held
        against the reference, is held with it."""
        if not self.is_right:
            return None
        ms, outcome = _alone(self._run)
        got = self.setup.finished(*outcome)[0]
        if not same_bits(got, self._held):
            self.check = worse(self.check, self.setup.check(got))
        return ms

    def spent(self) -> dict[str, Any]:
        """What a run spends by nest and by operation: of passes of their own the one in the middle, by its time."""
        began, passes = perf_counter(), list[tuple[float, float, list[float]]]()
        while not passes or (len(passes) < PASSES and _since(began) < PASSES_MS):
            start = perf_counter()
            bound = self.prepared.bind(self.inputs) if self.setup.renews else self.bound
            binding = _since(start)
            nests = bound.time_nests()
            passes.append((_since(start), binding, nests))
        whole, binding, nests = sorted(passes, key=lambda one: one[0])[len(passes) // 2]
        kernels = [compiled.kernel for compiled in self.prepared.kernels]
        arrays, extents = self.bound.arrays, self.bound.extents
        works = [work_of(kernel, arrays, extents) for kernel in kernels]
        timed = [Timed(kernel.name, ms, work) for kernel, ms, work in zip(kernels, nests, works, strict=True)]
        how = APPORTIONED.format(part="loop nest", work="each load, computation and store")
        rest = {BINDING: binding} if self.setup.renews else {}
        return of_times(timed, whole, how, rest).to_json(self.setup.compilation.operations)

    def _run(self) -> Outcome:
        """Of a new batch every time, checking and grouping its ids belongs to the run's time."""
        return (self.prepared.bind(self.inputs) if self.setup.renews else self.bound).run()


def run(setup: Setup) -> Iterator[Event]:
    """Runs and times what is set up; the last event is `result`. Raises Refused and InputError."""
    yield started(setup.request.on, cpu.device_name())
    yield progress("compiling the loops to machine code", PREPARING, STEPS)
    program = Program(setup)
    yield from program.check_first()
    other = None
    if setup.against is not None and program.is_right:
        yield progress("compiling the loops of side A to machine code", PREPARING, STEPS)
        other = Program(setup.against)
        yield from other.check_first()
    peers: list[Peer] = []
    if setup.request.beside_peers and program.is_right:
        yield progress("setting up PyTorch beside it", RUNNING, STEPS)
        peers = peers_of(setup, "cpu")
    if setup.request.compile_seconds is not None and program.is_right:
        yield progress(setting_up(setup.request.compile_seconds), RUNNING, STEPS)
        peers.append(compiled_peer(setup, "cpu", setup.request.compile_seconds))
    ours, *others = contenders = _contenders(program, other, peers)
    yield progress("running", RUNNING, STEPS)
    yield from by_turns(contenders, setup.request.repeat)
    body = {**setup.description(program.check, program.prepared.device), **figures(program, ours.samples)}
    if other is not None:
        body["against"] = against.timed(other.setup, other.wrong, others[0].samples, ours.samples)
        if "of_a" in body["against"]:
            body["against"]["spent"] = other.spent()
    if peers:
        body["peers"] = [peer.to_json(ours.samples) for peer in peers]
    yield result(body)


def _contenders(program: Program, other: Program | None, peers: list[Peer]) -> list[Contender]:
    found = [Contender("", program.measure)]
    if other is not None:
        found.append(Contender(SIDE_A, other.measure))
    return found + [
        Contender(peer.name, partial(peer.measure, _watch), PEER_SAMPLES, peer.times.cold) for peer in peers
    ]


def figures(program: Program, samples: list[float]) -> dict[str, object]:
    """The times of ours, None where it was wrong; the first run is apart, for it has cold caches."""
    right = program.is_right
    shown = statistics(samples) if right else dict.fromkeys(statistics([0.0]))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "samples_ms": samples if right else None,
        **shown,
        "unsteady": unsteady(shown["spread"] or 0.0, load, cpu.threads()),
        "first_ms": program.first_ms if right else None,
        "cache": "warm",  # each repeat reads the arrays of the one before
        "repeat": program.setup.request.repeat,
        "compile_ms": program.prepared.compile_ms,
        "peak_bytes": program.bound.peak_bytes,
        "spent": program.spent() if right else None,
        "ceilings": ceilings() if right else None,
    }


def _watch(launch: Callable[[], None]) -> float:
    return _alone(launch)[0]


def _alone(run: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of a run, and what came of it. Where another process had the core meanwhile, its time is in that:
    then it is run again, up to TRIES times."""
    ms, outcome = 0.0, None
    for _ in range(TRIES):
        before, began = _times_put_off(), perf_counter()
        outcome = run()
        ms = _since(began)
        if _times_put_off() == before:
            break
    return ms, outcome


def _times_put_off() -> int:
    """How often the system has taken the core from a thread of this process, to give it to another."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _since(began: float) -> float:
    return (perf_counter() - began) * 1e3
