"""The access unit: runs its dataflow code, asks for lines, and pushes records.

Its clocks, in ns. Each static traversal starts anew some cycles after the first request of its last start. Line
requests of innermost traversals leave in program order, one a request cycle; those of outer traversals run ahead of
them, in an order of their own, and take a cycle of theirs each. No more lines are asked for than the storage holds
beside those that were marshalled. The back marshals operands into the queues in program order: its time is shared
out as a whole. It worked; or it waited for room in a queue; or for a line, which waited for storage, for a miss
register or for the memory, or else for the traversals and requests before it, which is work too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.machine.assembly import opcodes as op
from explorer.machine.assembly.assembly import Assembly, LoadRow, PushRow, StoreRow
from explorer.machine.assembly.instructions import Instruction
from explorer.machine.compiled import part
from explorer.machine.core.core import LANES, Core, note
from explorer.machine.memory.memory import Memory, request, write_line
from explorer.machine.parameters import LINE_WORDS, WORD_BYTES, MachineParameters
from explorer.machine.records import Table, make_record, make_table
from explorer.machine.units.execute import Execute
from explorer.machine.units.queues import Queues, has_room, observe, push_token, push_word, token_since, words_since

Integers = NDArray[np.int64]
Times = NDArray[np.float64]


class AccessState:
    """Where the unit is, what it has counted, and times in ns."""

    counter: int  # the instruction to run next
    triples: int  # iterations of the outermost traversals that are done
    lines_asked: int
    lines_freed: int
    turns: int  # ends of innermost traversals since the last token
    detail: int  # of a fault: the number that is wrong
    limit: int  # and what it must stay below
    front: float  # when the last request of an innermost traversal left
    back: float
    marshalled: float  # work of the back
    fronted: float  # waiting of the back for starts and requests
    wait_queue: float
    wait_storage: float
    wait_mshrs: float
    wait_memory: float
    last_delay: float  # of the last line: from its request to its arrival
    late_storage: float  # of the lines asked for since the last push
    late_mshrs: float
    late_memory: float
    request_time: float
    start_time: float
    word_time: float


class Traversing:
    """A traversal while it runs."""

    begun: float  # when it started, or its first request left
    fresh: int  # whether no request has left since
    front: float  # when its last request left, if it is not an innermost one
    pushed: int  # words and tokens that had been pushed when it started
    inner: int


class Line:
    """The line that a load holds, and when it arrived."""

    line: int
    arrival: float


class Access(NamedTuple):
    """The access unit's code, registers and clocks."""

    state: AccessState
    code: Table[Instruction]
    executed: Integers  # how often each instruction ran
    taken: Times  # ns that the back has spent on each, without waiting for room in a queue
    pushed: Times  # of these, on each operand: its words, and the wait if it came last
    loads: Table[LoadRow]
    pushes: Table[PushRow]
    stores: Table[StoreRow]
    buffers: Integers  # [buffers, 3]: first word in the image, length, elements that memory has in a word
    image: NDArray[np.int32]  # all read-only buffers, each element as the word that a load of it gives
    registers: Integers
    ready: Times  # when a register's value is there
    traversals: Table[Traversing]
    held: Table[Line]
    freed: Times  # when the storage of the last lines was freed, a ring


def make_access(assembly: Assembly, image: NDArray[np.int32], parameters: MachineParameters, first: int) -> Access:
    """The unit of a core before its first instruction; `first` is the core's number."""
    state = make_record(
        AccessState,
        request_time=parameters.request_cycles * parameters.access_ns,
        start_time=parameters.start_cycles * parameters.access_ns,
        word_time=WORD_BYTES / parameters.marshal_bytes * parameters.access_ns,
    )
    state.front = -state.request_time
    traversals = make_table(Traversing, max(1, len(assembly.inner)))
    for number, inner in enumerate(assembly.inner):
        row = traversals[number]
        row.begun, row.front, row.inner = -state.start_time, -state.request_time, int(inner)
    held = make_table(Line, assembly.loads.size)
    for number in range(assembly.loads.size):
        held[number].line, held[number].arrival = -1, -1.0
    registers = assembly.access_registers.copy()
    for register, values in assembly.slices.items():
        registers[register] = values[first]
    return Access(
        state,
        assembly.access_code,
        np.zeros(assembly.access_code.size, np.int64),
        np.zeros(assembly.access_code.size),
        np.zeros(assembly.pushes.size),
        assembly.loads,
        assembly.pushes,
        assembly.stores,
        assembly.buffers,
        image,
        registers,
        np.zeros(registers.size),
        traversals,
        held,
        np.zeros(max(1, parameters.storage_bytes // (LINE_WORDS * WORD_BYTES))),
    )


@part
def _enter(unit: Access, queues: Queues, position: int, lower: int, upper: int, traversal: int) -> None:
    """A traversal starts: its bounds are known, and the last start is long enough ago."""
    row, ready = unit.traversals[traversal], unit.ready
    row.begun = max(row.begun + unit.state.start_time, ready[lower], ready[upper])
    row.fresh = 1
    row.pushed = queues.state.words_pushed + queues.state.tokens_pushed
    unit.registers[position] = unit.registers[lower]
    ready[position] = row.begun


@part
def _leave(unit: Access, queues: Queues, traversal: int) -> None:
    """An innermost traversal is over: a branch of the core goes another way if it had work of it."""
    if queues.state.words_pushed + queues.state.tokens_pushed > unit.traversals[traversal].pushed:
        unit.state.turns += 1


@part
def _ask(unit: Access, memory: Memory, load: int, line: int, ready: float) -> None:
    """Asks for a line: in its turn, once there is storage for it and a miss register."""
    state, size = unit.state, unit.freed.size
    row, held, traversal = unit.loads[load], unit.held[load], unit.traversals[unit.loads[load].traversal]
    if held.arrival >= 0.0:
        unit.freed[state.lines_freed % size] = state.back
        state.lines_freed += 1
    front = state.front if traversal.inner > 0 else traversal.front
    due = max(ready, traversal.begun, front + state.request_time)
    now = due
    if state.lines_freed > 0 and state.lines_asked >= size:
        # A line that a load still holds cannot be waited for: the last that was freed makes room.
        now = max(due, unit.freed[min(state.lines_asked - size, state.lines_freed - 1) % size])
    arrival = request(memory, line, now, row.level, row.temporal, 1 - traversal.inner)
    left = memory.state.left
    state.late_storage += now - due
    state.late_mshrs += left - now
    state.late_memory += max(memory.state.queued, arrival - left - state.last_delay)
    state.last_delay = arrival - left
    state.lines_asked += 1
    if traversal.inner > 0:
        state.front = left
    else:
        traversal.front = left
        state.front += state.request_time
    if traversal.fresh > 0:
        traversal.begun = max(traversal.begun, left)
        traversal.fresh = 0
    held.arrival = arrival


@part
def _load(unit: Access, memory: Memory, result: int, index: int, load: int) -> int:
    """Loads an element, or those of the lanes below the traversal's bound; a load asks for a line only when it leaves
    the one that it holds."""
    state, row, registers = unit.state, unit.loads[load], unit.registers
    first, length = registers[index], unit.buffers[row.buffer, 1]
    lanes = row.vector
    if lanes > 1:
        lanes = min(lanes, registers[row.upper] - registers[row.position])
        registers[result + lanes : result + row.vector] = 0
    if first < 0 or first + lanes > length:
        state.detail = first if first < 0 else first + lanes - 1
        state.limit = length
        return op.BAD_ADDRESS
    base, packed = unit.buffers[row.buffer, 0], unit.buffers[row.buffer, 2]
    ready = unit.ready[index]
    there = ready
    begin, last = first, first + lanes - 1
    if lanes == 1:
        registers[result] = unit.image[base + first]
    else:
        for lane in range(lanes):
            registers[result + lane] = unit.image[base + first + lane]
    if packed > 1:
        begin, last = begin // packed, last // packed
    begin, last = base + begin, base + last
    for line in range(begin // LINE_WORDS, last // LINE_WORDS + 1):
        if line != unit.held[load].line:
            unit.held[load].line = line
            _ask(unit, memory, load, line, ready)
        there = max(there, unit.held[load].arrival)
    unit.ready[result] = there
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
    unit.ready[result] = max(unit.ready[first], unit.ready[second])
    return op.RUNNING


@part
def _wait(unit: Access, here: float) -> None:
    """The back waits until operands are here, and says for what: what made the lines since the last push late."""
    state = unit.state
    wait = here - state.back
    if wait > 0.0:
        memory = min(wait, state.late_memory)
        mshrs = min(wait - memory, state.late_mshrs)
        storage = min(wait - memory - mshrs, state.late_storage)
        state.wait_memory += memory
        state.wait_mshrs += mshrs
        state.wait_storage += storage
        state.fronted += wait - memory - mshrs - storage
        state.back = here
    state.late_memory = 0.0
    state.late_mshrs = 0.0
    state.late_storage = 0.0


@part
def _marshal(unit: Access, words: int, room: float) -> None:
    """The back takes the time of so many words, once there is room."""
    state = unit.state
    state.wait_queue += max(0.0, room - state.back)
    time = words * state.word_time
    state.marshalled += time
    state.back = max(state.back, room) + time


@part
def _push(unit: Access, queues: Queues, first: int, count: int) -> int:
    """Pushes the operands of an event together."""
    state, here, words, last = unit.state, 0.0, 0, first
    for number in range(first, first + count):
        if unit.ready[unit.pushes[number].register] > here:
            here = unit.ready[unit.pushes[number].register]
            last = number
        words += unit.pushes[number].words
    if not has_room(queues, words):
        state.detail = queues.state.words_pushed - queues.state.words_popped + words
        state.limit = queues.state.word_capacity
        return op.DEADLOCK
    unit.pushed[last] += max(0.0, here - state.back)
    _wait(unit, here)
    _marshal(unit, words, words_since(queues, words))
    observe(queues, state.back)
    for number in range(first, first + count):
        row = unit.pushes[number]
        unit.pushed[number] += row.words * state.word_time
        for word in range(row.words):
            value = unit.registers[row.register + word * row.stride]
            if value < -2147483648 or value > 2147483647:
                state.detail = value
                return op.TOO_WIDE
            push_word(queues, value, row.kind)
    return op.RUNNING


@part
def _token(unit: Access, queues: Queues, token: int, turns: int) -> int:
    """Pushes a token, once the control queue has room."""
    state = unit.state
    _marshal(unit, 0, token_since(queues))
    push_token(queues, token, state.back, state.triples, turns + state.turns)
    state.turns = 0
    return op.PUSHED


@part
def _store(unit: Access, execute: Execute, memory: Memory, store: int) -> int:
    """Writes the lanes of a stream to an output; a line is sent when the next one begins."""
    state, row, registers = unit.state, unit.stores[store], unit.registers
    first, array = registers[row.index], execute.arrays[row.array]
    lanes = row.words
    if lanes > 1:
        lanes = min(lanes, registers[row.upper] - registers[row.position])
    if first < 0 or first + lanes > array.length:
        state.detail = first if first < 0 else first + lanes - 1
        state.limit = array.length
        return op.BAD_ADDRESS
    place = array.first + first
    for lane in range(lanes):
        execute.bits[place + lane] = registers[row.register + lane]
    for line in range(place // LINE_WORDS, (place + lanes - 1) // LINE_WORDS + 1):
        if line != row.line:
            write_line(memory)
            row.line = line
    _wait(unit, max(unit.ready[row.index], unit.ready[row.register]))
    _marshal(unit, lanes, 0.0)
    return op.RUNNING


@part
def _toggle(unit: Access, stream: int, last: int, known: int) -> bool:
    """Whether a stream's value is not what it was the last time; afterwards it is."""
    registers = unit.registers
    if registers[known] > 0 and registers[last] == registers[stream]:
        return False
    registers[known] = 1
    registers[last] = registers[stream]
    return True


@part
def _noted(unit: Access, at: int, following: int) -> int:
    """What the core's clock must know of an instruction: which words it touches, or whether its loop goes on."""
    now, registers = unit.code[at], unit.registers
    noted = 1 if following != at + 1 else 0
    if now.opcode == op.LOAD:
        load = unit.loads[now.c]
        lanes = load.vector
        if lanes > 1:
            lanes = min(lanes, registers[load.upper] - registers[load.position])
        noted = registers[now.b] * LANES + lanes
    elif now.opcode == op.STORE:
        store = unit.stores[now.a]
        lanes = store.words
        if lanes > 1:
            lanes = min(lanes, registers[store.upper] - registers[store.position])
        noted = registers[store.index] * LANES + lanes
    elif now.opcode == op.ENTER:
        noted = 1 - noted
    return noted


@part
def run_access(unit: Access, execute: Execute, queues: Queues, memory: Memory, core: Core) -> int:
    """Runs until it has pushed a token, or to the end; why it stopped."""
    registers, state = unit.registers, unit.state
    why = op.RUNNING
    at = state.counter
    while why == op.RUNNING:
        now = unit.code[at]
        function, a, b, c, d = now.opcode, now.a, now.b, now.c, now.d
        unit.executed[at] += 1
        state.counter = at
        at += 1
        begun = state.back - state.wait_queue
        if function == op.LOAD:
            why = _load(unit, memory, a, b, c)
        elif function == op.PUSH:
            why = _push(unit, queues, a, b)
        elif function == op.TOKEN:
            why = _token(unit, queues, a, b)
        elif function == op.NEXT:
            position = registers[a] + c
            if position < registers[b]:
                registers[a] = position
                at = d
        elif function == op.ENTER:
            _enter(unit, queues, a, b, c, now.e)
            if registers[b] >= registers[c]:
                at = d
        elif function == op.LEAVE:
            _leave(unit, queues, a)
        elif function == op.COUNT:
            state.triples += 1
        elif function == op.STORE:
            why = _store(unit, execute, memory, a)
        elif function == op.TOGGLE:
            if not _toggle(unit, a, b, c):
                at = d
        elif function == op.HALT:
            why = op.FINISHED
        else:
            why = _calculate(unit, function, a, b, c)
        unit.taken[state.counter] += state.back - state.wait_queue - begun
        if core.trace.size > 0:
            note(core, state.counter, _noted(unit, state.counter, at))
    if why == op.PUSHED:
        state.counter = at
    return why
