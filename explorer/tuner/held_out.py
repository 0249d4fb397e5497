"""Models held against recorded spaces that they were not trained on, and the searches that they lead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    """What a model says of a space that it was not trained on, and what searches find there that it leads. Without a
    model nothing is recalled, and the first choice is the usual point."""

    space: str
    budget: int
    r: float
    recall: float
    first_choice: float
    searches: Mapping[str, Judged]

    def to_json(self) -> dict[str, Any]:
        """Its fields."""
        return {**vars(self), "searches": {name: vars(judged) for name, judged in self.searches.items()}}


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
) -> list[HeldOut]:
    """Each space in turn, by a model that was trained on the others: on all of them, or, `with_twins` left out too, on
    those of other kernels. `inputs` is what it is given of a
    space. Without `train` nothing is predicted. Points with the same machine code count once, for
    random search too."""
    spaces = [space.without_repeats() for space in spaces]
    examples = [(inputs(space), space.times()) for space in spaces]
    found = []
    for number, space in enumerate(spaces):
        predicted = None
        if train is not None:
            predicted = train(others_of(space, spaces, examples, with_twins=with_twins))(examples[number][0])
        found.append(_judged(space, examples[number][1], predicted, searches, replays))
    return found


def _judged(
    space: Recorded,
    times: NDArray[np.float64],
    predicted: NDArray[np.float64] | None,
    searches: Mapping[str, Search],
    replays: int,
) -> HeldOut:
    budget = budget_of(times)
    judged = {}
    for name, search in searches.items():
        own = replayed(space.points, times, search, predicted, budget, range(replays))
        of_trials = replayed(space.points, times, search, predicted, min(TRIALS, len(times)), range(replays))
        judged[name] = Judged(own.score, of_trials.score, of_trials.within(NEAR))
    if predicted is None:
        return HeldOut(space.name, budget, 0.0, 0.0, float(times[space.points.usual] / times.min()), judged)
    quality = (pearson(predicted, times), recall(predicted, times, RECALLED), first_choice(predicted, times))
    return HeldOut(space.name, budget, *quality, judged)
