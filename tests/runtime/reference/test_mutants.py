"""What the check of results sees: mutants of products, sums over edges, softmax and norms at every size.

Each is a float32 evaluation with a small fault. The bound, or the mean of the bounds, must see it wherever the
relative tolerance that was there before did, and whatever the size up to 1,024 terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from explorer.runtime.reference import evaluate as reference
from explorer.runtime.reference.compare import compare
from explorer.runtime.reference.numbers import primitives as plain
from explorer.runtime.reference.numbers.arithmetic import BOUNDED, FLOAT32
from explorer.runtime.reference.numbers.bounds import bounded

F32 = np.float32
ROWS, COLUMNS = 40, 8
SIZES = (2, 3, 8, 17, 64, 256, 1024)

Fault = Callable[[Any], Any]


def tf32(x: Any) -> Any:
    """Rounded to 11 bits."""
    return (np.ascontiguousarray(x, F32).view(np.uint32) + 0x1000 & 0xFFFFE000).view(F32)


def half(terms: Any) -> Any:
    """The sum of the terms along the last axis, one by one in half precision."""
    return np.add.accumulate(terms.astype(np.float16), axis=-1, dtype=np.float16)[..., -1].astype(F32)


def dropped(terms: Any) -> Any:
    """Without one term of one sum: the typical one of the middle row."""
    terms = terms.copy()
    row = terms[ROWS // 2, 0]
    row[np.argsort(np.abs(row))[len(row) // 2]] = 0
    return terms


def swapped(terms: Any) -> Any:
    """With the terms of another row, in one."""
    terms = terms.copy()
    terms[3] = terms[4]
    return terms


def stale(terms: Any) -> Any:
    """With one lane of 32 left as it was in the row before."""
    terms = terms.copy()
    lane = slice(min(1, terms.shape[-1] - 1), None, 32)
    terms[7, ..., lane] = terms[6, ..., lane]
    return terms


TERMS: dict[str, tuple[Fault, Fault]] = {
    "a dropped term": (dropped, lambda terms: terms.sum(axis=-1, dtype=F32)),
    "a swapped index": (swapped, lambda terms: terms.sum(axis=-1, dtype=F32)),
    "a stale lane": (stale, lambda terms: terms.sum(axis=-1, dtype=F32)),
    "half precision": (lambda terms: terms, half),
}
"""Of the terms of every sum, what a fault makes, and how they are added up."""


def drawn(size: int, positive: bool) -> tuple[Any, Any]:
    random = np.random.default_rng(size)
    x, w = random.standard_normal((ROWS, size)).astype(F32), random.standard_normal((size, COLUMNS)).astype(F32)
    return (np.abs(x), np.abs(w)) if positive else (x, w)


SCORES, LAYERS = 1e-5, 1e-4
"""The relative tolerances that there were."""


def ops(terms: int) -> float:
    """The tolerance of a sum of so many terms in an op."""
    return float(1e-5 * np.sqrt(max(1.0, terms / 16)))


def relative(got: Any, want: Any) -> Any:
    """Errors relative to the element, or to a tenth of the median where that is larger."""
    typical = float(np.median(np.abs(want[want != 0])))
    return np.abs(np.asarray(got, np.float64) - want) / np.maximum(np.abs(want), 0.1 * typical)


def before(got: Any, want: Any, right: Any, tolerance: float) -> bool:
    """Whether the check before flagged it: a tolerance that four times the error of plain float32, `right`, widened
    up to ten times."""
    excused = 4 * float(relative(right, want).max())
    return bool(relative(got, want).max() >= max(tolerance, min(excused, 10 * tolerance)))


def sees(got: Any, want: Any, right: Any, tolerance: float) -> bool:
    """Whether the check flags it; what the one before flagged, it must."""
    found = not compare(np.asarray(got, F32), want, [lambda: right]).matches
    assert found or not before(got, want.value, right, tolerance)
    return found


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fault", TERMS)
def test_a_fault_of_a_product_is_seen(fault: str, size: int, positive: bool) -> None:
    x, w = drawn(size, positive)
    terms = (x[:, None, :] * w.T[None]).astype(F32)
    want, (spoil, add) = plain.matmul(bounded(x), bounded(w)), TERMS[fault]
    right = terms.sum(axis=-1, dtype=F32)
    assert not sees(right, want, right, SCORES)
    assert sees(add(spoil(terms)), want, right, SCORES)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_tf32_where_float32_is_promised_is_seen(size: int, positive: bool) -> None:
    x, w = drawn(size, positive)
    assert sees(tf32(x) @ tf32(w), plain.matmul(bounded(x), bounded(w)), x @ w, SCORES)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fault", TERMS)
def test_a_fault_of_a_sum_over_edges_is_seen(fault: str, size: int) -> None:
    random = np.random.default_rng(size)
    values = random.standard_normal((ROWS, COLUMNS, size)).astype(F32)
    flat = np.moveaxis(values, -1, 1).reshape(ROWS * size, COLUMNS)
    want = plain.segment_sum(bounded(flat), np.repeat(np.arange(ROWS), size), ROWS)
    spoil, add = TERMS[fault]
    right = values.sum(axis=-1)
    assert not sees(right, want, right, ops(size))
    assert sees(add(spoil(values)), want, right, ops(size))


def softmax(values: Any, summed: Fault) -> Any:
    found = plain.exp(values - plain.detached(plain.largest(values))[..., None])
    return found / summed(found)[..., None]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fault", TERMS)
def test_a_fault_of_a_softmax_is_seen(fault: str, size: int) -> None:
    values = np.random.default_rng(size).standard_normal((ROWS, COLUMNS, size)).astype(F32)
    want, (spoil, add) = softmax(bounded(values), plain.total), TERMS[fault]
    right = softmax(values, plain.total)
    assert not sees(right, want, right, LAYERS)
    assert sees(softmax(values, lambda terms: add(spoil(terms))), want, right, LAYERS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fault", TERMS)
def test_a_fault_of_a_norm_is_seen(fault: str, size: int) -> None:
    values = np.random.default_rng(size).standard_normal((ROWS, COLUMNS, size)).astype(F32)
    want, (spoil, add) = plain.norm(bounded(values)), TERMS[fault]
    right = plain.norm(values)
    assert not sees(right, want, right, SCORES)
    assert sees(np.sqrt(add(spoil(values * values))), want, right, SCORES)


# Gradients

FACTORS = """dim D = 8
score Factors(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D], W[D, D]
    return dot((E[h] * R[r]) @ W, tanh(E[t]))
"""
LEARNT = ("E", "R", "W")


def batch_of(size: int) -> dict[str, Any]:
    random = np.random.default_rng(size)
    tensors = {name: random.standard_normal((8 if name == "W" else 12, 8)).astype(F32) for name in LEARNT}
    return tensors | {name: random.integers(0, 12, size) for name in "hrt"} | {"up": random.standard_normal(size)}


def one_left_out(given: dict[str, Any]) -> None:
    given["up"] = np.where(np.arange(len(given["up"])) == len(given["up"]) // 2, 0, given["up"])


def one_stale_row(given: dict[str, Any]) -> None:
    """A triple's relation as another has it."""
    given["r"] = given["r"].copy()
    given["r"][0] = (given["r"][0] + 1) % 12


def two_swapped(given: dict[str, Any]) -> None:
    """Two upstream gradients at each other's places."""
    given["up"] = given["up"].copy()
    given["up"][[0, -1]] = given["up"][[-1, 0]]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("spoil", [one_left_out, one_stale_row, two_swapped])
def test_a_fault_of_gradients_is_seen(spoil: Callable[[dict[str, Any]], None], size: int) -> None:
    """In every gradient that it changes, of rows that up to 1,024 triples share and of one matrix for all."""
    given = batch_of(size)
    given["up"] = given["up"].astype(F32)

    def gradients(of: dict[str, Any], arithmetic: Any) -> Any:
        return reference.gradients(FACTORS, of, {}, of["up"], LEARNT, arithmetic=arithmetic)[1]

    want, right = gradients(given, BOUNDED), gradients(given, FLOAT32)
    spoil(given)
    got = gradients(given, FLOAT32)
    for name in LEARNT:
        assert not sees(right[name], want[name], right[name], LAYERS), name
        assert sees(got[name], want[name], right[name], LAYERS), name


# Small errors


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("share", [1e-3, 1e-4, 1e-5, 1e-6])
def test_it_is_as_strict_as_the_tolerance_before(size: int, positive: bool, share: float) -> None:
    """One element off by a share of itself, or all of them a little."""
    x, w = drawn(size, positive)
    want, right = plain.matmul(bounded(x), bounded(w)), (x @ w).astype(F32)
    one = right.copy()
    one[5, 2] *= 1 + share
    for got in (one, right * F32(1 + share)):
        sees(got, want, right, LAYERS)
