"""From CUDA C++ to PTX with NVRTC, on any machine, and from each PTX line back to the model's operations.

NVRTC is a package from PyPI (`nvidia-cuda-nvrtc`) and needs neither a GPU nor its driver. It is loaded on first use.
`cuda-core`'s Program asks the driver for its version after compiling to PTX, so the bindings are called directly.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from explorer.compiler.codegen.text import Code, Unsupported
from explorer.compiler.ir.node import Line, Origin
from explorer.compiler.options import ARCHITECTURES
from explorer.compiler.passes.report import Report

FILE = "/kernel.cu"  # absolute, or NVRTC would write the working folder into the PTX

LOCATION = re.compile(r"\s*\.loc\s+1\s+(\d+)\s+\d+(?:.*inlined_at\s+1\s+(\d+)\s)?")
INSTRUCTION = re.compile(r"\s+(@!?%p\d+\s+)?[a-z][a-z0-9_]*[.\s;{].*|\s+(@!?%p\d+\s+)?(ret|exit);")


def generate_ptx(code: Code, report: Report) -> Code:
    """The PTX of a translation unit, each instruction with its CUDA line's origin.

    Raises Unsupported where NVRTC is not installed or refuses the text.
    """
    text = "".join(f"{line.text}\n" for line in code.lines)
    arch = report.options.arch
    lines = _with_origins(compile_text(text, arch), [line.origin for line in code.lines])
    report.did(f"compiled for {arch}")
    return Code(lines, code.launches)


@functools.lru_cache(maxsize=64)
def compile_text(text: str, arch: str) -> str:
    """The PTX that NVRTC makes of a translation unit, with line information; raises Unsupported."""
    if arch not in ARCHITECTURES:
        raise Unsupported(f"There is no PTX for {arch}: choose one of {', '.join(ARCHITECTURES)}.")
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        raise Unsupported("PTX needs the packages cuda-bindings and nvidia-cuda-nvrtc; pip installs them.") from None
    try:
        return _compile(nvrtc, text, arch)
    except RuntimeError as error:  # the bindings are there, but not the library that they load
        raise Unsupported(f"NVRTC does not load: {error}. The package nvidia-cuda-nvrtc brings it.") from None


def _compile(nvrtc: Any, text: str, arch: str) -> str:
    status, program = nvrtc.nvrtcCreateProgram(text.encode(), FILE.encode(), 0, [], [])
    _check(nvrtc, status)
    try:
        flags = [f"--gpu-architecture={arch.replace('sm', 'compute')}".encode(), b"-lineinfo", b"--std=c++17"]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = _fetch(nvrtc, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            raise Unsupported(f"NVRTC refuses the kernel: {log.strip()}")
        return _fetch(nvrtc, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _fetch(nvrtc: Any, get_size: Any, get: Any, program: Any) -> str:
    status, size = get_size(program)
    _check(nvrtc, status)
    buffer = bytes(size)
    (status,) = get(program, buffer)  # NVRTC writes into the bytes object
    _check(nvrtc, status)
    return buffer.rstrip(b"\0").decode()


def _check(nvrtc: Any, status: Any) -> None:
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise Unsupported(f"NVRTC fails: {status.name}.")


def _with_origins(text: str, origins: Sequence[Origin]) -> tuple[Line, ...]:
    """Each instruction with the origin of the line that the `.loc` before it names.

    Code inlined from a helper belongs to the line that calls it. Labels and directives have no origin."""
    lines: list[Line] = []
    current: Origin = ()
    for written in text.splitlines():
        shown = written.expandtabs(8).rstrip()
        if location := LOCATION.match(written):
            source = int(location[2] or location[1])
            current = origins[source - 1] if 0 < source <= len(origins) else ()
        elif written.startswith((".visible", ".entry", ".func", "}")):
            current = ()
        is_instruction = INSTRUCTION.match(written) is not None
        lines.append(Line(shown, current if is_instruction else ()))
    return tuple(lines)
