"""The papers' figures that are times, with what measures them pretended: inputs, checks, ratios, and what fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks import papers
from benchmarks.gpu_suite import rows as suite_rows
from benchmarks.gpu_suite.inputs import relational_graph
from benchmarks.gpu_suite.peers import LAYERS
from benchmarks.paper import gsparse, hector
from benchmarks.paper.measured import breakdown, by_setting, counters, hector_figures, memory, on_gpu
from benchmarks.paper.measured import rows as timed_rows
from benchmarks.paper.measured.on_gpu import Measured
from benchmarks.timing.device import Samples


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, list[str], Callable[[Any], float], float]]:
    """Measures nothing: inputs are made on the CPU, and a setting takes as many ms as its place. Gives what each call
    would have measured."""
    found = []

    def in_turns(
        problem: Any,
        programs: Mapping[str, Any],
        check: Callable[[Any], float],
        most: float,
        *,
        exact: Any = None,
        peers: Any = None,
    ) -> Measured:
        for program in programs.values():
            arrays, _ = program.arrays(problem.structure, problem.counts, problem.tensors)
            assert {buffer.name for buffer in program.inputs} <= set(arrays)
        found.append((problem, list(programs), check, most))
        return Measured({name: float(place) for place, name in enumerate(programs, 1)}, True)

    monkeypatch.setattr(on_gpu, "DEVICE", "cpu")
    monkeypatch.setattr(on_gpu, "give_back", lambda: None)
    monkeypatch.setattr(on_gpu, "in_turns", in_turns)
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layer", ["rgat", "hgt"])
@pytest.mark.parametrize("task", ["inference", "training"])
def test_table_5_takes_each_setting_of_each_graph(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch, layer: str, task: str
) -> None:
    monkeypatch.setattr(hector, "SPEEDUPS", {(layer, task): {"aifb": (0.8, None, 0.84)}})
    table = hector.speeds_5(layer, task)
    ((problem, settings, check, most),) = calls
    assert settings == ["U", "C", "R", "C+R"]
    plain = LAYERS[layer](problem.tensors, relational_graph("aifb", "", "cpu")[1])
    assert check(plain) <= most < check(plain * 1.01)
    row, draft = table.rows
    assert row.ours == {"U, ms": 1.0, "speed, C": 1 / 2, "speed, R": 1 / 3, "speed, C+R": 1 / 4}
    assert row.published == {"speed, C": 0.8, "speed, C+R": 0.84}
    assert draft.ours == {name: speed for name, speed in row.ours.items() if name != "U, ms"}
    assert tuple(draft.published.values()) == hector_figures.PIGEON_5[layer, task]["aifb"]
    assert table.source == "measured"


def test_graphs_for_which_no_time_is_left_are_named(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_rows, "SECONDS", -1.0)
    table = by_setting.speed_ups("rgat", {}, {"U": {}}, False, {"aifb": {}, "mag": {}}, {"aifb": "U", "mag": "U"})
    assert not table.rows
    assert "Left out, after -1 s: aifb; mag." in table.note


def test_tiles_and_lanes_are_those_that_are_counted(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"nodes": 50, "nonzeros": 300}
    made = suite_rows.MatrixRow
    monkeypatch.setattr(suite_rows, "MatrixRow", lambda **given: made(**{**given, **small}))
    table = by_setting.tile_times(gsparse.SETTINGS, 32)
    assert [row.label for row in table.rows] == list(gsparse.SETTINGS)
    assert calls[0][1] == list(gsparse.SETTINGS)
    assert [row.label for row in by_setting.lane_times().rows] == [f"{size} features" for size in (8, 32, 128, 256)]


def test_the_ratio_of_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(layer: str, data: str, sizes: Mapping[str, int], settings: Any, grad: bool) -> Measured:
        return Measured({"C+R": float(sizes["D"]) ** 2}, right=layer != "hgt")

    monkeypatch.setattr(on_gpu, "layer_times", times)
    table = by_setting.by_dimension({"rgat": lambda dim: {"D": dim}}, "bgs")
    assert table.rows[0].ours["64 over 32"] == 4
    assert table.right
    assert not by_setting.by_dimension({"hgt": lambda dim: {"D": dim}}, "bgs").right


def test_what_hectors_figures_measure_is_compiled_before(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, ahead = set[str](), set[str]()

    def of_layer(layer: str, sizes: Mapping[str, int], grad: bool, options: on_gpu.Options) -> str:
        return repr((layer, dict(sizes), grad, dict(options)))

    def times(
        layer: str, data: str, sizes: Any, settings: Mapping[str, on_gpu.Options], grad: bool, peers: Any = None
    ) -> Measured:
        measured.update(of_layer(layer, sizes, grad, options) for options in settings.values())
        return Measured(dict.fromkeys(settings, 1.0), True)

    def spent(layer: str, data: str, sizes: Any, options: on_gpu.Options, grad: bool) -> Any:
        measured.add(of_layer(layer, sizes, grad, options))
        raise RuntimeError

    def held(layer: str, data: str, sizes: Any, options: on_gpu.Options, grad: bool) -> tuple[int, bool]:
        measured.add(of_layer(f"rgnn/{layer}", sizes, grad, options))
        return 1, True

    def counted(cases: Any, metrics: Any, seconds: float) -> Any:
        measured.update(map(repr, cases))
        raise counters.NoCounters

    for module, name, other in (
        (on_gpu, "layer_times", times),
        (breakdown, "layer_spent", spent),
        (memory, "held", held),
        (counters, "counted", counted),
        (on_gpu, "layer_code", lambda *of: ahead.add(of_layer(*of))),
        (on_gpu, "module_code", lambda *of: ahead.add(of_layer(*of))),
        (counters, "_code_of", lambda case: ahead.add(repr(case))),
        (on_gpu, "give_back", lambda: None),
    ):
        monkeypatch.setattr(module, name, other)
    asked = [figure for figure in hector.PAPER.figures if figure.on_gpu and figure.name != "cublas"]
    assert len(asked) == 16
    for figure in asked:
        measured.clear()
        ahead.clear()
        assert figure.on_gpu
        figure.on_gpu()
        for program in figure.ahead():
            program()
        assert measured == ahead, figure.name


def test_a_figure_that_fails_says_so_and_the_others_are_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(papers, "missing_gpu", lambda: "")
    monkeypatch.setattr(on_gpu, "give_back", lambda: 1 / 0)
    assert papers.main(["hector", "table3", "cublas", "--json"]) == 1
    found = {each["figure"]: each for each in json.loads(capsys.readouterr().out)["papers"]["hector"]}
    assert found["cublas"]["needs"].startswith("it failed on the GPU: ZeroDivisionError")
    assert "rows" in found["table3"]


def test_products_are_timed_by_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        def interleave(self, runs: Mapping[str, Callable[[], Any]], repeat: int) -> dict[str, Any]:
            assert [len(run()) for run in runs.values()] == [128, 512]
            return {name: Samples(cold=[float(name)]) for name in runs}

    monkeypatch.setattr(on_gpu, "DEVICE", "cpu")
    monkeypatch.setattr(by_setting, "PRODUCT_ROWS", (128, 512))
    monkeypatch.setattr(on_gpu, "give_back", lambda: None)
    monkeypatch.setattr(on_gpu, "clock", Clock)
    table = by_setting.rows_times()
    assert table.right
    assert [row.label for row in table.rows] == ["128 rows", "512 rows"]
    assert table.rows[1].ours == {"ms": 512, "TFLOP/s": pytest.approx(2 * 64 * 64 / 1e9)}
