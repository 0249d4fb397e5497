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
from explorer.machine.parameters import MachineParameters
from explorer.machine.queues import (
    TOKENS_POPPED,
    TOKENS_PUSHED,
    WORDS_POPPED,
    WORDS_PUSHED,
    Queues,
    filled,
    observe,
    pop_token,
    pop_word,
)

Integers = NDArray[np.int64]
Times = NDArray[np.float64]
Floats = NDArray[np.float32]

# Execute.state
COUNTER, DETAIL, LIMIT, INSTRUCTIONS = 0, 1, 2, 3
STATE_SIZE = 4
# Execute.clocks
NOW, BUSY, WAIT_QUEUE, TOKEN_COST = 0, 1, 2, 3
CLOCKS_SIZE = 4


class Execute(NamedTuple):
    """The execute unit's code, registers, memory and clock."""

    state: Integers
    clocks: Times
    code: Integers  # [instructions, FIELDS]
    cases: Integers  # the first instruction of each token's case; the last token is `done`
    costs: Times  # ns an instruction, by opcode
    x: Integers
    f: Floats
    arrays: Integers  # [rows and outputs, 2]: first word in the memory, length
    memory: Floats


def make_execute(assembly: Assembly, parameters: MachineParameters) -> Execute:
    """The unit before its first token; the output holds zeros."""
    clocks = np.zeros(CLOCKS_SIZE)
    clocks[TOKEN_COST] = parameters.token_cycles * parameters.core_ns
    return Execute(
        np.zeros(STATE_SIZE, np.int64),
        clocks,
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
    elif function == op.SIN:
        result = np.sin(value)
    elif function == op.COS:
        result = np.cos(value)
    return result


@part
def _index(unit: Execute, at: int) -> int:
    """Integer arithmetic on indices, and a step of flattening several into one."""
    code, x = unit.code, unit.x
    function, result = code[at, 0], code[at, 1]
    left, right = x[code[at, 2]], x[code[at, 3]]
    if function == op.FLATTEN:
        extent = code[at, 4]
        if right < 0 or right >= extent:
            unit.state[DETAIL] = right
            unit.state[LIMIT] = extent
            return op.BAD_INDEX
        x[result] = left * extent + right
    elif function == op.INDEX_ADD:
        x[result] = left + right
    elif function == op.INDEX_SUB:
        x[result] = left - right
    elif function == op.INDEX_MUL:
        x[result] = left * right
    else:
        if right == 0:
            return op.BAD_DIVISION
        if function == op.INDEX_DIV:
            x[result] = left // right
        else:
            x[result] = left % right
    return op.RUNNING


@part
def _row(unit: Execute, at: int) -> int:
    """Reads or writes an element of a row or of the output, or makes a row's contents undefined."""
    code, memory = unit.code, unit.memory
    function = code[at, 0]
    array = code[at, 2] if function == op.ROW_LOAD else code[at, 1]
    base, length = unit.arrays[array, 0], unit.arrays[array, 1]
    if function == op.ROW_POISON:
        memory[base : base + length] = np.nan
        return op.RUNNING
    element = unit.x[code[at, 3] if function == op.ROW_LOAD else code[at, 2]]
    if element < 0 or element >= length:
        unit.state[DETAIL] = element
        unit.state[LIMIT] = length
        return op.BAD_ADDRESS
    if function == op.ROW_LOAD:
        unit.f[code[at, 1]] = memory[base + element]
        return op.RUNNING
    value = unit.f[code[at, 3]]
    if function == op.ROW_SUM:
        memory[base + element] += value
    elif function == op.ROW_STORE:
        memory[base + element] = value
    elif function == op.ROW_MAX:
        memory[base + element] = _binary(op.MAX, memory[base + element], value)
    else:
        memory[base + element] = _binary(op.MIN, memory[base + element], value)
    return op.RUNNING


@part
def _pop(unit: Execute, queues: Queues, at: int) -> int:
    """Pops an operand: its bits as they were pushed."""
    if queues.state[WORDS_POPPED] >= queues.state[WORDS_PUSHED]:
        return op.UNDERFLOW
    slot = pop_word(queues, unit.clocks[NOW])
    if unit.code[at, 0] == op.POP_INDEX:
        unit.x[unit.code[at, 1]] = queues.words[slot]
    else:
        unit.f[unit.code[at, 1]] = queues.floats[slot]
    return op.RUNNING


@part
def _case(unit: Execute, queues: Queues, first: int) -> int:
    """Runs a case from its first instruction to its end; why it stopped."""
    code, x, f = unit.code, unit.x, unit.f
    at = first
    why = op.RUNNING
    while why == op.RUNNING and code[at, 0] != op.END_CASE:
        function = code[at, 0]
        unit.clocks[NOW] += unit.costs[function]
        unit.clocks[BUSY] += unit.costs[function]
        unit.state[INSTRUCTIONS] += 1
        unit.state[COUNTER] = at
        at += 1
        if function == op.POP_INDEX or function == op.POP_FLOAT:
            why = _pop(unit, queues, at - 1)
        elif function == op.FOR_ENTER:
            x[code[at - 1, 1]] = 0
            if x[code[at - 1, 2]] <= 0:
                at = code[at - 1, 3]
        elif function == op.FOR_NEXT:
            x[code[at - 1, 1]] += 1
            if x[code[at - 1, 1]] < x[code[at - 1, 2]]:
                at = code[at - 1, 3]
        elif function == op.FLATTEN or (function >= op.INDEX_ADD and function <= op.INDEX_MOD):
            why = _index(unit, at - 1)
        elif function < op.INDEX_ADD:
            why = _row(unit, at - 1)
        elif function == op.TO_FLOAT:
            f[code[at - 1, 1]] = np.float32(x[code[at - 1, 2]])
        elif function >= op.ADD and function <= op.LEAKY_RELU:
            f[code[at - 1, 1]] = _binary(function, f[code[at - 1, 2]], f[code[at - 1, 3]])
        else:
            f[code[at - 1, 1]] = _unary(function, f[code[at - 1, 2]])
    return why


@part
def run_execute(unit: Execute, queues: Queues, tokens: int) -> int:
    """Runs until the control queue is empty, so many tokens have been popped in all, or `done`; why it stopped."""
    clocks, state = unit.clocks, queues.state
    done = unit.cases.size - 1
    why = op.RUNNING
    while why == op.RUNNING:
        if state[TOKENS_POPPED] >= tokens:
            return op.REACHED
        if state[TOKENS_POPPED] >= state[TOKENS_PUSHED]:
            return op.BLOCKED
        observe(queues)
        begun = max(clocks[NOW], filled(queues))
        clocks[WAIT_QUEUE] += begun - clocks[NOW]
        clocks[NOW] = begun + clocks[TOKEN_COST]
        clocks[BUSY] += clocks[TOKEN_COST]
        token = pop_token(queues, clocks[NOW])
        if token == done:
            return op.FINISHED
        why = _case(unit, queues, unit.cases[token])
    return why
