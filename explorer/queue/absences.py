"""For how long something has been missing while the queue could be reached: keys that expire are gone after an outage
too, of which nobody has died."""

from __future__ import annotations

from collections.abc import Collection
from time import monotonic


class Absences:
    """Looked at again and again, as long as the queue answers; `forget` when it does not."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def seen(self, missing: Collection[str]) -> None:
        """What is missing now; all else is there."""
        now = monotonic()
        self._since = {name: self._since.get(name, now) for name in missing}

    def longer_than(self, seconds: float) -> set[str]:
        """What was missing at every look for so long."""
        now = monotonic()
        return {name for name, since in self._since.items() if now - since >= seconds}

    def forget(self) -> None:
        """The queue was away: everything is as if it were there until it is missed again."""
        self._since.clear()
