"""What the execute unit's instructions cost: a small table of classes, each a parameter of the machine.

An instruction is so many of one class. An operation on a vector is one for each 64 bytes of it. Free are renaming
(a copy, an undefined row), entering a loop, and addresses inside a loop, which step with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from explorer.machine.assembly import opcodes as op
from explorer.machine.parameters import LINE_WORDS, MachineParameters

if TYPE_CHECKING:
    from explorer.machine.assembly.assembly import Assembly

FREE = ""
CLASSES = ("token", "pop", "scalar", "divide", "transcendental", "vector", "unbuffered", "misaligned", "traversal")
"""Each is the parameter of that name and `_cycles`. The last two depend on where words lie in the queue and on when
traversals end; the others are counted by instruction."""

UPDATE = 3
"""`out[b, e] += v` is a load, an operation and a store."""
REDUCTION = 4
"""Steps in which 16 lanes become one."""


def parts(width: int) -> int:
    """The 64-byte parts of a vector."""
    return -(-width // LINE_WORDS)


def arithmetic(function: int, width: int) -> tuple[str, float]:
    """The class of an arithmetic opcode, on a scalar (width 0) or on lanes, and how many of it."""
    amount = parts(width) if width else 1
    if function == op.COPY:
        return FREE, 0
    if function in op.DIVISIONS:
        return "divide", amount
    if function in op.TRANSCENDENTALS:
        return "transcendental", amount
    return ("vector" if width else "scalar"), amount


def class_cycles(parameters: MachineParameters) -> NDArray[np.float64]:
    """What one of each class costs, in core cycles."""
    values = parameters.values()
    return np.array([values[f"{name}_cycles"] for name in CLASSES])


def instruction_times(assembly: Assembly, parameters: MachineParameters) -> NDArray[np.float64]:
    """What each instruction costs, in ns, beside what depends on the queue."""
    times: NDArray[np.float64] = assembly.weights @ class_cycles(parameters) * parameters.core_ns
    return times
