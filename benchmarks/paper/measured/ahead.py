"""The machine code of what figures measure, made side by side before the first of them is.

NVRTC takes one core for seconds. What it makes is kept on disk by its text, where the process that measures finds it,
and those that run under a profiler.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress

from explorer.compiler.compilation import Compilation

Code = Callable[[], Compilation]
"""A call that another process can make too."""
MOST_PROCESSES = 16


def compile_all(programs: Iterable[Code], told: Callable[[int, int], None]) -> None:
    """Has the machine code of each made once; `told` hears how many are done, and of how many. One that cannot be
    compiled says so where it is measured."""
    once = {repr(each): each for each in programs}
    processes = min(MOST_PROCESSES, os.cpu_count() or 1, len(once))
    if not once:
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool, suppress(BrokenProcessPool):
        made: list[Future[None]] = [pool.submit(compile_one, each) for each in once.values()]
        for number, _ in enumerate(as_completed(made), 1):
            told(number, len(made))


def compile_one(program: Code) -> None:
    """Makes a program's machine code, which is then kept."""
    _ = program().stages["ptx"].available
