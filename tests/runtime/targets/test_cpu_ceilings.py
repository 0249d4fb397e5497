"""What this host reaches at most: measured once, on numbers that the measurement really computes and moves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from explorer.runtime.targets import cpu, cpu_ceilings


def test_they_are_measured_once_and_bound_what_a_plain_loop_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cpu_ceilings.ceilings()
    with monkeypatch.context() as patch:
        patch.delattr(cpu_ceilings, "_least")
        assert cpu_ceilings.ceilings() is found
    values, times = np.ones(1 << 20, np.float32), []
    for _ in range(5):
        begun = perf_counter()
        np.add(values, values, out=values)
        times.append(perf_counter() - begun)
    # An addition an element, from memory or a cache. A busy host makes what is measured less, never more: then again.
    measured = chain([found], (cpu_ceilings.ceilings.__wrapped__() for _ in range(50)))
    assert any(each["flop_per_s"] > values.size / min(times) for each in measured)
    assert 0 < found["bytes_per_s"] < 1e14


def test_they_are_what_was_done_in_the_least_time(monkeypatch: pytest.MonkeyPatch) -> None:
    copied, computed = np.zeros(cpu_ceilings.COPIED_BYTES // 4, np.int8), list[int]()
    taken = iter((0.25, 0.5))

    def least(work: Callable[[], None]) -> float:
        work()
        return next(taken)

    def copyto(target: Any, source: Any) -> None:
        first = (target.ctypes.data - target.base.ctypes.data) // 4
        copied[first : first + len(target)] += 1
        target[:] = source

    monkeypatch.setattr(cpu_ceilings, "_least", least)
    monkeypatch.setattr(cpu_ceilings.np, "copyto", copyto)
    monkeypatch.setattr(
        cpu_ceilings, "_multiply_adds", lambda: lambda sums, rounds: computed.append(len(sums) * rounds)
    )
    found = cpu_ceilings.ceilings.__wrapped__()
    assert (copied == 1).all()
    assert computed == [cpu_ceilings.CHAINS * cpu_ceilings.ROUNDS] * cpu.threads()
    assert found == {"bytes_per_s": 2 * cpu_ceilings.COPIED_BYTES / 0.25, "flop_per_s": 2 * sum(computed) / 0.5}


def test_the_chains_compute_what_they_say() -> None:
    sums = np.linspace(0, 1, cpu_ceilings.CHAINS, dtype=np.float32)
    want = sums.astype(np.float64)
    for _ in range(10):
        want = want * 0.999 + 0.5
    cpu_ceilings._multiply_adds()(sums, 10)
    np.testing.assert_allclose(sums, want, rtol=1e-5)


def test_the_least_of_several_is_taken_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(cpu_ceilings, "BUDGET_S", 0.0)
    cpu_ceilings._least(lambda: calls.append(1))
    assert len(calls) == 2  # one to warm up, and one in any case
