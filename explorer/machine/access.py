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
from explorer.machine.instructions import Instruction
from explorer.machine.memory import Memory, request
from explorer.machine.parameters import LINE_BYTES, WORD_BYTES, MachineParameters
from explorer.machine.queues import Queues, has_room, push_token, push_word, room_since
from explorer.machine.records import Table, make_record

Integers = NDArray[np.int64]
Times = NDArray[np.float64]

LINE_WORDS = LINE_BYTES // WORD_BYTES


class AccessState:
    """Where the unit is, what it has counted, and times in ns."""

    counter: int  # the instruction to run next
    triples: int  # iterations of the outermost traversals that are done
    evaluations: int
    loads: int
    lines_asked: int
    lines_marshalled: int
    detail: int  # of a fault: the number that is wrong
    limit: int  # and what it must stay below
    front: float
    back: float
    evaluated: float  # work of the front
    marshalled: float  # work of the back
    wait_queue: float  # of the back, for room
    evaluate_time: float
    word_time: float
    token_time: float


class Access(NamedTuple):
    """The access unit's code, registers and clocks."""

    state: AccessState
    code: Table[Instruction]
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
    state = make_record(
        AccessState,
        evaluate_time=parameters.evaluate_cycles * parameters.access_ns,
        word_time=WORD_BYTES / parameters.marshal_bytes * parameters.access_ns,
        token_time=parameters.token_bytes / parameters.marshal_bytes * parameters.access_ns,
    )
    loads = max(1, assembly.loads)
    return Access(
        state,
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
    state = unit.state
    state.front += state.evaluate_time
    state.evaluated += state.evaluate_time
    state.evaluations += 1
    return max(state.front, ready)


@part
def _step(unit: Access, position: int, value: int) -> None:
    """A traversal takes its next position; it is known when the front gets there."""
    unit.registers[position] = value
    unit.ready[position] = _evaluated(unit, 0.0)


@part
def _start(unit: Access, lower: int, upper: int) -> None:
    """A traversal starts when its bounds are known."""
    unit.state.front = max(unit.state.front, unit.ready[lower], unit.ready[upper])


@part
def _load(unit: Access, memory: Memory, result: int, index: int, buffer: int, load: int) -> int:
    """Loads an element; a load asks for a line only when it leaves the one that it holds."""
    state = unit.state
    element, length = unit.registers[index], unit.buffers[buffer, 1]
    if element < 0 or element >= length:
        state.detail = element
        state.limit = length
        return op.BAD_ADDRESS
    address = unit.buffers[buffer, 0] + element
    unit.registers[result] = unit.image[address]
    state.loads += 1
    there = _evaluated(unit, unit.ready[index])
    line = address // LINE_WORDS
    if line != unit.load_lines[load]:
        # Storage is freed at a marshalled record; lines that no record has followed yet cannot be waited for.
        if state.lines_asked - unit.marshalled.size < state.lines_marshalled:
            there = max(there, unit.marshalled[state.lines_asked % unit.marshalled.size])
        unit.load_arrivals[load] = request(memory, line, there)
        unit.load_lines[load] = line
        state.lines_asked += 1
        state.front = max(state.front, memory.state.left)
    unit.ready[result] = max(there, unit.load_arrivals[load])
    return op.RUNNING


@part
def _calculate(unit: Access, function: int, result: int, first: int, second: int) -> int:
    """Integer arithmetic on streams, 64 bits wide."""
    left, right = unit.registers[first], unit.registers[second]
    if function == op.STREAM_ADD:
        value = left + right
    elif function == op.STREAM_MUL:
        value = left * right
    elif function == op.STREAM_SUB:
        value = left - right
    elif right == 0:
        return op.BAD_DIVISION
    elif function == op.STREAM_DIV:
        value = left // right
    else:
        value = left % right
    unit.registers[result] = value
    unit.ready[result] = _evaluated(unit, max(unit.ready[first], unit.ready[second]))
    return op.RUNNING


@part
def _marshal(unit: Access, queues: Queues, first: int, count: int) -> None:
    """The back takes the next record: once it is evaluated and its operands are here, and the queues have room."""
    state = unit.state
    here = max(state.back, state.front)
    for operand in range(first, first + count):
        here = max(here, unit.ready[unit.operands[operand]])
    start = max(here, room_since(queues, count))
    time = count * state.word_time + state.token_time
    state.wait_queue += start - here
    state.marshalled += time
    state.back = start + time
    size = unit.marshalled.size
    # Of more lines than the storage holds, each slot keeps the last: all are freed at once.
    for line in range(max(state.lines_marshalled, state.lines_asked - size), state.lines_asked):
        unit.marshalled[line % size] = state.back
    state.lines_marshalled = state.lines_asked


@part
def _record(unit: Access, queues: Queues, token: int, first: int, count: int) -> int:
    """Pushes a whole record, operands and token, or nothing of it."""
    if not has_room(queues, count):
        return op.BLOCKED
    _marshal(unit, queues, first, count)
    state = unit.state
    for operand in range(first, first + count):
        value = unit.registers[unit.operands[operand]]
        if value < -2147483648 or value > 2147483647:
            state.detail = value
            return op.TOO_WIDE
        push_word(queues, value)
    push_token(queues, token, count, state.back, state.triples, max(state.evaluated, state.marshalled))
    return op.RUNNING


@part
def run_access(unit: Access, queues: Queues, memory: Memory) -> int:
    """Runs until the queues have no room for the next record, or to the end; why it stopped."""
    registers, state = unit.registers, unit.state
    why = op.RUNNING
    at = state.counter
    while why == op.RUNNING:
        now = unit.code[at]
        function, a, b, c, d = now.opcode, now.a, now.b, now.c, now.d
        following = at + 1
        if function == op.LOAD:
            why = _load(unit, memory, a, b, c, d)
        elif function == op.RECORD:
            why = _record(unit, queues, a, b, c)
        elif function == op.NEXT:
            position = registers[a] + c
            if position < registers[b]:
                _step(unit, a, position)
                following = d
        elif function == op.ENTER:
            _start(unit, b, c)
            if registers[b] < registers[c]:
                _step(unit, a, registers[b])
            else:
                following = d
        elif function == op.COUNT:
            state.triples += 1
        elif function == op.HALT:
            why = op.FINISHED
        else:
            why = _calculate(unit, function, a, b, c)
        if why == op.RUNNING:
            at = following
    state.counter = at
    return why
