"""The comparison with the reference, on results whose errors are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.runtime.reference import compare as comparing
from explorer.runtime.reference.compare import FEWEST, Check, compare
from explorer.runtime.reference.evaluate import Meaning
from explorer.runtime.reference.numbers.arithmetic import FLOAT32, UNFLUSHED
from explorer.runtime.reference.numbers.bounds import CONSTANT, ROUNDOFF, Bounded

ALLOWED = CONSTANT * ROUNDOFF
"""What an element of scale 1 may differ by."""


def check(got: list[float], want: list[float], scale: float = 1.0) -> Check:
    return compare(np.array(got, np.float64), Bounded(np.array(want), scale))


def test_an_element_may_differ_by_its_own_bound() -> None:
    assert check([1.0, -2.0], [1.0, -2.0]).ratio == 0
    found = check([1 + 0.9 * ALLOWED, -2.0], [1.0, -2.0])
    assert found.matches
    assert found.ratio == pytest.approx(0.9)
    assert not check([1 + 1.1 * ALLOWED, -2.0], [1.0, -2.0]).matches


def test_an_element_without_rounding_must_be_exact() -> None:
    assert check([0.0, 0.0], [0.0, 0.0], 0.0).matches
    assert not check([0.0, 1e-20], [0.0, 0.0], 0.0).matches


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
    assert check(got, want).matches is matches


def test_another_shape_never_matches() -> None:
    assert not compare(np.ones((2, 1), np.float32), Bounded(np.ones(2), 1.0)).matches


@pytest.mark.parametrize(
    ("got", "want", "scale", "beyond"),
    [
        ([np.nan, 1.0], [104.0, 1.0], [np.inf, 1.0], True),
        ([np.nan, 2.0], [104.0, 1.0], [np.inf, 1.0], False),
        ([np.nan, 1.0], [104.0, 1.0], [1.0, 1.0], False),
        ([103.0, 1.0], [104.0, 1.0], [np.inf, 1.0], False),
    ],
)
def test_what_float32_cannot_hold_is_told_from_a_fault(
    got: list[float], want: list[float], scale: list[float], beyond: bool
) -> None:
    assert compare(np.array(got), Bounded(np.array(want), np.array(scale))).beyond_float32 is beyond


VANISHING = {
    "under a root": "norm(E[h] * 1e-25)",
    "brought back": "sum(E[h] * 1e-25 * (E[t] * 1e-20)) * 1e30",
    "not at all": "norm(E[h] * 1e-10)",
    "itself": "sum(E[h] * 1e-25 * (E[t] * 1e-20))",
    "cancelled": "sum(E[h] * R[r] - (E[h] - 1) * R[r] - R[r])",
}


@pytest.mark.parametrize("name", VANISHING)
def test_a_result_that_underflow_alone_explains_is_told_from_a_right_one(name: str) -> None:
    text = f"""dim D = 4
score Model(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return {VANISHING[name]}
"""
    random = np.random.default_rng(0)
    tensors = {tensor: random.standard_normal((9, 4)).astype(np.float32) for tensor in "ER"}
    meaning = Meaning(text, {**tensors, **{ends: random.integers(0, 9, 20) for ends in "hrt"}}, {})
    found = compare(meaning.result(FLOAT32), meaning.result(), (), lambda: meaning.result(UNFLUSHED))
    assert found.beyond_float32 is (name in ("under a root", "brought back"))
    assert found.matches is not found.beyond_float32


def drifting(by: float, count: int = 10 * FEWEST, plainly: float = 0.01, shared: float = 0.0) -> Check:
    """Results that are all off by a share of their bound, where plain float32 is off by another."""
    random = np.random.default_rng(0)
    want = random.standard_normal(count)
    off, plain = (want + share * ALLOWED * random.choice([-1, 1], count) for share in (by, plainly))
    return compare(off, Bounded(want, 1.0 - shared, shared), [lambda: plain])


def test_what_is_a_little_wrong_everywhere_is_an_alarm() -> None:
    assert drifting(0.02).matches
    found = drifting(0.1)
    assert found.ratio < 1
    assert found.drifts
    assert not found.matches
    assert drifting(0.1, plainly=0.05).matches, "plain float32 is no better"
    assert drifting(0.1, count=FEWEST - 1).matches, "too few to tell"
    assert drifting(0.1, shared=0.5).matches, "an error that all elements share"


OVERFLOWING = {
    "of two that overflow, the greater": ("max(norm(E[h] * R[r], 1), sum(E[h] * E[h] * R[r]))", "R"),
    "where one argument is no number": ("norm(relu(E[h] * E[h] - E[t] * E[t]) * sum(W @ E[h]), 1)", "W"),
    "nothing times infinity": ("norm(E[h] * E[t] + sign(R[r]))", "R"),
}


def large(score: str) -> Meaning:
    """A score of tensors around 1e30."""
    text = f"""dim D = 4
score Model(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D], W[D, D]
    return {score}
"""
    random = np.random.default_rng(0)
    tensors = {name: (1e30 * random.standard_normal((9, 4))).astype(np.float32) for name in "ER"}
    tensors["W"] = tensors["R"][:4]
    return Meaning(text, {**tensors, **{ends: random.integers(0, 9, 20) for ends in "hrt"}}, {})


def check_of_large(score: str, tensor: str, wrong: bool = False) -> Check:
    """A gradient of the program, its first number a tenth too large where it is to be `wrong`."""
    meaning, upstream = large(score), np.ones(20, np.float32)
    compilation = explorer.compile(meaning.text, options={"grad": True}, on_demand=True)
    learnt = [each.name for each in compilation.stages["graph"].program.tensors]  # type: ignore[union-attr]
    inputs = {name: array for name, array in meaning.inputs.items() if name in "hrt" or name in learnt}
    with np.errstate(all="ignore"):
        got = compilation.run(inputs, on="loops", grad=upstream)[1][tensor].copy()
        if wrong:
            got[tuple(np.argwhere(got)[0])] *= 1.1
        want = meaning.gradients(upstream, [tensor])[tensor]
        return compare(got, want, overflows=lambda: meaning.overflows(upstream, [tensor]))


@pytest.mark.parametrize("name", OVERFLOWING)
def test_what_comes_of_an_overflow_is_no_fault(name: str) -> None:
    found = check_of_large(*OVERFLOWING[name])
    assert found.matches or found.beyond_float32


@pytest.mark.parametrize("score", ["sum(E[h] * 0.5)", "max(sum(E[h]), sum(E[t] * 0.5))", "sum(R[r] / E[h] + E[h])"])
def test_a_fault_in_large_numbers_that_do_not_overflow_is_one(score: str) -> None:
    assert check_of_large(score, "E").matches
    found = check_of_large(score, "E", wrong=True)
    assert not found.matches
    assert not found.beyond_float32


def test_a_wrong_number_beside_an_overflow_is_a_fault() -> None:
    """What depends on nothing that overflows still has its bound, and what is no number there is no excuse for it."""
    found = check_of_large("sum(E[h] * 0.5) + norm(R[r] * R[r], 1)", "E", wrong=True)
    assert not found.matches
    assert not found.beyond_float32


def test_what_is_no_number_without_an_overflow_is_a_fault() -> None:
    meaning = large("sum(E[h] * 0.5)")
    got = meaning.result(FLOAT32)
    got[3] = np.nan
    found = compare(got, meaning.result(), overflows=meaning.overflows)
    assert not found.matches
    assert not found.beyond_float32


SPOILT = {
    "nothing": (),
    "a number": (lambda got, want: got.__setitem__((6, 2), got[6, 2] + 3e-6),),
    "no number": (lambda got, want: got.__setitem__((9, 4), np.nan),),
    "beyond float32": (
        lambda got, want: want.own.__setitem__((3, 0), np.inf),
        lambda got, want: got.__setitem__((3, 0), np.nan),
    ),
    "what vanished": (
        lambda got, want: want.value.__setitem__((8, 1), 1e-20),
        lambda got, want: got.__setitem__((8, 1), 0.0),
    ),
}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shared", [0.0, "a column", "all"])
@pytest.mark.parametrize("spoilt", SPOILT)
def test_parts_together_say_what_the_whole_says(
    spoilt: str, shared: float | str, transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(7)
    value = random.standard_normal((11, 5))
    shapes = {"a column": (11, 1), "all": (11, 5)}
    part = random.random(shapes[shared]).astype(np.float32) if isinstance(shared, str) else shared
    want = Bounded(value, np.abs(value).astype(np.float32) + np.float32(0.1), part)
    got = (value * (1 + 1e-8 * random.standard_normal(value.shape))).astype(np.float32)
    for spoil in SPOILT[spoilt]:
        spoil(got, want)
    if transposed:
        got, want = got.T, Bounded(want.value.T, want.own.T, part.T if isinstance(part, np.ndarray) else part)
    exact = Bounded(want.value, np.float32(1e-30))
    whole = compare(got, want, unflushed=lambda: exact, overflows=lambda: False)
    assert whole.matches == (spoilt == "nothing")
    for size in (1, 7, 54):
        monkeypatch.setattr(comparing, "PART", size)
        found = compare(got, want, unflushed=lambda: exact, overflows=lambda: False)
        relative = pytest.approx(whole.max_relative_error, nan_ok=True)
        assert found == replace(whole, root=pytest.approx(whole.root, rel=1e-12), max_relative_error=relative)
