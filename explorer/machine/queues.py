"""The control and the data queue: ring buffers that values and tokens really pass through, with the times at which
each slot was filled and freed.

Times are in ns and depend only on positions: word p may be pushed once word p - capacity has been popped. So the
order in which the simulation advances the two units has no influence on them.
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
WORDS_PUSHED, WORDS_POPPED, WORD_TAIL, WORD_HEAD, WORDS_PEAK = 0, 1, 2, 3, 4
TOKENS_PUSHED, TOKENS_POPPED, TOKEN_TAIL, TOKEN_HEAD, TOKENS_PEAK = 5, 6, 7, 8, 9
# popped by the time of the last push that was seen
WORDS_LEFT, WORD_LEFT_SLOT, TOKENS_LEFT, TOKEN_LEFT_SLOT = 10, 11, 12, 13
TRIPLES = 14  # outermost iterations done when the last token seen was pushed
STATE_SIZE = 15
# Queues.history
SEEN, WORD_TIME, TOKEN_TIME, ACCESS_BUSY = 0, 1, 2, 3  # ns, words x ns, tokens x ns, ns
HISTORY_SIZE = 4

HEAD_TOKENS = 64
HEAD_WORDS = 512


class Queues(NamedTuple):
    """Both queues. A slot of a ring keeps its times until it is filled anew."""

    state: Integers
    history: Times
    words: NDArray[np.int32]  # the data queue
    floats: NDArray[np.float32]  # the same memory, read as f32
    word_freed: Times
    tokens: Integers  # the control queue
    token_filled: Times
    token_freed: Times
    token_words: Integers  # how many words its record holds
    token_triples: Integers
    token_busy: Times  # how long the access unit had been busy
    head_tokens: Integers  # the first HEAD_TOKENS records: token, words
    head_times: Times
    head_words: NDArray[np.int32]  # the first HEAD_WORDS operands


def make_queues(parameters: MachineParameters) -> Queues:
    """Empty queues of the capacities given."""
    capacity = parameters.queue_bytes // WORD_BYTES
    words = np.zeros(capacity, np.int32)
    places = parameters.control_tokens
    return Queues(
        np.zeros(STATE_SIZE, np.int64),
        np.zeros(HISTORY_SIZE),
        words,
        words.view(np.float32),
        np.zeros(capacity),
        np.zeros(places, np.int64),
        np.zeros(places),
        np.zeros(places),
        np.zeros(places, np.int64),
        np.zeros(places, np.int64),
        np.zeros(places),
        np.zeros((HEAD_TOKENS, 2), np.int64),
        np.zeros(HEAD_TOKENS),
        np.zeros(HEAD_WORDS, np.int32),
    )


@part
def has_room(queues: Queues, words: int) -> bool:
    """Whether a record of so many words, and its token, can be pushed now."""
    state = queues.state
    if state[TOKENS_PUSHED] - state[TOKENS_POPPED] >= queues.tokens.size:
        return False
    full: bool = state[WORDS_PUSHED] - state[WORDS_POPPED] + words > queues.words.size
    return not full


@part
def room_since(queues: Queues, words: int) -> float:
    """When the slots for a record of so many words, and its token, were freed."""
    since: float = queues.token_freed[queues.state[TOKEN_TAIL]]
    if words > 0:
        last = queues.state[WORD_TAIL] + words - 1
        if last >= queues.words.size:
            last -= queues.words.size
        since = max(since, queues.word_freed[last])
    return since


@part
def push_word(queues: Queues, value: int) -> None:
    """Puts one operand into the data queue; has_room was asked before."""
    state = queues.state
    slot = state[WORD_TAIL]
    queues.words[slot] = value
    state[WORD_TAIL] = slot + 1 if slot + 1 < queues.words.size else 0
    if state[WORDS_PUSHED] < HEAD_WORDS:
        queues.head_words[state[WORDS_PUSHED]] = value
    state[WORDS_PUSHED] += 1


@part
def push_token(queues: Queues, token: int, words: int, now: float, triples: int, busy: float) -> None:
    """Puts a token, whose record of so many words is in the data queue, into the control queue."""
    state = queues.state
    slot = state[TOKEN_TAIL]
    queues.tokens[slot] = token
    queues.token_filled[slot] = now
    queues.token_words[slot] = words
    queues.token_triples[slot] = triples
    queues.token_busy[slot] = busy
    state[TOKEN_TAIL] = slot + 1 if slot + 1 < queues.tokens.size else 0
    number = state[TOKENS_PUSHED]
    if number < HEAD_TOKENS:
        queues.head_tokens[number, 0] = token
        queues.head_tokens[number, 1] = words
        queues.head_times[number] = now
    state[TOKENS_PUSHED] = number + 1


@part
def pop_token(queues: Queues, now: float) -> int:
    """Takes the oldest token, at a time not before it was filled."""
    state = queues.state
    slot = state[TOKEN_HEAD]
    token: int = queues.tokens[slot]
    queues.token_freed[slot] = now
    state[TOKEN_HEAD] = slot + 1 if slot + 1 < queues.tokens.size else 0
    state[TOKENS_POPPED] += 1
    return token


@part
def pop_word(queues: Queues, now: float) -> int:
    """Takes the oldest operand and returns its slot, to be read as i32 or f32 before anything is pushed."""
    state = queues.state
    slot: int = state[WORD_HEAD]
    queues.word_freed[slot] = now
    state[WORD_HEAD] = slot + 1 if slot + 1 < queues.words.size else 0
    state[WORDS_POPPED] += 1
    return slot


@part
def _pass_time(queues: Queues, now: float, words: int, tokens: int) -> None:
    """Adds the occupancy since the last event to the totals."""
    history = queues.history
    if now > history[SEEN]:
        history[WORD_TIME] += (now - history[SEEN]) * words
        history[TOKEN_TIME] += (now - history[SEEN]) * tokens
        history[SEEN] = now


@part
def observe(queues: Queues) -> None:
    """Follows, in the order of simulated time, what was in the queues up to the push of the oldest token.

    Called before that token is popped, so all pops that can lie before its push have happened.
    """
    state = queues.state
    slot = state[TOKEN_HEAD]
    now = queues.token_filled[slot]
    words_before, tokens_before = state[WORDS_POPPED], state[TOKENS_POPPED]
    while True:
        word_time = math.inf
        if state[WORDS_LEFT] < words_before:
            word_time = queues.word_freed[state[WORD_LEFT_SLOT]]
        token_time = math.inf
        if state[TOKENS_LEFT] < tokens_before:
            token_time = queues.token_freed[state[TOKEN_LEFT_SLOT]]
        if min(word_time, token_time) > now:
            break
        inside_words = words_before - state[WORDS_LEFT]
        inside_tokens = tokens_before - state[TOKENS_LEFT]
        _pass_time(queues, min(word_time, token_time), inside_words, inside_tokens)
        if word_time <= token_time:
            state[WORDS_LEFT] += 1
            at = state[WORD_LEFT_SLOT] + 1
            state[WORD_LEFT_SLOT] = at if at < queues.words.size else 0
        else:
            state[TOKENS_LEFT] += 1
            at = state[TOKEN_LEFT_SLOT] + 1
            state[TOKEN_LEFT_SLOT] = at if at < queues.tokens.size else 0
    _pass_time(queues, now, words_before - state[WORDS_LEFT], tokens_before - state[TOKENS_LEFT])
    words = words_before + queues.token_words[slot] - state[WORDS_LEFT]
    state[WORDS_PEAK] = max(state[WORDS_PEAK], words)
    state[TOKENS_PEAK] = max(state[TOKENS_PEAK], tokens_before + 1 - state[TOKENS_LEFT])
    state[TRIPLES] = queues.token_triples[slot]
    queues.history[ACCESS_BUSY] = queues.token_busy[slot]
