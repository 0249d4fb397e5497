"""Samples that a gain is told of: how many there are, by what a turn takes and what time there is."""

from __future__ import annotations

import pytest

from explorer.runtime.peers import turns
from explorer.runtime.peers.turns import FINALS, Contender, finals


@pytest.mark.parametrize(
    ("takes", "repeat", "seconds", "most", "taken"),
    [
        ((0.1, 0.1, 0.1), 20, 30.0, 60.0, (20, 20, 20)),
        ((0.1, 0.1, 0.1), 3, 30.0, 60.0, (FINALS, FINALS, FINALS)),
        ((1.0, 1.0, 1.0), 20, 3.0, 60.0, (FINALS, FINALS, FINALS)),
        ((1.0, 1.0, 1.0), 20, 3.0, float("inf"), (FINALS, FINALS, FINALS)),
        ((1.0, 1.0, 1.0), 20, 3.0, 14.0, (FINALS, FINALS, 1)),
        ((1.0, 1.0, 1.0), 20, 3.0, 6.0, (3, 3, 1)),
        ((1.0, 1.0), 20, 3.0, 4.0, (2, 2)),
        ((1.0, 1.0), 20, 3.0, -1.0, (1, 1)),
    ],
    ids=["all", "few asked", "slow", "no limit", "the second is dropped", "too few", "too few of one", "late"],
)
def test_as_many_turns_as_there_is_time_for(
    takes: tuple[float, ...],
    repeat: int,
    seconds: float,
    most: float,
    taken: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(turns, "perf_counter", lambda: clock[0])

    def contender(took: float) -> Contender:
        def measure() -> float:
            clock[0] += took
            return 1e3 * took

        return Contender("", measure)

    contenders = [contender(took) for took in takes]
    finals(contenders, repeat, seconds, most)
    assert tuple(len(each.samples) for each in contenders) == taken
