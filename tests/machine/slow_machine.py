"""A slow, obviously right machine: every unit looks at every nanosecond whether it can go on.

For a program of rows: each row is a traversal that loads its words in steps and pushes them, with a token a step or,
buffered, one a row; the core pops a token, then each step, and works on it. All times are whole numbers of ns.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """Words that are pushed together: the line that they lie in, whether they are the first of their row, and whether
    a token follows, with how many turns of the core."""

    line: int
    words: int
    first: bool
    token: bool
    turns: int


@dataclass(frozen=True)
class Timing:
    """In ns, lines, words and tokens."""

    start: int
    request: int
    l2: int
    llc: int
    hbm: int
    line: int  # of the channel
    storage: int
    mshrs: int
    words: int
    tokens: int
    token: int
    turn: int
    pop: int
    work: int
    l2_shape: tuple[int, int]  # sets, ways
    llc_shape: tuple[int, int]
    near: bool  # whether the L2 is asked first, or passed by


class Cache:
    """Lines by set in order of use, last first."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.sets: list[list[int]] = [[] for _ in range(shape[0])]
        self.ways = shape[1]

    def holds(self, line: int) -> bool:
        return line in self.sets[line % len(self.sets)]

    def use(self, line: int) -> None:
        """Makes it the first of its set; the one used least recently leaves a full set."""
        lines = self.sets[line % len(self.sets)]
        if line in lines:
            lines.remove(line)
        lines.insert(0, line)
        del lines[self.ways :]


class SlowMachine:
    """Runs to the end in `run`; `pushed` and `popped` are the times of the tokens."""

    def __init__(self, steps: list[Step], timing: Timing) -> None:
        self.steps, self.timing, self.now = steps, timing, 0
        self.pushed: list[int] = []
        self.popped: list[int] = []
        self.misses = self.most_in_flight = self.most_words = 0
        # The front: the next step whose line is wanted, when it last asked, when the row began.
        self.wanted, self.asked_at, self.begun, self.row_asked = 0, -timing.request, -timing.start, False
        self.row, self.held = -1, -1  # the first step of the row, and the line that is held
        self.arrivals: list[int] = []  # of each step's line
        self.storage: list[list[int]] = []  # for each line in it, the steps that use it
        self.in_flight: list[int] = []
        self.channel = 0
        self.l2, self.llc, self.arrived = Cache(timing.l2_shape), Cache(timing.llc_shape), dict[int, int]()
        # The back: the next step to be marshalled, those that are (with their token), and the one under way.
        self.next, self.done, self.under_way, self.until = 0, 0, False, 0
        self.token_due = False
        # The queues: words inside, tokens not yet freed, tokens to be popped by the number of their last step.
        self.words, self.control, self.tokens = 0, 0, deque[int]()
        # The core: what it does until when, and what then.
        self.actions: deque[tuple[str, int, int]] = deque()
        self.action: tuple[str, int, int] | None = None
        self.free_at, self.told = 0, 0

    def run(self) -> None:
        while len(self.popped) < sum(step.token for step in self.steps) or self.action:
            while self._ask() or self._marshal() or self._tell() or self._work():
                pass
            self.now += 1

    def _ask(self) -> bool:
        """The front wants the line of the next step: it holds it, or asks for it once it may."""
        if self.wanted == len(self.steps):
            return False
        step, timing = self.steps[self.wanted], self.timing
        if step.first and self.row != self.wanted:
            self.row, self.begun, self.row_asked = self.wanted, self.begun + timing.start, False
        if self.held != step.line:
            self.in_flight = [time for time in self.in_flight if time > self.now]
            kept = [steps for steps in self.storage if steps[-1] >= self.done]
            if self.now < max(self.begun, self.asked_at + timing.request) or len(kept) >= timing.storage:
                return False
            if self._is_miss(step.line) and len(self.in_flight) >= timing.mshrs:
                return False
            self.storage = [*kept, []]
            self.arrivals.append(self._request(step.line))
            self.asked_at, self.held = self.now, step.line
            if not self.row_asked:
                self.begun, self.row_asked = self.now, True
        else:
            self.arrivals.append(self.arrivals[-1])
        self.storage[-1].append(self.wanted)
        self.wanted += 1
        return True

    def _is_miss(self, line: int) -> bool:
        return not ((self.timing.near and self.l2.holds(line)) or self.llc.holds(line))

    def _request(self, line: int) -> int:
        """When the line is here."""
        timing = self.timing
        in_l2, in_llc = timing.near and self.l2.holds(line), self.llc.holds(line)
        if timing.near:
            self.l2.use(line)
        if in_l2:
            return max(self.now + timing.l2, self.arrived[line])
        self.llc.use(line)
        if in_llc:
            here = max(self.now + timing.llc, self.arrived[line])
        else:
            self.channel = max(self.channel, self.now) + timing.line
            here = self.arrived[line] = self.channel + timing.hbm
            self.in_flight.append(here)
            self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
            self.misses += 1
        return here

    def _marshal(self) -> bool:
        """The back takes a step that is here once the queue has room, a word a ns."""
        if self.under_way and self.until <= self.now:
            self.under_way, self.token_due = False, self.steps[self.next - 1].token
            self.done += not self.token_due
            return True
        at = self.next
        if self.under_way or self.token_due or at >= len(self.arrivals) or self.arrivals[at] > self.now:
            return False
        if self.words + self.steps[at].words > self.timing.words:
            return False
        self.words += self.steps[at].words
        self.most_words = max(self.most_words, self.words)
        self.next, self.under_way, self.until = at + 1, True, self.now + self.steps[at].words
        return True

    def _tell(self) -> bool:
        """A token follows its words once the control queue has room."""
        if not self.token_due or self.control >= self.timing.tokens:
            return False
        self.control += 1
        self.tokens.append(self.done)
        self.done += 1
        self.pushed.append(self.now)
        self.token_due = False
        return True

    def _work(self) -> bool:
        """The core ends what it does, or begins the next."""
        if self.action and self.free_at > self.now:
            return False
        if self.action:
            kind, _, words = self.action
            self.action = None
            if kind == "token":
                self.control -= 1
                self.popped.append(self.now)
            self.words -= words
            return True
        if not self.actions and self.tokens:
            last, timing = self.tokens.popleft(), self.timing
            self.actions.append(("token", timing.token + self.steps[last].turns * timing.turn, 0))
            for step in self.steps[self.told : last + 1]:
                self.actions += [("pop", timing.pop, step.words), ("work", timing.work, 0)]
            self.told = last + 1
        if not self.actions:
            return False
        self.action = self.actions.popleft()
        self.free_at = self.now + self.action[1]
        return True
