"""Runs of definitions with several results: each is held against the reference, whole or in rows that are drawn."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.returned import each_returned
from explorer.runtime.reference import sampling
from explorer.runtime.run import execute
from explorer.runtime.runs import layer as run_layer
from explorer.runtime.runs import op as run_op
from explorer.runtime.runs import score as run_score
from explorer.runtime.runs.console import _verdict
from explorer.runtime.runs.request import RunRequest, Setup, compile_request
from tests.several_results import CASES

PREPARE: dict[str, Any] = {"score": run_score.prepare, "layer": run_layer.prepare, "op": run_op.prepare}
RUN = {
    "gated": {"data": "tiny"},
    "read out": {"data": "tiny"},
    "negatives": {"batch": 5},
    "handed on, in f16": {"batch": 5},
    "coo": {"data": "small"},
    "bags": {"data": "small"},
}


def request_of(name: str, folder: Any, on: str = "dae", **options: Any) -> RunRequest:
    """A small run of a case."""
    case = CASES[name]
    fields: dict[str, Any] = RUN[name]
    if fields.get("data") == "small":
        arrays = {"row": [3, 0, 2, 2, 1], "col": [1, 1, 0, 3, 3], "num_rows": 4, "num_cols": 4}
        if case.over == "bags":
            arrays = {"ptr": [0, 2, 2, 5], "idx": [1, 0, 3, 3, 1]}
        np.savez(folder / "lists.npz", **{key: np.array(array) for key, array in arrays.items()})
        fields = {"data": str(folder / "lists.npz")}
    return RunRequest(text=case.text, on=on, options={**case.options, **options}, **fields)  # type: ignore[arg-type]


def set_up(request: RunRequest) -> Setup:
    steps = PREPARE[explorer.compile(request.text, on_demand=True).family](request, compile_request(request))
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: Setup = done.value
            return made


@pytest.mark.parametrize("name", RUN)
def test_a_run_checks_each_result_and_the_gradients(name: str, tmp_path: Any) -> None:
    found = list(execute(request_of(name, tmp_path, grad=True)))[-1]
    assert found["event"] == "result", found
    assert found["matches_reference"], found["message"]
    assert found["gradients"]
    count = len(compile_request(request_of(name, tmp_path)).stages["graph"].program.results)
    assert len(found["results"]) == count
    assert all(each["error_over_bound"] <= 1 for each in found["results"])
    assert f"each of {count} results" in _verdict(found)


def test_a_wrong_result_is_told_by_its_place(tmp_path: Any) -> None:
    setup = set_up(request_of("read out", tmp_path))
    right = tuple(bounds.value.astype(np.float32) for bounds in each_returned(setup.bounds))
    assert setup.check(right).matches
    for place in range(len(right)):
        wrong = list(right)
        wrong[place] = wrong[place] + np.float32(0.01)
        check = setup.check(tuple(wrong))
        assert [each.matches for each in check.each] == [other != place for other in range(len(right))]
        assert f"result {place + 1} of 4, differ from the float64 reference" in setup.why_not(check)


@pytest.mark.parametrize("name", ["gated", "coo"])
def test_rows_of_each_result_are_those_of_the_whole(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of(name, tmp_path)
    whole = set_up(request)
    monkeypatch.setattr(sampling, "MOST_ROWS", 3)
    monkeypatch.setattr(sampling, "HUBS", 1)
    module = run_layer if name == "gated" else run_op
    monkeypatch.setattr(module, "MEMORY_LIMIT", 0)
    part = set_up(request)
    assert part.sample is not None
    results = tuple(bounds.value.astype(np.float32) for bounds in each_returned(whole.bounds))
    assert part.check(results).matches
    for place, drawn in enumerate(each_returned(part.sample.drawn)):
        assert len(drawn.rows) < drawn.of == len(results[place])
        for row in drawn.rows:
            wrong = [each.copy() for each in results]
            wrong[place][row] += 0.01
            assert not part.check(tuple(wrong)).matches


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
@pytest.mark.parametrize(("name", "grad"), [("gated", True), ("negatives", False), ("coo", True)])
def test_pytorch_beside_a_run_gives_all_results(name: str, grad: bool, tmp_path: Any) -> None:
    from explorer.runtime.peers import timed as peers

    peer = peers.eager(set_up(request_of(name, tmp_path, on="cpu", grad=grad)), "cpu")
    assert peer.reason == ""
    assert peer.check is not None
    assert len(peer.check.each) == 2
