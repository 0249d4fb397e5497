"""Times on a GPU: CUDA events around launches, with the L2 cache flushed before them or warm from the last ones.

Before the first event, a kernel that only waits keeps the device busy while launches are queued. So what is measured
is the device's time and not Python's, of ours and of its peers alike; only a program of very many launches still shows
those that the device has to wait for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from explorer.runtime.targets.gpu.device import Device, cupy_module, faults
from explorer.runtime.times import statistics

FLUSHED = 2
"""Times the L2 cache's size that is written to flush it."""
HELD_CYCLES = 400_000
"""How long the device is held up before a measurement: 200 us at 2 GHz, some forty launches."""
WARM_UPS = 5
LAUNCH_SAMPLES = 20
SHORT_MS = 0.010
"""A shorter time is told with what launching alone takes."""

KERNELS = """\
extern "C" __global__ void nothing() {}

extern "C" __global__ void hold(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {}
}

// Eight chains of multiply-adds a thread: as many as keep an SM's units busy.
extern "C" __global__ void multiply_add(float* out, int rounds) {
  float sum[8];
  for (int chain = 0; chain < 8; chain++) sum[chain] = threadIdx.x + chain;
  for (int round = 0; round < rounds; round++) {
#pragma unroll
    for (int chain = 0; chain < 8; chain++) sum[chain] = sum[chain] * 0.999f + 0.5f;
  }
  float total = 0.0f;
  for (int chain = 0; chain < 8; chain++) total += sum[chain];
  out[blockIdx.x * (long long)blockDim.x + threadIdx.x] = total;
}
"""

COPIED_BYTES = 256 << 20
ROUNDS, CHAINS = 4_096, 8
BLOCKS_PER_SM, BLOCK = 8, 256
CEILING_SAMPLES = 5


@dataclass
class Times:
    """The times of one program, in milliseconds."""

    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Of the cold ones."""
        return float(np.median(self.cold))

    def to_json(self) -> dict[str, Any]:
        """All cold samples with their statistics, and the median of the warm ones."""
        if not self.cold:
            return dict.fromkeys(("samples_ms", *statistics([0.0]), "warm_ms", "warm_samples_ms"))
        warm = float(np.median(self.warm)) if self.warm else None
        return {"samples_ms": self.cold, **statistics(self.cold), "warm_ms": warm, "warm_samples_ms": self.warm}


class Stopwatch:
    """Measures launches on the current stream, in milliseconds. Its methods raise DeviceFault."""

    def __init__(self, device: Device) -> None:
        cupy = cupy_module()
        with faults():
            self._flush = cupy.empty(FLUSHED * device.l2_bytes, np.uint8)
            self._start, self._end = cupy.cuda.Event(), cupy.cuda.Event()
            self._hold = _kernel("hold")

    def cold(self, launch: Callable[[], None]) -> float:
        """With nothing of what it reads in the L2 cache."""
        cupy = cupy_module()
        with faults():
            stream = cupy.cuda.get_current_stream().ptr
            cupy.cuda.runtime.memsetAsync(self._flush.data.ptr, 0, self._flush.nbytes, stream)
            return self._measure(launch)

    def warm(self, launch: Callable[[], None]) -> float:
        """With whatever the launches before have left in the caches."""
        with faults():
            return self._measure(launch)

    def launch_ms(self) -> float:
        """What the same measurement says of a kernel that does nothing."""
        empty = _kernel("nothing")
        return float(np.median([self.cold(lambda: empty((1,), (32,), ())) for _ in range(LAUNCH_SAMPLES)]))

    def _measure(self, launch: Callable[[], None]) -> float:
        self._hold((1,), (1,), (np.int64(HELD_CYCLES),))
        self._start.record()
        launch()
        self._end.record()
        self._end.synchronize()
        return float(cupy_module().cuda.get_elapsed_time(self._start, self._end))


@functools.lru_cache(maxsize=8)
def ceilings(device: Device) -> dict[str, float]:
    """What the device reaches at most, measured: bytes a second that a copy moves, both ways together, and float32
    operations a second, a multiply-add as two. Raises DeviceFault and MemoryError."""
    cupy = cupy_module()
    watch = Stopwatch(device)
    with faults():
        source, target = cupy.empty(COPIED_BYTES, np.uint8), cupy.empty(COPIED_BYTES, np.uint8)
        blocks = BLOCKS_PER_SM * device.multiprocessors
        out, fused = cupy.empty(blocks * BLOCK, np.float32), _kernel("multiply_add")

    def copy() -> None:
        runtime = cupy.cuda.runtime
        stream = cupy.cuda.get_current_stream().ptr
        runtime.memcpyAsync(target.data.ptr, source.data.ptr, COPIED_BYTES, runtime.memcpyDeviceToDevice, stream)

    def compute() -> None:
        fused((blocks,), (BLOCK,), (out, np.int32(ROUNDS)))

    copied = min(watch.warm(copy) for _ in range(CEILING_SAMPLES))
    computed = min(watch.warm(compute) for _ in range(CEILING_SAMPLES))
    operations = 2 * CHAINS * ROUNDS * blocks * BLOCK
    return {"bytes_per_s": 2e3 * COPIED_BYTES / copied, "flop_per_s": 1e3 * operations / computed}


def _kernel(name: str) -> Any:
    return _module().get_function(name)


@functools.cache
def _module() -> Any:
    return cupy_module().RawModule(code=KERNELS).module
