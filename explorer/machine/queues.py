"""The control and the data queue: ring buffers that values and tokens really pass through, with the times at which
each slot was filled and freed.

Times are in ns and depend only on positions: word p may be pushed once word p - capacity has been popped. So the
order in which the simulation advances the two units has no influence on them. A ring has a power of two of slots, of
which no more than the capacity are ever in use; a slot keeps its times until it is filled anew.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.machine.compiled import part
from explorer.machine.parameters import WORD_BYTES, MachineParameters
from explorer.machine.records import Table, make_record, make_table


class QueueState:
    """What was pushed and popped so far, and what was inside at the time `seen`, the last push that was looked at."""

    words_pushed: int
    words_popped: int
    words_peak: int
    word_capacity: int
    tokens_pushed: int
    tokens_popped: int
    tokens_peak: int
    token_capacity: int
    seen: float
    words_left: int  # that had been popped by then
    tokens_left: int
    triples: int  # iterations of the outermost traversals done by then
    word_time: float  # words inside, integrated over time until then
    token_time: float
    access_busy: float  # how long the access unit had been busy by then


class TokenSlot:
    """A place in the control queue."""

    token: int
    words: int  # of its record, in the data queue
    triples: int  # iterations of the outermost traversals done when it was pushed
    filled: float
    freed: float
    busy: float  # how long the access unit had been busy when it was pushed


class Queues(NamedTuple):
    """Both queues."""

    state: QueueState
    tokens: Table[TokenSlot]  # the control queue
    words: NDArray[np.int32]  # the data queue
    floats: NDArray[np.float32]  # the same memory, read as f32
    word_freed: NDArray[np.float64]


def make_queues(parameters: MachineParameters) -> Queues:
    """Empty queues of the capacities given."""
    capacities = parameters.queue_bytes // WORD_BYTES, parameters.control_tokens
    slots, places = (1 << (capacity - 1).bit_length() for capacity in capacities)
    words = np.zeros(slots, np.int32)
    state = make_record(QueueState, word_capacity=capacities[0], token_capacity=capacities[1])
    return Queues(state, make_table(TokenSlot, places), words, words.view(np.float32), np.zeros(slots))


@part
def has_room(queues: Queues, words: int) -> bool:
    """Whether a record of so many words, and its token, can be pushed now."""
    state = queues.state
    return (
        state.tokens_pushed - state.tokens_popped < state.token_capacity
        and state.words_pushed - state.words_popped + words <= state.word_capacity
    )


@part
def room_since(queues: Queues, words: int) -> float:
    """When the slots for a record of so many words, and its token, were freed: 0 for those never used."""
    state = queues.state
    since = queues.tokens[(state.tokens_pushed - state.token_capacity) & (queues.tokens.size - 1)].freed
    if words > 0:
        last = state.words_pushed + words - 1 - state.word_capacity
        since = max(since, queues.word_freed[last & (queues.words.size - 1)])
    return since


@part
def push_word(queues: Queues, value: int) -> None:
    """Puts one operand into the data queue; has_room was asked before."""
    state = queues.state
    queues.words[state.words_pushed & (queues.words.size - 1)] = value
    state.words_pushed += 1


@part
def push_token(queues: Queues, token: int, words: int, now: float, triples: int, busy: float) -> None:
    """Puts a token, whose record of so many words is in the data queue, into the control queue."""
    state = queues.state
    slot = queues.tokens[state.tokens_pushed & (queues.tokens.size - 1)]
    slot.token = token
    slot.words = words
    slot.triples = triples
    slot.filled = now
    slot.busy = busy
    state.tokens_pushed += 1


@part
def oldest(queues: Queues) -> TokenSlot:
    """The place of the oldest token."""
    return queues.tokens[queues.state.tokens_popped & (queues.tokens.size - 1)]


@part
def pop_token(queues: Queues, now: float) -> int:
    """Takes the oldest token, at a time not before it was filled."""
    slot = oldest(queues)
    slot.freed = now
    queues.state.tokens_popped += 1
    return slot.token


@part
def pop_word(queues: Queues, now: float) -> int:
    """Takes the oldest operand and returns its slot, to be read as i32 or f32 before anything is pushed."""
    state = queues.state
    slot = state.words_popped & (queues.words.size - 1)
    queues.word_freed[slot] = now
    state.words_popped += 1
    return slot


@part
def observe(queues: Queues) -> None:
    """Follows, in the order of simulated time, what was in the queues up to the push of the oldest token.

    Called before that token is popped, so all pops that can lie before its push have happened.
    """
    state, slot = queues.state, oldest(queues)
    words, tokens = state.words_popped - state.words_left, state.tokens_popped - state.tokens_left
    seen, now = state.seen, slot.filled
    while seen < now:
        # The next event: a word leaves, a token leaves, or the push itself.
        word_time, token_time = math.inf, math.inf
        if words > 0:
            word_time = queues.word_freed[state.words_left & (queues.words.size - 1)]
        if tokens > 0:
            token_time = queues.tokens[state.tokens_left & (queues.tokens.size - 1)].freed
        event = min(now, word_time, token_time)
        if event > seen:
            state.word_time += (event - seen) * words
            state.token_time += (event - seen) * tokens
            seen = event
        if word_time <= event:
            state.words_left += 1
            words -= 1
        if token_time <= event:
            state.tokens_left += 1
            tokens -= 1
    state.seen = now
    state.access_busy = slot.busy
    state.triples = slot.triples
    state.words_peak = max(state.words_peak, words + slot.words)
    state.tokens_peak = max(state.tokens_peak, tokens + 1)
