"""Searches on spaces that are made up: known functions over ordinals stand for times, and none was measured."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

import numpy as np
import pytest

from explorer.runtime import tuning
from explorer.tuner import search
from explorer.tuner.points import Gene, Points
from explorer.tuner.replay import Replays, budget_of, expected_random, replayed
from explorer.tuner.search import (
    Breeding,
    BudgetSpent,
    Search,
    Trials,
    as_predicted,
    at_random,
    confident_choice,
    genetic,
    guided,
    sampled,
)

SEARCHES: list[Search] = [at_random, sampled, as_predicted, genetic, guided]


def synthetic(seed: int = 0) -> tuple[Points, np.ndarray]:
    """A made-up space of some 600 points: a bowl in four genes with a word that bends it, and a part that is missing
    (the product of two genes may not be too large)."""
    genes = [
        Gene("K.strategy", ("rows", "nonzeros", "pieces")),
        *(Gene(f"K.{name}", tuple(1 << power for power in range(6))) for name in ("wide", "deep", "many")),
    ]
    keys = [gene.key for gene in genes]
    every = [dict(zip(keys, values, strict=True)) for values in product(*(gene.values for gene in genes))]
    valid = [each for each in every if each["K.wide"] * each["K.deep"] <= 128]
    points = Points.of(genes, valid, valid[0])
    random = np.random.default_rng(seed)
    centre, weights = random.random((3, 3)), random.uniform(0.5, 2.0, (3, 3))
    at, word = points.coordinates[:, 1:].astype(np.float64), points.ordinals[:, 0]
    logs = (weights[word] * (at - centre[word]) ** 2).sum(1) + random.uniform(0, 0.3, 3)[word]
    return points, 0.05 * np.exp(logs + random.normal(0, 0.02, len(points)))


def a_model_of(times: np.ndarray, error: float, seed: int = 1) -> np.ndarray:
    """What a made-up model predicts: times, off by a factor that is log-normal."""
    return times * np.exp(np.random.default_rng(seed).normal(0, error, len(times)))


@pytest.mark.parametrize("search", SEARCHES)
def test_searches_begin_with_the_usual_point_and_time_none_twice(search: Search) -> None:
    points, times = synthetic()
    calls: list[int] = []

    def time(point: int) -> float:
        calls.append(point)
        return float(times[point])

    trials = Trials(time, 40)
    search(points, trials, a_model_of(times, 0.2), seed=3)
    assert calls == trials.order
    assert calls[0] == points.usual
    assert len(set(calls)) == len(calls) <= 40
    assert trials.times[trials.best] == trials.curve[-1] == min(times[calls]) <= times[points.usual]
    again = Trials(lambda point: float(times[point]), 40)
    search(points, again, a_model_of(times, 0.2), seed=3)
    assert again.order == trials.order, "deterministic by its seed"


@pytest.mark.parametrize("search", SEARCHES)
def test_searches_end_where_all_is_timed(search: Search) -> None:
    points = Points.of([Gene("K.wide", (1, 2, 4))], [{"K.wide": wide} for wide in (1, 2, 4)], {"K.wide": 2})
    trials = Trials(lambda point: point + 1.0, 100)
    search(points, trials, np.array([3.0, 2.0, 1.0]))
    assert len(trials.order) <= 3
    assert trials.order[0] == points.usual == 1


@pytest.mark.parametrize("search", [at_random, genetic, guided])
def test_points_that_are_not_valid_are_survived(search: Search) -> None:
    points, times = synthetic()
    times = np.where(np.arange(len(times)) % 3 == 0, np.inf, times)
    trials = Trials(lambda point: float(times[point]), 60)
    search(points, trials, None, seed=0)
    assert len(trials.order) > 40
    assert np.isfinite(trials.times[trials.best])


def test_the_genetic_search_has_the_papers_numbers() -> None:
    """16 in the first generation beside the usual point, which may be one, and ten children in each of three."""
    points, times = synthetic()
    trials = Trials(lambda point: float(times[point]), 1_000)
    predicted = a_model_of(times, 0.2)
    genetic(points, trials, predicted, seed=0)
    assert len(trials.order) in (16 + 3 * 10, 1 + 16 + 3 * 10)
    first = set(np.argsort(predicted, kind="stable")[:16].tolist())
    assert first <= set(trials.order[:17])
    more = Trials(lambda point: float(times[point]), 100)
    genetic(points, more, predicted, seed=0, breeding=Breeding(generations=0))
    assert len(more.order) == 100
    assert more.order[:46] == trials.order[:46]


def test_the_random_mode_times_three_of_twenty() -> None:
    points, times = synthetic()
    trials = Trials(lambda point: float(times[point]), 100)
    sampled(points, trials, times, seed=5)
    assert len(trials.order) == 4
    assert set(trials.order[1:]) <= set(np.argsort(times)[:20].tolist())


@pytest.mark.parametrize("spaces", [2, pytest.param(4, marks=pytest.mark.sweep)])
def test_searches_beat_chance_on_made_up_spaces(spaces: int) -> None:
    """With a model that is off by a fifth, and guided without one too; a random search does not."""
    scores: dict[str, list[float]] = {"random": [], "genetic": [], "guided": [], "alone": []}
    for seed in range(spaces):
        points, times = synthetic(seed)
        predicted, budget = a_model_of(times, 0.2, seed), budget_of(times)
        assert 8 <= budget < len(times)
        scores["random"].append(replayed(points, times, at_random, None, budget, range(100)).score)
        scores["genetic"].append(replayed(points, times, genetic, predicted, budget, range(20)).score)
        scores["guided"].append(replayed(points, times, guided, predicted, budget, range(3)).score)
        scores["alone"].append(replayed(points, times, guided, None, budget, range(3)).score)
    assert abs(np.mean(scores["random"])) < 0.15
    assert min(scores["genetic"]) > 0.3
    assert min(scores["guided"]) > 0.3
    assert min(scores["alone"]) > 0.0


TIMES = np.array([3.0, 1.0, 7.0, 4.0, 2.0, 9.0])


def test_the_expected_best_is_that_of_all_draws() -> None:
    for count in range(1, 7):
        every = [min(drawn) for drawn in combinations(TIMES.tolist(), count)]
        assert expected_random(TIMES, 6)[count - 1] == pytest.approx(np.mean(every))


def test_draws_beyond_all_points_and_points_that_are_not_valid_change_nothing() -> None:
    with_invalid = np.concatenate([TIMES, [np.inf, np.inf]])
    assert expected_random(with_invalid, 9).tolist() == expected_random(TIMES, 9).tolist()
    assert expected_random(TIMES, 9)[5:].tolist() == pytest.approx([1.0] * 4)


def test_large_spaces_are_no_trouble() -> None:
    """Binomial coefficients of which no float has the size."""
    times = np.random.default_rng(0).exponential(1.0, 4_000) + 1.0
    curve = expected_random(times, 500)
    drawn = [np.random.default_rng(seed).choice(times, 500, replace=False) for seed in range(400)]
    assert curve == pytest.approx(np.mean([np.minimum.accumulate(each) for each in drawn], axis=0), rel=0.05)


def test_a_budget_goes_to_the_cut_off() -> None:
    times = np.random.default_rng(0).exponential(1.0, 2_000)
    budget = budget_of(times)
    goal = times.min() + 0.05 * (np.median(times) - times.min())
    assert expected_random(times, budget)[-1] <= goal < expected_random(times, budget - 1)[-1]


def curves(make: Callable[[np.ndarray], np.ndarray], times: np.ndarray, budget: int) -> Replays:
    return Replays(make(expected_random(times, budget))[None, :], times)


def test_scores_are_0_for_random_and_1_for_the_optimum_at_once() -> None:
    times = np.random.default_rng(0).exponential(1.0, 500) + 0.5
    assert curves(lambda expected: expected, times, 30).score == pytest.approx(0.0)
    assert curves(lambda expected: np.full(30, times.min()), times, 30).score == pytest.approx(1.0)
    assert curves(lambda expected: (expected + times.min()) / 2, times, 30).score == pytest.approx(0.5)
    assert curves(lambda expected: 2 * expected, times, 30).score < 0


def test_how_many_replays_come_near_the_optimum() -> None:
    found = Replays(np.array([[3.0, 1.02], [2.0, 1.0], [5.0, 1.04], [9.0, 8.0]]), TIMES)
    assert found.within(0.03) == 0.5


def test_a_search_that_ends_early_keeps_what_it_found() -> None:
    points, times = synthetic()
    found = replayed(points, times, sampled, times, 30, range(2))
    assert found.curves.shape == (2, 30)
    assert (found.curves[:, 4:] == found.curves[:, 3:4]).all()


def test_no_trial_begins_that_may_not_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10 s trials have 8: after two that took 3, a third might take 3 as well."""
    clock = [100.0]
    monkeypatch.setattr(tuning, "own_time", lambda: clock[0])
    monkeypatch.setattr(search, "own_time", lambda: clock[0])
    asked = tuning.Tuning.of({"seconds": 10.0})

    def time(point: int) -> float:
        clock[0] += 3.0
        return float(point)

    trials = Trials(time, 100, over=asked.is_late_for)
    assert [trials.take(0), trials.take(1)] == [0.0, 1.0]
    assert not trials.was_late
    with pytest.raises(BudgetSpent):
        trials.take(2)
    assert trials.was_late
    assert trials.take(0) == 0.0, "what was tried costs nothing"


def test_a_confident_choice_departs_from_the_usual_point_where_much_is_promised() -> None:
    points, _ = synthetic()
    expected = np.ones(len(points))
    expected[7] = 0.9
    assert confident_choice(points, expected) == points.usual
    expected[7] = 0.8
    assert confident_choice(points, expected) == 7
    assert confident_choice(points, None) == points.usual


def test_points_are_told_apart_by_how_far_they_depart() -> None:
    points, _ = synthetic()
    usual, departing = points.at(points.usual), points.departing
    assert departing[points.usual] == 0
    for point in (1, 100, len(points) - 1):
        own = points.at(point)
        assert departing[point] == sum(own.get(key) != value for key, value in usual.items())
