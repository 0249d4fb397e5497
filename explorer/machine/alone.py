"""Either unit alone.

The same kernel on the core, without an access unit (Ember Fig. 7): what its clock found
(`explorer.machine.core.core`). An assumed baseline: as much of it as Ember's Figure 3 tells is fitted to that, and
the rest is not in the paper. And each unit of the machine with the other infinitely fast (Fig. 17).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.machine.assembly.costs import CLASSES
from explorer.machine.core.core import Core
from explorer.machine.core.core_memory import LONGER
from explorer.machine.parameters import LINE_BYTES, MachineParameters
from explorer.machine.records import numbers
from explorer.machine.simulation import Simulation


def core_alone(simulation: Simulation) -> dict[str, Any]:
    """The account of the slowest core, once a simulation that has run its clock is finished.

    Cycles, of the core; lines that loads asked for beyond the L1D, and how many of them were in flight on average; how
    many took `longer` than so many times the L1D's latency; where lines were found; walks of the table of pages;
    branches that went another way than foreseen."""
    accounts = [_account(machine.core, simulation.parameters) for machine in simulation.machines]
    return max(accounts, key=lambda account: float(account["cycles"]))


def _account(core: Core, parameters: MachineParameters) -> dict[str, Any]:
    window, memory = numbers(core.state), numbers(core.memory.state)
    cycles = max(window["retired"], window["store_left"])
    counted = ("instructions", "loads", "stores", "mispredicts")
    found = ("l1_hits", "l2_hits", "llc_hits", "misses", "prefetched", "walks", "loads_missed")
    return {
        "cycles": cycles,
        "microseconds": cycles / parameters.core_ghz / 1000,
        **{name: int(window[name]) for name in counted},
        **{name: int(memory[name]) for name in found},
        "miss_cycles": memory["in_flight"],
        "longer": {f"{times:g}": int(count) for times, count in zip(LONGER, core.memory.longer, strict=True)},
        "hbm_bytes": LINE_BYTES * int(memory["misses"]),
        "source": "simulated",
    }


EXECUTE_FREE: dict[str, Any] = {f"{name}_cycles": 0.0 for name in CLASSES}
ACCESS_FREE: dict[str, Any] = {
    "start_cycles": 0.0,
    "request_cycles": 0.0,
    "marshal_bytes": 1e9,
    "l2_ns": 0.0,
    "llc_ns": 0.0,
    "hbm_ns": 0.0,
    "hbm_gbs": 1e9,
}


def access_alone(parameters: MachineParameters) -> MachineParameters:
    """The machine with an infinitely fast execute unit."""
    return replace(parameters, **EXECUTE_FREE)


def execute_alone(parameters: MachineParameters) -> MachineParameters:
    """The machine with an infinitely fast access unit."""
    return replace(parameters, **ACCESS_FREE)


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
