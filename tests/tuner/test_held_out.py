"""What is left out is not trained on, and is judged by itself; on spaces that are made up, for none is measured yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from explorer.tuner.features.launches import NAMES
from explorer.tuner.held_out import Example, HeldOut, Predict, bar_of, departures, held_out, kernel_of
from explorer.tuner.points import Gene, Points
from explorer.tuner.recorded import Recorded, Trial
from explorer.tuner.search import as_predicted, at_random, genetic

AT = NAMES.index("inner_cycles")


def made_up(name: str, seed: int) -> Recorded:
    """A made-up space of two genes, whose times are the cycles of its launches, but for some noise."""
    random = np.random.default_rng(seed)
    genes = (Gene("K.wide", tuple(range(10))), Gene("K.deep", tuple(range(10))))
    ordinals = np.array([(wide, deep) for wide in range(10) for deep in range(10)], np.int16)
    best = random.integers(0, 10, 2)
    cycles = (100 + 30 * np.abs(ordinals - best).sum(1) + random.integers(0, 20, 100)).astype(np.float32)
    launches = np.zeros((100, len(NAMES)), np.float32)
    launches[:, AT] = cycles
    times = 1e-3 * cycles * np.exp(random.normal(0, 0.01, 100))
    trials = tuple(Trial("correct", (float(time),) * 4, (number,)) for number, time in enumerate(times))
    return Recorded(name, {"source": "made up"}, Points(genes, ordinals, 0), trials, NAMES, launches, {})


SPACES = [made_up(name, seed) for seed, name in enumerate(("A/one", "A/two", "B/one", "B/two", "C/one"))]


def knowing(spaces: Sequence[Example]) -> Predict:
    """A model that knows what takes time."""
    return lambda inputs: inputs[:, AT].astype(np.float64)


@pytest.mark.parametrize("with_twins", [False, True])
def test_what_is_left_out_is_not_trained_on(with_twins: bool) -> None:
    trained: list[list[float]] = []

    def train(examples: Sequence[Example]) -> Predict:
        trained.append([float(times[0]) for _, times in examples])
        return lambda inputs: inputs[:, AT].astype(np.float64)

    found = held_out(SPACES, train, {}, with_twins=with_twins, replays=1)
    assert [each.space for each in found] == [space.name for space in SPACES]
    for space, first in zip(SPACES, trained, strict=True):
        kept = [s for s in SPACES if s is not space and not (with_twins and kernel_of(s) == kernel_of(space))]
        assert first == [float(other.times()[0]) for other in kept]


def test_a_model_that_knows_leads_searches_to_the_best() -> None:
    searches = {"as predicted": as_predicted, "genetic": genetic}
    found = held_out(SPACES, knowing, searches, with_twins=True, replays=5)
    for each in found:
        assert each.r > 0.95
        assert each.recall > 0.7
        assert each.first_choice < 1.1
        assert each.budget > 5
        assert each.searches["as predicted"].score > 0.5
        assert each.searches["as predicted"].near == 1.0
        assert each.searches["genetic"].score > 0
    backwards = held_out(SPACES, lambda _: lambda inputs: 1.0 / inputs[:, AT], searches, with_twins=True, replays=5)
    assert all(each.r < 0 and each.searches["as predicted"].score < 0 for each in backwards)


def test_a_fold_is_left_out_by_a_model_of_its_own() -> None:
    trained: list[list[float]] = []

    def train(examples: Sequence[Example]) -> Predict:
        trained.append([float(times[0]) for _, times in examples])
        return lambda inputs: inputs[:, AT].astype(np.float64)

    found = held_out(SPACES, train, {}, with_twins=False, replays=1, folds=2)
    assert [each.space for each in found] == [space.name for space in SPACES]
    times = [float(space.times()[0]) for space in SPACES]
    assert trained == [[times[1], times[3]], [times[0], times[2], times[4]]]


def judged(space: str, promised: float, gain: float) -> HeldOut:
    return HeldOut(space, 1, 0.0, 0.0, 1.0, promised, gain, {})


def test_a_first_choice_is_worth_what_it_takes_of_the_usual_point() -> None:
    """The model that knows promises what it holds, but for noise of a hundredth."""
    for each in held_out(SPACES, knowing, {}, with_twins=True, replays=1):
        assert each.promised == pytest.approx(each.gain, rel=0.05)
        assert each.gain > 1.5, "the usual point lies in a corner"


def test_a_bar_is_what_no_loss_was_promised_above() -> None:
    found = [judged("a", 1.5, 1.2), judged("b", 1.2, 0.8), judged("c", 1.1, 0.5), judged("d", 1.3, 1.1)]
    assert bar_of(found) == 1.2
    assert departures(found, 1.2).gains == {"a": 1.2, "d": 1.1}
    assert departures(found, 1.0).losses == 2
    assert departures(found, 1.2).mean == pytest.approx((1.2 * 1.1) ** 0.5)
    assert departures(found, 2.0).mean == 1.0
    assert departures(found).gains == {"a": 1.2, "b": 0.8, "d": 1.1}, "without b, the others' bar lets it pass"
    assert departures(found).losses == 1


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.sweep)])
def test_random_search_scores_about_nothing(every: int) -> None:
    """On each of the spaces, or on one in so many."""
    found = held_out(SPACES[::every], None, {"random": at_random}, with_twins=False, replays=200)
    assert found
    assert all(abs(each.searches["random"].score) < 0.2 for each in found)
    assert all(each.r == 0 for each in found)


def test_the_benchmark_trains_on_recorded_spaces_and_tells_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="training is PyTorch's, which this machine does without")
    from benchmarks import tuner
    from explorer.tuner.model.inputs import recorded_inputs
    from explorer.tuner.model.training import Training, train

    for number, space in enumerate(SPACES[:3]):
        space.save(tmp_path / f"{number}.json.xz")
    short = Training(epochs=3)
    of_short = recorded_inputs, lambda spaces: train(spaces, short).predict
    monkeypatch.setattr(tuner, "models", lambda: {"short": of_short})
    assert tuner.main(["--spaces", str(tmp_path), "--replays", "3"]) == 0
    told = capsys.readouterr().out
    assert all(told.count(f'"{space.name}"') == 3 for space in SPACES[:3]), "without a model, and left out twice"
    assert told.count("guided") > 3
    assert tuner.main(["--spaces", str(tmp_path / "none")]) == 2


def test_boosted_trees_are_a_baseline() -> None:
    pytest.importorskip("sklearn", reason="the baseline is scikit-learn's, which this machine does without")
    from explorer.tuner.model.boosted import Boosted

    (each, *_) = held_out(SPACES, lambda spaces: Boosted(spaces).predict, {}, with_twins=True, replays=1)
    assert each.r > 0.8
