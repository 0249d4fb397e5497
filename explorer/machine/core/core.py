"""The core without an access unit: its clock, in core cycles, over the instructions of a program in their order.

A trace-driven model. The interpreter notes each instruction that it runs; `run_clock` takes them as the core would:
dispatched in order, `issue_width` a cycle, into a window of `rob_entries` instructions with `lsq_entries` loads and as
many stores; issued when the operands are there; retired in order, as many a cycle. A load that misses the L1D needs one
of `l1_mshrs` registers, a page that is not known its walk. A store retires at once and keeps its place in the queue
until its line is there. After a branch that goes another way than foreseen, nothing is dispatched until it is resolved.

Every recurrence is a maximum of sums, and what the caches hold does not depend on times: so no resource, larger, makes
a run slower. Not modelled: ports, write-backs, values passed from store to load, other cores' traffic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.machine.assembly.assembly import Assembly
from explorer.machine.compiled import called, part
from explorer.machine.core.core_code import (
    BRANCH,
    FREE,
    GUARD,
    LOAD,
    POP,
    PUSH,
    SLOW,
    STORE,
    UPDATE,
    CoreOperation,
    Operand,
    core_code,
    register_count,
)
from explorer.machine.core.core_memory import CoreMemory, fetch_load, fetch_store, make_core_memory
from explorer.machine.parameters import LINE_WORDS, MachineParameters
from explorer.machine.records import Table, make_record

Integers = NDArray[np.int64]
Times = NDArray[np.float64]

NOTED = 4096
"""Instructions that are noted before the clock takes them."""
LANES = 1 << 16
"""A note of memory is the first word's address times this, and how many words."""


class CoreState:
    """Where the window stands, what was counted, and times in core cycles."""

    noted: int
    instructions: int
    loads: int
    stores: int
    mispredicts: int
    access_codes: int  # instructions of the access unit: those of the execute unit follow
    next_entry: int  # of the rings: the place of the next instruction, load, store
    next_load: int
    next_store: int
    pushed: int  # words that were passed from the access unit's code to the execute unit's
    popped: int
    predicted_steps: int  # a loop of more iterations ends unforeseen
    dispatched: float  # when the last instruction was
    retired: float
    redirect: float  # when the instructions after the last wrong branch come
    store_left: float  # when the last place in the store queue was free again
    slow_free: float  # when the unit that divides is
    step: float  # between two instructions
    penalty: float


class Core(NamedTuple):
    """The window, the registers' times, the memory behind them, and the notes that the clock has not taken yet."""

    state: CoreState
    code: Table[CoreOperation]
    operands: Table[Operand]  # that pushes pass on
    trace: Integers  # the instructions noted; none where nothing is
    places: Integers  # of each, where in memory, or whether a loop goes on
    steps: Integers  # of the loop that each branch closes, so far; of what guards one, whether it had any last time
    ready: Times  # when each register's value is there
    passed: Times  # and each word's, a ring
    window: Times  # when the last instructions retired, rings
    loads: Times
    stores: Times
    memory: CoreMemory


def make_core(assembly: Assembly, parameters: MachineParameters, image_words: int, noted: bool) -> Core:
    """An idle core with cold caches; `image_words` is the size of the read-only buffers, behind which outputs lie."""
    code, operands = core_code(assembly, parameters, image_words)
    state = make_record(
        CoreState,
        step=1.0 / parameters.issue_width,
        penalty=parameters.mispredict_cycles,
        predicted_steps=parameters.predicted_steps,
        access_codes=assembly.access_code.size,
    )
    pushed = sum(int(operands[number].words) for number in range(operands.size))
    words = 1 << max(12, pushed.bit_length() + 1)
    return Core(
        state,
        code,
        operands,
        np.zeros(NOTED if noted else 0, np.int64),
        np.zeros(NOTED if noted else 0, np.int64),
        np.zeros(code.size, np.int64),
        np.zeros(register_count(assembly)),
        np.zeros(words),
        np.zeros(parameters.rob_entries),
        np.zeros(parameters.lsq_entries),
        np.zeros(parameters.lsq_entries),
        make_core_memory(parameters),
    )


@part
def _enter(core: Core) -> float:
    """The next instruction is dispatched once the window has room."""
    state = core.state
    state.dispatched = max(state.dispatched + state.step, state.redirect, core.window[state.next_entry])
    return state.dispatched


@part
def _retire(core: Core, done: float) -> None:
    """The instruction that was dispatched last retires after those before it."""
    state, window = core.state, core.window
    state.retired = max(state.retired + state.step, done)
    window[state.next_entry] = state.retired
    state.next_entry += 1
    if state.next_entry == window.size:
        state.next_entry = 0
    state.instructions += 1


@part
def _load(core: Core, first: int, last: int, address: float) -> float:
    """A load of the words first..last, whose address is known at a time: when they are there."""
    state = core.state
    state.dispatched = max(_enter(core), core.loads[state.next_load])
    sent = max(state.dispatched, address)
    there = sent
    for line in range(first // LINE_WORDS, last // LINE_WORDS + 1):
        there = max(there, fetch_load(core.memory, line, sent, state.dispatched))
    _retire(core, there)
    core.loads[state.next_load] = state.retired
    state.next_load += 1
    if state.next_load == core.loads.size:
        state.next_load = 0
    state.loads += 1
    return there


@part
def _store(core: Core, first: int, last: int, operands: float) -> None:
    """A store: it retires when its operands are there, and its place is free when its lines are."""
    state = core.state
    state.dispatched = max(_enter(core), core.stores[state.next_store])
    _retire(core, max(state.dispatched, operands))
    for line in range(first // LINE_WORDS, last // LINE_WORDS + 1):
        state.store_left = max(state.store_left, fetch_store(core.memory, line, state.retired, state.dispatched))
    core.stores[state.next_store] = state.store_left
    state.next_store += 1
    if state.next_store == core.stores.size:
        state.next_store = 0
    state.stores += 1


@part
def _work(core: Core, amount: int, operands: float, latency: float) -> float:
    """So many instructions of one kind, independent of each other: when the last is done."""
    done = operands
    for _ in range(amount):
        done = max(_enter(core), operands) + latency
        _retire(core, done)
    return done


@part
def _slow(core: Core, amount: int, operands: float, latency: float) -> float:
    """The same on the one unit that divides, one after another."""
    state, done = core.state, operands
    for _ in range(amount):
        state.slow_free = max(_enter(core), operands, state.slow_free) + latency
        done = state.slow_free
        _retire(core, done)
    return done


@part
def _access(core: Core, row: CoreOperation, where: int, operands: float) -> float:
    """Memory by parts of as many elements as a line has words: a load, a store, or a load, an operation and a store."""
    first = where // LANES
    end = first + where % LANES
    done = operands
    while first < end:
        last = min(first + LINE_WORDS, end) - 1
        begin, until = first, last
        if row.packed > 1:
            begin, until = first // row.packed, last // row.packed
        begin, until = row.base + begin, row.base + until
        value = operands
        if row.kind != STORE:
            there = _load(core, begin, until, core.ready[row.first])
            done = max(done, there)
            value = max(value, there)
        if row.kind == UPDATE:
            value = _work(core, 1, value, row.latency)
        if row.kind != LOAD:
            _store(core, begin, until, value)
        first = last + 1
    return done


@part
def _branch(core: Core, at: int, goes_on: int, row: CoreOperation, operands: float) -> float:
    """A comparison and a branch: whether there is an iteration is foreseen to be as last time, and the end of a loop
    where it has always few."""
    state, steps = core.state, core.steps
    done = _work(core, row.amount, operands, row.latency)
    if row.kind == GUARD:
        wrong = goes_on != steps[at]
        steps[at] = goes_on
    else:
        steps[at] += 1
        wrong = goes_on == 0 and (row.unforeseen > 0 or steps[at] > state.predicted_steps)
        steps[at] *= goes_on
    if wrong:
        state.mispredicts += 1
        state.redirect = max(state.redirect, done + state.penalty)
    return done


@part
def _push(core: Core, row: CoreOperation) -> None:
    """Values go from one code to the other: on one core, in registers."""
    state, passed = core.state, core.passed
    for number in range(row.first, row.first + row.amount):
        operand = core.operands[number]
        for _ in range(operand.words):
            passed[state.pushed & (passed.size - 1)] = core.ready[operand.register]
            state.pushed += 1


@part
def _pop(core: Core, words: int) -> float:
    state, passed = core.state, core.passed
    there = 0.0
    for _ in range(words):
        there = max(there, passed[state.popped & (passed.size - 1)])
        state.popped += 1
    return there


@called
def run_clock(core: Core) -> None:
    """Takes all notes."""
    state, ready = core.state, core.ready
    for number in range(state.noted):
        at, noted = core.trace[number], core.places[number]
        row = core.code[at]
        kind = row.kind
        if kind == PUSH:
            _push(core, row)
        elif kind == POP:
            ready[row.result] = _pop(core, row.amount)
        else:
            done = max(ready[row.first], ready[row.second], ready[row.third])
            if LOAD <= kind <= UPDATE:
                done = _access(core, row, noted, done)
            elif GUARD <= kind <= BRANCH:
                done = _branch(core, at, noted, row, done)
            elif kind == SLOW:
                done = _slow(core, row.amount, done, row.latency)
            elif kind != FREE:
                done = _work(core, row.amount, done, row.latency)
            ready[row.result] = done
    state.noted = 0


@part
def note(core: Core, at: int, noted: int) -> None:
    """Remembers an instruction, and lets the clock take all where there is no room for more."""
    place = core.state.noted
    core.trace[place] = at
    core.places[place] = noted
    core.state.noted = place + 1
    if place + 1 == core.trace.size:
        run_clock(core)
