"""PyTorch's current stream, for kernels that CuPy launches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from explorer.runtime.targets.gpu.device import cupy_module


@contextmanager
def current(device: Any) -> Iterator[int]:
    """The address of PyTorch's current stream of a device, which both libraries use inside."""
    stream = torch.cuda.current_stream(device).cuda_stream
    if is_current(device):
        yield stream
        return
    with torch.cuda.device(device), cupy_module().cuda.Device(device.index):
        yield stream


def is_current(device: Any) -> bool:
    """Whether both libraries use it now: to change it and back takes as long as a launch."""
    return bool(device.index == torch.cuda.current_device() == cupy_module().cuda.runtime.getDevice())
