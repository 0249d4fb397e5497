"""Models held against recorded spaces that they were not trained on, and the searches that they lead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.tuner.model.inputs import recorded_inputs
from explorer.tuner.model.quality import first_choice, pearson, recall
from explorer.tuner.recorded import Recorded
from explorer.tuner.replay import REPLAYS, budget_of, replayed
from explorer.tuner.search import Search

Example = tuple[NDArray[np.float32], NDArray[np.float64]]
Predict = Callable[[NDArray[np.float32]], NDArray[np.float64]]
"""What points with such inputs [points, inputs] take, relative to one another, [points]."""
Train = Callable[[Sequence[Example]], Predict]

TRIALS = 32
"""The budget of `explorer tune`, beside the methodology's own."""
RECALLED = 20
"""Points of which it is told how many are found: those that G-Sparse keeps."""
NEAR = 0.03
"""A search has found the best where it is so near to it."""


@dataclass(frozen=True)
class Judged:
    """A search on a space that its model has not seen: the methodology's score at its own budget and at TRIALS, and
    the share of replays that came NEAR the best by then."""

    score: float
    score_of_trials: float
    near: float


@dataclass(frozen=True)
class HeldOut:
    """What a model says of a space that it was not trained on, and what searches find there that it leads. The first
    choice takes so many times as long as the best; `gain` is how many times as fast as the usual point it is, and
    `promised` how many times that is predicted to be. Without a model nothing is recalled, and the first choice is the
    usual point."""

    space: str
    budget: int
    r: float
    recall: float
    first_choice: float
    promised: float
    gain: float
    searches: Mapping[str, Judged]

    def to_json(self) -> dict[str, Any]:
        """Its fields."""
        return {**vars(self), "searches": {name: vars(judged) for name, judged in self.searches.items()}}


@dataclass(frozen=True)
class Departures:
    """First choices taken instead of the usual points without a trial, where more is promised than a bar asks for:
    their gains by space, how many times as fast as the usual point they are."""

    gains: Mapping[str, float]

    @property
    def mean(self) -> float:
        """The geometric mean of their gains; 1 of none."""
        return float(np.exp(np.mean(np.log(list(self.gains.values()))))) if self.gains else 1.0

    @property
    def losses(self) -> int:
        """How many are slower than the usual point."""
        return sum(gain < 1 for gain in self.gains.values())


def bar_of(found: Iterable[HeldOut]) -> float:
    """The most that was promised of a first choice that was slower than the usual point, or 1: above it, none lost."""
    return max((each.promised for each in found if each.gain < 1), default=1.0)


def departures(found: Sequence[HeldOut], bar: float | None = None) -> Departures:
    """Of the spaces on which more is promised than the bar, or, where none is given, than the bar that all other spaces
    set: what a bar is worth on a space that had no part in choosing it."""
    taken = {}
    for each in found:
        least = bar if bar is not None else bar_of(other for other in found if other is not each)
        if each.promised > least:
            taken[each.space] = each.gain
    return Departures(taken)


def kernel_of(space: Recorded) -> str:
    """What a space is of, whichever its input: "SpMM" of "SpMM/arxiv"."""
    return space.name.partition("/")[0]


def others_of(
    space: Recorded, spaces: Sequence[Recorded], examples: Sequence[Example], *, with_twins: bool
) -> list[Example]:
    """The examples of the other spaces, or of those of other kernels."""
    return [
        example
        for other, example in zip(spaces, examples, strict=True)
        if other is not space and not (with_twins and kernel_of(other) == kernel_of(space))
    ]


def held_out(
    spaces: Sequence[Recorded],
    train: Train | None,
    searches: Mapping[str, Search],
    *,
    with_twins: bool,
    replays: int = REPLAYS,
    inputs: Callable[[Recorded], NDArray[np.float32]] = recorded_inputs,
    folds: int = 0,
) -> list[HeldOut]:
    """Each space in turn, by a model that was trained on the others: on all of them, or, `with_twins` left out too, on
    those of other kernels. `inputs` is what it is given of a space. Without `train` nothing is predicted. Points with
    the same machine code count once, for random search too. With `folds` as many models are trained, of which each
    leaves out every so many-th space: what takes long to train is judged sooner, on fewer spaces than all others."""
    spaces = [space.without_repeats() for space in spaces]
    examples = [(inputs(space), space.times()) for space in spaces]
    models: dict[int, Predict] = {}
    found = []
    for number, space in enumerate(spaces):
        predicted = None
        if train is not None:
            left_out = number % folds if folds else number
            if left_out not in models:
                others = _of_other_folds(number, folds, examples) if folds else None
                models[left_out] = train(others or others_of(space, spaces, examples, with_twins=with_twins))
            predicted = models[left_out](examples[number][0])
        found.append(_judged(space, examples[number][1], predicted, searches, replays))
    return found


def _of_other_folds(number: int, folds: int, examples: Sequence[Example]) -> list[Example]:
    return [example for other, example in enumerate(examples) if other % folds != number % folds]


def _judged(
    space: Recorded,
    times: NDArray[np.float64],
    predicted: NDArray[np.float64] | None,
    searches: Mapping[str, Search],
    replays: int,
) -> HeldOut:
    budget, usual = budget_of(times), space.points.usual
    judged = {}
    for name, search in searches.items():
        own = replayed(space.points, times, search, predicted, budget, range(replays))
        of_trials = replayed(space.points, times, search, predicted, min(TRIALS, len(times)), range(replays))
        judged[name] = Judged(own.score, of_trials.score, of_trials.within(NEAR))
    if predicted is None:
        return HeldOut(space.name, budget, 0.0, 0.0, float(times[usual] / times.min()), 1.0, 1.0, judged)
    first = first_choice(predicted, times)
    quality = (pearson(predicted, times), recall(predicted, times, RECALLED), first)
    promised = float(predicted[usual] / predicted[np.isfinite(times)].min())
    return HeldOut(space.name, budget, *quality, promised, float(times[usual] / times.min()) / first, judged)
