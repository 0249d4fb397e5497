"""NVRTC: from CUDA C++ to PTX and a cubin in one call, on any machine.

NVRTC is a package from PyPI (`nvidia-cuda-nvrtc`) and needs neither a GPU nor its driver. It is loaded on first use.
`cuda-core`'s Program asks the driver for its version after compiling to PTX, so the bindings are called directly.

A text has two forms: the best one, which is what runs and is timed, and a first one of the same kernels, in a third of
the time, to look at until then. Both are kept on disk.
"""

from __future__ import annotations

import functools
from concurrent.futures import Future
from dataclasses import field
from threading import Thread
from typing import Any

from explorer.compiler.codegen.binary.kept import is_kept, kept
from explorer.compiler.frozen import dataclass
from explorer.compiler.options import ARCHITECTURES
from explorer.compiler.unsupported import Unsupported

PACKAGE = "nvidia-cuda-nvrtc"
FILE = "/kernel.cu"  # absolute, or NVRTC would write the working folder into the PTX
# Minimal: without declarations of textures and the runtime, which a kernel has no use for; 40 ms less a text.
# Without NVRTC's own cache, which is there where a driver is, and leaves out what ptxas says of a kernel that it finds.
FLAGS = ("-lineinfo", "--std=c++17", "--ptxas-options=-v", "-minimal", "--no-cache")
FAST = ("--Ofast-compile=mid",)
"""What makes the first form: loops are not unrolled. `min` saves nothing to two fifths; `max` spills, and calls its
functions."""


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
def compile_text(text: str, arch: str, first: bool = False) -> Compiled:
    """The PTX and the cubin of a translation unit, with line information, in its `first` form or the best; raises
    Unsupported.

    Compiling for a real architecture gives the same PTX as for the virtual one, and the front end is what takes time.
    """
    if arch not in ARCHITECTURES:
        raise Unsupported(f"There is no PTX for {arch}: choose one of {', '.join(ARCHITECTURES)}.")
    try:
        flags = _flags(arch, first)
        ptx, cubin, log = kept(_key(text, flags), lambda: _compile_aside(_bindings(), text, flags))
    except RuntimeError as error:  # the bindings are there, but not the library that they load
        raise Unsupported(f"NVRTC does not load: {error}. The package {PACKAGE} brings it.") from None
    return Compiled(_text(ptx), cubin, _text(log))


def is_compiled(text: str, arch: str) -> bool:
    """Whether the best form is kept, so that nobody waits for it."""
    try:
        return is_kept(_key(text, _flags(arch, first=False)))
    except (Unsupported, RuntimeError):
        return False


def _flags(arch: str, first: bool) -> tuple[str, ...]:
    return (f"--gpu-architecture={arch}", *FLAGS, *(FAST if first else ()))


def _key(text: str, flags: tuple[str, ...]) -> tuple[str, ...]:
    """All that decides what NVRTC makes."""
    return ("nvrtc", _build(), *flags, text)


@functools.cache
def _build() -> str:
    """NVRTC's version, of the package too, whose builds NVRTC itself does not tell apart."""
    from importlib.metadata import PackageNotFoundError  # here, since it takes longer to load than most of the compiler
    from importlib.metadata import version as version_of

    try:
        return f"{version()} {version_of(PACKAGE)}"
    except PackageNotFoundError:
        return version()


def _bindings() -> Any:
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        raise Unsupported("PTX needs the packages cuda-bindings and nvidia-cuda-nvrtc; pip installs them.") from None
    return nvrtc


def _compile_aside(nvrtc: Any, text: str, flags: tuple[str, ...]) -> tuple[bytes, bytes, bytes]:
    """As `_compile`, in a thread that is left behind where the caller is interrupted: NVRTC itself cannot be."""
    made: Future[tuple[bytes, bytes, bytes]] = Future()

    def make() -> None:
        try:
            made.set_result(_compile(nvrtc, text, flags))
        except BaseException as error:
            made.set_exception(error)

    Thread(target=make, name="NVRTC", daemon=True).start()
    return made.result()


def _compile(nvrtc: Any, text: str, flags: tuple[str, ...]) -> tuple[bytes, bytes, bytes]:
    """PTX, cubin and log."""
    status, program = nvrtc.nvrtcCreateProgram(text.encode(), FILE.encode(), 0, [], [])
    _check(nvrtc, status)
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        log = _fetch(nvrtc, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise Unsupported(f"NVRTC refuses the kernel: {_text(log).strip()}")
        ptx = _fetch(nvrtc, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
        # Whole: a cubin ends in zeros that belong to it, and without the last one nvdisasm calls it invalid.
        return ptx, _fetch(nvrtc, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), log
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
