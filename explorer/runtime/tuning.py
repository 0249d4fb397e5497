"""What a request to tune asks: how many points may be tried, which search says which, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, get_args

from explorer.runtime.budget import own_time

SearchName = Literal["guided", "genetic", "random"]
SEARCHES: tuple[SearchName, ...] = get_args(SearchName)
FEWEST_TRIALS, MOST_TRIALS = 2, 512
DEFAULT_TRIALS = 32
LATEST = 0.8
"""The share of a time limit by which trials are to have ended: what is left is for the result."""
TIMED_AGAIN = 0.9
"""The share after which nothing is timed again."""
PREPARING = 0.2
"""The share of the time for trials that finding out what there is to choose from may take."""


class TuningError(ValueError):
    """What was asked cannot be; the message is a sentence for the user."""


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """`trials` points are tried at most, the usual one first; `search` says which, and `seed` what it draws. Trials are
    to end by `until`, and what is timed again by `last`, by the process's `own_time`; None for no such end.
    Options that are `held` keep the values that the request has. Where `replay` names a recorded space, that is
    searched, by the times that it has, whatever the request's model is."""

    trials: int = DEFAULT_TRIALS
    search: SearchName = "guided"
    seed: int = 0
    until: float | None = None
    last: float | None = None
    held: tuple[str, ...] = ()
    replay: str = ""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Tuning:
        """Of a request's fields, in which `seconds` is the time limit of all, from now on. Raises TuningError."""
        given = {"seconds": None, **fields}
        seconds = given.pop("seconds")
        if "until" not in given and seconds is not None:
            now = own_time()
            given.update(until=now + LATEST * seconds, last=now + TIMED_AGAIN * seconds)
        try:
            found = cls(**{**given, "held": tuple(given.get("held", ()))})
        except TypeError as error:
            raise TuningError(f"A request to tune has no such field: {error}.") from None
        if found.search not in SEARCHES:
            raise TuningError(f"There is no search '{found.search}': there are {', '.join(SEARCHES)}.")
        if not FEWEST_TRIALS <= found.trials <= MOST_TRIALS:
            raise TuningError(f"A search has {FEWEST_TRIALS} to {MOST_TRIALS} trials, not {found.trials}.")
        if found.seed < 0:
            raise TuningError(f"A seed is a whole number from 0, not {found.seed}.")
        return found

    def is_late_for(self, seconds: float) -> bool:
        """Whether no trial may begin any more, after one that took so long: the next may take as long."""
        return self.until is not None and own_time() + seconds > self.until

    @property
    def preparing(self) -> float:
        """Seconds that finding out what there is to choose from may still take."""
        return inf if self.until is None else PREPARING * (self.until - own_time())

    @property
    def timing_again(self) -> float:
        """Seconds that there are for timing the best again."""
        return inf if self.last is None else self.last - own_time()
