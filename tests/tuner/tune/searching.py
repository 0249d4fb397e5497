"""A search, run as a worker runs it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from explorer.runtime.run import RunRequest, execute
from explorer.tuner.tune import on_gpu

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
Event = dict[str, Any]


def text_of(name: str) -> str:
    """An example's text, or that of a model of the zoo."""
    path = EXAMPLES / f"{name}.emb"
    return (path if path.exists() else EXAMPLES.parent / "tests" / "zoo" / f"{name}.emb").read_text(encoding="utf-8")


def search(text: str, on: str = "dae", tune: Mapping[str, Any] | None = None, **more: Any) -> list[Event]:
    """All events of a search, the last of them its result or why there is none."""
    return list(execute(RunRequest(text=text, on=on, tune={"trials": 12, **(tune or {})}, **more)))  # type: ignore[arg-type]


def look(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """A clock on which so many looks at it take all the time that there is for enumerating a GPU's points: so there are
    the same on every host. Of SLS and of TransH, 60 at most, all are by 60 looks; of a layer one takes half a second.
    """
    looks = count()
    monkeypatch.setattr(on_gpu, "own_time", lambda: 1e-3 * next(looks))
    monkeypatch.setattr(on_gpu, "WIDENING_S", 1e-3 * times)


def of_kind(kind: str, said: list[Event]) -> list[Event]:
    """The events of a kind."""
    return [event for event in said if event["event"] == kind]


def hold_together(said: list[Event]) -> None:
    """What is true of every search: the usual point comes first, nothing is tried twice, and what is chosen was tried,
    is right, and is no slower than the usual one."""
    (space,), trials, last = of_kind("space", said), of_kind("trial", said), said[-1]
    assert last["event"] == "result", last
    tuned = last["tuned"]
    usual = {gene["key"]: gene["usual"] for gene in space["genes"] if gene["usual"] is not None}
    assert trials[0]["choices"] == usual
    assert [trial["number"] for trial in trials] == list(range(len(trials)))
    assert len(trials) == tuned["trials"] <= space["budget"] <= space["points"] == tuned["points"]
    assert len({tuple(trial["choices"].items()) for trial in trials}) == len(trials)
    domains = {gene["key"]: gene["values"] for gene in space["genes"]}
    assert all(value in domains[key] for trial in trials for key, value in trial["choices"].items())
    best = float("inf")
    for trial in trials:
        assert (trial["value"] is None) == (trial["status"] in ("invalid", "wrong", "faulted", "stopped"))
        assert bool(trial["note"]) == (trial["status"] != "timed")
        best = min(best, trial["value"] or best)
        assert trial["best"] == best
    assert last["matches_reference"]
    assert tuned["gain"] == tuned["usual"] / tuned["best"] >= 1.0
    named = {**tuned["options"], **{f"machine.{name}": value for name, value in tuned["machine"].items()}}
    decided = {key: value for key, value in tuned["choices"].items() if key not in named}
    assert {**named, **decided} == tuned["choices"]
    assert decided.items() <= tuned["schedule"].items()
    all_chosen = {**tuned["choices"], **tuned["schedule"]}
    of_chosen = [trial["choices"] for trial in trials if trial["choices"].items() >= all_chosen.items()]
    assert of_chosen
    decisions = [{key for key in each if "." in key and not key.startswith("machine.")} for each in of_chosen]
    assert not tuned["choices"] or set(tuned["schedule"]) in decisions
    assert tuned["why"]
