"""What this host reaches at most: measured once, on numbers that the measurement really computes and moves."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest

from explorer.runtime.targets import cpu_ceilings


def test_they_are_measured_once_and_bound_what_a_plain_loop_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cpu_ceilings.ceilings()
    monkeypatch.delattr(cpu_ceilings, "_least")
    assert cpu_ceilings.ceilings() is found
    values, times = np.ones(1 << 20, np.float32), []
    for _ in range(5):
        begun = perf_counter()
        np.add(values, values, out=values)
        times.append(perf_counter() - begun)
    assert found["flop_per_s"] > values.size / min(times)  # an addition an element, from memory or a cache
    assert 1e8 < found["bytes_per_s"] < 1e13


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
