"""What is made in other processes before it is asked for, where there are cores that this process leaves; and here,
where there are none or one of the processes ends."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Generic, TypeVar

T = TypeVar("T")
MOST_PROCESSES = 12
QUEUED = 2
"""What each process may have or have waiting."""


class Ahead(Generic[T]):
    """Made by `make` of what is `given` for a number; all of it can be pickled. Its processes begin at once, each with
    `first`, so that what they have to import and to load is there when something is asked of them."""

    def __init__(self, make: Callable[..., T], first: Callable[[], object] | None = None) -> None:
        self._make = make
        self._coming: dict[int, Future[T]] = {}
        self._pool, self._processes = _pool()
        if self._pool is not None and first is not None:
            for _ in range(self._processes):
                self._pool.submit(first)

    def made(self, number: int, given: tuple[Any, ...]) -> T:
        """What was made for a number, or is made now."""
        future = self._coming.pop(number, None)
        if future is not None:
            try:
                return future.result()
            except (BrokenProcessPool, CancelledError):
                self._do_without()
        return self._make(*given)

    def coming(self, asked: Iterable[tuple[int, tuple[Any, ...]]]) -> None:
        """Has the next ones made, as far as processes are free for it: numbers with what is given for them."""
        for number, given in asked:
            waiting = sum(not future.done() for future in self._coming.values())
            if self._pool is None or waiting >= QUEUED * self._processes:
                return
            if number not in self._coming:
                try:
                    self._coming[number] = self._pool.submit(self._make, *given)
                except BrokenProcessPool:
                    self._do_without()

    def close(self) -> None:
        """Ends the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _do_without(self) -> None:
        """Once a process has ended, as by the system for its memory, the others of its pool have too."""
        self.close()
        self._coming.clear()


def _pool() -> tuple[ProcessPoolExecutor | None, int]:
    """The processes, and how many."""
    processes = min(MOST_PROCESSES, (os.cpu_count() or 1) - 2)
    if processes < 1:
        return None, 0
    try:
        pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
        pool.submit(os.getpid).result()
    except (OSError, BrokenProcessPool):  # a server's worker may start none
        return None, 0
    return pool, processes
