"""What tuning gains is measured shape by shape, on a pretended GPU: each contender right and by turns, the older
default by its own checkout's command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import tuned
from benchmarks.tuning.shapes import ROWS, SHAPES, Shape
from benchmarks.tuning.spaces import Input, Made
from explorer.runtime.targets.gpu.program import BoundProgram
from explorer.tuner.device import ahead
from explorer.tuner.device.trials import OnDevice
from explorer.tuner.tune import on_gpu
from tests.tuner.tune.searching import look

SMALL = Shape("embedding/sls", Input("small", Made(12, 3, 40), {"D": 16}))
OLDER = """\
import json, sys
def main(words):
    open({log!r}, "w").write(json.dumps(words))
    print(json.dumps({{"matches_reference": {right}, "samples_ms": [8.0, 9.0, 7.0]}}))
    return 0
"""


def threads(bound: BoundProgram) -> float:
    """A made-up time: what the launches' blocks have of threads."""
    return 1e-2 * sum(each.launch.threads for each in bound.launches)


@pytest.fixture(autouse=True)
def few_points(monkeypatch: pytest.MonkeyPatch, fake_cuda: Any) -> None:
    monkeypatch.setattr(on_gpu, "MOST_POINTS", 60)
    look(monkeypatch, 100)
    monkeypatch.setattr(ahead, "_pool", lambda: (None, 0))
    monkeypatch.setattr(OnDevice, "cold", lambda self, bound: threads(bound))


def older(tmp_path: Path, right: bool = True) -> Path:
    """A checkout whose command line says what it was asked, and times."""
    folder = tmp_path / "older"
    (folder / "explorer").mkdir(parents=True)
    (folder / "explorer" / "__init__.py").write_text("")
    (folder / "explorer" / "cli.py").write_text(OLDER.format(log=str(tmp_path / "asked"), right=right))
    return folder


def test_a_shape_has_times_of_all_contenders(tmp_path: Path) -> None:
    given = ["--before", str(older(tmp_path)), "--trials", "8", "--made", str(tmp_path)]
    found = tuned.measured(SMALL, tuned.parse(given))
    assert set(found["ms"]) == set(tuned.COLUMNS)
    assert found["ms"]["before"] == 8.0
    assert found["ms"]["best"] <= min(found["ms"]["usual"], found["ms"]["first"])
    assert found["trials"] <= 8 < found["points"]
    assert "best" in found["choices"], "the smallest block is the fastest, and is not the usual one"
    asked = json.loads((tmp_path / "asked").read_text())
    assert asked[0] == "run"
    assert {"--on=gpu", "--set=D=16", "--no-peers", "--json"} <= set(asked)


def test_an_older_default_that_is_wrong_has_no_time(tmp_path: Path) -> None:
    given = ["--before", str(older(tmp_path, right=False)), "--trials", "2", "--made", str(tmp_path)]
    found = tuned.measured(SMALL, tuned.parse(given))
    assert set(found["ms"]) == {*tuned.COLUMNS} - {"before"}, "the others are told all the same"
    assert "older default" in found["older"]
    assert f"| {SMALL.name} | - |" in tuned.table([{"shape": SMALL.name, **found}])


def test_an_older_checkout_has_what_this_process_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    log = tmp_path / "asked"
    (checkout := older(tmp_path) / "explorer" / "cli.py").write_text(
        f"import os\ndef main(words):\n    open({str(log)!r}, 'w').write(os.environ['PYTHONPATH'])\n    return 1\n"
    )
    tuned.measured(SMALL, tuned.parse(["--before", str(checkout.parents[1]), "--trials", "2", "--made", str(tmp_path)]))
    assert log.read_text() == f"{checkout.parents[1]}:/elsewhere"


def test_a_contender_that_is_wrong_has_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finals = OnDevice.finals

    def wrong(self: OnDevice, *given: Any) -> Any:
        return [{**each, "wrong": "it is not right"} for each in finals(self, *given)]

    monkeypatch.setattr(OnDevice, "finals", wrong)
    with pytest.raises(ValueError, match="not right"):
        tuned.measured(SMALL, tuned.parse(["--trials", "2", "--made", str(tmp_path)]))


def test_what_a_process_says_is_told_and_why_it_has_said_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuned.sys, "executable", "/bin/false")
    assert tuned.apart(SMALL, [], 5.0)["error"] == "it has ended without a word"
    monkeypatch.setattr(tuned.sys, "executable", "/bin/echo")
    assert "error" in tuned.apart(SMALL, [], 5.0), "which is no JSON"


def test_shapes_that_there_is_no_time_for_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        tuned, "apart", lambda shape, argv, seconds: {"shape": shape.name, "error": "x", "seconds": 1e9}
    )
    assert tuned.main(["--only", "sddmm"]) == 1
    told = capsys.readouterr().out
    assert told.count('"x"') == 1
    assert told.count('"no time left"') == 2


def test_a_search_word_that_fits_no_shape_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuned.main(["--only", "nothing"]) == 2
    assert "spmm" in capsys.readouterr().err


def test_means_are_of_the_shapes_or_of_the_rows(tmp_path: Path) -> None:
    of = {"before": 4.0, "usual": 2.0, "first": 4.0, "likely": 8.0, "best": 1.0}
    found = [{"shape": shape.name, "ms": of} for shape in (SHAPES[0], ROWS[0])]
    found.append({"shape": SHAPES[1].name, "ms": {**of, "best": 0.25}})
    assert tuned.ratios(found[:1]) == pytest.approx([4.0, 1.0, 0.5, 2.0])
    assert tuned.ratios([found[0], found[2]])[0] == pytest.approx(np.sqrt(4.0 * 16.0))
    text = tuned.table([*found, {"shape": "other", "error": "it broke"}])
    assert "geometric mean of shapes (2)" in text
    assert "geometric mean of rows (1)" in text
    assert "other: it broke" in text


def test_there_are_the_20_shapes_and_five_rows_of_the_suite() -> None:
    pytest.importorskip("torch", reason="the rows are PyTorch's")
    from benchmarks.gpu_suite.rows import ROWS as SUITE

    assert len({shape.name for shape in SHAPES}) == 20
    assert {shape.name for shape in ROWS} <= {row.name for row in SUITE}
    assert len(ROWS) == 5
