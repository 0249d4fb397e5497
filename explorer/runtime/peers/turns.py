"""Times of several programs taken by turns, so that what slows the machine down slows all of them down alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from time import perf_counter

from explorer.runtime.runs.events import Event, timed_sample

FINALS = 6
"""Pairs that an interval is told of at the least: that of fewer is hardly more than what they happened to be."""
SIDE_A = "A"
"""What the other side of a comparison is called, beside ours, which is its side B."""


@dataclass
class Contender:
    """One program: `measure` runs it once and gives milliseconds, None where it has failed. It is measured `most` times
    at most, spread over all turns. Ours has no name."""

    name: str
    measure: Callable[[], float | None]
    most: int = 1_000_000
    samples: list[float] = field(default_factory=list)

    def has_turn(self, index: int, repeat: int) -> bool:
        """Whether it is measured at this turn of so many."""
        return index % -(-repeat // self.most) == 0


def by_turns(contenders: Sequence[Contender], repeat: int) -> Iterator[Event]:
    """Fills in the samples of all, a sample each a turn, in the other order at every second turn: who comes second
    finds the caches and the clock as the first one left them. Samples that one has already are those of its first
    turns. Ends early where the first, which is ours, fails."""
    taken = [len(each.samples) for each in contenders]
    for index in range(repeat):
        waiting = [each for each, count in zip(contenders, taken, strict=True) if index >= count]
        turn = [each for each in waiting if each.has_turn(index, repeat)]
        for contender in reversed(turn) if index % 2 else turn:
            ms = contender.measure()
            if ms is not None:
                contender.samples.append(ms)
                yield timed_sample(index, ms, of=contender.name)
            elif contender is contenders[0]:
                return


def finals(contenders: Sequence[Contender], repeat: int, seconds: float, most: float = inf) -> None:
    """Fills in the samples of all, by turns with the first: as many as there is time for within `seconds`, of `repeat`
    at most, but FINALS where that takes no longer than `most` seconds. Where it would with the last of three or more,
    that one is left out, with the sample that it has."""
    began, turns, left = perf_counter(), 0, list(contenders)
    while turns < max(FINALS, repeat):
        turns += 1
        for _ in by_turns(left, turns):
            pass
        spent = perf_counter() - began
        if turns == 1 and len(left) > 2 and FINALS * spent > most:
            left.pop()
        if spent >= (most if turns < FINALS else min(seconds, most)):
            return
