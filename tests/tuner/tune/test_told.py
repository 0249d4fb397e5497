"""What a search says beside its trials: what random search would have, and which trials it did not ask for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.runtime.runs import op
from explorer.runtime.runs.console import summary
from explorer.runtime.tuning import Tuning
from explorer.tuner.kept import Found as Kept
from explorer.tuner.points import Points
from explorer.tuner.search import Trials
from explorer.tuner.space import widest
from explorer.tuner.tune import on_cpu, on_dae
from explorer.tuner.tune.bench import likely
from explorer.tuner.tune.run import Found, _tuned
from tests.tuner.tune.searching import of_kind, search, text_of

BAGS = "op Bags(b: bag of row):\n    param T[row, 24]\n    return sum(T[i] for i in b)\n"


def test_what_random_search_is_expected_to_have_is_by_the_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = np.random.default_rng(3).lognormal(0, 1, 64)
    own: dict[str, Any] = {}

    def predicted(_: object, points: Points, end: float) -> Any:
        own["usual"], own["all"] = seconds[points.usual], np.delete(seconds[: len(points)], points.usual)
        return seconds[: len(points)], "A test does."

    monkeypatch.setattr(on_cpu, "_predicted", predicted)
    said = search(text_of("rgnn/rgat"), on="cpu", data="tiny", sizes={"F": 4, "G": 4}, repeat=3, tune={"trials": 5})
    (space,) = of_kind("space", said)
    random = np.random.default_rng(0)
    runs = [np.minimum.accumulate([own["usual"], *random.permutation(own["all"])[:4]]) for _ in range(20_000)]
    np.testing.assert_allclose(space["expected"], np.mean(runs, axis=0) / own["usual"], rtol=0.02)
    assert len(space["expected"]) == space["budget"] == 5


@pytest.mark.sweep
def test_what_was_chosen_is_told_so_that_it_is_compiled_again() -> None:
    """Of SpMM's points some are others where only what differs from the usual is given: heuristics look at it."""
    compilation = explorer.compile(text_of("embedding/spmm"))
    points = widest(compilation, 400)
    usual = points.at(points.usual)

    def kernels(schedule: dict[str, Any]) -> str:
        return explorer.compile(text_of("embedding/spmm"), schedule=schedule).stages["kernels"].digest

    others = 0
    for point in range(0, len(points), 7):
        own = points.at(point)
        trials = Trials(lambda _: 1.0, 2)
        bench = SimpleNamespace(points=points, metric="ms", tuning=Tuning(trials=2), part="", hurried=False)
        bench.value_of, bench.why = (lambda *_: 1.0), (lambda *_: [])
        told = _tuned(bench, Found(trials, point))  # type: ignore[arg-type]
        differing = {key: value for key, value in own.items() if usual.get(key) != value}
        assert told["choices"] == differing
        assert kernels(told["schedule"]) == kernels(own)
        others += kernels(differing) != kernels(own)
    assert others


def test_where_nothing_predicts_random_search_is_not_guessed_at() -> None:
    (space,) = of_kind("space", search(BAGS, data="tiny", tune={"trials": 2}))
    assert (space["predicted"], space["expected"]) == (False, None)


def test_trials_that_are_only_for_what_is_said_of_the_best_are_told_apart() -> None:
    trials = of_kind("trial", search(BAGS, data="tiny", tune={"trials": 20, "search": "random"}))
    asked = [trial["searched"] for trial in trials]
    drawn = 20 - min(on_dae.APART, 10)
    assert asked == [True] * drawn + [False] * (len(trials) - drawn)
    assert len(trials) > drawn
    on_processor = of_kind("trial", search(text_of("rgnn/rgcn"), on="cpu", data="tiny", repeat=3, tune={"trials": 4}))
    assert all(trial["searched"] for trial in on_processor)


def test_what_was_found_on_a_part_of_the_data_is_told_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = search(BAGS, data="tiny")
    monkeypatch.setattr(op, "GRADIENT_TERMS", 100)
    part = search(BAGS, data="tiny")
    for said, where in ((whole, ""), (part, "a part of the data")):
        last = said[-1]
        assert of_kind("space", said)[0]["part"] == last["tuned"]["part"] == where
        assert (" times as fast as usual, on a part of the data: " in summary(last)) == bool(where)
        kept = Kept.of(last)
        assert kept is not None
        assert kept.part == where


def test_one_program_is_timed_again_once() -> None:
    times = {0: 5.0, 1: 3.0, 2: 4.0, 3: 3.0, 4: np.inf, 5: 4.5, 6: 5.0}
    trials = Trials(times.__getitem__, len(times))
    for point in times:
        trials.take(point)
    assert likely(trials, usual=0) == [1, 2]
