"""Runs decoupled programs on the simulated machine: the result, the account of queues and cycles, and samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.compiler.ir.module import Module
from explorer.compiler.returned import as_returned
from explorer.machine.alone import alone_times, core_alone
from explorer.machine.parameters import WORD_BYTES, MachineParameters
from explorer.machine.records import numbers
from explorer.machine.simulation import Simulation
from explorer.machine.spent import SpentCycles, together
from explorer.machine.summary import share, summary

SAMPLES = 128
"""About how many samples a run gives."""
TRACE_POINTS = 400
"""At most so many points are kept; beyond, every second is dropped."""
FIRST_RECORDS = 64
"""So many records are told one by one."""
ACCESS_STALLS = ("queue_full", "storage", "mshrs", "memory")
ALL_TOKENS = 1 << 62
FIRST_APART = 16
"""Tokens to the first sample, and from then on twice as many as before until an iteration is done."""

Sample = dict[str, Any]
Account = dict[str, Any]


@dataclass(frozen=True)
class DaeResult:
    """The output, what the result JSON says of a simulated run, what its cycles went to, and gradients by tensor where
    the program has them."""

    output: Any  # an array, or a tuple of several
    account: Account
    spent: SpentCycles
    gradients: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def to_json(self) -> Account:
        """The account: cycles, microseconds, machine, access, execute, queues, memory, tokens, hit_rates, rates,
        occupancy, pushed_first, and `kernels`, the name, cycles and microseconds of each program; on request core_alone
        and throughput."""
        return self.account


def simulate(
    program: DlcProgram | Module,
    inputs: Mapping[str, NDArray[Any]],
    parameters: MachineParameters | None = None,
    on_sample: Callable[[Sample], None] | None = None,
    *,
    core_alone: bool = False,
    throughput: bool = False,
    traced: bool = True,
) -> DaeResult:
    """Runs the program to its end. `on_sample` gets the state of the machine about SAMPLES times while it runs.
    What is not `traced` has neither samples nor first records, and every other figure as if it were.

    `core_alone` adds the account of the same instructions on a core without an access unit, and `throughput` what
    either unit would do with the other infinitely fast, which takes two more runs. A module's programs run one after
    another, each from cold caches on what the ones before have written. Raises InputError, QueueError, ParameterError
    (ValueErrors, for the user) and MachineError.
    """
    run = _Run(parameters or MachineParameters(), on_sample, core_alone, throughput, traced)
    if isinstance(program, DlcProgram):
        (output,) = run.program(program, inputs).values()
        return DaeResult(output, run.account() | {"kernels": run.kernels}, run.spent())
    arrays = dict(inputs)
    for inner in program.programs:
        if not isinstance(inner, DlcProgram):
            raise TypeError(f"the machine runs DLC, not {type(inner).__name__}")
        arrays |= run.program(inner, arrays)
    gradients = {tensor: arrays[name] for tensor, name in program.gradients}
    returned = as_returned(arrays[name] for name in program.results)
    return DaeResult(returned, run.account() | {"kernels": run.kernels}, run.spent(), gradients)


class _Run:
    """Programs run one after another, with one trace: its samples count cycles and iterations from the first on."""

    def __init__(
        self,
        parameters: MachineParameters,
        on_sample: Callable[[Sample], None] | None,
        core_alone: bool,
        throughput: bool,
        traced: bool,
    ) -> None:
        self.kernels: list[Account] = []
        self._parameters = parameters
        self._on_sample = on_sample
        self._core_alone = core_alone
        self._throughput = throughput
        self._traced = traced
        self._accounts: list[Account] = []
        self._spent: list[SpentCycles] = []
        self._trace: list[Sample] = []
        self._first: list[Account] = []
        self._triples = 0

    def program(self, program: DlcProgram, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
        """Runs one program; what it writes, by name."""
        simulation = Simulation(program, inputs, self._parameters, core_alone=self._core_alone)
        if self._traced or self._parameters.cores > 1:
            self._in_steps(simulation)
        else:
            simulation.advance(ALL_TOKENS)
        account = simulation.account()
        if self._core_alone:
            account["core_alone"] = core_alone(simulation)
        if self._throughput:
            account["alone_ns"] = alone_times(program, inputs, self._parameters)
        self._accounts.append(account)
        self._spent.append(simulation.spent())
        self._triples += sum(int(machine.access.state.triples) for machine in simulation.machines)
        self.kernels.append({"name": program.name, **{key: account[key] for key in ("cycles", "microseconds")}})
        return simulation.outputs

    def _in_steps(self, simulation: Simulation) -> None:
        """Runs one program, a sample a step. Of several cores, steps decide which of them goes on, and so in which
        order they meet what they share: those are taken whether or not anything is traced."""
        sampler = Sampler(simulation)
        total, apart = simulation.assembly.records, FIRST_APART
        self._first += simulation.watch(FIRST_RECORDS - len(self._first))
        sampled = False
        while not simulation.finished or not sampled:
            # How many tokens there will be is known, or else as far as iterations are alike.
            done = simulation.progress
            expected = total or (simulation.tokens / done if done else 0)
            apart = max(1, round(expected / SAMPLES)) if expected else 2 * apart
            simulation.advance(apart)
            self._sample(sampler)
            sampled = True
            if len(self._trace) > TRACE_POINTS:
                # The second of each pair stays, and with it the end of the run.
                self._trace = self._trace[::-2][::-1]

    def account(self) -> Account:
        """Everything counted, of all programs together."""
        return summary(self._accounts) | {
            "machine": self._parameters.describe(),
            "occupancy": self._trace if self._traced else [],
            "pushed_first": self._first if self._traced else [],
        }

    def spent(self) -> SpentCycles:
        """What the cycles of all programs together went to."""
        return together(self._spent)

    def _sample(self, sampler: Sampler) -> None:
        sample = sampler.sample()
        sample["cycle"] += sum(account["cycles"] for account in self._accounts)
        sample["triples"] += self._triples
        self._trace.append(sample)
        if self._on_sample is not None:
            self._on_sample(sample)


class Sampler:
    """Turns the running totals of a simulation into what happened since the last sample."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._before = self._totals()

    def sample(self) -> Sample:
        """The cycle and the iterations (triples) done up to the last token popped; since the last sample, the mean
        occupancy of the queues and the share of time that each unit was busy, or waited for what. Of several cores,
        means."""
        before, after = self._before, self._totals()
        self._before = after
        past = {name: after[name] - before[name] for name in after}
        machines = self._simulation.machines
        return {
            "cycle": self._simulation.cycles(max(float(machine.queues.state.seen) for machine in machines)),
            "triples": sum(int(machine.queues.state.triples) for machine in machines),
            "queue_bytes": WORD_BYTES * share(past["words"], past["seen"]),
            "control_tokens": share(past["tokens"], past["seen"]),
            "access_busy": share(past["access_busy"], past["access"]),
            "execute_busy": share(past["execute_busy"], past["execute"]),
            "access_stalls": {cause: share(past[cause], past["access"]) for cause in ACCESS_STALLS},
            "execute_stalls": {"queue_empty": share(past["queue_empty"], past["execute"])},
        }

    def _totals(self) -> dict[str, float]:
        """In ns, of all cores: the time, the integrals of both occupancies, and where the units' time went."""
        totals: dict[str, float] = {}
        for machine in self._simulation.machines:
            queues, access, execute = map(numbers, (machine.queues.state, machine.access.state, machine.execute.state))
            times = {
                "seen": queues["seen"],
                "words": queues["word_time"],
                "tokens": queues["token_time"],
                "access": access["back"],
                "access_busy": access["marshalled"] + access["fronted"],
                "queue_full": access["wait_queue"],
                "storage": access["wait_storage"],
                "mshrs": access["wait_mshrs"],
                "memory": access["wait_memory"],
                "execute": execute["now"],
                "execute_busy": execute["now"] - execute["wait_queue"],
                "queue_empty": execute["wait_queue"],
            }
            for name, time in times.items():
                totals[name] = totals.get(name, 0.0) + time
        return totals
