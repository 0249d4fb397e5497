"""How `benchmarks.gpu_beside` takes turns; its times, no test here can tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_beside


class Told:
    """A side that answers as it was told, and notes who was asked what."""

    def __init__(self, name: str, asked: list[str], ms: float, error: str = "") -> None:
        self.name, self.asked, self.ms, self.error = name, asked, ms, error

    def ask(self, what: str, row: str) -> None:
        self.asked.append(f"{self.name} {what}")

    def answer(self) -> dict[str, Any]:
        return {"error": self.error} if self.error else {"ms": [self.ms]}


def test_sides_take_turns_and_none_is_always_first() -> None:
    asked: list[str] = []
    sides: Any = {"here": Told("here", asked, 3.0), "other": Told("other", asked, 2.0)}
    found = gpu_beside.in_turns(sides, "SpMM arxiv", 2)
    order = ["here prepare", "other prepare", "here time", "other time", "other time", "here time"]
    assert asked == order
    assert found == {"here": [3.0, 3.0], "other": [2.0, 2.0], "ratio": 1.5}
    assert "SLOWER" in gpu_beside.line_of({"row": "SpMM arxiv", **found})


def test_a_side_that_fails_says_which() -> None:
    sides: Any = {"here": Told("here", [], 3.0), "other": Told("other", [], 2.0, "no such row")}
    found = gpu_beside.in_turns(sides, "SpMM arxiv", 2)
    assert found == {"error": "other: no such row"}
    assert "no such row" in gpu_beside.line_of({"row": "SpMM arxiv", **found})


def test_the_end_of_a_side_is_told(tmp_path: Path) -> None:
    """Here there is no GPU, and in that folder no benchmarks: the process ends."""
    with gpu_beside.Side(tmp_path, "WN18") as side:
        side.ask("prepare", "SpMM arxiv")
        assert side.answer() == {"error": "its process ended with 1"}


def test_a_side_runs_the_suite_of_its_own_checkout(tmp_path: Path) -> None:
    """Whose rows and measuring may lie elsewhere than here."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    answers = "import json, sys\nprint(json.dumps({'given': sys.argv[1:], 'asked': json.loads(input())}))\n"
    (tmp_path / "benchmarks" / "gpu_beside.py").write_text(answers)
    with gpu_beside.Side(tmp_path, "WN18") as side:
        side.ask("prepare", "SpMM arxiv")
        assert side.answer() == {"given": ["--worker", "--data", "WN18"], "asked": ["prepare", "SpMM arxiv"]}


def test_without_a_gpu_nothing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_beside.main([]) == 2
    assert "there is no GPU to use" in capsys.readouterr().err
