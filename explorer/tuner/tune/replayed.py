"""A search replayed on a space that was measured whole, where there is no GPU to measure on: its trials have the times
that were recorded, and nothing is compiled or run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from explorer.runtime.runs.events import Event, TrialStatus, failed
from explorer.runtime.runs.request import Refused, RunRequest
from explorer.runtime.tuning import Tuning, TuningError
from explorer.tuner import shipped
from explorer.tuner.model.quality import pearson
from explorer.tuner.recorded import Recorded
from explorer.tuner.search import Trials
from explorer.tuner.tune.bench import Bench, Tried
from explorer.tuner.tune.run import searched
from explorer.tuner.tune.worth import worth

PREDICTED = (
    "A model predicts these times that was trained on the other recorded spaces, without this one: over all of its"
    " {points} points, Pearson's r of the logarithms is {r:.2f}."
)
UNPREDICTED = "Nothing predicts these times: the search learns from those that it has asked for."
RIGHT = "correct"
"""What a recording says of a point whose result was that of the usual one, which was held against float64."""


def run(request: RunRequest) -> Iterator[Event]:
    """Searches the recorded space that a request names; the last event is `result`. Raises Refused."""
    try:
        tuning = Tuning.of(request.tune or {})
    except TuningError as error:
        raise Refused(failed("refused", str(error))) from None
    try:
        space = shipped.load(tuning.replay)
    except KeyError:
        there = ", ".join(shipped.names()) or "none"
        told = f"There is no recording '{tuning.replay}': there are {there}."
        raise Refused(failed("refused", told)) from None
    yield from searched(ReplayBench(space, tuning), "gpu")


class ReplayBench(Bench):
    """A recorded space, of whose points with the same machine code there is one."""

    metric = "ms"
    source = "replayed"
    again = ""

    def __init__(self, space: Recorded, tuning: Tuning) -> None:
        super().__init__(tuning)
        self.space = space.without_repeats()
        self.points = self.space.points
        self.device = f"recorded on {space.about['device']}, {space.about['date']}"
        self.predicted = shipped.left_out(tuning.replay)
        self.by = UNPREDICTED
        self.times = self.space.times("cold median")
        if self.predicted is not None:
            self.by = PREDICTED.format(points=f"{len(self.points):,}", r=pearson(self.predicted, self.times))

    def tried(self, point: int) -> Tried:
        """What was recorded of a point."""
        trial = self.space.trials[point]
        if trial.invalidity == RIGHT:
            return Tried(float(self.times[point]))
        status: TrialStatus = "wrong" if trial.invalidity == "correctness" else "invalid"
        return Tried(None, status, f"Recorded as {trial.invalidity}.")

    def settled(self, trials: Trials) -> int:
        """The fastest: nothing can be timed again."""
        return trials.best

    def value_of(self, point: int, trials: Trials) -> float:
        """Its recorded time."""
        return trials.times[point]

    def result(self, chosen: int) -> dict[str, Any]:
        """What is known of the model that was recorded."""
        about = self.space.about
        return {
            "matches_reference": True,  # or it would not have been chosen
            "message": "",
            "name": self.space.name,
            "target": "recording",
            "device": self.device,
            "source": self.source,
            "date": self.space.about["date"],
            "sizes": dict(about["sizes"]),
            "options": dict(about["options"]),
            "text": about["text"],
        }

    def why(self, chosen: int, trials: Trials) -> list[str]:
        """Where the times are from, and what each choice is worth by them."""
        told = f"Nothing was measured now: all times are replayed, {self.device}."
        best, found = float(self.times.min()), trials.times[chosen]
        least = f"The best of all {len(self.points):,} points takes {best:.4g} ms"
        far = f"{least}: what was found takes {found / best:.3f} times that."
        return [told, far, *worth(self.points, chosen, trials, "ms", "recorded")]
