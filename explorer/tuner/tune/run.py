"""A run that tunes, on any target: the usual point first, then those that a search asks for, and a result that says
which is the fastest and why. Like a target's own module it has `ready` and `run`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from explorer.runtime.on_gpu import FAULT_HINT
from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event, progress, result, started
from explorer.runtime.runs.request import PREPARING, STEPS, Refused, RunRequest, Setup
from explorer.runtime.runs.simulate import streamed
from explorer.runtime.targets.gpu.device import DeviceFault
from explorer.runtime.targets.table import TARGETS, TargetName
from explorer.runtime.tuning import SearchName, Tuning, TuningError
from explorer.tuner.replay import expected_random
from explorer.tuner.search import Breeding, Search, Trials, at_random, genetic, guided
from explorer.tuner.tune.bench import Bench, Tried, machine_of, options_of, schedule_of

BENCHES: dict[TargetName, str] = {"dae": "on_dae", "cpu": "on_cpu", "gpu": "on_gpu"}
"""The modules that try points, each with `bench`; loaded when a target is first tuned on."""
SEARCHES: dict[SearchName, Search] = {
    "guided": guided,
    "genetic": partial(genetic, breeding=Breeding(generations=0)),
    "random": at_random,
}
NO_PLACE = "leave that out, and tune the model by itself"


def ready(request: RunRequest) -> RunRequest:
    """The request as the target wants it, with the moment until which trials may begin. Raises Refused."""
    try:
        tuning = Tuning.of(request.tune or {})
    except TuningError as error:
        raise Refused(events.failed("refused", str(error))) from None
    for name in ("edited", "written", "expected", "against"):
        if getattr(request, name):
            raise Refused(events.failed("refused", f"A search has no place for what is {name}: {NO_PLACE}."))
    own: RunRequest = import_module(TARGETS[request.on].run).ready(request)
    return replace(own, tune=asdict(tuning))


def run(setup: Setup) -> Iterator[Event]:
    """Searches what is set up; the last event is `result`. Raises Refused and InputError."""
    tuning = Tuning.of(setup.request.tune or {})
    yield progress("finding out what there is to choose from", PREPARING, STEPS)
    make: Callable[[Setup, Tuning], Generator[Event, None, Bench]]
    make = import_module(f"explorer.tuner.tune.{BENCHES[setup.request.on]}").bench
    bench = yield from make(setup, tuning)
    yield from searched(bench, setup.request.on)


def searched(bench: Bench, target: TargetName) -> Iterator[Event]:
    """Searches what a bench has to choose from, on a target; the last event is `result`. Raises Refused."""
    try:
        yield started(target, bench.device, bench.source)
        yield _space(bench)
        found: Found = yield from streamed(partial(_searched, bench))
        if bench.again:
            yield progress(bench.again, PREPARING, STEPS)
        body = bench.result(found.chosen)
        yield result({**body, "tuned": _tuned(bench, found)})
    except DeviceFault as fault:
        yield events.failed("crashed", str(fault), FAULT_HINT)
    finally:
        bench.close()


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    trials: Trials
    chosen: int


def _space(bench: Bench) -> Event:
    points, usual = bench.points, bench.points.at(bench.points.usual)
    genes = [{"key": gene.key, "values": list(gene.values), "usual": usual.get(gene.key)} for gene in points.genes]
    budget = min(bench.tuning.trials, len(points))
    about = bench.by, _expected(bench, budget), bench.part
    return events.space(len(points), genes, bench.metric, bench.source, budget, *about)


def _expected(bench: Bench, budget: int) -> list[float] | None:
    """What random search is expected to have after each trial, by what is predicted of all points, as shares of what
    is predicted of the usual one, which it begins with."""
    if bench.predicted is None:
        return None
    usual = bench.points.usual
    others = np.minimum(np.delete(bench.predicted, usual) / bench.predicted[usual], 1.0)
    return [1.0, *(expected_random(others, budget - 1).tolist() if budget > 1 else ())]


def _searched(bench: Bench, post: Callable[[Event], None]) -> Found:
    """Has a search ask for points, and tells of each. Raises Refused where the usual one cannot be timed."""
    points, tuning = bench.points, bench.tuning
    said = _Said(bench, post)
    budget = max(1, tuning.trials - bench.apart)
    trials = Trials(said.value, budget, over=tuning.is_late_for, coming=bench.coming)
    SEARCHES[tuning.search](points, trials, bench.predicted, seed=tuning.seed)
    said.searched = False
    trials.budget = tuning.trials
    return Found(trials, bench.settled(trials))


@dataclass
class _Said:
    """Tells of each trial, as it ends."""

    bench: Bench
    post: Callable[[Event], None]
    number: int = 0
    best: float = np.inf
    usual: float = np.inf
    searched: bool = True

    def value(self, point: int) -> float:
        """What the search is to know of a point, infinity for nothing."""
        tried = self.bench.tried(point)
        if self.number == 0:
            self._begin(tried)
        if tried.value is not None:
            self.best = min(self.best, tried.value)
        predicted = self._predicted(point)
        choices = self.bench.points.at(point)
        about = tried.note, predicted, self.searched
        self.post(events.trial(self.number, choices, tried.value, tried.status, self.best, *about))
        self.number += 1
        known = tried.value if tried.value is not None else tried.about
        return np.inf if known is None else known

    def _begin(self, tried: Tried) -> None:
        if tried.value is None:
            raise Refused(events.failed("refused", f"There is nothing to begin with: {tried.note}"))
        self.usual = tried.value

    def _predicted(self, point: int) -> float | None:
        """What the model expects, in the metric's unit: as if it were right about the usual point."""
        told = self.bench.predicted
        return None if told is None else float(self.usual * told[point] / told[self.bench.points.usual])


def _tuned(bench: Bench, found: Found) -> dict[str, Any]:
    """What the result says of the search."""
    points, trials = bench.points, found.trials
    usual, own = points.at(points.usual), points.at(found.chosen)
    differing = {key: value for key, value in own.items() if usual.get(key, value) != value or key not in usual}
    # A decision is named where it has its usual value too: beside other choices, the heuristics may choose otherwise.
    decided = schedule_of(own) if differing else {}
    before, after = (bench.value_of(point, trials) for point in (points.usual, found.chosen))
    return {
        **{"usual": before, "best": after, "gain": before / after, "metric": bench.metric},
        "choices": differing,
        **{"options": options_of(differing), "schedule": decided, "machine": machine_of(differing)},
        "why": [*bench.why(found.chosen, trials), *_ended(bench, trials)],
        **{"trials": len(trials.order), "points": len(points), "kept": False, "part": bench.part},
    }


def _ended(bench: Bench, trials: Trials) -> list[str]:
    """That the search has ended before its trials did, or that nothing was left."""
    tried, points = len(trials.order), len(bench.points)
    if bench.hurried:
        found = ["The time limit left no time to find out all that there is to choose from."]
    elif tried == points:
        found = [f"All {points:,} points were tried." if points > 1 else "There is nothing to choose from here."]
    else:
        found = []
    if trials.was_late:
        found.append(f"The time limit ended the search after {tried} of {bench.tuning.trials} trials.")
    return found
