"""What this host reaches at most, measured: bytes a second that a copy moves, and float32 operations a second.

Both by all threads at once, as kernels run: a copy of arrays larger than caches, bytes read and written together, and
chains of multiply-adds on numbers that stay in registers, each as two (Williams, Waterman and Patterson, Roofline, CACM
2009, §3). Once a process, the best of what fits into BUDGET_S.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from explorer.runtime.targets.cpu import FLOAT_RULES, in_parallel, threads

BUDGET_S = 0.12
"""For both measurements together."""
COPIED_BYTES = 64 << 20
CHAINS, ROUNDS = 128, 10_000
"""Multiply-adds of a call: vectors enough of them to hide what one takes."""


@functools.cache
def ceilings() -> dict[str, float]:
    """`bytes_per_s` and `flop_per_s`."""
    source, target = np.ones(COPIED_BYTES // 4, np.float32), np.zeros(COPIED_BYTES // 4, np.float32)
    chains = _multiply_adds()
    sums = np.ones((threads(), CHAINS), np.float32)

    def copy(first: int, last: int) -> None:
        np.copyto(target[first:last], source[first:last])

    def compute(first: int, last: int) -> None:
        for thread in range(first, last):
            chains(sums[thread], ROUNDS)

    copied = _least(lambda: in_parallel(copy, source.size, threads()))
    computed = _least(lambda: in_parallel(compute, threads(), threads()))
    flop = 2.0 * threads() * CHAINS * ROUNDS
    return {"bytes_per_s": 2 * source.nbytes / copied, "flop_per_s": flop / computed}


def _least(work: Callable[[], None]) -> float:
    """The least seconds of several times, of which the first warms up; as many as half of the budget holds."""
    work()
    until, least = perf_counter() + BUDGET_S / 2, float("inf")
    while least == float("inf") or perf_counter() < until:
        begun = perf_counter()
        work()
        least = min(least, perf_counter() - begun)
    return least


def _multiply_adds() -> Callable[[Any, int], None]:
    """`_chains`, compiled as kernels are."""
    import numba

    made: Callable[[Any, int], None] = numba.njit(
        [(numba.types.float32[::1], numba.types.int64)], fastmath=FLOAT_RULES, error_model="numpy", nogil=True
    )(_chains)
    return made


def _chains(sums: Any, rounds: int) -> None:
    """So many multiply-adds of each element of an array, which stays in registers."""
    scale, more = np.float32(0.999), np.float32(0.5)
    for _ in range(rounds):
        for chain in range(CHAINS):
            sums[chain] = sums[chain] * scale + more
