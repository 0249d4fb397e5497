"""What the assembler makes: integer code for both units, and the tables that it refers to.

Nothing is compiled for a program: all of this is arrays, which one interpreter reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.ir.node import Node
from explorer.machine.assembly.costs import CLASSES, FREE
from explorer.machine.assembly.instructions import Instruction
from explorer.machine.records import AnyRecord, Table, make_table

Integers = NDArray[np.int64]

FIELDS = 6
"""An opcode and five operands."""


class AssemblyError(Exception):
    """A program that the machine cannot run: a defect of a pass, never of the model."""


class LoadRow:
    """A load: from which buffer, how many lanes, of which traversal's position and bound, and where it asks first."""

    buffer: int
    vector: int
    position: int  # register
    upper: int  # register
    traversal: int
    level: int  # 0 the L2, 1 the last-level cache, 2 the memory
    temporal: int


class PushRow:
    """What an event pushes of one stream: so many words from a register on, or (stride 0) of one register."""

    register: int
    words: int
    stride: int
    kind: int  # 0 an index, 1 a float


class StoreRow:
    """A store by the access unit: which lanes of a stream go where in which array."""

    array: int
    index: int  # register
    register: int
    words: int
    position: int  # register
    upper: int  # register
    line: int  # that it writes now


class ArrayRow:
    """A row or an output in the execute unit's memory, and which part of an output was last touched."""

    first: int  # word
    length: int
    span: int  # words of a row of an output
    shared: int  # 1: an output, which all cores write; 0: a row of a core's own
    begin: int  # of the row last touched
    end: int


@dataclass(frozen=True)
class Assembly:
    """Both codes and what they refer to. `access_nodes` and `execute_nodes` say what each instruction is a part of."""

    access_code: Table[Instruction]
    access_nodes: tuple[Node, ...]
    access_registers: Integers
    access_weights: NDArray[np.float64]  # what the core would do for each instruction if it ran this code alone
    loads: Table[LoadRow]
    pushes: Table[PushRow]
    push_nodes: tuple[Node, ...]  # what each of these is a part of
    stores: Table[StoreRow]
    inner: tuple[bool, ...]  # of each traversal, whether it is an innermost one
    buffers: Integers  # [buffers, 3]: first word in the image, length, elements that memory has in a word
    records: int | None  # that a run pushes, `done` included; None if that depends on data
    iterations: int  # of all outermost traversals
    slices: dict[int, list[int]]  # registers of the access unit that differ by core: the bounds of its part
    execute_code: Table[Instruction]
    execute_nodes: tuple[Node, ...]
    weights: NDArray[np.float64]  # [instructions, CLASSES]
    x_registers: Integers
    f_registers: NDArray[np.float32]
    counters: dict[int, list[int]]  # registers of the execute unit that start at another value by core
    cases: Integers  # first instruction of each token's case; one more for `done`
    arrays: Table[ArrayRow]
    output_words: int  # of all outputs, which come first in memory
    row_words: int  # of the rows of a core, which follow
    outputs: dict[str, tuple[int, tuple[int, ...]]]  # first word in the execute unit's memory, shape
    tokens: tuple[str, ...]


@dataclass
class Code:
    """Instructions as they are written, with the node that each is a part of and what it costs."""

    rows: list[list[int]] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    costs: list[tuple[str, float]] = field(default_factory=list)

    def add(self, node: Node, *fields: int, cost: tuple[str, float] = (FREE, 0)) -> int:
        """Appends an instruction; its number."""
        self.rows.append([*fields, *[0] * (FIELDS - len(fields))])
        self.nodes.append(node)
        self.costs.append(cost)
        return len(self.rows) - 1

    @property
    def table(self) -> Table[Instruction]:
        """The instructions as records."""
        return table_of(Instruction, self.rows)

    @property
    def weights(self) -> NDArray[np.float64]:
        """How many of each class of costs each instruction is."""
        weights = np.zeros((len(self.rows), len(CLASSES)))
        for number, (name, amount) in enumerate(self.costs):
            if name != FREE:
                weights[number, CLASSES.index(name)] = amount
        return weights


def table_of(record: type[AnyRecord], rows: list[list[int]]) -> Table[AnyRecord]:
    """Rows of numbers, in the order of the fields, as records of a class; one of zeros where there are none."""
    table: Table[AnyRecord] = make_table(record, max(1, len(rows)))
    np.asarray(table)[: len(rows)] = [tuple(row) for row in rows]
    return table


@dataclass
class Registers:
    """Registers of one file, by name or by constant value."""

    numbers: dict[str, int] = field(default_factory=dict)
    initial: list[float] = field(default_factory=list)

    def named(self, name: str, lanes: int = 1) -> int:
        """The register of a name, or the first of as many as a vector has lanes; they start at 0."""
        return self._place(name, 0, lanes)

    def constant(self, value: float) -> int:
        """A register that holds the value and that nothing writes. 0.0 and -0.0 differ."""
        return self._place(repr(value) + " constant", value, 1)

    def _place(self, key: str, value: float, lanes: int) -> int:
        if key not in self.numbers:
            self.numbers[key] = len(self.initial)
            self.initial += [value] * lanes
        return self.numbers[key]

    def __contains__(self, name: str) -> bool:
        return name in self.numbers
