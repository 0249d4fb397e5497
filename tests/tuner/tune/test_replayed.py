"""A search of a space that was recorded: it has the recorded times, and says that it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.tuner import shipped
from explorer.tuner.features.launches import NAMES
from explorer.tuner.points import Gene, Points
from explorer.tuner.recorded import Recorded, Trial
from tests.tuner.tune.searching import hold_together, of_kind, search

SUM = "op Bags(b: bag of row):\n    param T[row, 8]\n    return sum(T[i] for i in b)\n"
RENAMED = "# the same\nop Bags(b: bag of row):\n    param T[row, 8]\n    return sum(T[j] for j in b)\n"
OTHER = "op Bags(b: bag of row):\n    param T[row, 8]\n    return sum(2 * T[i] for i in b)\n"
NAME = "bags/few"


def made_up() -> Recorded:
    """A space of 24 points, one of which was wrong and two of which have the same machine code."""
    genes = (Gene("Bags_0.lanes", (4, 8, 16, 32)), Gene("Bags_0.loads", (1, 2, 3, 4, 6, 8)))
    ordinals = np.array([(lanes, loads) for lanes in range(4) for loads in range(6)], np.int16)
    times = [0.5 + 0.1 * float(abs(lanes - 2) + abs(loads - 4)) for lanes, loads in ordinals]
    trials = [Trial("correct", (time,) * 4, (0,), 0.1, number) for number, time in enumerate(times)]
    trials[5] = Trial("correctness", (), (0,), 0.1, 5)
    trials[7] = Trial("correct", trials[6].times, (0,), 0.1, 6)
    about: dict[str, Any] = {"source": "measured", "device": "a made-up GPU", "date": "2026-11-24", "text": SUM}
    about |= {"sizes": {}, "options": {}, "counted_on": "few"}
    launches = np.zeros((1, len(NAMES)), np.float32)
    return Recorded("Bags/few", about, Points(genes, ordinals, 0), tuple(trials), NAMES, launches, {})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shipped_in(tmp_path, monkeypatch)
    return tmp_path


def shipped_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the made-up space in the place of those that there are."""
    monkeypatch.setattr(shipped, "FOLDER", folder)
    (path := folder / f"{NAME}.json.xz").parent.mkdir()
    made_up().save(path)


def predict(folder: Path) -> np.ndarray[Any, Any]:
    """Predictions that are near the times."""
    times = made_up().without_repeats().times()
    told = np.where(np.isfinite(times), times, 1.0) * np.exp(np.random.default_rng(0).normal(0, 0.05, len(times)))
    np.savez(folder / shipped.LEFT_OUT, **{NAME: np.log(told).astype(np.float16)})
    return told


def test_trials_have_the_recorded_times(folder: Path) -> None:
    told = predict(folder)
    said = search(OTHER, on="gpu", tune={"trials": 12, "replay": NAME})
    hold_together(said)
    (started,), (space,) = of_kind("started", said), of_kind("space", said)
    assert started["source"] == space["source"] == said[-1]["source"] == "replayed"
    assert started["device"] == "recorded on a made-up GPU, 2026-11-24"
    assert said[-1]["date"] == "2026-11-24"
    assert space["points"] == 23
    assert space["predicted"]
    assert len(space["expected"]) == space["budget"] == 12
    recorded = made_up().without_repeats()
    for trial in of_kind("trial", said):
        (point,) = [at for at in range(len(recorded.points)) if recorded.points.at(at) == trial["choices"]]
        time = recorded.times()[point]
        assert trial["value"] == (time if np.isfinite(time) else None)
        assert trial["predicted"] == pytest.approx(recorded.times()[0] * told[point] / told[0], rel=2e-3)
    assert said[-1]["tuned"]["best"] == pytest.approx(0.5)
    assert any("Nothing was measured now" in sentence for sentence in said[-1]["tuned"]["why"])


def test_without_predictions_it_says_so() -> None:
    said = search(SUM, on="gpu", tune={"trials": 4, "replay": NAME})
    (space,) = of_kind("space", said)
    assert not space["predicted"]
    assert space["by"].startswith("Nothing predicts")


def test_a_recording_that_is_not_there_is_told_in_words() -> None:
    last = search(SUM, on="gpu", tune={"replay": "bags-many"})[-1]
    assert (last["event"], last["kind"]) == ("failed", "refused")
    assert NAME in last["message"]


def test_recordings_are_found_by_what_a_text_means() -> None:
    assert shipped.of_model(RENAMED, shipped.names()) == [NAME]
    assert shipped.of_model(OTHER, shipped.names()) == []
    assert shipped.of_model("op Broken(", shipped.names()) == []
