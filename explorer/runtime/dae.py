"""Runs decoupled programs on the simulated machine: the result, the account of queues and cycles, and samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.ir.dlc import DlcProgram
from explorer.compiler.ir.module import Module
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

ALIKE = frozenset({"capacity", "capacity_bytes"})
PEAKS = frozenset({"peak", "peak_bytes"})
"""In the account of several kernels these are the same for all, or the largest of all; the rest is summed."""

Sample = dict[str, Any]
Account = dict[str, Any]


@dataclass(frozen=True)
class DaeResult:
    """The output, what the result JSON says of a simulated run, and gradients by tensor where the program has them."""

    output: NDArray[np.float32]
    account: Account
    gradients: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def to_json(self) -> Account:
        """The account: cycles, microseconds, machine, access, execute, queues, memory, occupancy, pushed_first; for a
        module also `kernels`, the name, cycles and microseconds of each."""
        return self.account


def simulate(
    program: DlcProgram | Module,
    inputs: Mapping[str, NDArray[Any]],
    parameters: MachineParameters | None = None,
    on_sample: Callable[[Sample], None] | None = None,
) -> DaeResult:
    """Runs the program to its end. `on_sample` gets the state of the machine about SAMPLES times while it runs.

    A module's programs run one after another, each from cold caches on what the ones before have written. Raises
    InputError, QueueError, ParameterError (ValueErrors, for the user) and MachineError.
    """
    run = _Run(parameters or MachineParameters(), on_sample)
    if isinstance(program, DlcProgram):
        (output,) = run.program(program, inputs).values()
        return DaeResult(output, run.account())
    arrays = dict(inputs)
    for inner in program.programs:
        if not isinstance(inner, DlcProgram):
            raise TypeError(f"the machine runs DLC, not {type(inner).__name__}")
        arrays |= run.program(inner, arrays)
    gradients = {tensor: arrays[name] for tensor, name in program.gradients}
    return DaeResult(arrays[program.result], run.account() | {"kernels": run.kernels}, gradients)


class _Run:
    """Programs run one after another, with one trace: its samples count cycles and iterations from the first on."""

    def __init__(self, parameters: MachineParameters, on_sample: Callable[[Sample], None] | None) -> None:
        self.kernels: list[Account] = []
        self._parameters = parameters
        self._on_sample = on_sample
        self._accounts: list[Account] = []
        self._trace: list[Sample] = []
        self._first: list[Account] = []
        self._triples = 0

    def program(self, program: DlcProgram, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
        """Runs one program; what it writes, by name."""
        simulation = Simulation(program, inputs, self._parameters)
        sampler = Sampler(simulation)
        total = simulation.assembly.records
        apart = TOKENS_APART if total is None else -(-total // SAMPLES)
        self._first += simulation.watch(FIRST_RECORDS - len(self._first))
        sampled = False
        while not simulation.finished or not sampled:
            simulation.advance(apart)
            self._sample(sampler)
            sampled = True
            if len(self._trace) > TRACE_POINTS:
                # The second of each pair stays, and with it the end of the run.
                self._trace = self._trace[::-2][::-1]
                apart *= 2
        account = simulation.account()
        self._accounts.append(account)
        self._triples += int(simulation.machine.access.state.triples)
        self.kernels.append({"name": program.name, **{key: account[key] for key in ("cycles", "microseconds")}})
        return simulation.outputs

    def account(self) -> Account:
        """Everything counted, of all programs together."""
        total = self._accounts[0]
        for account in self._accounts[1:]:
            total = _together(total, account)
        return total | {
            "machine": self._parameters.describe(),
            "occupancy": self._trace,
            "pushed_first": self._first,
        }

    def _sample(self, sampler: Sampler) -> None:
        sample = sampler.sample()
        sample["cycle"] += sum(account["cycles"] for account in self._accounts)
        sample["triples"] += self._triples
        self._trace.append(sample)
        if self._on_sample is not None:
            self._on_sample(sample)


def _together(first: Account, second: Account) -> Account:
    """The account of two runs, one after the other."""
    both: Account = {}
    for key, value in first.items():
        if isinstance(value, dict):
            both[key] = _together(value, second[key])
        elif key in PEAKS:
            both[key] = max(value, second[key])
        elif key in ALIKE or not isinstance(value, int | float):
            both[key] = value
        else:
            both[key] = value + second[key]
    return both


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
