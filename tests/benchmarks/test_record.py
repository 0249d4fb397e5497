"""Recording spaces without a GPU: points are compiled and measured on a pretended one, in as many calls as it takes."""

from __future__ import annotations

import argparse
import json
import queue
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import record
from benchmarks.tuning import recording
from benchmarks.tuning.spaces import SPACES, Input, Made, RecordedSpace
from explorer.runtime.targets.gpu.device import DeviceFault
from explorer.tuner.device import recipes
from explorer.tuner.features.launches import NAMES
from explorer.tuner.recorded import TIMES, Recorded

SMALL = RecordedSpace(
    "Small",
    "embedding/sls",
    (Input("bags", Made(40, 6, 200), {"D": 8}), Input("more", Made(30, 3, 100), {"D": 8})),
    {"SLS_0.strategy": (), "lanes": ()},
)


def arguments(tmp_path: Path, step: str, **changed: Any) -> argparse.Namespace:
    folders = ["--points", str(tmp_path / "points"), "--into", str(tmp_path / "lines"), "--made", str(tmp_path)]
    made = record.parse([step, *folders, "--processes", "0"])
    for name, value in changed.items():
        setattr(made, name, value)
    return made


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> RecordedSpace:
    monkeypatch.setattr(record, "SPACES", (SMALL,))
    return SMALL


def test_spaces_have_names_and_files_of_their_own() -> None:
    wanted = [(space, data) for space in SPACES for data in space.inputs]
    assert len(SPACES) >= 12
    assert len({record.file_of(*each) for each in wanted}) == len(wanted) == 2 * len(SPACES)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", [record.named(space, data) for space in SPACES for data in space.inputs])
def test_spaces_have_as_many_points_as_issue_17_asks_for(name: str, tmp_path: Path) -> None:
    """500 to 4,000, and the usual one is what the heuristics choose for that data."""
    (found,) = ((space, data) for space in SPACES for data in space.inputs if record.named(space, data) == name)
    points, compilation = recording.enumerated(*found, tmp_path, "sm_90")
    assert 500 <= len(points) <= 4_000
    assert points.schedule_at(points.usual).items() <= compilation.schedule.items()


def test_made_lists_are_as_long_as_they_say() -> None:
    bags = Made(10, 4, 50).arrays()
    assert np.diff(bags["ptr"]).tolist() == [4] * 10
    graph = Made(200, 10, 100, skew=0.8).arrays()
    assert graph["rowptr"][-1] == len(graph["col"]) == len(graph["value"]) == 2_000
    assert graph["col"].max() < graph["num_cols"] == 100
    assert np.bincount(graph["col"]).max() > 4 * 20, "the busiest is picked far more often than the mean"


def enumerated(tmp_path: Path) -> int:
    assert record.main(["enumerate", "--points", str(tmp_path / "points"), "--made", str(tmp_path)]) == 0
    return len(record.points_in(tmp_path / "points", SMALL, SMALL.inputs[0]))


def measured(tmp_path: Path, known: list[record.Line], **changed: Any) -> list[record.Line]:
    end = changed.pop("end", float("inf"))
    given = arguments(tmp_path, "measure", **changed)
    return list(record.measured(SMALL, SMALL.inputs[0], known, given, None, end))


def test_every_point_is_measured_and_what_is_alike_once(tmp_path: Path, small: Any, fake_cuda: Any) -> None:
    count = enumerated(tmp_path)
    lines = measured(tmp_path, [])
    points = [line for line in lines if "point" in line]
    assert [line["point"] for line in points] == list(range(count))
    assert {line["invalidity"] for line in points} == {"correct"}
    assert all(len(line["times"]) == len(TIMES) for line in points)
    digests = {line["digest"] for line in points}
    described = {line["digest"]: line["features"] for line in lines if "features" in line}
    assert described.keys() == digests
    assert len(digests) > 3
    assert all(len(row) == len(NAMES) for rows in described.values() for row in rows)
    cold, _, warm, _ = points[0]["times"]
    assert cold > warm, "the flush takes what was warm"


def test_identical_machine_code_is_not_timed_twice(
    tmp_path: Path, small: Any, fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = enumerated(tmp_path)
    monkeypatch.setattr(recipes, "digest_parts", lambda code: [b"the same"])
    calls = []
    of = recording.Bench.measured
    monkeypatch.setattr(recording.Bench, "measured", lambda *given: calls.append(1) or of(*given))
    points = [line for line in measured(tmp_path, []) if "point" in line]
    assert len(points) == count
    assert len(calls) == 1
    assert len({tuple(line["times"]) for line in points}) == 1


def test_measuring_goes_on_where_it_ended(tmp_path: Path, small: Any, fake_cuda: Any) -> None:
    count = enumerated(tmp_path)
    first = measured(tmp_path, [])
    half = [line for line in first if line.get("point", 0) < count // 2 and "at" not in line]
    rest = [line for line in measured(tmp_path, half) if "point" in line]
    assert [line["point"] for line in rest] == list(range(count // 2, count))
    assert not measured(tmp_path, first), "all is known"
    assert not [line for line in measured(tmp_path, [], end=0.0) if "point" in line], "the time is over"


def test_a_usual_result_that_is_wrong_refuses_the_space(tmp_path: Path, small: Any, fake_cuda: Any) -> None:
    enumerated(tmp_path)
    fake_cuda.spoils = True
    *_, last = measured(tmp_path, [])
    assert "differ" in last["refused"]
    assert not measured(tmp_path, [last]), "and it is not tried again"


def test_a_schedule_with_another_result_is_told_and_not_timed(
    tmp_path: Path, small: Any, fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    enumerated(tmp_path)
    right = recording.Bench.check_usual

    def then_spoil(*given: Any) -> None:
        right(*given)
        fake_cuda.spoils = True

    monkeypatch.setattr(recording.Bench, "check_usual", then_spoil)
    told = [line for line in measured(tmp_path, []) if "point" in line]
    assert {line["invalidity"] for line in told} == {"correctness"}
    assert all(not line["times"] for line in told)


def test_a_point_that_does_not_compile_is_told(
    tmp_path: Path, small: Any, fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    enumerated(tmp_path)
    points = record.points_in(tmp_path / "points", SMALL, SMALL.inputs[0])
    wrong = next(number for number in range(len(points)) if number != points.usual)
    of = type(points).at
    monkeypatch.setattr(
        type(points), "at", lambda self, n: of(self, n) | ({"SLS_0.strategy": "none"} if n == wrong else {})
    )
    told = {line["point"]: line for line in measured(tmp_path, []) if "point" in line}
    assert told[wrong]["invalidity"] == "compile"
    assert "SLS_0.strategy" in told[wrong]["error"]
    assert [number for number, line in told.items() if line["invalidity"] != "correct"] == [wrong]


def test_a_kernel_that_breaks_the_device_ends_the_process(tmp_path: Path, small: Any, fake_cuda: Any) -> None:
    enumerated(tmp_path)
    given = arguments(tmp_path, "measure")
    lines = record.measured(SMALL, SMALL.inputs[0], [], given, None, float("inf"))
    assert any("ready" in next(lines) for _ in range(2))
    fake_cuda.breaks = "sls"
    told: list[record.Line] = []
    with pytest.raises(DeviceFault):
        told.extend(lines)


def test_what_a_process_was_at_when_it_ended_is_written_down(
    tmp_path: Path, small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And another process goes on, until one says that it is done."""
    at = {"space": "Small/bags", "point": 1, "invalidity": "runtime", "times": []}
    rounds = [
        [{"at": {"space": "Small/bags", "refused": "ended"}}, {"space": "Small/bags", "ready": {}}, {"at": at}],
        [{"space": "Small/bags", "point": 2}, {"done": True}],
    ]
    monkeypatch.setattr(record, "_worker", lambda *given: iter(rounds.pop(0)))
    assert record.measure_all([], arguments(tmp_path, "measure", seconds=60.0)) == 0
    lines = [json.loads(text) for text in (tmp_path / "lines").read_text().splitlines()]
    assert lines == [{"space": "Small/bags", "ready": {}}, at, {"space": "Small/bags", "point": 2}]


def test_a_process_says_that_it_is_done_also_where_its_time_is_over(
    tmp_path: Path, small: Any, fake_cuda: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that none is started for it again."""
    count = enumerated(tmp_path)
    wanted = [(SMALL, SMALL.inputs[0])]
    given = arguments(tmp_path, "measure")
    for end, measured_then in ((0.0, 0), (float("inf"), count)):
        capsys.readouterr()
        record.work(wanted, given, end)
        lines = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
        assert "done" in lines[-1]
        assert len([line for line in lines if "point" in line]) == measured_then


def test_a_process_that_comes_to_nothing_is_not_started_again(
    tmp_path: Path, small: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(record, "_worker", lambda *given: iter(()))
    assert record.measure_all([], arguments(tmp_path, "measure", seconds=60.0)) == 1
    assert "before it began" in capsys.readouterr().err


def test_a_worker_that_is_silent_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    silent = "import time\nprint('{\"at\": {}}', flush=True)\ntime.sleep(600)"
    (tmp_path / "benchmarks" / "record.py").write_text(silent)
    monkeypatch.setattr(record, "CHECKOUT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said: queue.Queue[str] = queue.Queue()

    class Lines:
        """Waits for the first as long as it takes, and for the next no longer than it is told."""

        def __init__(self) -> None:
            self.put, self.asked = said.put, 0

        def get(self, timeout: float) -> str:
            assert timeout <= 1.5
            self.asked += 1
            return said.get(timeout=timeout if self.asked > 1 else 200)

    monkeypatch.setattr(record, "queue", SimpleNamespace(Queue=Lines, Empty=queue.Empty))
    given = arguments(tmp_path, "measure", point_limit=1.5)
    assert list(record._worker(given, record.monotonic() + 600)) == [{"at": {}}]


def test_points_are_compiled_ahead_in_processes_as_they_are_here(tmp_path: Path) -> None:
    points, compilation = recording.enumerated(SMALL, SMALL.inputs[0], tmp_path, "sm_90")
    recipe = recording.Recipe.of(compilation)
    sizes = dict.fromkeys(("bags", "entries", "rows"), 100)
    jobs = [(number, points.at(number)) for number in range(3)]
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        ahead = list(recording.compiled_ahead(pool, jobs, recipe, sizes, 2))
    here = list(recording.compiled_ahead(None, jobs, recipe, sizes, 2))
    assert [number for number, _, _ in ahead] == [0, 1, 2]
    for (_, _, one), (_, _, other) in zip(ahead, here, strict=True):
        assert (one.digest, one.features, one.error) == (other.digest, other.features, "")
        assert one.program is not None
        assert one.program.code == replace(one.program.code, lines=())


def test_spaces_are_packed_once_they_are_whole(
    tmp_path: Path, small: Any, fake_cuda: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    count = enumerated(tmp_path)
    lines = [line for line in measured(tmp_path, []) if "at" not in line]
    (tmp_path / "first").write_text("".join(json.dumps(line) + "\n" for line in lines[:5]) + '{"cut')
    (tmp_path / "rest").write_text("".join(json.dumps(line) + "\n" for line in lines[5:]))
    into = tmp_path / "packed"
    given = ["pack", "--points", str(tmp_path / "points"), "--into", str(into), "--only", "Small/bags"]
    assert record.main([*given, "--known", f"{tmp_path / 'first'}"]) == 1
    assert f"of {count}" in capsys.readouterr().out
    assert record.main([*given, "--known", f"{tmp_path / 'first'},{tmp_path / 'rest'}"]) == 0
    found = Recorded.load(into / "small" / "bags.json.xz")
    assert found.name == "Small/bags"
    assert len(found.trials) == count
    assert found.valid.all()
    assert found.about["device"] == "Pretended GPU"
    assert found.feature_names == NAMES
    assert len(found.without_repeats().trials) == len({line["digest"] for line in lines if "point" in line})
    points = {line["point"]: line for line in lines if "point" in line}
    described = {line["digest"]: line["features"] for line in lines if "features" in line}
    for number in range(count):
        assert found.trials[number].times == pytest.approx(points[number]["times"], rel=1e-3)
        assert found.features_of(number) == pytest.approx(np.array(described[points[number]["digest"]]), rel=1e-3)
    assert (found.data["bag.rows"], found.data["bag.spread"]) == (40, 0), "bags are all of a length"
    assert found.data["idx.picks"] == 240
