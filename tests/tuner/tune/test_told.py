"""What a search says beside its trials: what random search would have, and which trials it did not ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.tuner.points import Points
from explorer.tuner.tune import on_cpu, on_dae
from tests.tuner.tune.searching import of_kind, search, text_of

BAGS = "op Bags(b: bag of row):\n    param T[row, 24]\n    return sum(T[i] for i in b)\n"


def test_what_random_search_is_expected_to_have_is_by_the_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = np.random.default_rng(3).lognormal(0, 1, 64)
    own: dict[str, Any] = {}

    def predicted(_: object, points: Points) -> Any:
        own["usual"], own["all"] = seconds[points.usual], np.delete(seconds[: len(points)], points.usual)
        return seconds[: len(points)]

    monkeypatch.setattr(on_cpu, "_predicted", predicted)
    said = search(text_of("rgnn/rgat"), on="cpu", data="tiny", sizes={"F": 4, "G": 4}, repeat=3, tune={"trials": 5})
    (space,) = of_kind("space", said)
    random = np.random.default_rng(0)
    runs = [np.minimum.accumulate([own["usual"], *random.permutation(own["all"])[:4]]) for _ in range(20_000)]
    np.testing.assert_allclose(space["expected"], np.mean(runs, axis=0) / own["usual"], rtol=0.02)
    assert len(space["expected"]) == space["budget"] == 5


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
