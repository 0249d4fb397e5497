"""What a run on the processor spent: its nests are measured, and operations have shares of them that add up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from explorer.compiler.ir.node import Span
from explorer.runtime import on_cpu
from explorer.runtime.shares.times import BETWEEN, UNCOUNTED, Timed, of_times
from tests.runtime.shares.runs import MODELS, columns, run

ONE, TWO = Span(1, 1, 1, 2), Span(2, 1, 2, 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("model", MODELS)
def test_the_times_of_all_operations_are_that_of_the_pass(model: str, tmp_path: Path) -> None:
    found = run(*MODELS[model], tmp_path, on="cpu")
    spent = found["spent"]
    assert (spent["unit"], spent["source"]) == ("ms", "measured")
    assert columns(spent) == pytest.approx([spent["whole"]], rel=1e-9)
    assert 0 < sum(kernel["amount"] for kernel in spent["kernels"]) <= spent["whole"]
    assert all(kernel["amount"] > 0 for kernel in spent["kernels"])
    assert "apportioned" in spent["how"]
    assert len(found["samples_ms"]) == 3
    assert {row["label"] for row in spent["operations"] if row["id"] is not None}


def test_a_nest_is_shared_out_by_work_and_what_cannot_be_counted_is_nobodys() -> None:
    work: Mapping[Span, float] = {ONE: 30, TWO: 10}
    spent = of_times([Timed("a", 4.0, work), Timed("b", 2.0, {TWO: 5}), Timed("c", 1.0, {})], 10.0, "", {"binds": 2.0})
    assert spent.by_operation == {ONE: (3.0,), TWO: (1.0 + 2.0,)}
    assert spent.rest == {UNCOUNTED: (1.0,), "binds": (2.0,), BETWEEN: (1.0,)}


def test_passes_are_few_and_one_in_any_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    passes: list[int] = []
    time_nests = on_cpu.cpu.Bound.time_nests
    monkeypatch.setattr(on_cpu.cpu.Bound, "time_nests", lambda bound: (passes.append(1), time_nests(bound))[1])
    monkeypatch.setattr(on_cpu, "PASSES_MS", float("inf"))  # however busy the host is
    run(*MODELS["sls"], tmp_path, on="cpu")
    assert len(passes) == on_cpu.PASSES
    monkeypatch.setattr(on_cpu, "PASSES_MS", 0.0)
    run(*MODELS["sls"], tmp_path, on="cpu")
    assert len(passes) == on_cpu.PASSES + 1


def test_side_a_says_what_it_spent(tmp_path: Path) -> None:
    path, _ = MODELS["rgat"]
    against = {"sizes": {}, "options": {"compact": False}, "schedule": {}}
    theirs = run(path, {"compact": True}, tmp_path, on="cpu", against=against)["against"]["spent"]
    assert columns(theirs) == pytest.approx([theirs["whole"]], rel=1e-9)
