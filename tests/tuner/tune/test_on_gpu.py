"""Searches on a pretended GPU: real kernels by NVRTC, whose results the loops' interpreter computes; times are made up
of what a schedule launches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.compiler.decisions import Schedule
from explorer.runtime.targets.gpu.device import DeviceFault
from explorer.runtime.targets.gpu.program import BoundProgram
from explorer.runtime.tuning import SEARCHES
from explorer.tuner.device import ahead, elsewhere, recipes
from explorer.tuner.device.trials import OnDevice
from explorer.tuner.tune import on_gpu
from tests.tuner.tune.searching import hold_together, look, of_kind, search, text_of

SLS = text_of("embedding/sls")


def threads(bound: BoundProgram) -> float:
    """A made-up time: what the launches' blocks have of threads."""
    return 1e-2 * sum(each.launch.threads for each in bound.launches)


@pytest.fixture(autouse=True)
def few_points(monkeypatch: pytest.MonkeyPatch, fake_cuda: Any) -> None:
    """Spaces of some dozens of points, whose times differ: of all sizes of blocks, the smallest is the fastest."""
    monkeypatch.setattr(on_gpu, "MOST_POINTS", 60)
    look(monkeypatch, 100)
    monkeypatch.setattr(ahead, "_pool", lambda: (None, 0))
    monkeypatch.setattr(OnDevice, "cold", lambda self, bound: threads(bound))


@pytest.fixture
def small(tmp_path: Path) -> dict[str, Any]:
    """What is asked of every search here."""
    (tmp_path / "few.tsv").write_text("".join(f"e{i}\tr{i % 2}\te{(i + 1) % 4}\n" for i in range(5)))
    return {"on": "gpu", "data": "tiny", "sizes": {"D": 16}, "repeat": 4}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", SEARCHES)
def test_a_faster_schedule_is_found_checked_and_told(how: str, small: dict[str, Any], fake_cuda: Any) -> None:
    said = search(SLS, tune={"search": how, "trials": 24}, **small)
    hold_together(said)
    (space,), last = of_kind("space", said), said[-1]
    assert space["source"] == "measured"
    assert space["predicted"]
    assert all("." in gene["key"] for gene in space["genes"])
    assert last["tuned"]["gain"] > 1.5
    assert last["tuned"]["schedule"].items() >= last["tuned"]["choices"].items()
    assert last["limits"]["compulsory_bytes"] > 0
    assert last["kernels"][0]["threads"] * 1e-2 <= last["tuned"]["best"]
    assert Schedule.of(last["tuned"]["schedule"])


@pytest.mark.parametrize(
    ("name", "more", "looks"),
    [
        pytest.param(
            "rgnn/rgcn",
            {"data": "tiny", "sizes": {"F": 4, "G": 3}, "options": {"grad": True}},
            5,
            marks=pytest.mark.sweep,
        ),
        ("kge/transh", {"data": "few.tsv", "sizes": {"D": 4}, "batch": 6}, 100),
        pytest.param("sage_pool", {"data": "tiny", "sizes": {}}, 5, marks=pytest.mark.sweep),
    ],
)
def test_models_of_every_family_are_tuned(
    name: str,
    more: dict[str, Any],
    looks: int,
    small: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look(monkeypatch, looks)
    if more["data"].endswith(".tsv"):
        more = {**more, "data_dir": str(tmp_path)}
    hold_together(search(text_of(name), tune={"trials": 3}, **{**small, **more}))


def test_the_same_machine_code_is_timed_once(
    small: dict[str, Any], fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed, of = [], OnDevice.timed

    def count(self: OnDevice, *given: Any) -> Any:
        timed.append(given)
        return of(self, *given)

    monkeypatch.setattr(recipes, "digest_parts", lambda code: [b"the same"])
    monkeypatch.setattr(OnDevice, "timed", count)
    said = search(SLS, tune={"trials": 6}, **small)
    hold_together(said)
    assert [trial["status"] for trial in of_kind("trial", said)] == ["timed", *["same"] * 5]
    assert len(timed) == 1


def test_a_slow_schedule_is_stopped_after_one_sample(
    small: dict[str, Any], fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual schedule takes no time beside the others."""
    samples: list[float] = []

    def cold(self: OnDevice, bound: BoundProgram) -> float:
        samples.append(1.0 if bound.program.code == usual_code[0] else 1e3)
        return samples[-1]

    usual_code: list[Any] = []
    of = OnDevice.check_usual

    def check_usual(self: OnDevice, program: Any, choices: Any) -> None:
        usual_code.append(program.code)
        of(self, program, choices)

    monkeypatch.setattr(OnDevice, "check_usual", check_usual)
    monkeypatch.setattr(OnDevice, "cold", cold)
    said = search(SLS, tune={"trials": 6, "search": "random"}, **small)
    hold_together(said)
    stopped = [trial for trial in of_kind("trial", said) if trial["status"] == "stopped"]
    assert stopped
    assert samples.count(1e3) == len(stopped)
    assert all("3 times the best" in trial["note"] for trial in stopped)
    assert said[-1]["tuned"]["choices"] == {}


def test_a_wrong_schedule_is_not_chosen(small: dict[str, Any], fake_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    of = OnDevice.timed

    def timed(self: OnDevice, program: Any, choices: Any, best: float) -> Any:
        fake_cuda.spoils = best != float("inf")
        try:
            return of(self, program, choices, best)
        finally:
            fake_cuda.spoils = False

    monkeypatch.setattr(OnDevice, "timed", timed)
    said = search(SLS, tune={"trials": 6, "search": "random"}, **small)
    hold_together(said)
    assert {trial["status"] for trial in of_kind("trial", said)[1:]} <= {"wrong", "stopped"}
    assert any(trial["status"] == "wrong" for trial in of_kind("trial", said))
    assert said[-1]["tuned"]["choices"] == {}


def test_a_usual_result_that_is_wrong_ends_the_search(small: dict[str, Any], fake_cuda: Any) -> None:
    fake_cuda.spoils = True
    last = search(SLS, **small)[-1]
    assert (last["event"], last["kind"]) == ("failed", "refused")
    assert "differ from the float64 reference" in last["message"]


@pytest.fixture
def other_processes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started see the pretended device too."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root / "tests" / "fake_cuda"), str(root)]))


def test_a_fault_costs_its_process_alone(
    small: dict[str, Any], fake_cuda: Any, other_processes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second trial breaks this process's context; what follows is measured in another, of real times there."""
    calls, of = [], OnDevice.timed

    def timed(self: OnDevice, *given: Any) -> Any:
        calls.append(given)
        if len(calls) == 2:
            fake_cuda.broken = True
            raise DeviceFault("A kernel broke: cudaErrorIllegalAddress.")
        return of(self, *given)

    monkeypatch.setattr(OnDevice, "timed", timed)
    said = search(SLS, tune={"trials": 5, "search": "random"}, **small)
    hold_together(said)
    statuses = [trial["status"] for trial in of_kind("trial", said)]
    assert statuses[:2] == ["timed", "faulted"]
    assert "cudaErrorIllegalAddress" in of_kind("trial", said)[1]["note"]
    assert len(calls) == 2, "nothing more was timed here"
    assert len(statuses) == 5
    assert set(statuses[2:]) <= {"timed", "same", "stopped"}
    assert said[-1]["stopped"], "this process is of no more use"


def test_a_fault_where_no_process_can_be_started_ends_the_search(
    small: dict[str, Any], fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = OnDevice.timed

    def timed(self: OnDevice, program: Any, choices: Any, best: float) -> Any:
        if best < float("inf"):
            raise DeviceFault("A kernel broke.")
        return of(self, program, choices, best)

    def refused(*given: Any, **more: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(OnDevice, "timed", timed)
    monkeypatch.setattr(elsewhere, "ProcessPoolExecutor", refused)
    last = search(SLS, tune={"trials": 5}, **small)[-1]
    assert (last["event"], last["kind"]) == ("failed", "crashed")
    assert "no other process" in last["message"]


def test_points_are_compiled_ahead_where_there_are_cores(
    small: dict[str, Any], fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a pool that compiles at once: every point but the usual one was asked for before its turn, and the processes
    had begun before any."""
    from concurrent.futures import Future

    asked: list[Any] = []

    class Pool:
        def submit(self, work: Any, *given: Any) -> Future[Any]:
            asked.append(given[1] if given else "begin")
            done: Future[Any] = Future()
            done.set_result(work(*given))
            return done

        def shutdown(self, **_: Any) -> None:
            asked.append("shut down")

    monkeypatch.setattr(ahead, "_pool", lambda: (Pool(), 2))
    said = search(SLS, tune={"trials": 6}, **small)
    hold_together(said)
    assert all(trial["choices"] in asked for trial in of_kind("trial", said)[1:])
    assert [each == "begin" for each in asked[:3]] == [True, True, False]
    assert asked[-1] == "shut down"


def test_what_was_given_stays(small: dict[str, Any], fake_cuda: Any) -> None:
    said = search(SLS, tune={"trials": 4}, options={"lanes": 4, "compact": False}, **small)
    hold_together(said)
    assert not any(gene["key"].endswith(".lanes") for gene in of_kind("space", said)[0]["genes"])
    assert said[-1]["options"]["lanes"] == 4


def test_what_nothing_is_told_of_is_tuned_without_a_prediction(
    small: dict[str, Any], fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where all that the kernels read of whole numbers has some below 0."""
    of_arrays = on_gpu.data_features

    def below_zero(inputs: dict[str, Any]) -> dict[str, float]:
        whole = {name: value for name, value in inputs.items() if getattr(value, "dtype", np.dtype("f")).kind in "iu"}
        assert whole
        return of_arrays({name: -1 - value.astype(np.int64) for name, value in whole.items()})

    monkeypatch.setattr(on_gpu, "data_features", below_zero)
    said = search(SLS, tune={"trials": 6}, **small)
    hold_together(said)
    (space,) = of_kind("space", said)
    assert (space["predicted"], space["expected"], space["by"]) == (False, None, on_gpu.UNTOLD)
    assert all(trial["predicted"] is None for trial in of_kind("trial", said))


def test_it_is_told_what_the_prediction_does_not_look_at(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    look(monkeypatch, 5)
    (space,) = of_kind("space", search(text_of("rgnn/rgcn"), tune={"trials": 2}, **{**small, "sizes": {}}))
    options = [gene["key"] for gene in space["genes"] if "." not in gene["key"]]
    assert options
    assert all(name in space["by"].partition("does not look at")[2] for name in options)
    look(monkeypatch, 100)
    (space,) = of_kind("space", search(SLS, tune={"trials": 2}, **small))
    assert space["predicted"]
