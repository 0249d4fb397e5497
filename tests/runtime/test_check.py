"""The comparison with the reference, on arrays whose errors are known."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.runtime.check import compare


def check(got: list[float], want: list[float]) -> tuple[bool, float]:
    found = compare(np.array(got, np.float32), np.array(want, np.float64))
    return found.matches, found.max_relative_error


def test_equal_scores_match() -> None:
    assert check([1.0, -2.0, 0.5], [1.0, -2.0, 0.5]) == (True, 0.0)


def test_the_largest_error_of_any_row_counts() -> None:
    matches, error = check([1.0, 2.0, 4.0004], [1.0, 2.0, 4.0])
    assert not matches
    assert error == pytest.approx(1e-4, rel=1e-3)


def test_a_score_near_zero_is_held_against_the_typical_one() -> None:
    assert check([1e-7, 1.0, -1.0], [0.0, 1.0, -1.0])[0]
    assert not check([1e-4, 1.0, -1.0], [0.0, 1.0, -1.0])[0]


def test_one_huge_score_does_not_excuse_the_others() -> None:
    assert not check([1.001, 1.0, 1.0, 1e9], [1.0, 1.0, 1.0, 1e9])[0]


def test_scores_that_are_all_zero_must_be_zero() -> None:
    assert check([0.0, 0.0], [0.0, 0.0])[0]
    assert not check([0.0, 1e-20], [0.0, 0.0])[0]


@pytest.mark.parametrize(
    ("got", "want", "matches"),
    [
        ([np.nan, 1.0], [np.nan, 1.0], True),
        ([np.nan, 1.0], [1.0, 1.0], False),
        ([1.0, 1.0], [np.nan, 1.0], False),
        ([np.inf, 1.0], [np.inf, 1.0], True),
        ([-np.inf, 1.0], [np.inf, 1.0], False),
        ([np.inf, 1.0], [1.0, 1.0], False),
    ],
)
def test_what_is_not_finite_matches_only_the_same(got: list[float], want: list[float], matches: bool) -> None:
    assert check(got, want)[0] is matches


def test_another_shape_never_matches() -> None:
    assert not compare(np.ones((2, 1), np.float32), np.ones(2)).matches


@pytest.mark.parametrize(
    ("got", "want", "beyond"),
    [
        ([np.inf, 1.0], [1e45, 1.0], True),
        ([np.inf, np.inf], [104.0, 105.0], True),
        ([0.0, 0.0], [1e-25, 2e-25], True),
        ([np.inf, 2.0, 3.0], [1e45, 1.0, 3.0], False),
        ([0.0, 0.0], [1.0, 2.0], False),
        ([1.0, 1.0], [np.nan, 1.0], False),
        ([1.0, 1.0], [1.0, 1.0], False),
    ],
)
def test_what_only_float32_loses_is_told_from_a_fault(got: list[float], want: list[float], beyond: bool) -> None:
    found = compare(np.array(got, np.float32), np.array(want, np.float64))
    assert found.beyond_float32 is beyond


def test_the_scale_of_the_errors_is_told() -> None:
    assert compare(np.ones(3, np.float32), np.array([1.0, 2.0, 9.0])).median_magnitude == 2
