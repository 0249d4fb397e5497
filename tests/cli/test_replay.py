"""`explorer tune --on gpu` where there is no GPU: a recording of the model, if there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.runtime.targets.gpu import device
from explorer.tuner import shipped
from tests.cli.calling import LAYERS, called, runs_here
from tests.tuner.tune.test_replayed import NAME, OTHER, RENAMED, shipped_in

pytestmark = runs_here
FOLDER = shipped.FOLDER


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped_in(tmp_path, monkeypatch)
    monkeypatch.setattr(device, "missing", lambda: "There is no GPU.")


def test_a_recording_of_the_model_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path := tmp_path / "bags.emb").write_text(RENAMED)
    status, shown, told = called(capsys, "tune", path, "--on", "gpu", "--trials", "8")
    assert status == 0, told
    assert f"There is no GPU. Replaying the recording {NAME} instead, on its own data." in told
    first, tuned, *_ = shown.splitlines()
    assert first == "Bags/few on gpu: replayed, recorded on a made-up GPU, 2026-11-24"
    assert "of 23 points" in tuned
    assert "Nothing was measured now" in shown


def test_a_recording_on_the_data_that_were_named_is_taken_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "FOLDER", FOLDER)
    for data, taken in (("fb15k", "rgat/fb15k-64"), ("bgs", "rgat/bgs-32")):
        given = ("--on", "gpu", "--trials", "3", "--data", data)
        status, shown, told = called(capsys, "tune", LAYERS / "rgat.emb", *given)
        assert status == 0, told
        assert f"Replaying the recording {taken} instead" in told
        assert shown.startswith(f"RGAT/{taken.partition('/')[2]} on gpu: replayed, recorded on NVIDIA H100")


@pytest.mark.parametrize(
    ("text", "arguments", "told"),
    [
        (OTHER, ("--on", "gpu"), "There is no GPU. Recordings can be replayed instead: no recording is of this"),
        (OTHER, ("--on", "gpu", "--replay", NAME), f"--replay {NAME}: no recording is of this model"),
        (RENAMED, ("--on", "gpu", "--replay", "bags/fw"), f"no such recording (did you mean '{NAME}'?)"),
        (RENAMED, ("--on", "dae", "--replay", NAME), "--replay goes with --on gpu"),
        (RENAMED, ("--on", "gpu", "--option", "compact=true"), "--option does not go with a replay"),
    ],
)
def test_what_cannot_be_replayed_is_told_in_words(
    text: str, arguments: tuple[str, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "bags.emb").write_text(text)
    status, _, error = called(capsys, "tune", path, *arguments)
    assert status == 2
    assert told in error
