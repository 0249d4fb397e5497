"""NVRTC: from CUDA C++ to PTX and a cubin in one call, on any machine.

NVRTC is a package from PyPI (`nvidia-cuda-nvrtc`) and needs neither a GPU nor its driver. It is loaded on first use.
`cuda-core`'s Program asks the driver for its version after compiling to PTX, so the bindings are called directly.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

from explorer.compiler.options import ARCHITECTURES
from explorer.compiler.unsupported import Unsupported

FILE = "/kernel.cu"  # absolute, or NVRTC would write the working folder into the PTX


@dataclass(frozen=True)
class Compiled:
    """What NVRTC makes of a translation unit. `log` has what ptxas used of the machine for each kernel."""

    ptx: str
    cubin: bytes = field(repr=False)
    log: str


def version() -> str:
    """NVRTC's version, "13.5"; which one it is changes what kernels take by some percent. Raises Unsupported."""
    nvrtc = _bindings()
    status, major, minor = nvrtc.nvrtcVersion()
    _check(nvrtc, status)
    return f"{major}.{minor}"


@functools.lru_cache(maxsize=64)
def compile_text(text: str, arch: str) -> Compiled:
    """The PTX and the cubin of a translation unit, with line information; raises Unsupported.

    Compiling for a real architecture gives the same PTX as for the virtual one, and the front end is what takes time.
    """
    if arch not in ARCHITECTURES:
        raise Unsupported(f"There is no PTX for {arch}: choose one of {', '.join(ARCHITECTURES)}.")
    try:
        return _compile(_bindings(), text, arch)
    except RuntimeError as error:  # the bindings are there, but not the library that they load
        raise Unsupported(f"NVRTC does not load: {error}. The package nvidia-cuda-nvrtc brings it.") from None


def _bindings() -> Any:
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        raise Unsupported("PTX needs the packages cuda-bindings and nvidia-cuda-nvrtc; pip installs them.") from None
    return nvrtc


def _compile(nvrtc: Any, text: str, arch: str) -> Compiled:
    status, program = nvrtc.nvrtcCreateProgram(text.encode(), FILE.encode(), 0, [], [])
    _check(nvrtc, status)
    try:
        # Minimal: without declarations of textures and the runtime, which a kernel has no use for; 40 ms less a text.
        flags = [f"--gpu-architecture={arch}", "-lineinfo", "--std=c++17", "--ptxas-options=-v", "-minimal"]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        log = _fetch(nvrtc, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise Unsupported(f"NVRTC refuses the kernel: {_text(log).strip()}")
        ptx = _fetch(nvrtc, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
        # Whole: a cubin ends in zeros that belong to it, and without the last one nvdisasm calls it invalid.
        cubin = _fetch(nvrtc, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        return Compiled(_text(ptx), cubin, _text(log))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _fetch(nvrtc: Any, get_size: Any, get: Any, program: Any) -> bytes:
    status, size = get_size(program)
    _check(nvrtc, status)
    buffer = bytes(size)
    (status,) = get(program, buffer)  # NVRTC writes into the bytes object
    _check(nvrtc, status)
    return buffer


def _text(buffer: bytes) -> str:
    return buffer.rstrip(b"\0").decode()


def _check(nvrtc: Any, status: Any) -> None:
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise Unsupported(f"NVRTC fails: {status.name}.")
