"""What a run may take on a host whose cores are busy: time without a core is not its own."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from explorer.runtime import on_cpu
from explorer.runtime.workers import allowed
from explorer.runtime.workers.allowed import MOST_TIMES, Allowed
from explorer.runtime.workers.pool import WorkerPool

WORKS = """
import os, sys, threading
core, niceness, in_thread = map(int, sys.argv[1:])
os.sched_setaffinity(0, {core})
os.nice(niceness)

def work():
    print("at work", flush=True)
    while True:
        pass

if in_thread:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
work()
"""
LONG = {
    "text": "score S(h: entity, r: relation, t: entity):\n    param E[entity, 64]\n    return dot(E[h], E[t])\n",
    "on": "cpu",
    "batch": 60_000,
    "repeat": 10_000_000,
}
"""Repeats without end, on any host."""


@contextmanager
def at_work(core: int, niceness: int, in_thread: bool) -> Iterator[int]:
    """A process that keeps a core busy, as a search does in a thread that the main one waits for; its id."""
    command = [sys.executable, "-c", WORKS, str(core), str(niceness), str(int(in_thread))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system does not say who waits for a core")
@pytest.mark.parametrize("in_thread", [False, True])
def test_time_in_which_others_have_the_core_is_not_counted(in_thread: bool) -> None:
    core = min(os.sched_getaffinity(0))
    with at_work(core, 0, in_thread) as first, at_work(core, 19, in_thread) as last:
        begun = time.monotonic()
        of_first, of_last = Allowed(first, 1000.0), Allowed(last, 1000.0)
        time.sleep(1.0)
        # Where others want the core as well, who is not polite waits too, but has its share of it.
        while of_last.waited < max(0.5, of_first.waited + 0.2):
            assert time.monotonic() < begun + 200, "who is polite waits for who is not"
            time.sleep(0.1)
        waited, left = of_last.waited, of_last.left
        took = time.monotonic() - begun
    assert waited > 0.4
    assert left > 1000 - took + 0.4, "of that time it had a part"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not say who sleeps")
def test_a_process_that_sleeps_has_its_time_by_the_clock() -> None:
    command = [sys.executable, "-c", "print('started', flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.01)  # on the way from its line to the input, for which it may have to wait for a core
        sleeping = Allowed(process.pid, 0.3)
        time.sleep(0.3)
        assert sleeping.left <= 0.05
        process.kill()


def test_however_busy_the_host_is_there_is_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowed, "core_wait", lambda _: 1000 * time.monotonic())
    starved = Allowed(os.getpid(), 0.1)
    time.sleep(0.1 * MOST_TIMES)
    assert starved.left <= 0


def test_a_run_that_shares_its_core_has_its_time_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it had a core half of the time, a run of 3 s is stopped after 6."""
    monkeypatch.setattr(allowed, "core_wait", lambda _: time.monotonic() / 2)

    async def run() -> tuple[dict[str, Any], float]:
        pool = WorkerPool("run", spare=0, quiet=True, niceness=0)  # or it might not come up on a busy machine
        try:
            pool.open()
            while not pool.warm:
                await asyncio.sleep(0.05)
            begun = time.monotonic()
            last = [event async for event in pool.stream(LONG, 3.0)][-1]
            return last, time.monotonic() - begun
        finally:
            await pool.close()

    last, took = asyncio.run(run())
    assert last["kind"] == "timeout"
    told = re.match(r"Stopped after 3 s, the time limit, and (\d+) s in which others had the cores\.", last["message"])
    assert told is not None, last
    assert took > 5.9
    assert 3 <= int(told[1]) <= took / 2 + 0.5, "half of it, in whole seconds"


@pytest.mark.parametrize(("put_off", "runs"), [([0, 0], 1), ([0, 2, 2, 2], 2), ([0, 1, 1, 2, 2, 3], on_cpu.TRIES)])
def test_a_repeat_in_which_others_had_the_core_is_taken_again(
    put_off: list[int], runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock of its own: another's turn between two looks at the real one would count as the run's."""
    said, ran, now = iter(put_off), list[float](), 7.0
    monkeypatch.setattr(on_cpu, "_times_put_off", lambda: next(said))
    monkeypatch.setattr(on_cpu, "perf_counter", lambda: now)

    def run() -> float:
        nonlocal now
        ran.append(10.0 * (3 - len(ran)))
        now += ran[-1] / 1e3
        return ran[-1]

    ms, outcome = on_cpu._alone(run)
    assert len(ran) == runs
    assert outcome == ran[-1]
    assert ms == pytest.approx(ran[-1])
