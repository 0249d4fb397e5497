"""A bound on how long a worker's own code goes on, inside the one on its process: what was made before can be told."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time
from types import FrameType

from explorer.compiler.unsupported import OutOfBudget


@contextmanager
def stopped_after(seconds: float | None) -> Iterator[None]:
    """Raises OutOfBudget in the main thread once so many seconds have passed, wherever that then is; None for never.

    A call into a library is over before it is raised, but for waiting: NVRTC works in another thread. A timer that was
    set before goes on afterwards."""
    if seconds is None:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        cpu = process_time() - begin
        raise OutOfBudget(
            f"Stopped after {cpu:.1f} s of CPU time, {seconds:g} s by the clock: this server's limit of a compilation,"
            " not an error of the model."
        )

    begin = process_time()
    before = signal.signal(signal.SIGALRM, stop)
    left = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *left)
