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
ID_BYTES = 4
PER_VECTOR = VECTOR_BYTES // ID_BYTES


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
        # PyTorch's event asks for the current stream's object, which takes longer than a launch.
        self.moment = cupy.cuda.Event(disable_timing=True)


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


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the narrowed ids of several maps lie in one piece of memory of `length` int32: each begins at a vector.
    `maps` has by map its count, how many rows there are for it, whether its ids have 64 bits, and where it begins."""

    shapes: tuple[tuple[int, ...], ...]
    maps: tuple[tuple[int, int, bool, int], ...]
    length: int

    @classmethod
    def of(cls, ids: Sequence[Tensor], rows: Sequence[int]) -> Layout:
        """The layout of ids as the kernel reads them."""
        maps, begin = list[tuple[int, int, bool, int]](), 0
        for each, least in zip(ids, rows, strict=True):
            count = each.numel()
            maps.append((count, least, each.dtype == torch.int64, begin))
            begin += -(-count // PER_VECTOR) * PER_VECTOR
        return cls(tuple(tuple(each.shape) for each in ids), tuple(maps), begin)

    def parts(self, memory: Tensor) -> list[Tensor]:
        """The maps, in their shapes."""
        starts = ((begin, count) for count, _, _, begin in self.maps)
        each = (memory[begin : begin + count] for begin, count in starts)
        return [part.view(shape) for part, shape in zip(each, self.shapes, strict=True)]


class DeviceIds:
    """The kernel on one device."""

    def __init__(self) -> None:
        with faults():
            self._function = cupy_module().RawModule(code=KERNEL).module.get_function("narrow_ids")
        self._free: list[_Slot] = []
        self._unread: list[_Slot] = []  # whose words nobody looks at

    def narrow(self, given: Mapping[str, tuple[Tensor, int]], stream: int) -> tuple[dict[str, Tensor], Checked]:
        """Ids by name as int32, in the shapes that they have, and the check of them; `given` with how many rows there
        are for them, one at least. Launched on the stream of an address, which is PyTorch's current one. Raises
        DeviceFault."""
        ids = [readable(each) for each, _ in given.values()]
        layout = Layout.of(ids, [rows for _, rows in given.values()])
        slot = _taken(self._free)
        memory = self._launched(slot, layout, ids, stream)
        return dict(zip(given, layout.parts(memory), strict=True)), self._checked(slot, stream)

    def narrow_as(
        self, layout: Layout, ids: Sequence[Tensor], stream: int, checks: bool
    ) -> tuple[Tensor, Checked | None]:
        """The memory with the ids, which are `readable`, in the layout that was made of such ones, and their check, or
        none."""
        if checks:
            slot = _taken(self._free)
            return self._launched(slot, layout, ids, stream), self._checked(slot, stream)
        slot = _taken(self._unread)
        memory = self._launched(slot, layout, ids, stream)
        self._unread.append(slot)  # a launch has taken what it is told
        return memory, None

    def _checked(self, slot: _Slot, stream: int) -> Checked:
        cupy_module().cuda.runtime.eventRecord(slot.moment.ptr, stream)
        return Checked(self._free, slot)

    def _launched(self, slot: _Slot, layout: Layout, ids: Sequence[Tensor], stream: int) -> Tensor:
        launch_kernel = cupy_module().cuda.driver.launchKernel
        memory = torch.empty(layout.length, dtype=torch.int32, device=ids[0].device)
        start = memory.data_ptr()
        for first in range(0, len(ids), MOST_MAPS):
            numbers, most = list[int](), 0
            for each, (count, rows, wide, begin) in zip(
                ids[first : first + MOST_MAPS], layout.maps[first:], strict=False
            ):
                along = each.stride(-1) if each.dim() == 1 else 1
                numbers += each.data_ptr(), start + ID_BYTES * begin, count, along, rows, wide
                most = max(most, count)
            slot.maps[: len(numbers)] = numbers
            blocks, maps = min(MOST_BLOCKS, -(-most // THREADS)), len(numbers) // NUMBERS
            if blocks:
                with faults():
                    launch_kernel(self._function.ptr, blocks, maps, 1, THREADS, 1, 1, 0, stream, slot.address, 0)
        return memory


def _taken(slots: list[_Slot]) -> _Slot:
    """One that is free, or another where all are in use, by other threads as well."""
    try:
        return slots.pop()
    except IndexError:
        return _Slot()


def readable(ids: Tensor) -> Tensor:
    """The ids as the kernel can read them: of 32 or 64 bits, one behind another, or along one dimension."""
    if ids.dtype not in (torch.int32, torch.int64):
        ids = ids.to(torch.int64)
    return ids if ids.dim() == 1 or ids.is_contiguous() else ids.contiguous()


@functools.cache
def device_ids(number: int) -> DeviceIds:
    """The kernel on the device of a number, which is the current one."""
    return DeviceIds()
