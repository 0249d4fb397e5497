"""PyTorch's current stream, for kernels that CuPy launches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch

from explorer.runtime.targets.gpu.device import cupy_module


def _address_of_stream(index: int) -> int:
    return int(torch.cuda.current_stream(index).cuda_stream)


# What Inductor's code asks for as well, of a PyTorch with CUDA: the object around it takes longer than a launch.
address_of_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", _address_of_stream)
"""The address of PyTorch's current stream of the device of a number."""


class _Bound(threading.local):
    """The devices whose context this thread was given: CUDA's driver, which launches, takes what the thread has, and a
    thread of PyTorch's backward passes may have none before it has launched something of PyTorch's."""

    def __init__(self) -> None:
        self.devices: set[int] = set()


_bound = _Bound()


def current(device: Any) -> AbstractContextManager[int]:
    """The address of PyTorch's current stream of a device, which both libraries use inside."""
    return _Current(device)


class _Current:
    __slots__ = "_device", "_entered"

    def __init__(self, device: Any) -> None:
        self._device = device
        self._entered: ExitStack | None = None

    def __enter__(self) -> int:
        if not is_current(self._device):
            with ExitStack() as entered:
                entered.enter_context(torch.cuda.device(self._device))
                entered.enter_context(cupy_module().cuda.Device(self._device.index))
                self._entered = entered.pop_all()
        if self._device.index not in _bound.devices:
            cupy_module().cuda.runtime.setDevice(self._device.index)  # which makes the device's context the thread's
            _bound.devices.add(self._device.index)
        return address_of_stream(self._device.index)

    def __exit__(self, *error: Any) -> None:
        if self._entered is not None:
            self._entered.__exit__(*error)


def is_capturing() -> bool:
    """Whether what is launched now is recorded into a CUDA graph, and runs later."""
    # Before anybody has used a GPU nothing is, and where there is none PyTorch's CUDA raises an error when it is asked.
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def is_current(device: Any) -> bool:
    """Whether it is this thread's: to change it and back takes as long as a launch."""
    return bool(device.index == cupy_module().cuda.runtime.getDevice())
