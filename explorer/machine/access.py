"""The access unit: runs its dataflow code and pushes records.

Two clocks, in ns. The front evaluates streams in program order, one an access cycle, and sends their line requests;
the back marshals records into the queues in program order. The front may be ahead of the back by as many lines as the
unit's storage holds, so the two overlap, and the unit's time is shared out as a whole: it was busy for as long as the
busier of the two worked, then it waited for room in a queue, and what is left it waited for memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.machine import opcodes as op
from explorer.machine.assembly import Assembly
from explorer.machine.compiled import part
from explorer.machine.memory import LEFT, Memory, request
from explorer.machine.parameters import LINE_BYTES, WORD_BYTES, MachineParameters
from explorer.machine.queues import Queues, has_room, push_token, push_word, room_since

Integers = NDArray[np.int64]
Times = NDArray[np.float64]

LINE_WORDS = LINE_BYTES // WORD_BYTES

# Access.state
COUNTER, OUTER_DONE, LINES_ASKED, LINES_MARSHALLED = 0, 1, 2, 3
EVALUATIONS, LOADS, DETAIL, LIMIT = 4, 5, 6, 7
STATE_SIZE = 8
# Access.clocks: front and back, the work of each, how long the back waited for room, and constants
FRONT, BACK, EVALUATED, MARSHALLED, WAIT_QUEUE = 0, 1, 2, 3, 4
EVALUATE, WORD_TIME, TOKEN_TIME = 5, 6, 7
CLOCKS_SIZE = 8


class Access(NamedTuple):
    """The access unit's code, registers and clocks."""

    state: Integers
    clocks: Times
    code: Integers  # [instructions, FIELDS]
    operands: Integers  # what records push: registers
    buffers: Integers  # [buffers, 2]: first word in the image, length
    image: NDArray[np.int32]  # all read-only buffers, as words
    registers: Integers
    ready: Times  # when a register's value is there
    load_lines: Integers  # the line that each load holds, and when it arrived
    load_arrivals: Times
    marshalled: Times  # when the storage of the last lines was freed, a ring


def make_access(assembly: Assembly, image: NDArray[np.int32], parameters: MachineParameters) -> Access:
    """The unit before its first instruction."""
    clocks = np.zeros(CLOCKS_SIZE)
    clocks[EVALUATE] = parameters.evaluate_cycles * parameters.access_ns
    clocks[WORD_TIME] = WORD_BYTES / parameters.marshal_bytes * parameters.access_ns
    clocks[TOKEN_TIME] = parameters.token_bytes / parameters.marshal_bytes * parameters.access_ns
    loads = max(1, assembly.loads)
    return Access(
        np.zeros(STATE_SIZE, np.int64),
        clocks,
        assembly.access_code,
        assembly.operands,
        assembly.buffers,
        image,
        assembly.access_registers.copy(),
        np.zeros(assembly.access_registers.size),
        np.full(loads, -1, np.int64),
        np.zeros(loads),
        np.zeros(max(1, parameters.storage_bytes // LINE_BYTES)),
    )


@part
def _evaluated(unit: Access, ready: float) -> float:
    """When a value is there whose operands are there at `ready`, evaluated now; takes the front's next cycle."""
    clocks = unit.clocks
    clocks[FRONT] += clocks[EVALUATE]
    clocks[EVALUATED] += clocks[EVALUATE]
    unit.state[EVALUATIONS] += 1
    there: float = max(clocks[FRONT], ready)
    return there


@part
def _step(unit: Access, position: int, value: int) -> None:
    """A traversal takes its next position; it is known when the front gets there."""
    unit.registers[position] = value
    unit.ready[position] = _evaluated(unit, 0.0)


@part
def _start(unit: Access, lower: int, upper: int) -> None:
    """A traversal starts when its bounds are known."""
    unit.clocks[FRONT] = max(unit.clocks[FRONT], unit.ready[lower], unit.ready[upper])


@part
def _load(unit: Access, memory: Memory, at: int) -> int:
    """Loads an element; a load asks for a line only when it leaves the one that it holds."""
    result, index, buffer, load = unit.code[at, 1], unit.code[at, 2], unit.code[at, 3], unit.code[at, 4]
    element = unit.registers[index]
    if element < 0 or element >= unit.buffers[buffer, 1]:
        unit.state[DETAIL] = element
        unit.state[LIMIT] = unit.buffers[buffer, 1]
        return op.BAD_ADDRESS
    address = unit.buffers[buffer, 0] + element
    unit.registers[result] = unit.image[address]
    unit.state[LOADS] += 1
    there = _evaluated(unit, unit.ready[index])
    line = address // LINE_WORDS
    if line != unit.load_lines[load]:
        clocks, asked = unit.clocks, unit.state[LINES_ASKED]
        # Storage is freed at a marshalled record; lines that no record has followed yet cannot be waited for.
        if asked - unit.marshalled.size < unit.state[LINES_MARSHALLED]:
            there = max(there, unit.marshalled[asked % unit.marshalled.size])
        unit.load_arrivals[load] = request(memory, line, there)
        unit.load_lines[load] = line
        unit.state[LINES_ASKED] = asked + 1
        clocks[FRONT] = max(clocks[FRONT], memory.clocks[LEFT])
    unit.ready[result] = max(there, unit.load_arrivals[load])
    return op.RUNNING


@part
def _calculate(unit: Access, at: int) -> int:
    """Integer arithmetic on streams, 64 bits wide."""
    code, registers = unit.code, unit.registers
    function, result = code[at, 0], code[at, 1]
    left, right = registers[code[at, 2]], registers[code[at, 3]]
    if function == op.STREAM_ADD:
        registers[result] = left + right
    elif function == op.STREAM_MUL:
        registers[result] = left * right
    elif function == op.STREAM_SUB:
        registers[result] = left - right
    else:
        if right == 0:
            return op.BAD_DIVISION
        if function == op.STREAM_DIV:
            registers[result] = left // right
        else:
            registers[result] = left % right
    unit.ready[result] = _evaluated(unit, max(unit.ready[code[at, 2]], unit.ready[code[at, 3]]))
    return op.RUNNING


@part
def _marshal(unit: Access, queues: Queues, first: int, count: int) -> None:
    """The back takes the next record: once it is evaluated and its operands are here, and the queues have room."""
    clocks, state = unit.clocks, unit.state
    here = max(clocks[BACK], clocks[FRONT])
    for operand in range(first, first + count):
        here = max(here, unit.ready[unit.operands[operand]])
    start = max(here, room_since(queues, count))
    time = count * clocks[WORD_TIME] + clocks[TOKEN_TIME]
    clocks[WAIT_QUEUE] += start - here
    clocks[MARSHALLED] += time
    clocks[BACK] = start + time
    size = unit.marshalled.size
    # Of more lines than the storage holds, each slot keeps the last: all are freed at once.
    for line in range(max(state[LINES_MARSHALLED], state[LINES_ASKED] - size), state[LINES_ASKED]):
        unit.marshalled[line % size] = clocks[BACK]
    state[LINES_MARSHALLED] = state[LINES_ASKED]


@part
def _record(unit: Access, queues: Queues, at: int) -> int:
    """Pushes a whole record, operands and token, or nothing of it."""
    token, first, count = unit.code[at, 1], unit.code[at, 2], unit.code[at, 3]
    if not has_room(queues, count):
        return op.BLOCKED
    _marshal(unit, queues, first, count)
    for operand in range(first, first + count):
        value = unit.registers[unit.operands[operand]]
        if value < -2147483648 or value > 2147483647:
            unit.state[DETAIL] = value
            return op.TOO_WIDE
        push_word(queues, value)
    busy = max(unit.clocks[EVALUATED], unit.clocks[MARSHALLED])
    push_token(queues, token, count, unit.clocks[BACK], unit.state[OUTER_DONE], busy)
    return op.RUNNING


@part
def run_access(unit: Access, queues: Queues, memory: Memory) -> int:
    """Runs until the queues have no room for the next record, or to the end; why it stopped."""
    code, registers = unit.code, unit.registers
    at = unit.state[COUNTER]
    why = op.RUNNING
    while why == op.RUNNING:
        function = code[at, 0]
        following = at + 1
        if function == op.LOAD:
            why = _load(unit, memory, at)
        elif function == op.RECORD:
            why = _record(unit, queues, at)
        elif function == op.NEXT:
            position = registers[code[at, 1]] + code[at, 3]
            if position < registers[code[at, 2]]:
                _step(unit, code[at, 1], position)
                following = code[at, 4]
        elif function == op.ENTER:
            _start(unit, code[at, 2], code[at, 3])
            if registers[code[at, 2]] < registers[code[at, 3]]:
                _step(unit, code[at, 1], registers[code[at, 2]])
            else:
                following = code[at, 4]
        elif function == op.COUNT:
            unit.state[OUTER_DONE] += 1
        elif function == op.HALT:
            why = op.FINISHED
        else:
            why = _calculate(unit, at)
        if why == op.RUNNING:
            at = following
    unit.state[COUNTER] = at
    return why
