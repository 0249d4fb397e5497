"""Every repeat's result is held: by the reference where a bit of it differs from the first, and else by the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from explorer.runtime import on_cpu
from explorer.runtime.reference.compare import same_bits
from explorer.runtime.run import RunRequest, execute
from explorer.runtime.runs.request import Setup
from explorer.runtime.targets.cpu import Bound, _machine_code

DISTMULT = "score S(h: entity, r: relation, t: entity):\n    param E[entity, 8]\n    return dot(E[h], E[t])\n"
BEGUN = 1
"""Runs before the first repeat: the one that is checked."""


def ran(monkeypatch: pytest.MonkeyPatch, change: Callable[[int, Any], Any]) -> tuple[dict[str, Any], int, int]:
    """A run of six repeats of which each result is changed, by its number: its last event, and how many results there
    were, and how many were held against the reference."""
    counts = {"ran": 0, "held": 0}
    run, check = Bound.run, Setup.check

    def changed(bound: Bound) -> Any:
        counts["ran"] += 1
        got, gradients = run(bound)
        return change(counts["ran"], got), gradients

    def counted(setup: Setup, got: Any) -> Any:
        counts["held"] += 1
        return check(setup, got)

    monkeypatch.setattr(on_cpu, "_alone", lambda run: (1.0, run()))  # no repeat is tried again on a busy host
    monkeypatch.setattr(Bound, "run", changed)
    monkeypatch.setattr(Setup, "check", counted)
    *_, last = execute(RunRequest(text=DISTMULT, on="cpu", data="FB15k-237", batch=64, repeat=6))
    return last, counts["ran"], counts["held"]


def test_repeats_with_every_bit_of_the_first_are_held_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    last, runs, held = ran(monkeypatch, lambda number, got: got)
    assert last["matches_reference"]
    assert (runs, held) == (BEGUN + 6, 1)


def test_a_repeat_with_other_bits_is_held_against_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(number: int, got: Any) -> Any:
        return np.nextafter(got, np.inf, dtype=np.float32) if number > BEGUN else got

    last, runs, held = ran(monkeypatch, other)
    assert last["matches_reference"]
    assert (runs, held) == (BEGUN + 6, BEGUN + 6)


@pytest.mark.parametrize("number", [2, 4])
def test_a_wrong_repeat_is_told_whichever_it_is(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    last, _, _ = ran(monkeypatch, lambda at, got: got + 1 if at == number else got)
    assert not last["matches_reference"]
    assert last["median_ms"] is None


def test_bits_are_compared_and_not_values() -> None:
    zeros, nans = np.zeros(3, np.float32), np.full(3, np.nan, np.float32)
    assert same_bits(nans, nans.copy())
    assert not same_bits(zeros, -zeros)
    assert not same_bits(zeros, zeros[:2])
    assert same_bits((zeros, nans), (zeros.copy(), nans.copy()))
    assert not same_bits((zeros, nans), (zeros, zeros))


def test_programs_that_differ_by_name_alone_share_machine_code() -> None:
    for name in ("First", "Second"):
        list(execute(RunRequest(text=DISTMULT.replace("S(", f"{name}("), on="cpu", data="FB15k-237", batch=64)))
        made = _machine_code.cache_info().misses
        if name == "First":
            before = made
    assert made == before
