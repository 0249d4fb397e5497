"""The execute unit: pops a token, runs its case, and so on until `done`.

f32 arithmetic, one instruction after another, each at a fixed cost. Rows and the output are its own memory, a fixed
number of cycles away. Its clock, in ns, is accounted whole: busy, or waiting for a token.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.machine import opcodes as op
from explorer.machine.assembly import Assembly
from explorer.machine.compiled import part
from explorer.machine.instructions import Instruction
from explorer.machine.parameters import MachineParameters
from explorer.machine.queues import Queues, observe, oldest, pop_token, pop_word
from explorer.machine.records import Table, make_record

Integers = NDArray[np.int64]
Times = NDArray[np.float64]
Floats = NDArray[np.float32]


class ExecuteState:
    """Where the unit is, what it has counted, and times in ns."""

    counter: int  # the instruction that runs
    instructions: int
    detail: int  # of a fault: the number that is wrong
    limit: int  # and what it must stay below
    now: float
    busy: float
    wait_queue: float
    token_time: float


class Execute(NamedTuple):
    """The execute unit's code, registers, memory and clock."""

    state: ExecuteState
    code: Table[Instruction]
    cases: Integers  # the first instruction of each token's case; the last token is `done`
    costs: Times  # ns an instruction, by opcode
    x: Integers
    f: Floats
    arrays: Integers  # [rows and outputs, 2]: first word in the memory, length
    memory: Floats


def make_execute(assembly: Assembly, parameters: MachineParameters) -> Execute:
    """The unit before its first token; the output holds zeros."""
    return Execute(
        make_record(ExecuteState, token_time=parameters.token_cycles * parameters.core_ns),
        assembly.execute_code,
        assembly.cases,
        instruction_costs(parameters),
        assembly.x_registers.copy(),
        assembly.f_registers.copy(),
        assembly.arrays,
        np.zeros(assembly.memory_words, np.float32),
    )


def instruction_costs(parameters: MachineParameters) -> Times:
    """What each opcode costs, in ns."""
    cycles = np.zeros(op.EXECUTE_OPCODES)
    values = parameters.values()
    for parameter, codes in op.COSTS.items():
        cycles[list(codes)] = values[parameter]
    cycles[list(op.ROW_REDUCTIONS.values())] = 2 * parameters.row_cycles + parameters.arithmetic_cycles
    return cycles * parameters.core_ns


@part
def _binary(function: int, left: np.float32, right: np.float32) -> np.float32:
    """f32 functions of two operands; minimum and maximum keep NaN, as NumPy's do."""
    result = left + right
    if function == op.MUL:
        result = left * right
    elif function == op.SUB:
        result = left - right
    elif function == op.DIV:
        result = left / right
    elif function == op.MIN:
        result = left if left <= right or left != left else right
    elif function == op.MAX:
        result = left if left >= right or left != left else right
    elif function == op.EQUAL:
        result = np.float32(1.0) if left == right else np.float32(0.0)
    elif function == op.DIV_OR_ZERO:
        result = np.float32(0.0) if right == 0 else left / right
    elif function == op.LEAKY_RELU:
        result = left if left > 0 else left * right
    return result


@part
def _unary(function: int, value: np.float32) -> np.float32:
    """f32 functions of one operand; outside their domain they give NaN, as NumPy's do."""
    one = np.float32(1.0)
    result = value
    if function == op.NEG:
        result = -value
    elif function == op.ABS:
        result = abs(value)
    elif function == op.SIGN:
        result = np.sign(value)
    elif function == op.RELU:
        result = value if value > 0 or value != value else np.float32(0.0)
    elif function == op.SQRT:
        result = np.sqrt(value)
    elif function == op.EXP:
        result = np.exp(value)
    elif function == op.LOG:
        result = np.log(value)
    elif function == op.SIGMOID:
        # Of the two forms, the one whose exponential cannot overflow.
        small = np.exp(-abs(value))
        result = one / (one + small) if value >= 0 else small / (one + small)
    elif function == op.TANH:
        result = np.tanh(value)
    elif function == op.GELU:
        result = np.float32(0.5) * value * (one + np.float32(math.erf(value * np.float32(math.sqrt(0.5)))))
    elif function == op.STEP:
        result = one if value > 0 else np.float32(0.0)
    elif function == op.GELU_SLOPE:
        density = np.exp(np.float32(-0.5) * value * value) * np.float32(1.0 / math.sqrt(2.0 * math.pi))
        result = np.float32(0.5) * (one + np.float32(math.erf(value * np.float32(math.sqrt(0.5))))) + value * density
    elif function == op.SIN:
        result = np.sin(value)
    elif function == op.COS:
        result = np.cos(value)
    return result


@part
def _segment(function: int, value: np.float32, begin: int, end: int) -> np.float32:
    """What a segment's reduction ends in: its sum divided by its length, or 0 where it is empty."""
    result = value
    if function == op.SEGMENT_MEAN:
        result = value / np.float32(max(end - begin, 1))
    elif begin >= end:
        result = np.float32(0.0)
    return result


@part
def _index(unit: Execute, function: int, result: int, first: int, second: int, extent: int) -> int:
    """Integer arithmetic on indices, and a step of flattening several into one."""
    left, right = unit.x[first], unit.x[second]
    if function == op.FLATTEN:
        if right < 0 or right >= extent:
            unit.state.detail = right
            unit.state.limit = extent
            return op.BAD_INDEX
        value = left * extent + right
    elif function == op.INDEX_ADD:
        value = left + right
    elif function == op.INDEX_SUB:
        value = left - right
    elif function == op.INDEX_MUL:
        value = left * right
    elif right == 0:
        return op.BAD_DIVISION
    elif function == op.INDEX_DIV:
        value = left // right
    else:
        value = left % right
    unit.x[result] = value
    return op.RUNNING


@part
def _row(unit: Execute, function: int, array: int, index: int, register: int) -> int:
    """Reads or writes an element of a row or of the output, or makes a row's contents undefined."""
    memory, f = unit.memory, unit.f
    base, length = unit.arrays[array, 0], unit.arrays[array, 1]
    if function == op.ROW_POISON:
        memory[base : base + length] = np.nan
        return op.RUNNING
    element = unit.x[index]
    if element < 0 or element >= length:
        unit.state.detail = element
        unit.state.limit = length
        return op.BAD_ADDRESS
    place = base + element
    if function == op.ROW_LOAD:
        f[register] = memory[place]
    elif function == op.ROW_STORE:
        memory[place] = f[register]
    elif function == op.ROW_SUM:
        memory[place] += f[register]
    elif function == op.ROW_PRODUCT:
        memory[place] *= f[register]
    elif function == op.ROW_MAX:
        memory[place] = _binary(op.MAX, memory[place], f[register])
    else:
        memory[place] = _binary(op.MIN, memory[place], f[register])
    return op.RUNNING


@part
def _pop(unit: Execute, queues: Queues, function: int, result: int) -> int:
    """Pops an operand: its bits as they were pushed."""
    if queues.state.words_popped >= queues.state.words_pushed:
        return op.UNDERFLOW
    slot = pop_word(queues, unit.state.now)
    if function == op.POP_INDEX:
        unit.x[result] = queues.words[slot]
    else:
        unit.f[result] = queues.floats[slot]
    return op.RUNNING


@part
def _case(unit: Execute, queues: Queues, first: int) -> int:
    """Runs a case from its first instruction to its end; why it stopped."""
    x, f, state = unit.x, unit.f, unit.state
    why = op.RUNNING
    at = first
    function = unit.code[at].opcode
    while why == op.RUNNING and function != op.END_CASE:
        a, b, c = unit.code[at].a, unit.code[at].b, unit.code[at].c
        state.now += unit.costs[function]
        state.busy += unit.costs[function]
        state.instructions += 1
        state.counter = at
        following = at + 1
        if function == op.POP_INDEX or function == op.POP_FLOAT:
            why = _pop(unit, queues, function, a)
        elif function == op.FOR_ENTER:
            x[a] = x[unit.code[at].d]
            if x[a] >= x[b]:
                following = c
        elif function == op.FOR_NEXT:
            x[a] += 1
            if x[a] < x[b]:
                following = c
        elif function <= op.ROW_MIN:
            why = _row(unit, function, a, b, c)
        elif function <= op.FLATTEN:
            why = _index(unit, function, a, b, c, unit.code[at].d)
        elif function == op.TO_FLOAT:
            f[a] = np.float32(x[b])
        elif function <= op.LEAKY_RELU:
            f[a] = _binary(function, f[b], f[c])
        elif function >= op.UNLESS_EMPTY:
            f[a] = _segment(function, f[b], x[c], x[unit.code[at].d])
        else:
            f[a] = _unary(function, f[b])
        at = following
        function = unit.code[at].opcode
    return why


@part
def run_execute(unit: Execute, queues: Queues, tokens: int) -> int:
    """Runs until the control queue is empty, so many tokens have been popped in all, or `done`; why it stopped."""
    state, counts = unit.state, queues.state
    done = unit.cases.size - 1
    why = op.RUNNING
    while why == op.RUNNING:
        if counts.tokens_popped >= tokens:
            return op.REACHED
        if counts.tokens_popped >= counts.tokens_pushed:
            return op.BLOCKED
        observe(queues)
        begun = max(state.now, oldest(queues).filled)
        state.wait_queue += begun - state.now
        state.now = begun + state.token_time
        state.busy += state.token_time
        token = pop_token(queues, state.now)
        if token == done:
            return op.FINISHED
        why = _case(unit, queues, unit.cases[token])
    return why
