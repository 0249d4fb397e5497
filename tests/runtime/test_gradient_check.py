"""The check of gradients, on functions whose gradients are known."""

import numpy as np
import pytest

from explorer.runtime.gradient_check import check_tensor, probe, size_of

RANDOM = np.random.default_rng(3)
W = RANDOM.normal(size=(4, 3)).astype(np.float32)
X = RANDOM.normal(size=(50, 4)).astype(np.float32)
UPSTREAM = RANDOM.normal(size=(50, 3)).astype(np.float32)


def evaluate(replaced):
    return np.tanh(X @ np.asarray(replaced.get("W", W), np.float64))


def gradient():
    return (X.T @ (UPSTREAM * (1 - np.tanh(X @ W) ** 2))).astype(np.float32)


def test_a_right_gradient_passes():
    assert check_tensor("W", gradient(), W, UPSTREAM, evaluate).max_relative_error < 1e-5
    found = probe({"W": W}, evaluate({}), evaluate)
    assert not found.corners.any()
    assert found.check({"W": gradient()}, UPSTREAM).max_relative_error < 1e-5


@pytest.mark.parametrize("spoil", [lambda g: g * 1.01, lambda g: -g, lambda g: g * 0, lambda g: g * np.nan])
def test_a_wrong_gradient_fails(spoil):
    assert check_tensor("W", spoil(gradient()), W, UPSTREAM, evaluate).max_relative_error > 1e-3


def test_one_wrong_entry_fails():
    wrong = gradient()
    wrong[2, 1] += 0.1
    assert check_tensor("W", wrong, W, UPSTREAM, evaluate).max_relative_error > 1e-3


def test_an_element_at_a_corner_is_found():
    offset = np.array([0.0, 1.0, -1.0], np.float32)
    found = probe({"b": offset}, np.maximum(offset, 0).astype(float), lambda replaced: np.maximum(replaced["b"], 0))
    assert found.corners.tolist() == [True, False, False]


def test_a_gradient_that_cancels_is_held_to_what_float32_leaves_of_the_others():
    rounded = (gradient() * 1e-6 + 1e-8).astype(np.float32)
    beside = size_of({"W": rounded, "U": gradient(), "V": np.array([np.nan], np.float32)})

    def shrunk(replaced):
        return 1e-6 * evaluate(replaced)

    assert check_tensor("W", rounded, W, UPSTREAM, shrunk).max_relative_error > 1e-3
    assert check_tensor("W", rounded, W, UPSTREAM, shrunk, beside=beside).max_relative_error < 1e-4
    assert check_tensor("W", gradient() * 1.01, W, UPSTREAM, evaluate, beside=beside).max_relative_error > 1e-3
