"""`explorer tune` as a user meets it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from explorer.runtime.runs.console import _tuned_lines
from tests.cli.calling import OPS, called, explorer, runs_here
from tests.tuner.tune.searching import look


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


@pytest.fixture(autouse=True)
def nothing_found_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches are kept by themselves, where no other test looks."""
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "cache"))


@runs_here
def test_a_later_run_takes_what_was_found_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    path, data = OPS / "sls.emb", ("--on", "dae", "--data", "tiny", "--json")
    plain = json.loads(called(capsys, "run", path, *data)[1])
    tuned = json.loads(called(capsys, "tune", path, *data, "--trials", "20")[1])
    assert tuned["tuned"]["kept"]
    _, shown, said = called(capsys, "run", path, *data)
    later = json.loads(shown)
    assert later["cycles"] == tuned["tuned"]["best"] < plain["cycles"]
    assert later["kept"]["options"] == tuned["tuned"]["options"]
    assert "--no-tuned leaves it out" in said
    assert "kept" not in plain
    _, shown, said = called(capsys, "run", path, *data, "--no-tuned")
    assert json.loads(shown)["cycles"] == plain["cycles"]
    assert "--no-tuned" not in said
    name, value = next(iter(tuned["tuned"]["options"].items()))
    usual = str(plain["options"][name]).lower()
    _, shown, said = called(capsys, "run", path, *data, "--option", f"{name}={usual}")
    assert json.loads(shown)["options"][name] == plain["options"][name] != value
    assert f"not taken, since --option {name} was given" in said
    others: list[tuple[str, ...]] = [("--data", "RM1:L0"), ("--set", "D=8"), ("--option", "opt=1"), ("--on", "cpu")]
    for other in others:
        assert "kept" not in json.loads(called(capsys, "run", path, *data, *other)[1]), other
    _, shown, _ = called(capsys, "run", path, *data[:-1])
    assert "  kept    as `explorer tune` found on " in shown


@runs_here
def test_what_is_kept_can_be_in_a_file_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "more" / "found.sqlite"
    given = ("--on", "dae", "--data", "tiny", "--json", "--store", store)
    assert json.loads(called(capsys, "tune", OPS / "sls.emb", *given, "--trials", "20")[1])["tuned"]["kept"]
    assert "kept" in json.loads(called(capsys, "run", OPS / "sls.emb", *given)[1])
    assert "kept" not in json.loads(called(capsys, "run", OPS / "sls.emb", *given[:-2])[1])
    store.write_text("no database at all, but a text that is long enough to be read as one" * 20)
    for command in ("run", "tune"):
        status, _, errors = called(capsys, command, OPS / "sls.emb", *given[:4], "--store", store)
        assert status == 2
        assert "no file to keep searches in" in errors


@runs_here
def test_a_usual_file_that_is_broken_is_told_and_done_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cache" / "embedding-compiler-explorer" / "tuned.sqlite"
    file.parent.mkdir(parents=True)
    file.write_text("no database at all, but a text that is long enough to be read as one" * 20)
    given = ("--on", "dae", "--data", "tiny", "--json")
    for command in ("run", "tune"):
        status, shown, errors = called(capsys, command, OPS / "sls.emb", *given)
        assert status == 0
        assert "no file to keep searches in" in errors
    assert not json.loads(shown)["tuned"]["kept"]


@runs_here
def test_nothing_is_kept_where_the_environment_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EXPLORER_CACHE", "")
    given = ("--on", "dae", "--data", "tiny", "--json")
    assert not json.loads(called(capsys, "tune", OPS / "sls.emb", *given, "--trials", "20")[1])["tuned"]["kept"]


@runs_here
def test_a_schedule_is_exported_and_taken_back(
    tmp_path: Path, fake_cuda: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from explorer.tuner.device import ahead
    from explorer.tuner.device.trials import OnDevice
    from explorer.tuner.tune import on_gpu

    monkeypatch.setattr(on_gpu, "MOST_POINTS", 60)
    look(monkeypatch, 100)
    monkeypatch.setattr(ahead, "_pool", lambda: (None, 0))
    monkeypatch.setattr(
        OnDevice, "cold", lambda self, bound: 1e-2 * sum(each.launch.threads for each in bound.launches)
    )
    out, given = tmp_path / "best.schedule", (OPS / "sls.emb", "--on", "gpu", "--data", "tiny", "--json")
    _, shown, _ = called(capsys, "tune", *given, "--trials", "12", "--schedule", out)
    tuned = json.loads(shown)["tuned"]
    assert tuned["gain"] > 1
    assert out.read_text().startswith("# SLS on Pretended GPU, ")
    status, shown, _ = called(capsys, "run", *given, "--schedule", out, "--no-peers")
    assert status == 0
    taken = json.loads(shown)
    assert taken["kernels"][0]["threads"] * 1e-2 == pytest.approx(tuned["best"])
    assert "kept" not in taken, "what is given goes before what was found"
    later = json.loads(called(capsys, "run", *given, "--no-peers")[1])
    assert later["kept"]["schedule"] == tuned["schedule"]
    assert later["kernels"] == taken["kernels"]


def test_a_schedule_that_cannot_be_written_is_told_first(
    tmp_path: Path, fake_cuda: object, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, errors = called(capsys, "tune", OPS / "sls.emb", "--on", "cpu", "--schedule", tmp_path / "out")
    assert (status, "--schedule goes with --on gpu" in errors) == (2, True)
    status, _, errors = called(capsys, "tune", OPS / "sls.emb", "--on", "gpu", "--schedule", tmp_path / "no" / "out")
    assert (status, "cannot be written: No such file" in errors) == (2, True)


def test_a_schedule_that_was_chosen_is_what_there_is_to_give() -> None:
    tuned = {"usual": 2.0, "best": 1.0, "metric": "ms", "gain": 2.0, "part": "", "trials": 2, "points": 4, "why": []}
    own = {**tuned, "options": {}, "machine": {}, "kept": False}
    (given,) = [line for line in _tuned_lines({**own, "schedule": {"SLS_0.lanes": 8}}) if line.startswith("  give ")]
    assert "--schedule FILE" in given
    (given,) = [line for line in _tuned_lines({**own, "schedule": {}}) if line.startswith("  give ")]
    assert "nothing: the usual choice is the fastest" in given
