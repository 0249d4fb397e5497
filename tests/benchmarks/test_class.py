"""The load test's own arithmetic: texts that no two students share, and runs that went wrong are found."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from time import perf_counter

import pytest

from benchmarks.classroom import texts, watch
from benchmarks.classroom.students import Habits, Log, Ordered, Student
from explorer.web.examples import Example, examples

suite = importlib.import_module("benchmarks.class")
GOOD = Ordered(student=0, name="A", begun=0.0, wait=0.5, ends=["result"])


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_an_example_is_a_students_own(example: Example) -> None:
    own = texts.own_text(example.text, 7, 3)
    assert texts.name_of(own).endswith("_s7_e3")
    assert own != texts.own_text(example.text, 7, 4)


def test_a_slip_changes_one_place() -> None:
    text = examples()[0].text
    for seed in range(20):
        assert abs(len(texts.broken(text, Random(seed))) - len(text)) <= 1


@pytest.mark.parametrize(
    ("run", "fault"),
    [
        (GOOD, ""),
        (replace(GOOD, ends=[]), "1 runs lost"),
        (replace(GOOD, ends=[], dropped=True), ""),
        (replace(GOOD, ends=["result", "result"]), "1 runs doubled"),
        (replace(GOOD, crossed=True), "1 runs crossed"),
    ],
)
def test_what_went_wrong_with_a_run_is_found(run: Ordered, fault: str) -> None:
    log = Log(edits=[0.1, 0.2], runs=[run], statuses={200: 2})
    figures = suite._figures(log, [watch.Sample(1, 10, 10, 0.0), watch.Sample(1, 10, 10, 1.0)], 1, 10.0, 0.1)
    assert figures["faults"] == ([fault] if fault else [])
    assert "p50 0.150 s" in suite.table(figures)


def test_a_wait_ends_when_the_turn_comes() -> None:
    """What a run does with its turn, from compiling its model on, is no wait for others."""

    async def told() -> AsyncIterator[str]:
        for event in ("queued", "queued", "progress", "started", "result"):
            await asyncio.sleep(0.02)
            yield json.dumps({"run": 1, "event": event, "name": "A"})

    student = Student(0, "", [("a/b", "")], Habits(3.0, 60.0, 0.0, 120.0), Log())
    ordered = replace(GOOD, begun=perf_counter(), wait=None, ends=[])
    asyncio.run(student._read(told(), {1: ordered}))
    whole = perf_counter() - ordered.begun
    assert ordered.wait is not None
    assert 0.06 <= ordered.wait <= whole - 0.04
    assert (ordered.ends, student.log.faults) == (["result"], [])


def test_an_answer_of_a_servers_fault_is_one() -> None:
    assert suite._figures(Log(statuses={200: 1, 500: 2, 503: 1}), [], 1, 1.0, 0.1)["faults"] == [
        "2 answers of status 500"
    ]


@pytest.mark.sweep
def test_a_small_class(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--students", "3", "--minutes", "0.5", "--between-runs", "6", "--stays", "20", "--json"]
    assert suite.main(argv) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["edits"]["count"] > 3
    assert figures["runs"]["ended"] > 0
    assert set(figures["statuses"]) == {"200"}
    assert figures["memory"][0][2] >= 2
