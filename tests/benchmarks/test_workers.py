"""What `benchmarks.workers` makes of its turns; its times, no test here can tell."""

from __future__ import annotations

import os

import pytest

from benchmarks import workers
from benchmarks.workers import Turn


def test_workers_have_as_many_cores_each_and_the_rest_is_the_queues() -> None:
    assert workers.shares([0, 1, 2, 3], 2) == [[0], [1], [2, 3]]
    shares = workers.shares(range(32), 2)
    assert [len(own) for own in shares] == [12, 12, 8]
    assert sorted(core for own in shares for core in own) == list(range(32))


def test_figures_are_of_all_turns_and_models_that_both_have() -> None:
    one = Turn(1, seconds=10.0, ended=20, ms=[("a", 1.0), ("b", 2.0), ("alone", 9.0)])
    two = Turn(2, seconds=10.0, ended=39, ms=[("a", 1.1), ("b", 2.0)], failed=["b: no"])
    found = workers.figures([one, two])
    assert found["times_as_many"] == pytest.approx(1.95)
    assert found["longer"] == pytest.approx(1.1**0.5)
    assert (found["models"], found["failed"]) == (2, ["b: no"])
    shown = workers.table({**found, "on": "gpu", "source": "measured", "device": "D", "date": "today"})
    assert "1.95 (asked of two: 1.9)" in shown


def test_turns_are_held_against_those_beside_them_in_time() -> None:
    """A host that becomes half as fast in between: more workers are twice as many all the same."""
    alone, beside = [(10.0, 1.0), (5.0, 2.0), (5.0, 2.0)], [(20.0, 1.0), (10.0, 2.0), (9.0, 2.2)]
    turns = [
        Turn(count, seconds=1.0, ended=int(rate), ms=[("a", ms)])
        for pair in zip(alone, beside, strict=True)
        for count, (rate, ms) in zip((1, 2), pair, strict=True)
    ]
    found = workers.figures(turns)
    assert (found["times_as_many"], found["longer"]) == (2.0, 1.0)
    assert found["runs_a_second"] == {1: [10.0, 5.0, 5.0], 2: [20.0, 10.0, 9.0]}


@pytest.mark.parametrize(("cores", "missing"), [({0, 1}, "2 cores"), (set(range(8)), "valkey-server")])
def test_a_host_with_too_little_is_told(
    cores: set[int], missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    monkeypatch.setenv("PATH", "")
    assert workers.main([]) == 2
    assert missing in capsys.readouterr().err


@pytest.mark.parametrize("on", ["cpu", "dae"])
def test_every_example_has_data_to_run_on(on: str) -> None:
    assert {workers.request(model, on)["data"] for model in workers.chosen("sls,rgat,transe_l1")} == set(
        workers.DATA.values()
    )
