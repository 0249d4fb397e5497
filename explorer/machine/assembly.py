"""What the assembler makes: integer code for both units, and the tables that it refers to.

Nothing is compiled for a program: all of this is arrays, which one interpreter reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.ir.node import Node
from explorer.machine.instructions import Instruction
from explorer.machine.records import Table, make_table

Integers = NDArray[np.int64]

FIELDS = 5
"""An opcode and four operands."""


class AssemblyError(Exception):
    """A program that the machine cannot run: a defect of a pass, never of the model."""


@dataclass(frozen=True)
class Token:
    """A token of the control queue and the types ("i32", "f32") of its record's operands."""

    name: str
    types: tuple[str, ...]


@dataclass(frozen=True)
class Assembly:
    """Both codes and what they refer to. `access_nodes` and `execute_nodes` say what each instruction is a part of."""

    access_code: Table[Instruction]
    access_nodes: tuple[Node, ...]
    access_registers: Integers
    operands: Integers
    buffers: Integers  # [buffers, 2]: first word in the image, length
    loads: int
    records: int | None  # that a run pushes, `done` included; None if that depends on data
    execute_code: Table[Instruction]
    execute_nodes: tuple[Node, ...]
    x_registers: Integers
    f_registers: NDArray[np.float32]
    cases: Integers  # first instruction of each token's case; one more for `done`
    arrays: Integers  # [rows and outputs, 2]: first word in the execute unit's memory, length
    memory_words: int
    outputs: dict[str, tuple[int, tuple[int, ...]]]  # first word in the execute unit's memory, shape
    tokens: tuple[Token, ...]


@dataclass
class Code:
    """Instructions as they are written, with the node that each is a part of."""

    rows: list[list[int]] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    def add(self, node: Node, *fields: int) -> int:
        """Appends an instruction; its number."""
        self.rows.append([*fields, *[0] * (FIELDS - len(fields))])
        self.nodes.append(node)
        return len(self.rows) - 1

    @property
    def table(self) -> Table[Instruction]:
        """The instructions as records."""
        table = make_table(Instruction, len(self.rows))
        for number, (opcode, a, b, c, d) in enumerate(self.rows):
            row = table[number]
            row.opcode, row.a, row.b, row.c, row.d = opcode, a, b, c, d
        return table


@dataclass
class Registers:
    """Registers of one file, by name or by constant value."""

    numbers: dict[str, int] = field(default_factory=dict)
    initial: list[float] = field(default_factory=list)

    def named(self, name: str) -> int:
        """The register of a name, which starts at 0."""
        return self._place(name, 0)

    def constant(self, value: float) -> int:
        """A register that holds the value and that nothing writes. 0.0 and -0.0 differ."""
        return self._place(repr(value) + " constant", value)

    def _place(self, key: str, value: float) -> int:
        if key not in self.numbers:
            self.numbers[key] = len(self.initial)
            self.initial.append(value)
        return self.numbers[key]

    def __contains__(self, name: str) -> bool:
        return name in self.numbers
