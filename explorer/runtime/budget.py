"""A bound on how long a worker's own code goes on, inside the one on its process: what was made before can be told."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time
from types import FrameType

from explorer.compiler.unsupported import OutOfBudget


class CpuSpent(OutOfBudget):
    """A part of what a compilation does has taken the time on its core that this part may, and the rest may go on."""


@contextmanager
def stopped_after(seconds: float | None) -> Iterator[None]:
    """Raises OutOfBudget in the main thread once so many seconds have passed, wherever that then is; None for never.

    A call into a library is over before it is raised, but for waiting: NVRTC works in another thread. A timer that was
    set before goes on afterwards."""
    if seconds is None:
        yield
        return
    begin = process_time()

    def error() -> OutOfBudget:
        cpu = process_time() - begin
        return OutOfBudget(
            f"Stopped after {cpu:.1f} s of CPU time, {seconds:g} s by the clock: this server's limit of a compilation,"
            " not an error of the model."
        )

    with _raised(error, seconds, signal.SIGALRM, signal.ITIMER_REAL):
        yield


@contextmanager
def cpu_bounded(seconds: float) -> Iterator[None]:
    """Raises CpuSpent once this process has worked for so long: on a busy host no earlier than on an idle one. Other
    threads than the main one have no timer: there nothing is stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _raised(
        lambda: CpuSpent(f"Stopped after {seconds:g} s of work."), seconds, signal.SIGPROF, signal.ITIMER_PROF
    ):
        yield


@contextmanager
def _raised(error: Callable[[], OutOfBudget], seconds: float, sign: signal.Signals, timer: int) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise error()

    before = signal.signal(sign, stop)
    left = signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(sign, before)
        signal.setitimer(timer, *left)
