"""Searches on this processor: real machine code of small models, and times that are made up where a test needs to know
which choice is the fastest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.runtime.on_cpu import Program
from explorer.tuner.tune import on_cpu
from tests.tuner.tune.searching import hold_together, of_kind, search, text_of

RGAT = text_of("rgnn/rgat")
SMALL = {"on": "cpu", "data": "tiny", "sizes": {"F": 4, "G": 4}}


def made_up(monkeypatch: pytest.MonkeyPatch, faster: dict[str, bool], by: float, noise: float = 0.0) -> None:
    """Times of 1 ms, and less by a factor for each choice that is made as `faster` says; results are real. As many are
    taken as are asked for, however long the host takes for them: so what is drawn is the same everywhere."""
    random = np.random.default_rng(0)
    monkeypatch.setattr(on_cpu, "WARM_UP_S", 0.0)
    for limit in ("TRIAL_S", "FINAL_S"):
        monkeypatch.setattr(on_cpu, limit, np.inf)

    def measure(self: Program) -> float | None:
        own = self.setup.compilation.options.to_json()
        made = sum(own[name] == value for name, value in faster.items())
        return float(by**-made * np.exp(random.normal(0, noise))) if self.is_right else None

    monkeypatch.setattr(Program, "measure", measure)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("rgnn/rgcn", {"data": "tiny"}),
        ("kge/transr", {"batch": 32, "options": {"grad": True}}),
        ("embedding/spmm", {"data": "tiny"}),
        pytest.param("sage_pool", {"data": "tiny"}, marks=pytest.mark.sweep),
        pytest.param("tucker", {"batch": 16}, marks=pytest.mark.sweep),
    ],
)
def test_models_of_every_family_are_tuned(name: str, more: dict[str, Any]) -> None:
    said = search(text_of(name), on="cpu", tune={"trials": 8}, repeat=5, **more)
    hold_together(said)
    last = said[-1]
    assert last["median_ms"] == last["tuned"]["best"]
    assert of_kind("space", said)[0]["source"] == "measured"
    first, space = of_kind("trial", said)[0], of_kind("space", said)[0]
    assert space["predicted"] == ("grad" not in more.get("options", {})), "a batch's own rows are nobody's"
    assert first["predicted"] == (pytest.approx(first["value"]) if space["predicted"] else None)
    assert space["by"].startswith("Counted: " if space["predicted"] else "Nothing predicts")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["guided", "genetic", "random"])
def test_the_fastest_is_found_and_told(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up(monkeypatch, {"compact": False, "reorder": False}, by=1.25, noise=0.01)
    said = search(RGAT, tune={"search": how, "trials": 16}, **SMALL)
    hold_together(said)
    tuned = said[-1]["tuned"]
    assert tuned["options"].items() >= {"compact": False, "reorder": False}.items()
    assert tuned["gain"] == pytest.approx(1.25**2, rel=0.02)
    assert said[-1]["options"]["compact"] is False
    assert any(sentence.startswith("compact is false: with true, the least") for sentence in tuned["why"])


def test_what_cannot_be_told_from_the_usual_choice_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up(monkeypatch, {"compact": False}, by=1.0, noise=0.2)
    said = search(RGAT, tune={"trials": 16}, **SMALL)
    hold_together(said)
    tuned = said[-1]["tuned"]
    assert tuned["gain"] == 1.0  # by chance it is another in one of forty: not with these draws
    assert tuned["choices"] == {}
    assert any("cannot be told" in sentence for sentence in tuned["why"])
    assert any("No other" in sentence for sentence in tuned["why"])


def test_a_slow_choice_is_stopped_and_a_wrong_one_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up(monkeypatch, {"compact": True}, by=4.0)
    right: Any = Program.is_right.fget  # type: ignore[attr-defined]

    def is_right(self: Program) -> bool:
        return right(self) and self.setup.compilation.options.reorder

    monkeypatch.setattr(Program, "is_right", property(is_right))
    said = search(RGAT, tune={"trials": 16}, **SMALL)
    hold_together(said)
    for trial in of_kind("trial", said)[1:]:
        if not trial["choices"]["reorder"]:
            assert trial["status"] in ("wrong", "same")
        elif not trial["choices"]["compact"]:
            assert (trial["status"], trial["value"]) in (("stopped", None), ("same", None))
            assert "3 times the best" in trial["note"]
    kinds = {trial["status"] for trial in of_kind("trial", said)}
    assert {"timed", "stopped", "wrong"} <= kinds


def test_a_model_with_nothing_to_choose_says_so() -> None:
    said = search(text_of("embedding/sls"), on="cpu", data="tiny")
    hold_together(said)
    assert of_kind("space", said)[0]["points"] == 1
    assert said[-1]["tuned"]["why"][-1] == "There is nothing to choose from here."


@pytest.mark.sampled(3)
@pytest.mark.parametrize("most", [(1e9, 1e13), (1e13, 1e9), (1e10, 1e11)], ids=["bytes", "operations", "both"])
def test_what_is_counted_knows_the_work_that_reordering_saves(
    most: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of RGAT the usual choice is predicted to take the least, whatever the host is slow at."""
    monkeypatch.setattr(on_cpu, "ceilings", lambda: dict(zip(("bytes_per_s", "flop_per_s"), most, strict=True)))
    said = search(RGAT, on="cpu", data="small", tune={"trials": 6, "search": "random"}, repeat=3)
    predicted = [trial["predicted"] for trial in of_kind("trial", said)]
    assert len(set(predicted)) > 1
    assert predicted[0] == min(predicted)


def test_the_time_limit_leaves_a_result() -> None:
    said = search(RGAT, tune={"trials": 16, "seconds": 1e-3}, **SMALL)
    hold_together(said)
    assert len(of_kind("trial", said)) == 1
