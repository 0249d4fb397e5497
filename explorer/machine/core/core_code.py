"""What each instruction of a program is on the core without an access unit: so many of its own instructions, of one
kind, from which registers to which.

Both units' codes become one loop nest: a value that is pushed stays in a register. A loop's step is an addition, a
comparison and a branch; an address inside an innermost loop steps with it and is no instruction of its own.

    t = mem_str<16>(T, a2); push_op(t); callback          load
    dataQ.pop<16 x f32>(); out[b, d] += t                 load, add, store
    the next of d_tr                                      add, compare, branch
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from explorer.machine.assembly import opcodes as op
from explorer.machine.assembly.assembly import Assembly, table_of
from explorer.machine.assembly.costs import REDUCTION
from explorer.machine.assembly.instructions import Instruction
from explorer.machine.parameters import MachineParameters
from explorer.machine.records import Table, make_table

FREE, WORK, SLOW, LOAD, STORE, UPDATE, GUARD, BRANCH, PUSH, POP = range(10)
"""The kinds. An update is a load, an operation and a store; a guard is the branch that begins a loop."""

LOOP_STEP = 3
"""An addition, a comparison and a branch; a loop whose bounds were loaded begins with as many."""
PRODUCT_CYCLES = 3.0
"""Latency of a product of whole numbers (Arm Neoverse N1: 2 to 3)."""


class CoreOperation:
    """An instruction of either unit on the core. Registers of both units are numbered one after another."""

    kind: int
    amount: int  # instructions; of a push, operands; of a pop, words
    first: int  # register, or the first operand of a push
    second: int
    third: int
    result: int
    base: int  # of an array in the image: its first word
    packed: int  # elements that memory has in a word
    unforeseen: int  # whether a loop's end never is foreseen
    latency: float


class Operand:
    """What a push passes on."""

    register: int
    words: int


@dataclass(frozen=True)
class _Registers:
    """Where each file of registers begins, and two more: one that is always ready and one that nothing reads."""

    x: int
    f: int
    none: int
    sink: int

    @classmethod
    def of(cls, assembly: Assembly) -> _Registers:
        x = assembly.access_registers.size
        f = x + assembly.x_registers.size
        none = f + assembly.f_registers.size
        return cls(x, f, none, none + 1)


def register_count(assembly: Assembly) -> int:
    """All registers, those that stand for nothing included."""
    return _Registers.of(assembly).sink + 1


def core_code(
    assembly: Assembly, parameters: MachineParameters, image_words: int
) -> tuple[Table[CoreOperation], Table[Operand]]:
    """The access unit's instructions, then the execute unit's. `image_words` is where outputs begin."""
    writer = _Writer(assembly, parameters, image_words)
    count = assembly.access_code.size
    rows = [writer.access(at) for at in range(count)]
    rows += [writer.execute(at) for at in range(assembly.execute_code.size)]
    code: Table[CoreOperation] = make_table(CoreOperation, len(rows))
    for at, row in enumerate(rows):
        np.asarray(code)[at] = tuple(row)
    pushes = (assembly.pushes[number] for number in range(assembly.pushes.size))
    operands = table_of(Operand, [[int(row.register), int(row.words)] for row in pushes])
    return code, operands


class _Writer:
    def __init__(self, assembly: Assembly, parameters: MachineParameters, image_words: int) -> None:
        self._assembly = assembly
        self._parameters = parameters
        self._outputs = image_words
        self._at = _Registers.of(assembly)
        results = (op.LOAD, *op.STREAM_FUNCTIONS.values())
        self._written = {int(row.a) for row in _rows(assembly.access_code) if row.opcode in results}
        self._inner = _innermost_instructions(assembly)

    def _row(
        self,
        kind: int,
        amount: int = 0,
        sources: tuple[int, ...] = (),
        result: int | None = None,
        latency: float = 0.0,
        base: int = 0,
        packed: int = 1,
        unforeseen: bool = False,
    ) -> list[float]:
        """Fields of a CoreOperation."""
        first, second, third, *_ = (*sources, *[self._at.none] * 3)
        target = self._at.sink if result is None else result
        return [kind, amount, first, second, third, target, base, packed, int(unforeseen), latency]

    def access(self, at: int) -> list[float]:
        """An instruction of the access unit."""
        now, assembly = self._assembly.access_code[at], self._assembly
        a, b, c = int(now.a), int(now.b), int(now.c)
        match int(now.opcode):
            case op.ENTER:
                loaded = bool({b, c} & self._written)
                return self._row(GUARD, LOOP_STEP, (b, c), a, 1.0) if loaded else self._row(WORK, 1, (b,), a, 1.0)
            case op.NEXT:
                return self._row(BRANCH, LOOP_STEP, (a, b), a, 1.0, unforeseen=b in self._written)
            case op.LOAD:
                base, _, packed = map(int, assembly.buffers[assembly.loads[c].buffer])
                return self._row(LOAD, 0, (b,), a, base=base, packed=packed)
            case op.STORE:
                row = assembly.stores[a]
                base = self._outputs + int(assembly.arrays[row.array].first)
                return self._row(STORE, 0, (int(row.index), int(row.register)), base=base)
            case op.TOGGLE:
                return self._row(WORK, 2, (a, b), latency=1.0)
            case op.PUSH:
                return self._row(PUSH, b, (a,))
            case stream if stream in op.STREAM_FUNCTIONS.values():
                amount = round(float(assembly.access_weights[at].sum()))
                latency = self._whole_latency(stream, op.STREAM_MUL, (op.STREAM_DIV, op.STREAM_MOD))
                return self._row(WORK, amount, (b, c), a, latency) if amount else self._row(FREE, 0, (b, c), a)
        return self._row(FREE)

    def _whole_latency(self, function: int, product: int, divisions: tuple[int, ...]) -> float:
        """Of arithmetic on whole numbers."""
        if function in divisions:
            return float(self._parameters.divide_cycles)
        return PRODUCT_CYCLES if function == product else 1.0

    def execute(self, at: int) -> list[float]:
        """An instruction of the execute unit."""
        now = self._assembly.execute_code[at]
        function = int(now.opcode)
        x, f = self._at.x, self._at.f
        a, b, c, d = int(now.a), int(now.b), int(now.c), int(now.d)
        if function in (op.POP_INDEX, op.POP_FLOAT, op.POP_VECTOR):
            return self._row(POP, b, (), (x if function == op.POP_INDEX else f) + a)
        if op.FOR_ENTER <= function <= op.LANES_NEXT:
            return self._loop(now)
        if op.ROW_LOAD <= function <= op.LANES_MIN:
            return self._memory(now)
        if op.INDEX_ADD <= function <= op.LANES_FLATTEN:
            flat = function in (op.FLATTEN, op.LANES_FLATTEN)
            latency = self._whole_latency(function, op.INDEX_MUL, (op.INDEX_DIV, op.INDEX_MOD))
            latency = PRODUCT_CYCLES if flat else latency
            counted = float(self._assembly.weights[at].sum()) > 0 and not self._inner[at]
            kind, amount = (WORK, 1) if counted else (FREE, 0)
            return self._row(kind, amount, (x + b, x + c), x + a, latency * counted)
        if function in (op.TO_FLOAT, op.LANES_TO_FLOAT):
            return self._row(WORK, 1, (x + b,), f + a, self._parameters.float_cycles)
        if function == op.LANES:
            sources = (f + b, f + c) if d in op.BINARY_FUNCTIONS.values() else (f + b,)
            return self._float(at, d, sources, f + a)
        if function == op.REDUCE:
            latency = (1 + REDUCTION) * self._parameters.float_cycles
            return self._row(WORK, self._amount(at), (f + a, f + b), f + a, latency)
        if function in op.SEGMENT_FUNCTIONS.values():
            return self._float(at, function, (f + b, x + c, x + d), f + a)
        if op.FIRST_FUNCTION <= function < op.UNLESS_EMPTY:
            sources = (f + b, f + c) if function in op.BINARY_FUNCTIONS.values() else (f + b,)
            return self._float(at, function, sources, f + a)
        return self._row(FREE)

    def _loop(self, now: Instruction) -> list[float]:
        """A loop of a case; a vector region of one trip is no loop."""
        x, function = self._at.x, int(now.opcode)
        variable, extent = x + int(now.a), x + int(now.b)
        if function in (op.FOR_NEXT, op.LANES_NEXT):
            return self._row(BRANCH, LOOP_STEP, (variable, extent), variable, 1.0)
        if function == op.LANES_ENTER and now.a == now.d:
            return self._row(FREE, 0, (variable,), variable)
        return self._row(WORK, 1, (x + int(now.d),), variable, 1.0)

    def _memory(self, now: Instruction) -> list[float]:
        """A load, a store, or an operation on an element of memory."""
        function, base = int(now.opcode), self._outputs
        element, value = self._at.x + int(now.b), self._at.f + int(now.c)
        if function in (op.ROW_LOAD, op.LANES_LOAD):
            return self._row(LOAD, 0, (element,), value, base=base)
        if function in (op.ROW_STORE, op.LANES_STORE):
            return self._row(STORE, 0, (element, value), base=base)
        return self._row(UPDATE, 0, (element, value), latency=self._parameters.float_cycles, base=base)

    def _float(self, at: int, function: int, sources: tuple[int, ...], result: int) -> list[float]:
        """Arithmetic on f32."""
        amount, parameters = self._amount(at), self._parameters
        if function == op.COPY or amount == 0:
            return self._row(FREE, 0, sources, result)
        if function in op.DIVISIONS:
            return self._row(SLOW, amount, sources, result, parameters.divide_cycles)
        if function in op.TRANSCENDENTALS:
            return self._row(SLOW, amount, sources, result, parameters.transcendental_cycles)
        return self._row(WORK, amount, sources, result, parameters.float_cycles)

    def _amount(self, at: int) -> int:
        return round(float(self._assembly.weights[at].sum()))


def _rows(code: Table[Instruction]) -> Iterator[Instruction]:
    return (code[at] for at in range(code.size))


def _innermost_instructions(assembly: Assembly) -> list[bool]:
    """Of each instruction of the execute unit, whether its case is that of an innermost traversal: inside its loop."""
    inner_tokens = {int(row.a) for row in _rows(assembly.access_code) if row.opcode == op.TOKEN and row.b == 0}
    count = assembly.execute_code.size
    inside = [False] * count
    starts = [int(case) for case in assembly.cases[:-1]]
    for token, start in enumerate(starts):
        if token in inner_tokens:
            at = start
            while assembly.execute_code[at].opcode != op.END_CASE:
                inside[at] = True
                at += 1
    return inside
