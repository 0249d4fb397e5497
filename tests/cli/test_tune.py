"""`explorer tune` as a user meets it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.calling import OPS, called, explorer, runs_here


def test_tune_in_a_worker_of_its_own(model: Path) -> None:
    shown = explorer("tune", model, "--on", "dae", "--batch", "50", "--trials", "4")
    assert shown.returncode == 0, shown.stderr
    assert "tuned   1." in shown.stdout
    assert "times as fast as usual" in shown.stdout
    assert "  why     The usual choice takes " in shown.stdout
    assert "points to choose from, of which 4 may be tried" in shown.stderr
    assert "trial 3: " in shown.stderr


@runs_here
def test_the_flags_that_it_prints_give_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    path = OPS / "sls.emb"
    status, shown, _ = called(capsys, "tune", path, "--on", "dae", "--data", "tiny", "--trials", "20")
    assert status == 0
    (given,) = [line.removeprefix("  give    ") for line in shown.splitlines() if line.startswith("  give ")]
    status, found, _ = called(capsys, "run", path, "--on", "dae", "--data", "tiny", "--json", *shlex.split(given))
    assert status == 0
    (tuned,) = [line for line in shown.splitlines() if line.startswith("  tuned ")]
    assert f"usual: {json.loads(found)['cycles']:,.0f} cycles instead of" in tuned


@runs_here
def test_its_json_is_a_result_with_what_was_tuned(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--on", "dae", "--data", "tiny", "--trials", "5", "--search", "random", "--seed", "3", "--json")
    status, shown, _ = called(capsys, "tune", OPS / "sls_max.emb", *arguments)
    found = json.loads(shown)
    assert status == 0
    assert found["ok"]
    assert found["tuned"]["trials"] == 5
    assert found["tuned"]["metric"] == "cycles"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--trials", "1"), "--trials takes a whole number from 2"),
        (("--trials", "1000"), "--trials takes at most 512"),
        (("--search", "luck"), "invalid choice: 'luck'"),
        (("--timeout", "0"), "--timeout takes a number of seconds above 0"),
        (("--batch", "4"), "only a score has a batch"),
        (("--machine", "queue_byte=2"), "did you mean 'queue_bytes'?"),
        (("--option", "nothing=2"), "there is no option 'nothing'"),
    ],
)
def test_bad_arguments_are_told_in_words(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, errors = called(capsys, "tune", OPS / "sls.emb", "--on", "dae", *arguments)
    assert status == 2
    assert told in errors
