"""A bound on how long a worker's own code goes on, inside the one on its process: what was made before can be told."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from explorer.compiler.unsupported import OutOfBudget


@contextmanager
def stopped_after(seconds: float | None, what: str = "a compilation") -> Iterator[None]:
    """Raises OutOfBudget in the main thread once so many seconds have passed, wherever that then is; None for never.

    A call into a library is over before it is raised, but for waiting: NVRTC works in another thread. A timer that was
    set before goes on afterwards. Other threads than the main one have no timer: there nothing is stopped."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfBudget(f"Stopped after {seconds:g} s, the time limit of {what}.")

    before = signal.signal(signal.SIGALRM, stop)
    left = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *left)
