"""Contenders on a GPU take turns: their times cold and warm, the memory that they take, and what went wrong."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

FEWEST_SAMPLES = 3
MOST_MS = 2e3
"""A contender whose samples come to more has only the fewest."""
LONG_MS = 100.0
"""Caches make no difference to a call that takes longer."""


@dataclass
class Samples:
    """A contender's times in milliseconds, what it allocates besides its inputs, and what went wrong with it."""

    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    peak_bytes: int | None = None
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """The medians and the spread of the cold times, or the error."""
        if self.error or not self.cold:
            return {"error": self.error or "no samples"}
        low, median, high = np.percentile(self.cold, [5, 50, 95])
        return {
            "ms": round(float(median), 5),
            "p5": round(float(low), 5),
            "p95": round(float(high), 5),
            "warm_ms": round(float(np.median(self.warm)), 5) if self.warm else None,
            "samples": len(self.cold),
            "peak_bytes": self.peak_bytes,
        }


class Clock:
    """Measures contenders, a call at a time."""

    def __init__(self) -> None:
        import torch

        from explorer.runtime.targets.gpu.device import current_device
        from explorer.runtime.targets.gpu.timing import Stopwatch

        torch.cuda.init()
        self._torch = torch
        self._watch = Stopwatch(current_device())
        self._driver = ctypes.CDLL("libcuda.so.1")

    def sample(self, run: Callable[[], Any], cold: bool) -> float:
        """Milliseconds of a call on the device, with an L2 cache that holds none of its inputs or all it can.

        CuPy's stream and PyTorch's are the same one here, the default. What a kernel asked the cache to keep longest
        outlives plain stores, so that the flush would leave it there."""
        if cold and self._driver.cuCtxResetPersistingL2Cache():
            raise RuntimeError("the L2 cache's lines cannot be made ordinary ones")
        return self._watch.cold(run) if cold else self._watch.warm(run)

    def interleave(self, contenders: dict[str, Callable[[], Any]], repeat: int) -> dict[str, Samples]:
        """Every contender's times, taken in turns so that what slows the device slows all; one that fails is left out
        from then on, and says why."""
        found = {name: Samples() for name in contenders}
        for name, run in contenders.items():
            self._try(found[name], partial(self._first, run, found[name]))
        for number in range(repeat):
            for name, run in contenders.items():
                if number < FEWEST_SAMPLES or sum(found[name].cold) < MOST_MS:
                    self._try(found[name], partial(self._both, run, found[name]))
        return found

    def _both(self, run: Callable[[], Any], samples: Samples) -> None:
        """A cold sample, and a warm one where that makes a difference."""
        samples.cold.append(self.sample(run, cold=True))
        if samples.cold[-1] < LONG_MS:
            samples.warm.append(self.sample(run, cold=False))

    def _first(self, run: Callable[[], Any], samples: Samples) -> None:
        """Calls once unmeasured, for what is compiled or cached, and once for the memory that it allocates."""
        run()
        samples.peak_bytes, _ = peak_of(run)

    def _try(self, samples: Samples, step: Callable[[], Any]) -> None:
        if samples.error:
            return
        try:
            step()
        except Exception as error:
            samples.error = first_line(error)
            self._torch.cuda.empty_cache()


def peak_of(run: Callable[[], Any]) -> tuple[int, Any]:
    """The most bytes that PyTorch's allocator holds during a call, beyond those before it, and the call's result."""
    import torch

    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before, result


def give_back() -> None:
    """Frees what nothing holds any more on the device."""
    import cupy
    import torch

    torch.cuda.empty_cache()
    cupy.get_default_memory_pool().free_all_blocks()


def first_line(error: BaseException) -> str:
    """What went wrong, in a line."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"{type(error).__name__}: {text[:200]}"


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raises TimeoutError in a block that takes longer, as soon as Python gets to it."""

    def expire(number: int, frame: Any) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def called_within(seconds: int, run: Callable[[], Any]) -> str:
    """Calls a contender that its first call compiles: what went wrong, also that it took longer, or ""."""
    import torch

    try:
        with limited(seconds):
            run()
            torch.cuda.synchronize()
    except Exception as error:
        return first_line(error)
    return ""


@dataclass(frozen=True)
class Ceilings:
    """What the device reaches at most: bytes a second of a copy, both ways counted, and operations a second of square
    matrix products in float32 and in TF32."""

    bytes_per_second: float
    fp32_per_second: float
    tf32_per_second: float


def measure_ceilings(clock: Clock, size: int = 8192, copied: int = 1 << 30) -> Ceilings:
    """The ceilings, measured warm; the fastest of a few calls."""
    import torch

    source = torch.empty(copied, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    a = torch.randn(size, size, device="cuda")
    b = torch.empty_like(a)

    def best(run: Callable[[], Any]) -> float:
        return min(clock.sample(run, cold=False) for _ in range(5)) / 1e3

    copy = best(lambda: target.copy_(source))
    seconds = []
    allowed = torch.backends.cuda.matmul.allow_tf32
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        seconds.append(best(lambda: torch.matmul(a, a, out=b)))
    torch.backends.cuda.matmul.allow_tf32 = allowed
    return Ceilings(2 * copied / copy, *(2 * size**3 / each for each in seconds))
