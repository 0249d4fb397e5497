"""A GPU that is none, for the tests of modules of PyTorch."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def pretended_gpu(fake_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tensors of this machine's memory as if it were a GPU's; the streams of all launches."""
    torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")
    import cupy

    from explorer.runtime.torch import cuda as torch_cuda
    from explorer.runtime.torch import programs as torch_programs

    def told(name: str, tensor: Any) -> int:
        memory = cupy.Pointer(tensor.numpy().reshape(-1).view(np.uint8))
        fake_cuda.arrays[tensor.data_ptr()] = cupy.ndarray(tuple(tensor.shape), tensor.numpy().dtype, memory)
        return int(tensor.data_ptr())

    streams: list[int] = []
    launch_kernel = cupy.cuda.driver.launchKernel

    def launched(*arguments: Any) -> None:
        streams.append(arguments[8])
        launch_kernel(*arguments)

    monkeypatch.setattr(torch_cuda, "address_of", told)
    monkeypatch.setattr(cupy.cuda, "Device", lambda number: nullcontext(), raising=False)
    monkeypatch.setattr(cupy.cuda.driver, "launchKernel", launched)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=7))
    monkeypatch.setattr(torch_programs, "EXECUTORS", {"cpu": torch_cuda.OnCuda})
    return streams
