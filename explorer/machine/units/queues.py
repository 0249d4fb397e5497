"""The control and the data queue: ring buffers that values and tokens really pass through, with the times at which
each slot was filled and freed.

Times are in ns and depend only on positions: word p may be pushed once word p - capacity has been popped. The units
take turns, a token each, so when a word is pushed all that was pushed before the last token has its time of leaving.
A ring has a power of two of slots, of which no more than the capacity are ever in use; a slot keeps its times until
it is filled anew.
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
    """What was pushed and popped so far, and what was inside at the time `seen`, that of the last push."""

    words_pushed: int
    words_popped: int
    words_peak: int
    word_capacity: int
    tokens_pushed: int
    tokens_popped: int
    tokens_peak: int
    token_capacity: int
    words_told: int  # that had been pushed with the last token
    seen: float
    words_left: int  # that had been popped by then
    tokens_left: int
    triples: int  # iterations of the outermost traversals done by then
    word_time: float  # words inside, integrated over time until then
    token_time: float


class TokenSlot:
    """A place in the control queue."""

    token: int
    words: int  # of its record, in the data queue
    turns: int  # of the core's branches since the last token that go another way than before
    filled: float
    freed: float


class Queues(NamedTuple):
    """Both queues."""

    state: QueueState
    tokens: Table[TokenSlot]  # the control queue
    words: NDArray[np.int32]  # the data queue
    floats: NDArray[np.float32]  # the same memory, read as f32
    kinds: NDArray[np.int8]  # what each word is: 0 an index, 1 a float
    word_freed: NDArray[np.float64]


def make_queues(parameters: MachineParameters) -> Queues:
    """Empty queues of the capacities given."""
    capacities = parameters.queue_bytes // WORD_BYTES, parameters.control_tokens
    slots, places = (1 << (max(1, capacity) - 1).bit_length() for capacity in capacities)
    words = np.zeros(slots, np.int32)
    state = make_record(QueueState, word_capacity=capacities[0], token_capacity=capacities[1])
    table = make_table(TokenSlot, places)
    return Queues(state, table, words, words.view(np.float32), np.zeros(slots, np.int8), np.zeros(slots))


@part
def has_room(queues: Queues, words: int) -> bool:
    """Whether so many words can be pushed once all tokens pushed so far are popped: they are, in the simulation."""
    state = queues.state
    return state.words_pushed - state.words_popped + words <= state.word_capacity


@part
def words_since(queues: Queues, words: int) -> float:
    """When the slots for so many words were freed: 0 for those never used."""
    state = queues.state
    last = state.words_pushed + words - 1 - state.word_capacity
    since: float = queues.word_freed[last & (queues.words.size - 1)]
    return since


@part
def token_since(queues: Queues) -> float:
    """When the slot for a token was freed: 0 if it was never used."""
    state = queues.state
    return queues.tokens[(state.tokens_pushed - state.token_capacity) & (queues.tokens.size - 1)].freed


@part
def push_word(queues: Queues, value: int, kind: int) -> None:
    """Puts one operand into the data queue; has_room was asked before."""
    state = queues.state
    slot = state.words_pushed & (queues.words.size - 1)
    queues.words[slot] = value
    queues.kinds[slot] = kind
    state.words_pushed += 1
    state.words_peak = max(state.words_peak, state.words_pushed - state.words_left)


@part
def push_token(queues: Queues, token: int, now: float, triples: int, turns: int) -> None:
    """Puts a token, whose record is in the data queue, into the control queue."""
    state = queues.state
    observe(queues, now)
    slot = queues.tokens[state.tokens_pushed & (queues.tokens.size - 1)]
    slot.token = token
    slot.words = state.words_pushed - state.words_told
    slot.turns = turns
    slot.filled = now
    state.words_told = state.words_pushed
    state.tokens_pushed += 1
    state.triples = triples
    state.tokens_peak = max(state.tokens_peak, state.tokens_pushed - state.tokens_left)


@part
def oldest(queues: Queues) -> TokenSlot:
    """The place of the oldest token."""
    return queues.tokens[queues.state.tokens_popped & (queues.tokens.size - 1)]


@part
def pop_words(queues: Queues, words: int, now: float) -> int:
    """Takes the oldest operands and returns the slot of the first, to be read before anything is pushed."""
    state = queues.state
    slot = state.words_popped & (queues.words.size - 1)
    if words == 1:
        queues.word_freed[slot] = now
    else:
        for word in range(words):
            queues.word_freed[(slot + word) & (queues.words.size - 1)] = now
    state.words_popped += words
    return slot


@part
def observe(queues: Queues, now: float) -> None:
    """Follows, in the order of simulated time, what is in the queues up to the next push.

    Called before that push, when all pops that can lie before it have happened.
    """
    state = queues.state
    words, tokens = state.words_pushed - state.words_left, state.tokens_pushed - state.tokens_left
    popped, tokens_popped = state.words_popped - state.words_left, state.tokens_popped - state.tokens_left
    seen, going = state.seen, True
    while going:
        # The next event: a word leaves, a token leaves, or the push itself.
        word_time, token_time = math.inf, math.inf
        if popped > 0:
            word_time = queues.word_freed[state.words_left & (queues.words.size - 1)]
        if tokens_popped > 0:
            token_time = queues.tokens[state.tokens_left & (queues.tokens.size - 1)].freed
        event = min(word_time, token_time)
        going = event <= now
        event = min(event, now)
        if event > seen:
            state.word_time += (event - seen) * words
            state.token_time += (event - seen) * tokens
            seen = event
        if going and word_time <= event:
            state.words_left += 1
            words -= 1
            popped -= 1
        if going and token_time <= event:
            state.tokens_left += 1
            tokens -= 1
            tokens_popped -= 1
    state.seen = now
