"""Either unit alone.

The same kernel on the core, without an access unit (Ember Fig. 7): its instructions, or the latencies of its lines as
far as they overlap, or their bytes, whichever takes longest. A bound, not a clock: no prefetcher, and as many misses
in flight as the L1D has registers for, the reorder buffer has room for with the instructions between them, and the
load queue with the loads between them.

And each unit of the machine with the other infinitely fast (Fig. 17).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from explorer.compiler.ir.dlc import DlcProgram
from explorer.machine import opcodes as op
from explorer.machine.account import class_counts
from explorer.machine.costs import CLASSES, class_cycles
from explorer.machine.faults import fault
from explorer.machine.interpreter import ACCESS, Machine, advance
from explorer.machine.parameters import LINE_BYTES, MachineParameters
from explorer.machine.simulation import Simulation

QUEUE = ("token", "pop", "unbuffered", "misaligned", "traversal")
"""The costs of working from queues: the core alone has none of them. Ends of loops are mispredicted all the same."""


def core_alone(simulation: Simulation) -> dict[str, Any]:
    """The time of the slowest core, once the simulation is finished: its counts are those of the same program."""
    bounds = []
    for core, machine in enumerate(simulation.make_machines(alone=True)):
        unit, why = advance(machine, 1)
        if why != op.FINISHED or unit != ACCESS:
            raise fault(machine, simulation.assembly, unit, why)
        bounds.append(_bound(simulation, machine, simulation.machines[core]))
    return max(bounds, key=lambda bound: float(bound["cycles"]))


def _bound(simulation: Simulation, alone: Machine, decoupled: Machine) -> dict[str, Any]:
    parameters = simulation.parameters
    counts = alone.access.executed @ simulation.assembly.access_weights
    surprises = float(counts[CLASSES.index("traversal")])
    counts = counts + class_counts(decoupled, simulation.assembly)
    for name in QUEUE:
        counts[CLASSES.index(name)] = 0.0
    compute = float(counts @ class_cycles(parameters)) + surprises * parameters.mispredict_cycles
    state, outputs = alone.memory.state, decoupled.memory.state.core_misses
    misses, latency = int(state.requests + outputs), _latency(alone, decoupled, parameters)
    code = simulation.assembly.access_code
    loads = float(sum(n for at, n in enumerate(alone.access.executed) if code[at].opcode == op.LOAD))
    overlap = _overlap(parameters, float(counts.sum()), loads, misses)
    lines = int(state.misses + 2 * outputs + state.stored)
    hbm = lines * LINE_BYTES / parameters.hbm_gbs * parameters.core_ghz
    times = {"compute": compute, "latency": latency / overlap * parameters.core_ghz, "bandwidth": hbm}
    bound = max(times, key=lambda name: times[name])
    return {
        "cycles": times[bound],
        "microseconds": times[bound] / parameters.core_ghz / 1000,
        "bound": bound,
        **{f"{name}_cycles": time for name, time in times.items()},
        "misses_in_flight": overlap,
        "source": "simulated",
    }


def _latency(alone: Machine, decoupled: Machine, parameters: MachineParameters) -> float:
    """Of all lines that are not in the L1D, in ns."""
    state = alone.memory.state
    hits = state.l2_hits * parameters.l2_ns + state.llc_hits * parameters.llc_ns
    return float(hits + (state.misses + decoupled.memory.state.core_misses) * parameters.hbm_ns)


def _overlap(parameters: MachineParameters, instructions: float, loads: float, misses: int) -> float:
    """How many misses are in flight, at least 1."""
    if misses == 0:
        return 1.0
    by_buffer = parameters.rob_entries / max(1.0, instructions / misses)
    by_loads = parameters.lsq_entries / max(1.0, loads / misses)
    return max(1.0, min(float(parameters.l1_mshrs), by_buffer, by_loads))


EXECUTE_FREE: dict[str, Any] = {f"{name}_cycles": 0.0 for name in CLASSES} | {"rob_entries": 1 << 20}
ACCESS_FREE: dict[str, Any] = {
    "start_cycles": 0.0,
    "request_cycles": 0.0,
    "marshal_bytes": 1e9,
    "l2_ns": 0.0,
    "llc_ns": 0.0,
    "hbm_gbs": 1e9,
}


def access_alone(parameters: MachineParameters) -> MachineParameters:
    """The machine with an infinitely fast execute unit."""
    return replace(parameters, **EXECUTE_FREE)


def execute_alone(parameters: MachineParameters) -> MachineParameters:
    """The machine with an infinitely fast access unit; the core waits for its outputs' rows as it did."""
    hidden = parameters.hidden_ns
    rows = max(0.0, parameters.hbm_ns - hidden)
    return replace(parameters, **ACCESS_FREE, hbm_ns=rows, rob_entries=1, issue_width=64)


def alone_times(
    program: DlcProgram, inputs: Mapping[str, NDArray[Any]], parameters: MachineParameters
) -> dict[str, float]:
    """In ns, what each unit takes with the other infinitely fast."""
    times = {}
    for unit, machine in (("access", access_alone(parameters)), ("execute", execute_alone(parameters))):
        simulation = Simulation(program, inputs, machine)
        simulation.advance(1 << 62)
        times[unit] = simulation.nanoseconds
    return times
