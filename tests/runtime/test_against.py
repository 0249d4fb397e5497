"""Two sides of a comparison, run by turns: their times, the ratio with its interval, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.runtime import on_cpu
from explorer.runtime.peers.turns import SIDE_A, Contender, by_turns
from explorer.runtime.run import RunRequest, execute
from explorer.runtime.times import ratio_of_medians, statistics, unsteady

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SLS = (EXAMPLES / "embedding" / "sls.emb").read_text()
RGAT = (EXAMPLES / "rgnn" / "rgat.emb").read_text()


@pytest.fixture
def bags(tmp_path: Path) -> str:
    """Three bags, the middle one empty."""
    np.savez(tmp_path / "bags.npz", ptr=np.array([0, 2, 2, 5]), idx=np.array([1, 0, 3, 3, 1]), num_rows=4)
    return str(tmp_path / "bags.npz")


def run(text: str, on: Any, data: str, against: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    side = {"sizes": {}, "options": {}, "schedule": {}, **against}
    return list(execute(RunRequest(text=text, on=on, data=data, against=side, repeat=6, **fields)))


def test_a_time_that_is_there_already_is_that_of_the_first_turn() -> None:
    ours, peer = Contender("", lambda: 2.0, samples=[1.0]), Contender("peer", lambda: 5.0)
    turns = [(event["index"], event.get("of", "")) for event in by_turns([ours, peer], 3)]
    assert turns == [(0, "peer"), (1, "peer"), (1, ""), (2, ""), (2, "peer")]
    assert ours.samples == [1.0, 2.0, 2.0]


def test_both_sides_are_timed_by_turns_in_one_run_on_a_cpu() -> None:
    options: dict[str, str | int | bool] = {"grad": True}
    *events, last = run(RGAT, "cpu", "tiny", {"options": {**options, "compact": False}}, options=options)
    samples = [(event["index"], event.get("of", "")) for event in events if event["event"] == "sample"]
    assert samples[:4] == [(0, ""), (0, SIDE_A), (1, SIDE_A), (1, "")]  # who comes second changes at every turn
    assert last["matches_reference"]
    assert not last["against"]["reason"]
    assert last["against"]["options"]["compact"] is False
    assert last["options"]["compact"] is True
    assert len(last["samples_ms"]) == len(last["against"]["samples_ms"]) == 6
    of_a = last["against"]["of_a"]
    assert of_a["pairs"] == 6
    assert of_a["low"] <= of_a["ratio"] <= of_a["high"]
    assert of_a["ratio"] == pytest.approx(last["median_ms"] / last["against"]["median_ms"])


def test_both_sides_are_simulated_and_the_ratio_is_of_their_cycles(bags: str) -> None:
    last = run(SLS, "dae", bags, {"options": {"opt": 0}}, sizes={"D": 32})[-1]
    alone = list(execute(RunRequest(text=SLS, on="dae", data=bags, options={"opt": 0}, sizes={"D": 32})))[-1]
    smaller = list(execute(RunRequest(text=SLS, on="dae", data=bags, options={"opt": 0})))[-1]
    assert smaller["sizes"] != alone["sizes"]  # side A has the text's own size
    assert last["against"]["cycles"] == smaller["cycles"]
    assert last["against"]["of_a"] == {"ratio": pytest.approx(last["cycles"] / smaller["cycles"])}


def test_a_side_that_is_wrong_has_a_reason_and_no_times(bags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_cpu.Program, "wrong", "It differs.")
    last = run(SLS, "cpu", bags, {})[-1]
    assert last["against"]["reason"] == "It differs."
    assert "median_ms" not in last["against"]


def test_a_side_that_is_no_model_is_refused(bags: str) -> None:
    last = run(SLS, "cpu", bags, {"options": {"nothing": True}})[-1]
    assert last["event"] == "failed"
    assert last["kind"] == "error"


def test_a_side_that_is_not_the_one_shown_is_refused(bags: str) -> None:
    last = run(SLS, "cpu", bags, {"compiled": {"program": "0" * 16, "sizes": {"D": 3}, "options": {}}})[-1]
    assert (last["event"], last["kind"]) == ("failed", "refused")
    assert "D is" in last["message"]


def test_what_fails_has_no_turn_any_more_and_ours_ends_all() -> None:
    ours, theirs = iter([1.0, 2.0, None, 3.0]), iter([5.0, None, 6.0, 7.0])
    contenders = [Contender("", lambda: next(ours)), Contender("other", lambda: next(theirs))]
    events = list(by_turns(contenders, 4))
    assert contenders[0].samples == [1.0, 2.0]
    assert contenders[1].samples == [5.0]
    assert len(events) == 3


def test_the_interval_covers_a_ratio_that_is_known_and_tells_two_programs_apart() -> None:
    random = np.random.default_rng(3)
    busy = 1 + random.exponential(0.5, 200)  # what slows both down at a time
    ours, theirs = (scale * busy * random.normal(1, 0.02, 200) for scale in (1.1, 1.0))
    found = ratio_of_medians(list(ours), list(theirs))
    assert found["low"] < 1.1 < found["high"]
    assert found["low"] > 1
    same = ratio_of_medians(list(theirs), list(theirs))
    assert same["low"] == same["high"] == same["ratio"] == 1


def test_only_a_wide_spread_is_called_unsteady() -> None:
    assert unsteady(statistics([1.0, 1.01, 0.99, 1.0])["spread"], 8.0, 2) == ""
    spread = statistics([1.0, 2.0, 1.0, 3.0])["spread"]
    assert "the host is busy: 8.0 processes" in unsteady(spread, 8.0, 2)
    assert "something else" in unsteady(spread, 0.5, 2)
    assert "something else" in unsteady(spread, None, 2)
