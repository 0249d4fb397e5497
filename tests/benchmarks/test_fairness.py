"""Whether the measure of a class's waits tells a queue that is unfair from chance."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.classroom.fairness import uneven, uneven_by_chance


def test_the_longest_mean_over_the_median() -> None:
    assert uneven([[1.0, 3.0], [1.0], [3.0, 9.0, 6.0]]) == pytest.approx(6 / 2)


def test_waits_without_regard_to_who_waits_are_as_uneven_as_by_chance() -> None:
    random = np.random.default_rng(1)
    waits = [list(random.exponential(size=count)) for count in random.integers(4, 9, size=60)]
    low, high = uneven_by_chance(waits)
    assert low < uneven(waits) < high


def test_a_student_who_always_waits_is_told_from_chance() -> None:
    random = np.random.default_rng(2)
    waits = [list(random.exponential(size=7)) for _ in range(59)]
    waits.append([6.0] * 7)
    _, high = uneven_by_chance(waits)
    assert uneven(waits) > high
