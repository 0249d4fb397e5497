"""What a search needs of a target: the points that there are on it, and how one is tried."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from explorer.compiler.decisions import Value
from explorer.compiler.options import Options
from explorer.runtime.peers.turns import FINALS
from explorer.runtime.runs.events import Metric, TrialStatus
from explorer.runtime.runs.request import Setup
from explorer.runtime.targets.table import TARGETS, Source
from explorer.runtime.tuning import Tuning
from explorer.tuner.points import Points
from explorer.tuner.search import Predicted, Trials

MACHINE = "machine."
"""What the keys of genes begin with that are parameters of the simulated machine."""


@dataclass(frozen=True)
class Tried:
    """What became of a point: its value, in the metric of its target, or None where it cannot be chosen, which `note`
    says why in a short sentence."""

    value: float | None
    status: TrialStatus = "timed"
    note: str = ""
    about: float | None = None
    """What a point takes about that was stopped: the search learns from it."""


class Bench(ABC):
    """A model whose points can be tried, one after another."""

    metric: ClassVar[Metric]
    source: Source
    """Whether values are of a real device, and of now."""

    points: Points
    device: str
    predicted: Predicted = None
    """What points are expected to take, in any unit, before they are tried."""
    by: str
    """What predicts that, or why nothing does: a sentence."""
    again = "running what was chosen once more, for the check"
    """What the result takes, in words; "" where it takes nothing."""
    part = ""
    """What trials are on, where that is not all of the data: "a part of the data"."""
    hurried = False
    """Whether there was no time to look at all that there may be to choose from."""
    apart = 0
    """Trials that `settled` may take, which the search leaves it."""

    def __init__(self, tuning: Tuning) -> None:
        self.tuning = tuning

    @abstractmethod
    def tried(self, point: int) -> Tried:
        """Tries a point."""

    def coming(self, points: list[int]) -> None:
        """Which points are likely to be tried next, the next one first."""
        return

    def close(self) -> None:
        """Ends what it has started."""
        return

    @abstractmethod
    def settled(self, trials: Trials) -> int:
        """The point to choose after a search. It is no slower than the usual one."""

    @abstractmethod
    def result(self, chosen: int) -> dict[str, Any]:
        """What a run of the point that was chosen comes to, checked, as the target's own runs say it."""

    @abstractmethod
    def value_of(self, point: int, trials: Trials) -> float:
        """The value of the usual point or of the chosen one, as it is told last."""

    @abstractmethod
    def why(self, chosen: int, trials: Trials) -> list[str]:
        """Why it was chosen, in sentences made of what was counted or measured."""


class OnTarget(Bench):
    """A model set up on a target that is there."""

    def __init__(self, setup: Setup, tuning: Tuning) -> None:
        super().__init__(tuning)
        self.setup = setup
        self.source = TARGETS[setup.request.on].source


def likely(trials: Trials, usual: int) -> list[int]:
    """The two best that were faster than the usual point: points of one program, whose times are the same, once."""
    least: dict[float, int] = {}
    for point in trials.order:
        least.setdefault(trials.times[point], point)
    return [least[value] for value in sorted(least) if value < trials.times[usual]][:2]


def is_told_apart(ratio: Mapping[str, float]) -> bool:
    """Whether a point is faster than the usual one: so many pairs say so that their interval means something."""
    return ratio["pairs"] >= FINALS and min(ratio["low"], ratio["ratio"]) > 1


def too_few(pairs: int) -> str:
    """Why nothing is said of a point that was to be timed again."""
    return f"Another choice was not chosen: there was time for {pairs} of the {FINALS} times by turns that it takes."


def options_of(choices: Mapping[str, Value]) -> dict[str, Value]:
    """Those of a point's choices that are options of the model."""
    return {key: value for key, value in choices.items() if "." not in key}


def machine_of(choices: Mapping[str, Value]) -> dict[str, Value]:
    """Those that are parameters of the simulated machine, by their names."""
    return {key.removeprefix(MACHINE): value for key, value in choices.items() if key.startswith(MACHINE)}


def schedule_of(choices: Mapping[str, Value]) -> dict[str, Value]:
    """Those that are decisions of kernels."""
    return {key: value for key, value in choices.items() if "." in key and not key.startswith(MACHINE)}


def given_options(setup: Setup, tuning: Tuning) -> set[str]:
    """The options that a search leaves alone: those that were asked for by another value than the usual one, and those
    that are held."""
    usual = Options().to_json()
    own = setup.compilation.options.to_json()
    return {name for name, value in own.items() if value != usual[name]} | set(tuning.held)
