"""The load test's own arithmetic: texts that no two students share, and runs that went wrong are found."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from random import Random

import pytest

from benchmarks.classroom import texts, watch
from benchmarks.classroom.students import Log, Ordered
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
