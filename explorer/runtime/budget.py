"""A bound on how long a worker's own code goes on, inside the one on its process: what was made before can be told. And
a clock that stands still while others have the cores: what work may take should not turn on its host."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic, process_time
from types import FrameType

from explorer.compiler.unsupported import OutOfBudget

AGAIN_SECONDS = 0.25
"""After so long it is raised again: Python drops what is raised while it lets an object go."""


@dataclass
class Bound:
    """What is raised once `seconds` are over, and again until somebody heeds it, who has as long again to tell what was
    made. While it is `held` nothing is raised, and what is due comes later."""

    error: Callable[[], OutOfBudget]
    seconds: float
    held: bool = False
    raised: OutOfBudget | None = None
    raised_at: float = 0.0

    def stop(self, number: int, frame: FrameType | None) -> None:
        """The signal's handler."""
        telling = self.raised is not None and self.raised.heeded and monotonic() < self.raised_at + self.seconds
        if self.held or telling or self._leaves():
            return
        self.raised, self.raised_at = self.error(), monotonic()
        raise self.raised

    def _leaves(self) -> bool:
        """Whether what was raised is on its way out: raised again in an `__exit__`, it would leave the timer on."""
        error = sys.exception()
        while error is not None and error is not self.raised:
            error = error.__context__
        return isinstance(error, OutOfBudget) and not error.heeded


class CpuSpent(OutOfBudget):
    """A part of what a compilation does has taken the time on its core that this part may, and the rest may go on."""


def core_wait(pid: int | str) -> float:
    """Seconds that a process's threads, all that there are now, have been ready to run without a core, since each began
    (`man 5 proc`, schedstat: the second figure, in ns); 0.0 where the system does not say. A search and a simulation
    run in a thread of their own, while the main one waits for what they post."""
    waited, tasks = 0, f"/proc/{pid}/task"
    with suppress(OSError):
        for task in os.listdir(tasks):
            with suppress(OSError, IndexError, ValueError), open(f"{tasks}/{task}/schedstat", "rb") as found:
                waited += int(found.read().split()[1])
    return waited / 1e9


def own_time() -> float:
    """Seconds of the monotonic clock but for those that this process waited for a core. Another process that waited
    less is ahead of it."""
    return monotonic() - core_wait("self")


@contextmanager
def stopped_after(seconds: float | None) -> Iterator[Bound]:
    """Raises OutOfBudget in the main thread once so many seconds have passed, wherever that then is; None for never.

    A call into a library is over before it is raised, but for waiting: NVRTC works in another thread. A timer that was
    set before goes on afterwards."""
    begin = process_time()

    def error() -> OutOfBudget:
        cpu = process_time() - begin
        return OutOfBudget(
            f"Stopped after {cpu:.1f} s of CPU time, {seconds:g} s by the clock: this server's limit of a compilation,"
            " not an error of the model."
        )

    bound = Bound(error, seconds or 0.0)
    if seconds is None:
        yield bound
        return
    with _raised(bound, signal.SIGALRM, signal.ITIMER_REAL):
        yield bound


@contextmanager
def cpu_bounded(seconds: float) -> Iterator[None]:
    """Raises CpuSpent once this process has worked for so long: on a busy host no earlier than on an idle one. Other
    threads than the main one have no timer: there nothing is stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    bound = Bound(lambda: CpuSpent(f"Stopped after {seconds:g} s of work."), seconds)
    with _raised(bound, signal.SIGPROF, signal.ITIMER_PROF):
        yield


@contextmanager
def _raised(bound: Bound, sign: signal.Signals, timer: int) -> Iterator[None]:
    before, left = signal.signal(sign, bound.stop), signal.getitimer(timer)
    try:
        signal.setitimer(timer, bound.seconds, AGAIN_SECONDS)  # a busy host may be late here: it may be raised at once
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(sign, before)
        signal.setitimer(timer, *left)
