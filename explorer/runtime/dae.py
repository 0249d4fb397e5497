"""Runs a DLC program on the simulated machine: the result, the account of its queues and cycles, and samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.ir.dlc import DlcProgram
from explorer.machine.parameters import WORD_BYTES, MachineParameters
from explorer.machine.simulation import Simulation

SAMPLES = 128
"""About how many samples a run gives where its iterations can be counted beforehand."""
TRACE_POINTS = 400
"""At most so many points are kept; beyond, every second is dropped."""
FIRST_RECORDS = 64
"""So many records are told one by one."""
TOKENS_APART = 4096
"""From one sample to the next where they cannot; twice as many each time that the trace is thinned."""

Sample = dict[str, Any]


@dataclass(frozen=True)
class DaeResult:
    """The output, and what the result JSON says of a simulated run."""

    output: NDArray[np.float32]
    account: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The account: cycles, microseconds, machine, access, execute, queues, memory, occupancy, pushed_first."""
        return self.account


def simulate(
    program: DlcProgram,
    inputs: Mapping[str, NDArray[Any]],
    parameters: MachineParameters | None = None,
    on_sample: Callable[[Sample], None] | None = None,
) -> DaeResult:
    """Runs the program to its end. `on_sample` gets the state of the machine about SAMPLES times while it runs.

    Raises InputError, QueueError, ParameterError (ValueErrors, for the user) and MachineError.
    """
    simulation = Simulation(program, inputs, parameters or MachineParameters())
    sampler = Sampler(simulation)
    total = simulation.assembly.records
    apart = TOKENS_APART if total is None else -(-total // SAMPLES)
    trace: list[Sample] = []
    first = simulation.watch(FIRST_RECORDS)
    while not simulation.finished or not trace:
        simulation.advance(apart)
        trace.append(sampler.sample())
        if on_sample is not None:
            on_sample(trace[-1])
        if len(trace) > TRACE_POINTS:
            # The second of each pair stays, and with it the end of the run.
            trace = trace[::-2][::-1]
            apart *= 2
    account = simulation.account()
    account["occupancy"] = trace
    account["pushed_first"] = first
    return DaeResult(simulation.output, account)


class Sampler:
    """Turns the running totals of a simulation into what happened since the last sample."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._before = self._totals()

    def sample(self) -> Sample:
        """The cycle and the iterations (triples) done up to the last token popped; since the last sample, the mean
        occupancy of the queues and the share of time that each unit was busy."""
        before, after = self._before, self._totals()
        self._before = after
        seen, words, tokens, access_busy, now, busy = (late - early for late, early in zip(after, before, strict=True))
        return {
            "cycle": self._simulation.cycles(after[0]),
            "triples": int(self._simulation.machine.queues.state.triples),
            "queue_bytes": WORD_BYTES * share(words, seen),
            "control_tokens": share(tokens, seen),
            # Work that was done ahead of its record, before this stretch of time, counts here.
            "access_busy": min(1.0, share(access_busy, seen)),
            "execute_busy": share(busy, now),
        }

    def _totals(self) -> tuple[float, ...]:
        """In ns: the time, the integrals of both occupancies, the access unit's work; the execute unit's clock and
        its work."""
        seen, unit = self._simulation.machine.queues.state, self._simulation.machine.execute.state
        return (seen.seen, seen.word_time, seen.token_time, seen.access_busy, unit.now, unit.busy)


def share(part: float, whole: float) -> float:
    """The part of the whole; nothing of nothing is 0."""
    return float(part / whole) if whole > 0 else 0.0
