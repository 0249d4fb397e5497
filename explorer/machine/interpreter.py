"""The one compiled function: both units in turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from explorer.machine import opcodes as op
from explorer.machine.access import Access, run_access
from explorer.machine.compiled import entry, fingerprint
from explorer.machine.execute import Execute, run_execute
from explorer.machine.memory import Memory
from explorer.machine.queues import Queues

# Which unit a stop comes from.
ACCESS, EXECUTE = 0, 1


class Machine(NamedTuple):
    """All state of a run: it can be left and taken up again between any two tokens."""

    access: Access
    execute: Execute
    queues: Queues
    memory: Memory


def _build(sources: str) -> Callable[[Machine, int], tuple[int, int]]:
    # Numba's key for kept machine code includes the closure, hence a hash of all sources that are frozen into it.
    def advance(machine: Machine, tokens: int) -> tuple[int, int]:
        """Runs until so many tokens have been popped in all, the end or a fault: which unit stopped, and why.

        The execute unit drains what there is, then the access unit fills the queues, and so on. Neither can wait for
        the other for ever: a blocked access unit means that there is a token to pop, and an empty control queue that
        there is room for any record (one that could never fit is rejected before the run).
        """
        while len(sources) > 0:
            why = run_execute(machine.execute, machine.queues, tokens)
            if why != op.BLOCKED:
                return EXECUTE, why
            why = run_access(machine.access, machine.queues, machine.memory)
            if why != op.BLOCKED and why != op.FINISHED:
                return ACCESS, why
        return ACCESS, op.FINISHED

    return entry(advance)


advance = _build(fingerprint())
