"""The GPU that CuPy drives: whether there is one, what it is, and what its errors mean."""

from __future__ import annotations

import functools
import importlib.util
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from explorer.compiler.compilation import Compilation
from explorer.compiler.options import ARCHITECTURES
from explorer.runtime.data.triples import InputError

INSTALL = "pip install cupy-cuda13x"
RESERVE = 256 << 20
"""Bytes of the device's memory that a run leaves alone: kernels, printf buffers and the driver's own."""


class NoGpu(InputError):
    """There is no GPU to run on; the message says what is missing."""


class DeviceFault(Exception):
    """A kernel broke, and with it this process's context on the device: nothing more can run in it."""


@dataclass(frozen=True)
class Device:
    """A CUDA device, as its driver describes it."""

    number: int
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    l2_bytes: int
    total_bytes: int

    @property
    def arch(self) -> str:
        """`sm_90`."""
        return "sm_{}{}".format(*self.capability)

    @property
    def described(self) -> str:
        """`NVIDIA H100 80GB HBM3, sm_90, 132 multiprocessors`."""
        return f"{self.name}, {self.arch}, {self.multiprocessors} multiprocessors"

    @property
    def compile_for(self) -> str:
        """The architecture to compile for: its own, or the newest older one, whose PTX its driver translates.

        Raises NoGpu where there is none."""
        fitting = [arch for arch in ARCHITECTURES if self.translates(arch)]
        if not fitting:
            raise NoGpu(f"{self.described}: kernels need {min(ARCHITECTURES, key=_capability)} or newer")
        return max(fitting, key=lambda arch: (_capability(arch), arch))

    def runs(self, arch: str) -> bool:
        """Whether it executes machine code for an architecture: the same generation, and not a newer one of it; of
        those with an a the same."""
        (generation, minor), own = _capability(arch), self.capability
        return own == (generation, minor) if arch.endswith("a") else generation == own[0] and minor <= own[1]

    def translates(self, arch: str) -> bool:
        """Whether its driver makes machine code of PTX for an architecture: its own, or any older one without an a."""
        return self.runs(arch) if arch.endswith("a") else _capability(arch) <= self.capability


def compiled_for_device(compilation: Compilation) -> Compilation:
    """The compilation with kernels for the current device. Raises NoGpu."""
    arch = current_device().compile_for
    return compilation if compilation.options.arch == arch else compilation.with_options(arch=arch)


def _capability(arch: str) -> tuple[int, int]:
    """(9, 0) of `sm_90`, and of `sm_90a`."""
    return divmod(int(arch.removeprefix("sm_").removesuffix("a")), 10)


def cupy_module() -> Any:
    """CuPy. Raises NoGpu where it is not installed or does not load."""
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is None:
        raise NoGpu(f"There is no GPU to run on here: CuPy, which drives it, is not installed ({INSTALL}).")
    try:
        import cupy
    except Exception as error:
        raise NoGpu(f"There is no GPU to run on here: CuPy does not load ({meaning(error)}).") from None
    return cupy


def current_device() -> Device:
    """The device that CuPy uses now. Raises NoGpu where there is none."""
    cupy = cupy_module()
    try:
        number = int(cupy.cuda.runtime.getDevice())
        return _device(number)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise NoGpu(f"There is no GPU to run on here: {meaning(error)}.") from None


@functools.cache
def _device(number: int) -> Device:
    properties = cupy_module().cuda.runtime.getDeviceProperties(number)
    return Device(
        number=number,
        name=properties["name"].decode(),
        capability=(int(properties["major"]), int(properties["minor"])),
        multiprocessors=int(properties["multiProcessorCount"]),
        l2_bytes=int(properties["l2CacheSize"]),
        total_bytes=int(properties["totalGlobalMem"]),
    )


@functools.cache
def missing() -> str:
    """Why kernels cannot run on a GPU here, as a sentence; "" where they can."""
    try:
        _ = current_device().compile_for
    except NoGpu as error:
        return str(error)
    return ""


def available_bytes() -> int:
    """What may still be allocated on the device: what CuPy holds unused, and what is free but for a reserve."""
    cupy = cupy_module()
    free, _ = cupy.cuda.runtime.memGetInfo()
    return max(0, int(free) - RESERVE) + int(cupy.get_default_memory_pool().free_bytes())


class _Faults:
    """What `faults` returns: a generator's context would take longer than a launch."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if not isinstance(error, Exception):
            return
        cuda = cupy_module().cuda
        if isinstance(error, (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)):
            raise DeviceFault(f"The GPU stopped the kernels: {meaning(error)}.") from error


_FAULTS = _Faults()


def faults() -> AbstractContextManager[None]:
    """Errors of CUDA as DeviceFault, with a sentence; those of memory as MemoryError, as CuPy has them."""
    return _FAULTS


def meaning(error: Exception) -> str:
    """What an error says, without the name of its code (`cudaErrorIllegalAddress: `) and the full stop."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line.partition(": ")[2].rstrip(".") or line
