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
    assert check([9e-7, 1.0, -1.0], [0.0, 1.0, -1.0])[0]
    assert not check([2e-6, 1.0, -1.0], [0.0, 1.0, -1.0])[0]


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
    ("got", "want", "plain", "beyond"),
    [
        ([np.inf, 1.0], [1e45, 1.0], [np.inf, 1.0], True),
        ([np.nan, np.inf], [104.0, 105.0], [np.inf, np.inf], True),
        ([np.inf, np.inf], [104.0, 105.0], [104.0, 105.0], False),
        ([np.nan, 1.0], [1.0, 1.0], [1.0, 1.0], False),
        ([0.0, 0.0], [1e-25, 2e-25], [0.0, 0.0], True),
        ([0.0, 0.0], [1e-25, 2e-25], [1e-25, 2e-25], False),
        ([np.inf, 2.0, 3.0], [1e45, 1.0, 3.0], [np.inf, 1.0, 3.0], False),
        ([0.0, 0.0], [1.0, 2.0], [1.0, 2.0], False),
        ([1.0, 1.0], [np.nan, 1.0], [np.nan, 1.0], False),
        ([1.0, 1.0], [1.0, 1.0], [1.0, 1.0], False),
    ],
)
def test_what_float32_loses_is_told_from_a_fault(
    got: list[float], want: list[float], plain: list[float], beyond: bool
) -> None:
    found = compare(np.array(got, np.float32), np.array(want, np.float64), plain=lambda: np.array(plain, np.float32))
    assert found.beyond_float32 is beyond
    assert found.matches is (got == want)


@pytest.mark.parametrize(
    ("error", "plain_error", "matches"),
    [(9e-6, 0.0, True), (1.5e-5, 1e-5, True), (4.5e-5, 1e-5, False), (1.5e-5, 1e-6, False), (2e-4, 2e-4, False)],
)
def test_what_plain_float32_rounds_as_much_is_no_fault(error: float, plain_error: float, matches: bool) -> None:
    want = np.array([0.0, 10.0, -10.0])  # the first is held against a tenth of the median, which is 1
    got, plain = (np.array([value, 10.0, -10.0], np.float32) for value in (error, plain_error))
    found = compare(got, want, plain=lambda: plain)
    assert found.matches is matches
    assert found.max_relative_error == pytest.approx(error)
    assert found.plain_error == (None if error < 1e-5 else pytest.approx(plain_error))


def test_the_scale_of_the_errors_is_told() -> None:
    assert compare(np.ones(3, np.float32), np.array([1.0, 2.0, 9.0])).median_magnitude == 2
