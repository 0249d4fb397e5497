"""How long a worker may take for a request: time in which others had the cores is not its own."""

from __future__ import annotations

from time import monotonic

from explorer.runtime.budget import core_wait

MOST_TIMES = 4.0
"""By the clock a request may take so many times what it is allowed, however busy the host is."""


class Allowed:
    """So many seconds for a process from now on, and as many more as its threads wait for a core meanwhile."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.seconds = seconds
        self._pid = pid
        self._begun = monotonic()
        self._waited_before = core_wait(pid)
        self._waited = 0.0

    @property
    def waited(self) -> float:
        """Seconds that it waited for a core so far; 0.0 where the system does not say. What a thread waited that has
        ended since counts as far as it was seen."""
        self._waited = max(self._waited, core_wait(self._pid) - self._waited_before)
        return self._waited

    @property
    def left(self) -> float:
        """Seconds from now until it has had its time; less than nothing afterwards."""
        allowed = min(self.seconds + self.waited, self.seconds * MOST_TIMES)
        return self._begun + allowed - monotonic()
