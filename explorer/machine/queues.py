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

Integers = NDArray[np.int64]
Times = NDArray[np.float64]

# Queues.state
WORDS_PUSHED, WORDS_POPPED, WORDS_PEAK, WORD_CAPACITY = 0, 1, 2, 3
TOKENS_PUSHED, TOKENS_POPPED, TOKENS_PEAK, TOKEN_CAPACITY = 4, 5, 6, 7
WORDS_LEFT, TOKENS_LEFT = 8, 9  # how many had been popped by the time of the last push that was seen
TRIPLES = 10  # outermost iterations done by then
STATE_SIZE = 11
# Queues.history: that time (ns), the integrals of both occupancies up to it, and how long the access unit was busy
SEEN, WORD_TIME, TOKEN_TIME, ACCESS_BUSY = 0, 1, 2, 3
HISTORY_SIZE = 4
# Columns of Queues.tokens and Queues.token_times
TOKEN, RECORD_WORDS, DONE_TRIPLES = 0, 1, 2
FILLED, FREED, BUSY = 0, 1, 2


class Queues(NamedTuple):
    """Both queues."""

    state: Integers
    history: Times
    words: NDArray[np.int32]  # the data queue
    floats: NDArray[np.float32]  # the same memory, read as f32
    word_freed: Times
    tokens: Integers  # the control queue, [slots, 3]: token, words of its record, outermost iterations done
    token_times: Times  # [slots, 3]: filled, freed, and how long the access unit had been busy


def make_queues(parameters: MachineParameters) -> Queues:
    """Empty queues of the capacities given."""
    state = np.zeros(STATE_SIZE, np.int64)
    state[WORD_CAPACITY] = parameters.queue_bytes // WORD_BYTES
    state[TOKEN_CAPACITY] = parameters.control_tokens
    slots, places = (1 << (int(state[at]) - 1).bit_length() for at in (WORD_CAPACITY, TOKEN_CAPACITY))
    words = np.zeros(slots, np.int32)
    return Queues(
        state,
        np.zeros(HISTORY_SIZE),
        words,
        words.view(np.float32),
        np.zeros(slots),
        np.zeros((places, 3), np.int64),
        np.zeros((places, 3)),
    )


@part
def has_room(queues: Queues, words: int) -> bool:
    """Whether a record of so many words, and its token, can be pushed now."""
    state = queues.state
    fits: bool = (
        state[TOKENS_PUSHED] - state[TOKENS_POPPED] < state[TOKEN_CAPACITY]
        and state[WORDS_PUSHED] - state[WORDS_POPPED] + words <= state[WORD_CAPACITY]
    )
    return fits


@part
def room_since(queues: Queues, words: int) -> float:
    """When the slots for a record of so many words, and its token, were freed: 0 for those never used."""
    state = queues.state
    token = (state[TOKENS_PUSHED] - state[TOKEN_CAPACITY]) & (queues.tokens.shape[0] - 1)
    since: float = queues.token_times[token, FREED]
    if words > 0:
        last = state[WORDS_PUSHED] + words - 1 - state[WORD_CAPACITY]
        since = max(since, queues.word_freed[last & (queues.words.size - 1)])
    return since


@part
def push_word(queues: Queues, value: int) -> None:
    """Puts one operand into the data queue; has_room was asked before."""
    number = queues.state[WORDS_PUSHED]
    queues.words[number & (queues.words.size - 1)] = value
    queues.state[WORDS_PUSHED] = number + 1


@part
def push_token(queues: Queues, token: int, words: int, now: float, triples: int, busy: float) -> None:
    """Puts a token, whose record of so many words is in the data queue, into the control queue."""
    number = queues.state[TOKENS_PUSHED]
    slot = number & (queues.tokens.shape[0] - 1)
    queues.tokens[slot, TOKEN] = token
    queues.tokens[slot, RECORD_WORDS] = words
    queues.tokens[slot, DONE_TRIPLES] = triples
    queues.token_times[slot, FILLED] = now
    queues.token_times[slot, BUSY] = busy
    queues.state[TOKENS_PUSHED] = number + 1


@part
def filled(queues: Queues) -> float:
    """When the oldest token was pushed."""
    time: float = queues.token_times[queues.state[TOKENS_POPPED] & (queues.tokens.shape[0] - 1), FILLED]
    return time


@part
def pop_token(queues: Queues, now: float) -> int:
    """Takes the oldest token, at a time not before it was filled."""
    number = queues.state[TOKENS_POPPED]
    slot = number & (queues.tokens.shape[0] - 1)
    queues.token_times[slot, FREED] = now
    queues.state[TOKENS_POPPED] = number + 1
    token: int = queues.tokens[slot, TOKEN]
    return token


@part
def pop_word(queues: Queues, now: float) -> int:
    """Takes the oldest operand and returns its slot, to be read as i32 or f32 before anything is pushed."""
    number = queues.state[WORDS_POPPED]
    slot: int = number & (queues.words.size - 1)
    queues.word_freed[slot] = now
    queues.state[WORDS_POPPED] = number + 1
    return slot


@part
def observe(queues: Queues) -> None:
    """Follows, in the order of simulated time, what was in the queues up to the push of the oldest token.

    Called before that token is popped, so all pops that can lie before its push have happened.
    """
    state, history = queues.state, queues.history
    slot = state[TOKENS_POPPED] & (queues.tokens.shape[0] - 1)
    now = queues.token_times[slot, FILLED]
    words, tokens = state[WORDS_POPPED] - state[WORDS_LEFT], state[TOKENS_POPPED] - state[TOKENS_LEFT]
    seen = history[SEEN]
    while seen < now:
        # The next event: a word leaves, a token leaves, or the push itself.
        word_time, token_time = math.inf, math.inf
        if words > 0:
            word_time = queues.word_freed[state[WORDS_LEFT] & (queues.words.size - 1)]
        if tokens > 0:
            token_time = queues.token_times[state[TOKENS_LEFT] & (queues.tokens.shape[0] - 1), FREED]
        event = min(now, word_time, token_time)
        if event > seen:
            history[WORD_TIME] += (event - seen) * words
            history[TOKEN_TIME] += (event - seen) * tokens
            seen = event
        if word_time <= event:
            state[WORDS_LEFT] += 1
            words -= 1
        if token_time <= event:
            state[TOKENS_LEFT] += 1
            tokens -= 1
    history[SEEN] = now
    history[ACCESS_BUSY] = queues.token_times[slot, BUSY]
    state[TRIPLES] = queues.tokens[slot, DONE_TRIPLES]
    state[WORDS_PEAK] = max(state[WORDS_PEAK], words + queues.tokens[slot, RECORD_WORDS])
    state[TOKENS_PEAK] = max(state[TOKENS_PEAK], tokens + 1)
