"""A GPU that is none, for the tests of modules of PyTorch."""

from __future__ import annotations

import ctypes
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

AS_CPP = """
struct Place {{ unsigned x, y; }};
static Place blockIdx, threadIdx, blockDim, gridDim;
#define __global__
{kernel}
extern "C" void launch(unsigned blocks, unsigned maps, unsigned threads, void** parameters) {{
  blockDim.x = threads, gridDim.x = blocks;
  for (blockIdx.y = 0; blockIdx.y < maps; blockIdx.y++)
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
      for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
        narrow_ids(*(Maps*)parameters[0], *(int**)parameters[1]);
}}
"""


@pytest.fixture(scope="session")
def ids_library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The kernel that narrows ids, for this processor."""
    from explorer.runtime.torch import device_ids

    folder: Path = tmp_path_factory.mktemp("ids")
    (folder / "ids.cpp").write_text(AS_CPP.format(kernel=device_ids.KERNEL))
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", "-o", folder / "ids.so", folder / "ids.cpp"], check=True)
    return ctypes.CDLL(str(folder / "ids.so"))


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
