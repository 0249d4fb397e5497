"""Fits the execute unit's costs, and the time a traversal takes to start, to what is published of Ember's machine.

Nine ratios and two unit constants, and nothing else: the speed of the three optimised levels over the unoptimised one
for the sum of three sizes of bags with low locality, the throughput of the core for the largest at opt0, and that of
the access unit for the smallest at opt3. How often each class of costs occurs is counted by simulating the programs
themselves, so the cycles of a run are those counts times the costs, and what does not depend on them; where the core
is the bottleneck, as it is in all of these, that is exact.

`explorer bench calibrate` prints the table that `explorer.machine.parameters` carries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.machine.account import class_counts
from explorer.machine.alone import access_alone
from explorer.machine.assembly.costs import CLASSES
from explorer.machine.parameters import LINE_BYTES, MachineParameters
from explorer.machine.simulation import Simulation

PUBLISHED: dict[str, tuple[float, float, float]] = {
    "RM1": (3.96, 5.65, 6.53),
    "RM2": (5.38, 9.04, 11.88),
    "RM3": (6.08, 13.56, 21.17),
}
"""Cycles of opt0 over those of opt1, opt2 and opt3, from the figure scripts of Ember's artifact (Fig. 16)."""
CORE_SHARE = 0.0230
"""Of 64 B an access cycle, what the core reads of RM3 at opt0 (Fig. 17)."""
ACCESS_SHARE = 0.1805
"""Of 64 B an access cycle, what the access unit writes of RM1 at opt3 with the core infinitely fast (Fig. 17)."""

COSTS: dict[str, tuple[str, ...]] = {
    "scalar": ("token", "pop", "scalar"),
    "unbuffered": ("unbuffered",),
    "misaligned": ("misaligned",),
    "vector": ("vector",),
    "traversal": ("traversal",),
}
"""What is fitted, and the classes that it is the cost of: the published numbers do not tell scalars apart."""
GUESS = {"scalar": 1.0, "unbuffered": 5.0, "misaligned": 5.0, "vector": 0.5, "traversal": 30.0}
"""Where the fit starts: round numbers, which leave the core the bottleneck."""
LEAST = 1e-3
"""Core cycles: no cost of scalars is less."""
STEPS = 200

Case = tuple[DlcProgram, Mapping[str, NDArray[Any]]]
Cases = Mapping[tuple[str, int], Case]
"""A program and its inputs for each model and level."""


@dataclass(frozen=True)
class Run:
    """What a simulated run counted of each cost that is fitted, and its cycles that are none of these."""

    counts: NDArray[np.float64]
    fixed: float
    payload_bytes: int

    def cycles(self, costs: NDArray[np.float64]) -> float:
        """With other costs."""
        return float(self.counts @ costs) + self.fixed


@dataclass(frozen=True)
class Calibration:
    """The parameters, the nine ratios simulated with them, and by model those predicted when it is left out."""

    parameters: dict[str, float]
    ratios: dict[str, tuple[float, ...]]
    left_out: dict[str, tuple[float, ...]]

    def errors(self, ratios: Mapping[str, Sequence[float]]) -> list[float]:
        """Relative errors of ratios against the published ones."""
        return [
            got / want - 1 for model, row in ratios.items() for got, want in zip(row, PUBLISHED[model], strict=True)
        ]


def calibrate(cases: Cases, base: MachineParameters) -> Calibration:
    """Fits on all models, then on all but each. `base` is the machine; its fitted parameters do not matter."""
    start = _fit_start(cases[("RM1", 3)], base)
    machine, costs = replace(base, start_cycles=start), dict(GUESS)
    for _ in range(2):  # the second time, with what the core waits for tokens at about its fitted speed
        runs = _runs(cases, _with(machine, costs), costs)
        costs = _fit(runs, base, tuple(PUBLISHED))
    costs = {name: _rounded(cost) for name, cost in costs.items()}
    runs = _runs(cases, _with(machine, costs), costs)
    left_out = {}
    for model in PUBLISHED:
        others = _fit(runs, base, [other for other in PUBLISHED if other != model])
        left_out[model] = _ratios(runs, model, np.array(list(others.values())))
    ratios = {model: _ratios(runs, model, np.array(list(costs.values()))) for model in PUBLISHED}
    named = {f"{name}_cycles": costs[cost] for cost, names in COSTS.items() for name in names}
    return Calibration({"start_cycles": start, **named}, ratios, left_out)


def _with(machine: MachineParameters, costs: Mapping[str, float]) -> MachineParameters:
    values: dict[str, Any] = {f"{name}_cycles": costs[cost] for cost, names in COSTS.items() for name in names}
    return replace(machine, **values)


def _runs(cases: Cases, machine: MachineParameters, costs: Mapping[str, float]) -> dict[tuple[str, int], Run]:
    return {key: _run(case, machine, np.array(list(costs.values()))) for key, case in cases.items()}


def _run(case: Case, machine: MachineParameters, costs: NDArray[np.float64]) -> Run:
    simulation = Simulation(*case, machine)
    simulation.advance(1 << 62)
    (core,) = simulation.machines
    by_class = dict(zip(CLASSES, class_counts(core, simulation.assembly), strict=True))
    counts = np.array([sum(by_class[name] for name in names) for names in COSTS.values()])
    account = simulation.account()
    return Run(counts, account["cycles"] - float(counts @ costs), account["access"]["payload_bytes"])


def _ratios(runs: Mapping[tuple[str, int], Run], model: str, costs: NDArray[np.float64]) -> tuple[float, ...]:
    plain = runs[(model, 0)].cycles(costs)
    return tuple(plain / runs[(model, level)].cycles(costs) for level in (1, 2, 3))


def _fit(runs: Mapping[tuple[str, int], Run], machine: MachineParameters, models: Sequence[str]) -> dict[str, float]:
    """Least squares of the logarithms of ratios, by Levenberg and Marquardt, over the logarithms of all costs but the
    scalars', which the unit constant gives."""

    def completed(logarithms: NDArray[np.float64]) -> NDArray[np.float64]:
        unit, others = runs[("RM3", 0)], np.exp(logarithms)
        cycles = unit.payload_bytes / LINE_BYTES / CORE_SHARE * machine.core_ghz / machine.access_ghz
        scalar = (cycles - unit.fixed - unit.counts[1:] @ others) / unit.counts[0]
        return np.array([max(scalar, LEAST), *others])

    def errors(logarithms: NDArray[np.float64]) -> NDArray[np.float64]:
        costs = completed(logarithms)
        pairs = ((_ratios(runs, model, costs), PUBLISHED[model]) for model in models)
        return np.array([math.log(got / want) for row in pairs for got, want in zip(*row, strict=True)])

    at = np.log(np.array(list(GUESS.values())[1:]))
    damping, now = 1.0, errors(at)
    for _ in range(STEPS):
        slopes = np.array([(errors(at + 1e-6 * unit) - now) / 1e-6 for unit in np.eye(at.size)]).T
        step = np.linalg.solve(slopes.T @ slopes + damping * np.eye(at.size), -slopes.T @ now)
        there = errors(at + np.clip(step, -1, 1))
        if there @ there < now @ now:
            at, now, damping = at + np.clip(step, -1, 1), there, damping / 2
        else:
            damping *= 4
    return dict(zip(COSTS, completed(at).tolist(), strict=True))


def _fit_start(case: Case, machine: MachineParameters) -> float:
    """The cycles from one traversal to the next with which the access unit alone writes its published share."""
    start = 1 / ACCESS_SHARE
    for _ in range(4):
        simulation = Simulation(*case, access_alone(replace(machine, start_cycles=start)))
        simulation.advance(1 << 62)
        payload = simulation.account()["access"]["payload_bytes"]
        share = payload / LINE_BYTES / (simulation.nanoseconds / machine.access_ns)
        start *= share / ACCESS_SHARE
    return _rounded(start)


def _rounded(value: float) -> float:
    """To four digits, as parameters.py carries it."""
    return float(f"{value:.4g}")
