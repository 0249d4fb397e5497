"""The one compiled function: both units of a core in turns, a token each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from explorer.machine.assembly import opcodes as op
from explorer.machine.compiled import entry, fingerprint
from explorer.machine.core.core import Core, run_clock
from explorer.machine.memory.memory import Memory
from explorer.machine.units.access import Access, run_access
from explorer.machine.units.arithmetic import SOURCES
from explorer.machine.units.execute import Execute, run_token
from explorer.machine.units.queues import Queues

# Which unit a stop comes from.
ACCESS, EXECUTE = 0, 1


class Machine(NamedTuple):
    """All state of a core's run: it can be left and taken up again between any two tokens."""

    access: Access
    execute: Execute
    queues: Queues
    memory: Memory
    core: Core  # the same program on the core alone


def _build(sources: str) -> Callable[[Machine, int, float], tuple[int, int]]:
    # Numba's key for kept machine code includes the closure, hence a hash of all sources that are frozen into it.
    def advance(machine: Machine, tokens: int, until: float) -> tuple[int, int]:
        """Runs until so many tokens have been popped in all, the access unit's requests leave after a time in ns, the
        end or a fault: which unit stopped, and why.

        The access unit goes on to its next token, then the execute unit pops it. That is an order of simulation only:
        a record waits for room until the time at which it was made, and a token until the core is free. So what the
        caches hold never depends on how long the queues are.
        """
        while len(sources) > 0:
            if machine.queues.state.tokens_popped >= tokens:
                return EXECUTE, op.REACHED
            why = run_access(machine.access, machine.execute, machine.queues, machine.memory, machine.core)
            if why != op.PUSHED:
                return ACCESS, why
            why = run_token(machine.execute, machine.queues, machine.memory, machine.core)
            if why != op.RUNNING:
                run_clock(machine.core)
                return EXECUTE, why
            if machine.access.state.front > until:
                return EXECUTE, op.REACHED
        return ACCESS, op.FINISHED

    return entry(advance)


advance = _build(fingerprint(*SOURCES.values()))
"""The machine code that runs every program."""
