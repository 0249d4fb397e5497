"""Tries points on a GPU: decisions of the kernels' schedules, and the model's options that change the kernels.

Points that are likely to come next are compiled in other processes meanwhile, where there are cores for it. What has
the same machine code is timed once. A kernel that breaks its process's context on the device costs that process, and
the search goes on in another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from functools import partial
from typing import Any

import numpy as np

from explorer.runtime.budget import own_time
from explorer.runtime.data.triples import InputError
from explorer.runtime.peers.turns import FINALS
from explorer.runtime.runs.events import Event, progress
from explorer.runtime.runs.request import PREPARING, STEPS, Setup
from explorer.runtime.targets.gpu.device import DeviceFault, current_device
from explorer.runtime.times import ratio_of_medians
from explorer.runtime.tuning import Tuning
from explorer.tuner.device.ahead import Ahead
from explorer.tuner.device.elsewhere import Elsewhere, NoOtherProcess
from explorer.tuner.device.recipes import Made, Recipe, begin, make
from explorer.tuner.device.trials import Fields, OnDevice
from explorer.tuner.features.data import data_features
from explorer.tuner.model.choices import Model, choices_of, expected, unseen
from explorer.tuner.model.inputs import of_data
from explorer.tuner.points import Points
from explorer.tuner.search import AHEAD, Predicted, Trials
from explorer.tuner.space import widest
from explorer.tuner.tune.bench import OnTarget, Tried, given_options, is_told_apart, likely, too_few
from explorer.tuner.tune.options import OF_MODELS, switches
from explorer.tuner.tune.worth import shown, worth

MOST_POINTS = 2_000
WIDENING_S = 10.0
"""How long points are enumerated at most."""
FINAL_S = 3.0
"""How long the two best may be timed again, by turns with the usual point."""
PREDICTED = (
    "A model predicts these times by decisions of the kernels, by sizes and by the data, before anything is compiled"
    "{unseen}; it was trained on spaces of schedules that were measured whole on an H100. The search corrects it by"
    " what it has timed."
)
NEARER = 1e-6
"""What a point is predicted to take longer for each gene in which it departs from the usual one."""
UNSEEN = ", and does not look at {names}, which also vary"
UNTOLD = (
    "Nothing predicts these times: nothing can be told of this data's lists, or of how often its rows are picked. The"
    " search learns from those that it has timed."
)
SAME = "Its machine code is that of a trial before."
STATUSES = {
    "same": "had the machine code of one before",
    "stopped": "were stopped, as slow",
    "invalid": "could not be compiled",
    "wrong": "gave another result",
    "faulted": "broke their process",
}


def bench(setup: Setup, tuning: Tuning) -> Generator[Event, None, DeviceBench]:
    """The device, ready to have points tried. Raises Refused and InputError."""
    setup.program("kernels")
    ahead = Ahead(make, first=partial(begin, Recipe.of(setup.compilation)))
    try:
        yield progress("enumerating the schedules of the kernels", PREPARING, STEPS)
        points = points_of(setup, tuning)
        yield progress("loading the arrays", PREPARING, STEPS)
        return DeviceBench(setup, tuning, points, ahead)
    except BaseException:
        ahead.close()
        raise


class DeviceBench(OnTarget):
    """The device, or another process on it once a kernel has broken this one's context."""

    metric = "ms"

    def __init__(self, setup: Setup, tuning: Tuning, points: Points, ahead: Ahead[Made]) -> None:
        super().__init__(setup, tuning)
        self.points, self._ahead = points, ahead
        self.predicted, self.by = predicted_of(points, setup.inputs(), setup.compilation.sizes)
        self.device = current_device().described
        self.here: OnDevice | None = OnDevice(setup)
        self.recipe, self.sizes = self.here.recipe, self.here.sizes
        self.elsewhere = Elsewhere(setup.request, points.at(points.usual), self.sizes)
        self.best = np.inf
        self.made: dict[int, Made] = {}
        self.finals: dict[int, Fields] = {}
        self.body: dict[str, Any] = {}
        self.told: Counter[str] = Counter()
        self._seen: dict[str, Tried] = {}
        if self.predicted is not None:  # meanwhile the usual point is compiled and held against float64 here
            likely = np.argsort(self.predicted, kind="stable")[:AHEAD].tolist()
            self.coming([point for point in likely if point != points.usual])

    def tried(self, point: int) -> Tried:
        """Compiles a point and times it. Raises DeviceFault where that was the usual one."""
        found = self._tried(point)
        self.told[found.status] += 1
        return found

    def _tried(self, point: int) -> Tried:
        made = self._compiled(point)
        if made.program is None:
            return Tried(None, "invalid", made.error)
        if made.digest in self._seen:
            before = self._seen[made.digest]
            return (
                Tried(before.value, "same", "Its machine code is that of a trial before.") if before.value else before
            )
        try:
            found = self._timed(point, made)
        except NoOtherProcess:
            raise
        except DeviceFault as fault:
            if point == self.points.usual:
                raise
            self.here = None
            found = Tried(None, "faulted", str(fault))
        except (InputError, MemoryError) as error:  # what it makes has no room there
            found = Tried(None, "invalid", str(error))
        self._seen[made.digest] = found
        self.best = min(self.best, found.value or np.inf)
        return found

    def _timed(self, point: int, made: Made) -> Tried:
        """Raises DeviceFault."""
        choices = self.points.at(point)
        if self.here is None:
            until = self.tuning.until
            found = self.elsewhere.timed(choices, self.best, None if until is None else max(1.0, until - own_time()))
        elif made.program is not None:
            if point == self.points.usual:
                try:
                    self.here.check_usual(made.program, choices)
                except ValueError as error:
                    return Tried(None, "wrong", str(error))
            found = self.here.timed(made.program, choices, self.best)
        return Tried(found.get("ms"), found["status"], found.get("note", ""), found.get("about"))

    def _compiled(self, point: int) -> Made:
        self.made[point] = self._ahead.made(point, self._given(point))
        return self.made[point]

    def coming(self, points: list[int]) -> None:
        """Has the next points compiled."""
        self._ahead.coming((point, self._given(point)) for point in points if point not in self.made)

    def _given(self, point: int) -> tuple[Recipe, Mapping[str, Any], Mapping[str, int]]:
        """What `make` takes."""
        return self.recipe, self.points.at(point), self.sizes

    def close(self) -> None:
        """Ends all processes."""
        self.elsewhere.close()
        self._ahead.close()

    def settled(self, trials: Trials) -> int:
        """The faster of the two best, timed again by turns with the usual point and held against float64, where it is
        told apart from it: the interval of how many times as fast it is lies above 1. Raises DeviceFault."""
        usual = self.points.usual
        best = likely(trials, usual)
        wanted, how = [usual, *best], (self.setup.request.repeat, FINAL_S, self.tuning.timing_again)
        if self.here is None:
            found = self.elsewhere.finals([self.points.at(point) for point in wanted], *how)
        else:
            programs = [(self.made[point].program, self.points.at(point)) for point in wanted]
            found = self.here.finals([(p, choices) for p, choices in programs if p is not None], *how)
        self.finals = dict(zip(wanted, found, strict=True))
        faster = [point for point in best if self._is_faster(point)]
        return min(faster, key=lambda point: self.value_of(point, trials), default=usual)

    def _is_faster(self, point: int) -> bool:
        return not self.finals[point]["wrong"] and is_told_apart(self._ratio(point))

    def _ratio(self, point: int) -> dict[str, float]:
        """How many times as fast as the usual one it is, by turns."""
        return ratio_of_medians(self.finals[self.points.usual]["samples"], self.finals[point]["samples"])

    def value_of(self, point: int, trials: Trials) -> float:
        """The median of the times that were taken last."""
        return float(np.median(self.finals[point]["samples"]))

    def result(self, chosen: int) -> dict[str, Any]:
        """A run of the chosen point, as any on the device. Raises DeviceFault and Refused."""
        choices = self.points.at(chosen)
        if self.here is None:  # this process is of no more use
            self.body = {**self.elsewhere.body(choices), "stopped": True}
        else:
            self.body = self.here.body(choices)
        return self.body

    def why(self, chosen: int, trials: Trials) -> list[str]:
        """What was measured of the chosen point beside the usual one."""
        found = [self._beside(point, chosen) for point in self.finals if point != self.points.usual]
        if chosen == self.points.usual:
            found.append("No other choice was found to be faster.")
        return [*found, *self._reached(), *worth(self.points, chosen, trials, "ms", "measured"), *self._counted()]

    def _beside(self, point: int, chosen: int) -> str:
        ratio, times = self._ratio(point), len(self.finals[point]["samples"])
        if times < FINALS:
            return too_few(times)
        whose = "What was chosen" if point == chosen else "Another choice"
        told = f"{ratio['ratio']:.3f} times as fast as the usual one ({ratio['low']:.3f} to {ratio['high']:.3f}, 95 %)"
        apart = "" if ratio["low"] > 1 else ", and cannot be told from it"
        wrong = ", but its result is wrong" if self.finals[point]["wrong"] else ""
        return f"{whose} was {told}, over {times} times by turns with cold caches{apart}{wrong}."

    def _reached(self) -> list[str]:
        if not self.body.get("limit_reached"):
            return []
        least = max(self.body["bytes_limit_ms"], self.body["flop_limit_ms"])
        told = f"The least that it must move and compute takes {shown(least)} ms here"
        return [f"{told}: it reaches {self.body['limit_reached']:.0%} of what is possible."]

    def _counted(self) -> list[str]:
        told = [f"{count} {STATUSES[status]}" for status, count in self.told.items() if status in STATUSES]
        return [f"Of the trials, {', '.join(told)}."] if told else []


def predicted_of(points: Points, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[Predicted, str]:
    """How many times as long as the usual point points of a model of these sizes are expected to take on these arrays,
    [points], and by what; None of arrays of which nothing is told, and why."""
    told = data_features(inputs)
    if not of_data(told).any():
        return None, UNTOLD
    names = ", ".join(unseen(points))
    by = PREDICTED.format(unseen=UNSEEN.format(names=names) if names else "")
    found = expected(Model.load(), choices_of(points, told, sizes))
    return found * (1 + NEARER * points.departing), by  # of points that it cannot tell apart, first the usual values


def points_of(setup: Setup, tuning: Tuning) -> Points:
    """The decisions that matter most, with the options that change the kernels."""
    given = given_options(setup, tuning)
    options = switches(setup, "kernels", [name for name in OF_MODELS if name not in given])
    end = own_time() + min(WIDENING_S, tuning.preparing)
    return widest(setup.compilation, MOST_POINTS, options, held=given, over=lambda: own_time() > end)
