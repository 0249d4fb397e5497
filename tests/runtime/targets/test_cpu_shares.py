"""Iterations shared out among threads: each done once, however long they take, and only as many threads as are worth
waking."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from explorer.compiler.codegen.cpu.program import HostFunction
from explorer.compiler.ir.loops import For, Kernel
from explorer.runtime.targets import cpu


@pytest.fixture(autouse=True)
def _three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "threads", lambda: 3)


def done(count: int, pace: float | None, seconds: Callable[[int], float]) -> list[tuple[int, int]]:
    """The pieces, by their first iterations, where iteration i takes `seconds`(i)."""
    pieces: list[tuple[int, int]] = []

    def work(first: int, last: int) -> None:
        time.sleep(sum(map(seconds, range(first, last))))
        pieces.append((first, last))

    cpu._Shares(work, count, pace).work_off()
    return sorted(pieces)


@pytest.mark.parametrize("count", [0, 1, 2, 191, 192, 193, 1000])
@pytest.mark.parametrize("slow", [frozenset(), frozenset({0}), frozenset({1, 190}), frozenset(range(0, 1000, 50))])
@pytest.mark.parametrize("pace", [None, 1e-7, 1e-3])
def test_each_iteration_is_done_once(count: int, slow: frozenset[int], pace: float | None) -> None:
    pieces = done(count, pace, lambda i: 0.002 if i in slow else 0.0)

    assert [i for first, last in pieces for i in range(first, last)] == list(range(count))


class Meeting:
    """Has the main thread wait in its second piece until another one has come, however late its host lets it begin."""

    def __init__(self) -> None:
        self.others_came, self.pieces_of_main = threading.Event(), 0

    def came(self) -> bool:
        """Whether it is another thread that does this piece."""
        if threading.current_thread() is not threading.main_thread():
            self.others_came.set()
            return True
        self.pieces_of_main += 1
        assert self.pieces_of_main != 2 or self.others_came.wait(60), "no other thread was woken"
        return False


def test_what_takes_long_is_shared_with_other_threads_in_short_pieces() -> None:
    meeting, pieces = Meeting(), list[tuple[int, int]]()

    def work(first: int, last: int) -> None:
        time.sleep(0.001 * (last - first))
        meeting.came()
        pieces.append((first, last))

    cpu._Shares(work, 192).work_off()

    assert [i for first, last in sorted(pieces) for i in range(first, last)] == list(range(192))
    assert max(last - first for first, last in pieces) <= 192 // 6


def test_what_takes_no_time_is_done_in_few_pieces_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "perf_counter", lambda: 0.0)  # a clock on which nothing takes any time

    pieces: list[tuple[int, int]] = []
    cpu._Shares(lambda first, last: pieces.append((first, last)), 100).work_off()

    assert pieces == [(0, 1), (1, 100)]


def test_where_the_pace_is_known_no_piece_is_tried() -> None:
    assert done(192, None, lambda i: 0.0)[0] == (0, 1)
    assert done(192, cpu.WORTH_A_CALL / 13.5, lambda i: 0.0)[0] == (0, 13)


class Calls:
    """A kernel's machine code that notes its pieces, of `seconds` an iteration."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.pieces = seconds, list[tuple[int, int]]()

    def __call__(self, one: int, first: int, last: int) -> None:
        time.sleep(self.seconds * (last - first))
        self.pieces.append((first, last))


def kernel(calls: Calls, sequential: bool = False) -> cpu.CompiledKernel:
    """A kernel of B iterations, without arrays."""
    loop = For(origin=(), variable="b", extent="B", body=(), parallel=True)
    loops = Kernel(origin=(), name="none", template="", sizes=(), buffers=(), body=(loop,))
    return cpu.CompiledKernel(loops, HostFunction("nest", (), (), (), None, sequential), calls)


def test_what_adds_to_rows_of_others_is_one_piece() -> None:
    calls = Calls(0.0)
    kernel(calls, sequential=True).run({}, {"B": 1000}, None)
    assert calls.pieces == [(0, 1000)]


def test_a_kernel_that_was_quick_at_these_sizes_is_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "perf_counter", lambda: 0.0)  # a clock on which nothing takes any time
    calls = Calls(0.0)
    quick = kernel(calls)
    quick.run({}, {"B": 100}, None)
    calls.pieces.clear()
    quick.run({}, {"B": 100}, None)
    assert calls.pieces == [(0, 100)]
    calls.pieces.clear()
    quick.run({}, {"B": 101}, None)  # of other sizes nothing is known
    assert len(calls.pieces) > 1


def test_a_kernel_that_was_slow_is_shared_again() -> None:
    calls = Calls(0.001)
    slow = kernel(calls)
    for _ in range(2):
        calls.pieces.clear()
        slow.run({}, {"B": 50}, None)
        assert len(calls.pieces) > 3
        assert sorted(i for first, last in calls.pieces for i in range(first, last)) == list(range(50))


def test_an_error_of_another_thread_is_raised() -> None:
    meeting = Meeting()

    def work(first: int, last: int) -> None:
        time.sleep(0.002 * (last - first))
        if meeting.came():
            raise IndexError(first)

    with pytest.raises(IndexError):
        cpu._Shares(work, 192).work_off()
