"""The ids of a call on a GPU, narrowed and checked by one kernel, which the host need not wait for before it launches
those that read them.

Ids that have no row become 0, so that kernels behind this one read nothing that is not there, and a word of the host's
memory is set, which is looked at when all else of the call is queued: PyTorch's operators would take four launches and
a wait for each map.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from explorer.runtime.targets.gpu.device import cupy_module, faults
from explorer.runtime.targets.gpu.program import VECTOR_BYTES

Tensor = Any
"""A torch.Tensor."""

MOST_MAPS = 8
"""Maps that a launch takes."""
THREADS, MOST_BLOCKS = 256, 1_024

KERNEL = f"""\
struct Map {{
  const void* given;
  int* narrowed;
  long long count, stride, rows, wide;
}};
struct Maps {{
  Map of[{MOST_MAPS}];
}};

extern "C" __global__ void narrow_ids(const Maps maps, int* without_row) {{
  const Map map = maps.of[blockIdx.y];
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < map.count;
       i += gridDim.x * (long long)blockDim.x) {{
    const long long at = i * map.stride;
    const long long id = map.wide ? ((const long long*)map.given)[at] : ((const int*)map.given)[at];
    const bool has_row = id >= 0 && id < map.rows;
    map.narrowed[i] = has_row ? (int)id : 0;
    if (!has_row) *without_row = 1;
  }}
}}
"""
NUMBERS = 6
"""Of 64 bits, that the kernel is told of a map."""


class _Slot:
    """What a call tells the kernel, and the word that it writes: of one call at a time."""

    def __init__(self) -> None:
        cupy = cupy_module()
        self.maps = np.zeros(NUMBERS * MOST_MAPS, np.int64)
        self.memory = cupy.cuda.alloc_pinned_memory(np.dtype(np.int32).itemsize)  # which the device writes to as well
        self.word = np.frombuffer(self.memory, np.int32, 1)
        self.word[0] = 0
        self.pointer = np.array([self.memory.ptr], np.uint64)
        self.parameters = np.array([self.maps.ctypes.data, self.pointer.ctypes.data], np.uint64)
        self.address = self.parameters.ctypes.data
        self.moment = torch.cuda.Event()


@dataclass(frozen=True, eq=False)
class Checked:
    """A check that a stream will come to; `wait` is to be called once."""

    slots: list[_Slot]
    slot: _Slot

    def wait(self) -> bool:
        """Whether all ids have rows, when the stream has come so far. Raises DeviceFault."""
        with faults():
            self.slot.moment.synchronize()
        fine = not self.slot.word[0]
        self.slot.word[0] = 0
        self.slots.append(self.slot)
        return fine


class DeviceIds:
    """The kernel on one device."""

    def __init__(self) -> None:
        with faults():
            self._function = cupy_module().RawModule(code=KERNEL).module.get_function("narrow_ids")
        self._free: list[_Slot] = []

    def narrow(self, given: Mapping[str, tuple[Tensor, int]], stream: int) -> tuple[dict[str, Tensor], Checked]:
        """Ids by name as int32, in the shapes that they have, and the check of them; `given` with how many rows there
        are for them, one at least. Launched on the device's current stream, which PyTorch has as well. Raises
        DeviceFault."""
        launch_kernel = cupy_module().cuda.driver.launchKernel
        try:
            slot = self._free.pop()
        except IndexError:  # all are in use, by other threads as well
            slot = _Slot()
        each = [(_strided(ids), rows) for ids, rows in given.values()]
        made = _narrowed([ids for ids, _ in each])
        for first in range(0, len(each), MOST_MAPS):
            numbers, most = list[int](), 0
            for (ids, rows), to in zip(each[first : first + MOST_MAPS], made[first:], strict=False):
                count, along = ids.numel(), ids.stride(-1) if ids.dim() == 1 else 1
                numbers += ids.data_ptr(), to.data_ptr(), count, along, rows, ids.dtype == torch.int64
                most = max(most, count)
            slot.maps[: len(numbers)] = numbers
            blocks, maps = min(MOST_BLOCKS, -(-most // THREADS)), len(numbers) // NUMBERS
            if blocks:
                with faults():
                    launch_kernel(self._function.ptr, blocks, maps, 1, THREADS, 1, 1, 0, stream, slot.address, 0)
        slot.moment.record()
        return dict(zip(given, made, strict=True)), Checked(self._free, slot)


def _strided(ids: Tensor) -> Tensor:
    """The ids as the kernel can read them: of 32 or 64 bits, one behind another, or along one dimension."""
    if ids.dtype not in (torch.int32, torch.int64):
        ids = ids.to(torch.int64)
    return ids if ids.dim() == 1 or ids.is_contiguous() else ids.contiguous()


def _narrowed(given: Sequence[Tensor]) -> Sequence[Tensor]:
    """Memory for all ids as int32: one piece of it for those of a batch, where each map's begins at a vector."""
    shape, device = given[0].shape, given[0].device
    if all(ids.shape == shape for ids in given) and given[0].numel() % (VECTOR_BYTES // 4) == 0:
        return torch.empty((len(given), *shape), dtype=torch.int32, device=device).unbind()  # type: ignore[no-any-return]
    return [torch.empty(ids.shape, dtype=torch.int32, device=device) for ids in given]


@functools.cache
def device_ids(number: int) -> DeviceIds:
    """The kernel on the device of a number, which is the current one."""
    return DeviceIds()
