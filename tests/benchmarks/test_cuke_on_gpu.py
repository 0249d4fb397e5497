"""cuKE's figures that are measured on a GPU, with what measures them pretended: inputs, checks, ratios, what fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from benchmarks.gpu_suite import measuring
from benchmarks.paper import cuke
from benchmarks.paper.measured import cuke_times, cuke_training, memory, on_gpu
from benchmarks.paper.measured import rows as timed_rows
from benchmarks.paper.measured.on_gpu import Measured
from benchmarks.timing import device as timing

MS = {"ours": 1.0, "no inspector": 3.0, "cuKE's chunks": 2.0, "eager": 8.0, "TorchScript": 6.0, "torch.compile": 4.0}


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(on_gpu, "DEVICE", "cpu")
    monkeypatch.setattr(on_gpu, "give_back", lambda: None)
    monkeypatch.setattr(cuke_training, "SIZE", 16)
    monkeypatch.setattr(cuke_training, "BATCH", 64)
    forget()
    yield
    forget()


def forget() -> None:
    for each in (on_gpu.module, cuke_times.table, cuke_times._program):
        each.cache_clear()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("negatives", [0, 4])
@pytest.mark.parametrize("name", list(cuke_times.MODELS))
def test_a_scores_peers_compute_what_it_is_held_to(monkeypatch: pytest.MonkeyPatch, name: str, negatives: int) -> None:
    found = []

    def in_turns(
        problem: Any, programs: Mapping[str, Any], check: Callable[[Any], float], most: float, *, peers: Any
    ) -> Measured:
        for program in programs.values():
            (result,), _ = program.run(problem.structure, problem.counts, problem.tensors)
            assert check(result) <= most < check(1.001 * result)
        for peer in ("eager", "TorchScript"):
            for _ in range(3):  # TorchScript optimises from the second call on
                assert check(peers[peer]()) <= most
        found.append((list(programs), list(peers)))
        return Measured(MS, True, {"eager": "out of memory"})

    def called_within(seconds: int, run: Callable[[], Any]) -> str:
        return "" if seconds == on_gpu.COMPILE_SECONDS else "too slow"

    monkeypatch.setattr(on_gpu, "in_turns", in_turns)
    monkeypatch.setattr(timing, "called_within", called_within)
    settings = cuke_times.Settings.of("WN18", "WN18", {"no inspector": {"inspect": False}})
    case = cuke_times.Case(cuke_times.MODELS[name], 16, 32, negatives, 1)
    measured = cuke_times.measured(case, settings)
    assert found == [(["ours", "no inspector"], ["eager", "TorchScript"])]
    assert measured.errors == {"eager": "out of memory", "torch.compile": "too slow"}


def test_a_score_is_compared_with_the_better_of_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measured(case: cuke_times.Case, settings: cuke_times.Settings) -> Measured:
        asked.append(case)
        if case.model == "transh":
            raise RuntimeError("no kernel")
        ms = MS if case.seconds else {name: value for name, value in MS.items() if name != "torch.compile"}
        return Measured(ms, True, {} if case.seconds else {"torch.compile": "too slow"})

    monkeypatch.setattr(cuke_times, "measured", measured)
    table = cuke.speeds(0)
    assert not table.right
    failed = "Failed: TransH, 4,096, 512 wide: RuntimeError: no kernel; TransH, 16,384, 512 wide: RuntimeError: no"
    assert failed in table.note
    found = {row.label: row for row in table.rows}
    assert set(found) == {
        f"{name}, {batch:,}, {size} wide"
        for size in (512, 256, 128)
        for name in cuke_times.MODELS
        if name != "TransH"
        for batch in (4096, 16384)
    }
    row = found["TransR, 16,384, 512 wide"]
    assert row.ours["over PyTorch"] == 6
    assert row.ours["over no inspector"] == 3
    assert row.ours["over torch.compile"] == 4
    assert row.ours["million a second"] == pytest.approx(16.384)
    assert row.published == {"over PyTorch": 20.6, "over no inspector": 2.1}
    for other in ("4,096, 512", "16,384, 256"):
        assert "over torch.compile" not in found[f"TransR, {other} wide"].ours
        assert found[f"TransR, {other} wide"].basis == "torch.compile: too slow"
    assert all({*row.ours, *row.published} <= set(table.columns) for row in table.rows)

    assert cuke.speeds(64).rows[0].ours["million a second"] == pytest.approx(64 * 64 / 1e3)
    together = cuke_times.means(cuke._settings())
    assert [row.label for row in together.rows] == ["positive scores", "negative scores", "all"]
    assert together.rows[-1].ours["over PyTorch, mean"] == 6
    assert together.rows[-1].published["over PyTorch, most"] == 27.5
    assert not together.right
    assert len(asked) == 60, "the means measure nothing again"


def test_what_there_is_no_time_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_rows, "SECONDS", -1.0)
    for table in (cuke.speeds(0), cuke_training.table(cuke.source, cuke._named)):
        assert not table.rows
        assert "Left out, after -1 s: TransE, " in table.note
    assert "; WN18, 16,384." in cuke.memory_5().note


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", list(cuke_training.MODELS))
def test_all_sides_train_alike(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """By gradients in float64, and by PyTorch's own Adagrad, which steps all rows."""
    monkeypatch.setattr(cuke_training, "EPSILON", 1e-3)  # with less, rounding of what is next to 0 turns its first step
    batch = cuke_training.drawn(name, "WN18")
    before = {key: table.detach().clone() for key, table in batch.tables.items()}
    after, sides = {}, cuke_training.sides(name, batch)
    for key in ("ours", "eager"):
        assert cuke_training.error_of(sides[key], name, batch) <= cuke_training.TOLERANCE
    for key, side in sides.items():
        for _ in range(2):
            side.iteration()
        after[key] = {table: value.detach().clone() for table, value in batch.tables.items()}
        for table, value in batch.tables.items():
            value.detach().copy_(before[table])
    plain = cuke_training.eager(name, batch, batch.tables)
    rate, eps = cuke_training.RATE, cuke_training.EPSILON
    adagrad = torch.optim.Adagrad(list(batch.tables.values()), lr=rate, eps=eps)
    for _ in range(2):
        plain.gradients()
        adagrad.step()
    for key, side in after.items():
        for table, value in side.items():
            want = batch.tables[table].detach()
            assert torch.equal(value == before[table], want == before[table]), (key, table)
            assert torch.allclose(value, want, rtol=1e-5, atol=1e-4 * rate), (key, table)


def test_a_wrong_gradient_is_found() -> None:
    batch = cuke_training.drawn("TransR", "WN18")
    ours = cuke_training.sides("TransR", batch)["ours"]
    wrong = cuke_training.Side(lambda: 1.01 * ours.score(), ours.signs, ours.tables, ours.touched)
    assert cuke_training.error_of(wrong, "TransR", batch) > cuke_training.TOLERANCE


def test_half_of_a_batch_is_to_score_as_true_triples_do() -> None:
    signs = {name: cuke_training.drawn(name, "WN18").signs for name in ("TransE", "RESCAL")}
    assert signs["TransE"].sum() == 0
    assert signs["TransE"][0] == 1, "a distance is to fall"
    assert torch.equal(signs["RESCAL"], -signs["TransE"])


def test_an_iteration_stands_beside_the_faster_of_eagers(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(runs: Mapping[str, Callable[[], Any]]) -> Measured:
        for run in runs.values():
            run()
        return Measured({name: float(place) for place, name in enumerate(runs, 1)}, True)

    monkeypatch.setattr(on_gpu, "timed", timed)
    monkeypatch.setattr(cuke_training, "GRAPHS", {"WN18": ("TransH",)})
    table = cuke_training.table(cuke.source, cuke._named)
    (row,) = table.rows
    assert table.right
    assert row.label == "TransH, WN18"
    assert row.ours["times as fast"] == 3
    assert row.ours["eager: score, %"] == pytest.approx(100 * 4 / 3)
    assert {*row.ours, *row.published} <= set(table.columns)


def test_peaks_are_held_to_the_paper_and_scores_to_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    def peak_of(run: Callable[[], Any]) -> tuple[int, Any]:
        found = run()
        return (2**30 if "ours" in run.__qualname__ else 2**32), found

    monkeypatch.setattr(memory, "peak_of", peak_of)
    monkeypatch.setattr(cuke, "WIDTH", 8)
    monkeypatch.setattr(cuke, "TABLE_5", {"WN18": {4096: 0.15}})
    table = cuke.memory_5()
    (row,) = table.rows
    assert table.right
    assert row.label == "WN18, 4,096"
    assert row.ours == {"ours": 1.0, "eager": 4.0, "share, %": 25.0}
    assert row.published == {"ours": 0.15, "eager": 4.0, "share, %": 3.75}
    monkeypatch.setattr(memory, "peak_of", lambda run: (1, 1.001 * run()))
    assert not cuke.memory_5().right


def test_the_allocators_peak_is_what_a_run_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    held = SimpleNamespace(now=100, most=900)

    def run() -> str:
        held.most, held.now = held.now + 70, held.now + 30
        return "result"

    cuda = SimpleNamespace(
        synchronize=lambda: None,
        memory_allocated=lambda: held.now,
        max_memory_allocated=lambda: held.most,
        reset_peak_memory_stats=lambda: setattr(held, "most", held.now),
    )
    monkeypatch.setattr(torch, "cuda", cuda)
    assert timing.peak_of(run) == (70, "result")


def test_sparse_rows_are_those_of_the_table() -> None:
    table = torch.arange(24.0).view(3, 2, 4)
    ids = torch.from_numpy(np.array([[2, 0]]))
    assert torch.equal(cuke_training.SparseRows(table)[ids], table[ids])


@dataclass
class Problem:
    """What a program is bound to, of a row that is none."""

    program: str


def test_a_peer_may_fail_and_ours_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    failing: set[str] = set()

    def interleave(runs: Mapping[str, Callable[[], Any]], repeat: int) -> dict[str, timing.Samples]:
        return {
            name: timing.Samples(error="lost") if name in failing else timing.Samples([run()])
            for name, run in runs.items()
        }

    monkeypatch.setattr(measuring, "bind", lambda problem: SimpleNamespace(launch=lambda: len(problem.program)))
    monkeypatch.setattr(measuring, "outcome", lambda *_: (torch.ones(3), {}))
    monkeypatch.setattr(on_gpu, "clock", lambda: SimpleNamespace(interleave=interleave))

    def measured(error: float) -> Measured:
        programs, peers = {"ours": "a", "plain": "bb"}, {"eager": lambda: 5.0}
        return on_gpu.in_turns(Problem(""), programs, lambda _: error, 0.5, peers=peers)

    assert measured(0.0) == Measured({"ours": 1.0, "plain": 2.0, "eager": 5.0}, True)
    assert not measured(1.0).right
    failing.add("eager")
    assert measured(0.0) == Measured({"ours": 1.0, "plain": 2.0}, True, {"eager": "lost"})
    failing.add("ours")
    assert not measured(0.0).right


def test_a_contender_that_is_compiled_says_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    assert timing.called_within(5, lambda: 1) == ""
    assert timing.called_within(5, lambda: 1 / 0).startswith("ZeroDivisionError")
    assert timing.called_within(1, lambda: time.sleep(3)) == "TimeoutError: more than 1 s"
