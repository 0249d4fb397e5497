"""The execute unit: pops a token, runs its case, and so on until `done`.

f32 arithmetic, scalar or on the lanes of a vector, one instruction after another, each at a fixed cost. Its clock, in
ns, is accounted whole: busy, or waiting for a token. Rows of an output that are not in its caches cost bandwidth, not
time: the window and the store queue hide their latency, as on the core alone. Rows of its own are always there. Lanes
at or above a region's extent are neither read nor written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.machine.assembly import opcodes as op
from explorer.machine.assembly.assembly import ArrayRow, Assembly
from explorer.machine.assembly.costs import instruction_times
from explorer.machine.assembly.instructions import Instruction
from explorer.machine.compiled import part
from explorer.machine.core.core import LANES, Core, note
from explorer.machine.memory.memory import Memory, touch
from explorer.machine.parameters import LINE_WORDS, MachineParameters
from explorer.machine.records import Table, make_record, make_table
from explorer.machine.units.arithmetic import binary, compute, segment
from explorer.machine.units.queues import Queues, oldest, pop_words

Integers = NDArray[np.int64]
Times = NDArray[np.float64]
Floats = NDArray[np.float32]


class ExecuteState:
    """Where the unit is, what it has counted, and times in ns."""

    counter: int  # the instruction that runs
    lanes: int  # of the vector region that it is in
    turns: int  # of branches that went another way
    misaligned: int  # parts of vectors that crossed a line of the queue
    detail: int  # of a fault: the number that is wrong
    limit: int  # and what it must stay below
    now: float
    wait_queue: float
    token_time: float
    turn_time: float
    misaligned_time: float


class Execute(NamedTuple):
    """The execute unit's code, registers, memory and clock."""

    state: ExecuteState
    code: Table[Instruction]
    executed: Integers  # how often each instruction ran
    taken: Times  # ns that each has taken
    tokens_taken: Times  # ns that taking each token has taken, with the turns before it
    times: Times  # ns an instruction
    cases: Integers  # the first instruction of each token's case; the last token is `done`
    x: Integers
    f: Floats
    arrays: Table[ArrayRow]
    memory: Floats  # all outputs, which the cores share, then the rows of each core
    bits: NDArray[np.int32]  # the same memory, as words


def make_execute(assembly: Assembly, parameters: MachineParameters, memory: Floats, core: int) -> Execute:
    """The unit of a core before its first token."""
    state = make_record(
        ExecuteState,
        token_time=parameters.token_cycles * parameters.core_ns,
        turn_time=parameters.traversal_cycles * parameters.core_ns,
        misaligned_time=parameters.misaligned_cycles * parameters.core_ns,
    )
    arrays = make_table(ArrayRow, assembly.arrays.size)
    for number in range(assembly.arrays.size):
        row, template = arrays[number], assembly.arrays[number]
        row.first, row.length, row.span, row.shared = template.first, template.length, template.span, template.shared
        if not row.shared:
            row.first += core * assembly.row_words
    registers = assembly.x_registers.copy()
    for register, values in assembly.counters.items():
        registers[register] = values[core]
    return Execute(
        state,
        assembly.execute_code,
        np.zeros(assembly.execute_code.size, np.int64),
        np.zeros(assembly.execute_code.size),
        np.zeros(assembly.cases.size),
        instruction_times(assembly, parameters),
        assembly.cases,
        registers,
        assembly.f_registers.copy(),
        arrays,
        memory,
        memory.view(np.int32),
    )


@part
def _index(unit: Execute, function: int, result: int, first: int, second: int, extent: int) -> int:
    """Integer arithmetic on indices, and a step of flattening several into one."""
    left, right = unit.x[first], unit.x[second]
    if function == op.FLATTEN or function == op.LANES_FLATTEN:
        lanes = 1 if function == op.FLATTEN else unit.state.lanes
        if right < 0 or right + lanes > extent:
            unit.state.detail = right if right < 0 else right + lanes - 1
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
def _fetch(memory: Memory, row: ArrayRow, element: int) -> None:
    """A new row of an output: its lines are looked up. Nothing waits for them."""
    row.begin = element - element % row.span
    row.end = row.begin + row.span
    first, last = (row.first + row.begin) // LINE_WORDS, (row.first + row.end - 1) // LINE_WORDS
    for line in range(first, last + 1):
        touch(memory, line)


@part
def _place(unit: Execute, memory: Memory, array: int, element: int, lanes: int) -> int:
    """Where elements lie in memory, or -1 if they are outside of their array."""
    row = unit.arrays[array]
    if element < 0 or element + lanes > row.length:
        unit.state.detail = element if element < 0 else element + lanes - 1
        unit.state.limit = row.length
        return -1
    if row.shared > 0 and (element < row.begin or element >= row.end):
        _fetch(memory, row, element)
    return row.first + element


@part
def _row(unit: Execute, mem: Memory, function: int, array: int, index: int, register: int, stride: int) -> int:
    """Reads or writes an element of a row or of an output, or the neighbouring elements of all lanes; or makes a
    row's contents undefined."""
    memory, f = unit.memory, unit.f
    if function == op.ROW_POISON:
        base = unit.arrays[array].first
        memory[base : base + unit.arrays[array].length] = np.nan
        return op.RUNNING
    lanes = 1 if function <= op.ROW_MIN else unit.state.lanes
    function -= 0 if function <= op.ROW_MIN else op.LANES_LOAD - op.ROW_LOAD
    place = _place(unit, mem, array, unit.x[index], lanes)
    if place < 0:
        return op.BAD_ADDRESS
    if lanes == 1 and function == op.ROW_SUM:
        memory[place] += f[register]
        return op.RUNNING
    for lane in range(lanes):
        at, value = place + lane, register + lane * stride
        if function == op.ROW_SUM:
            memory[at] += f[value]
        elif function == op.ROW_LOAD:
            f[register + lane] = memory[at]
        elif function == op.ROW_STORE:
            memory[at] = f[value]
        elif function == op.ROW_PRODUCT:
            memory[at] *= f[value]
        else:
            memory[at] = binary(op.MAX if function == op.ROW_MAX else op.MIN, memory[at], f[value])
    return op.RUNNING


@part
def _pop(unit: Execute, queues: Queues, function: int, result: int, words: int) -> int:
    """Pops an operand: its bits as they were pushed. A vector's parts that cross a line of the queue take longer."""
    state = unit.state
    popped = queues.state.words_popped
    if popped + words > queues.state.words_pushed:
        return op.UNDERFLOW
    if words > 1:
        for part_of in range(0, words, LINE_WORDS):
            if (popped + part_of) % LINE_WORDS + min(LINE_WORDS, words - part_of) > LINE_WORDS:
                state.misaligned += 1
                state.now += state.misaligned_time
    slot = pop_words(queues, words, state.now)
    if function == op.POP_INDEX:
        unit.x[result] = queues.words[slot]
    elif function == op.POP_FLOAT:
        unit.f[result] = queues.floats[slot]
    else:
        for lane in range(words):
            unit.f[result + lane] = queues.floats[(slot + lane) & (queues.words.size - 1)]
    return op.RUNNING


@part
def _lanes(unit: Execute, result: int, left: int, right: int, function: int, strides: int) -> None:
    """A function of each lane."""
    f = unit.f
    by_left, by_right = strides & 1, strides >> 1
    for lane in range(unit.state.lanes):
        f[result + lane] = compute(function, f[left + lane * by_left], f[right + lane * by_right])


@part
def _reduce(unit: Execute, target: int, value: int, function: int, stride: int) -> None:
    """Reduces over the lanes, and then into an accumulator."""
    f = unit.f
    total = f[value]
    for lane in range(1, unit.state.lanes):
        total = binary(function, total, f[value + lane * stride])
    f[target] = binary(function, f[target], total)


@part
def _loop(unit: Execute, function: int, at: int) -> int:
    """A loop or a vector region starts or goes on: the instruction to run next."""
    now, x = unit.code[at], unit.x
    step = now.e if function == op.LANES_ENTER or function == op.LANES_NEXT else 1
    if function == op.FOR_ENTER or function == op.LANES_ENTER:
        x[now.a] = x[now.d]
        following = at + 1 if x[now.a] < x[now.b] else now.c
    else:
        x[now.a] += step
        following = now.c if x[now.a] < x[now.b] else at + 1
    if step > 1:
        unit.state.lanes = min(step, x[now.b] - x[now.a])
    return following


@part
def _calculate(unit: Execute, function: int, at: int) -> None:
    """Arithmetic on f32 registers."""
    f, x, now = unit.f, unit.x, unit.code[at]
    a, b, c = now.a, now.b, now.c
    if function == op.LANES:
        _lanes(unit, a, b, c, now.d, now.e)
    elif function == op.TO_FLOAT:
        f[a] = np.float32(x[b])
    elif function == op.LANES_TO_FLOAT:
        for lane in range(unit.state.lanes):
            f[a + lane] = np.float32(x[b] + lane)
    elif function == op.REDUCE:
        _reduce(unit, a, b, now.d, now.e)
    elif function >= op.UNLESS_EMPTY:
        for lane in range(unit.state.lanes if now.e > 0 else 1):
            f[a + lane] = segment(function, f[b + lane], x[c], x[now.d])
    else:
        f[a] = compute(function, f[b], f[c])


@part
def _noted(unit: Execute, at: int, following: int) -> int:
    """What the core's clock must know of an instruction: which words it touches, or whether its loop goes on."""
    now = unit.code[at]
    if now.opcode >= op.ROW_LOAD and now.opcode <= op.LANES_MIN:
        lanes = 1 if now.opcode <= op.ROW_MIN else unit.state.lanes
        words: int = (unit.arrays[now.a].first + unit.x[now.b]) * LANES + lanes
        return words
    return 1 if following != at + 1 else 0


@part
def _case(unit: Execute, queues: Queues, memory: Memory, core: Core, first: int) -> int:
    """Runs a case from its first instruction to its end; why it stopped."""
    state = unit.state
    why = op.RUNNING
    at = first
    function = unit.code[at].opcode
    while why == op.RUNNING and function != op.END_CASE:
        a, b, c = unit.code[at].a, unit.code[at].b, unit.code[at].c
        begun = state.now
        state.now += unit.times[at]
        unit.executed[at] += 1
        state.counter = at
        following = at + 1
        if function <= op.POP_VECTOR:
            why = _pop(unit, queues, function, a, b)
        elif function <= op.LANES_NEXT:
            following = _loop(unit, function, at)
        elif function <= op.LANES_MIN:
            why = _row(unit, memory, function, a, b, c, unit.code[at].d)
        elif function <= op.LANES_FLATTEN:
            why = _index(unit, function, a, b, c, unit.code[at].d)
        else:
            _calculate(unit, function, at)
        unit.taken[at] += state.now - begun
        if core.trace.size > 0:
            note(core, core.state.access_codes + at, _noted(unit, at, following))
        at = following
        function = unit.code[at].opcode
    return why


@part
def run_token(unit: Execute, queues: Queues, memory: Memory, core: Core) -> int:
    """Pops the oldest token and runs its case; why it stopped."""
    state, slot = unit.state, oldest(queues)
    begun = max(state.now, slot.filled)
    state.wait_queue += begun - state.now
    state.turns += slot.turns
    state.now = begun + state.token_time + slot.turns * state.turn_time
    unit.tokens_taken[slot.token] += state.now - begun
    slot.freed = state.now
    queues.state.tokens_popped += 1
    if slot.token == unit.cases.size - 1:
        return op.FINISHED
    return _case(unit, queues, memory, core, unit.cases[slot.token])
