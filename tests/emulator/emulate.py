"""Runs generated CUDA without a GPU: the text is compiled as C++ with g++, and a block's threads are fibers.

Every access to memory is checked (memory.cpp): that it lies in one array, that what it reads has been written, that a
barrier lies between two threads of which one writes. Barriers and exchanges are real (threads.cpp): threads that wait
in vain are reported. So one run on small inputs tells what memcheck, initcheck, racecheck and synccheck tell.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.codegen.binary.kept import kept
from explorer.compiler.codegen.text import Code, Launch
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent
from explorer.compiler.ir.storage import STORAGES

HERE = Path(__file__).parent
COMPILER = "g++"
COMMON = ("-std=c++17", "-fPIC", "-U_FORTIFY_SOURCE")
UNSET = "-ftrivial-auto-var-init=pattern"
"""Arrays in registers start as -1.7e38, and not as zeros. GCC 12 leaves scalars out: `as_cpp` sets those."""
TEXT_FLAGS = ("-O0", "-g1", "-w", "-fno-exceptions", UNSET, "-fsanitize=thread,bounds,alignment")
RUNTIME_FLAGS = ("-O2",)
LINK_FLAGS = ("-shared", "-Wl,-Bsymbolic", "-nodefaultlibs")
"""Reading the standard libraries would take three quarters of the linker's time: they are found where a process has
loaded them already (`_Library`)."""
GUARD = 1 << 20
"""Bytes on both sides of each array that belong to none, so that a wrong index meets no other array."""
ALIGNMENT = 256
"""What the device's allocators give."""
MOST_THREADS, MOST_COLUMNS = 1024, 65_535

DYNAMIC_SHARED = re.compile(r"extern __shared__(?: __align__\(\d+\))? (\w+) (\w+)\[\];")
SCALAR = re.compile(r"\b(float[24]?) (\w+);")
DEVICE_FUNCTION = re.compile(r"^(?:template <[^\n]*>\s)?__device__ (?:[^\n]*[};]\n|.*?^}\n)", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"([^\s(]+)\(")
"""What a device function is called, in its head."""

Arrays = dict[str, npt.NDArray[Any]]


class EmulatorFault(AssertionError):
    """What a kernel did wrong, with the kernel, the thread, and the line of the CUDA text."""


def emulate(
    code: Code,
    arrays: Mapping[str, Any],
    extents: Mapping[Extent, int],
    seed: int = 0,
    results: Collection[str] | None = None,
) -> Arrays:
    """Launches the kernels of a text in order; returns the arrays that they write, by name.

    `arrays` are those that are given: contiguous, int32 or as they are stored. The seed sets the order of blocks and
    of threads. `results` are those that somebody looks at afterwards, whose elements must all be written: if none are
    named, all that no later kernel reads.
    Raises EmulatorFault.
    """
    sizes = {str(name): size for name, size in extents.items()}
    for name, count in code.counts:
        sizes[name] = count.value(sizes)
    return _Library.of(code).run(code, arrays, sizes, seed, results)


class _Library:
    """A text made into a shared library, and the arrays that its kernels see."""

    def __init__(self, path: Path, lines: Sequence[str]) -> None:
        self.path, self.lines = path, lines
        ctypes.CDLL("libstdc++.so.6", mode=ctypes.RTLD_GLOBAL)  # which the runtime calls
        self.functions = ctypes.CDLL(str(path))
        self.functions.emulator_launch.restype = ctypes.c_char_p
        self.functions.emulator_first_unwritten.restype = ctypes.c_long

    @classmethod
    def of(cls, code: Code) -> _Library:
        lines = tuple(line.text for line in code.lines)
        return cls(_compiled(as_cpp(code)), lines)

    def run(
        self,
        code: Code,
        arrays: Mapping[str, Any],
        extents: Mapping[str, int],
        seed: int,
        results: Collection[str] | None,
    ) -> Arrays:
        self.functions.emulator_clear()
        held = {buffer.name: self.place(buffer, arrays, extents) for buffer in code.buffers}
        for launch in code.launches:
            self.launch(launch, held, extents, seed)
        # What a schedule makes for itself need not be full: what a later kernel reads of it is checked there.
        counted = {name for name, _ in code.counts}
        read_on = {name for launch in code.launches for name in {*launch.arguments} - launch.writes}
        for place, buffer in enumerate(code.buffers):
            made = buffer.kind == "output" and counted.isdisjoint(buffer.extents) and buffer.name not in read_on
            whole = made if results is None else buffer.name in results
            unwritten = self.functions.emulator_first_unwritten(place) if whole else -1
            if unwritten >= 0:
                raise EmulatorFault(f"no kernel writes element {unwritten} of {buffer.name}")
        return {buffer.name: held[buffer.name] for buffer in code.buffers if buffer.name not in arrays}

    def place(self, buffer: Buffer, arrays: Mapping[str, Any], extents: Mapping[str, int]) -> npt.NDArray[Any]:
        """A buffer's array between guards: a copy of what is given; what no kernel should use before it is written."""
        given = arrays.get(buffer.name)
        shape = [extents[extent] if isinstance(extent, str) else extent for extent in buffer.extents]
        array = _guarded(shape, np.dtype(np.int32 if buffer.kind == "index" else STORAGES[buffer.storage].bits))
        array[...] = given if given is not None else -1 if buffer.kind == "index" else np.nan
        address = ctypes.c_void_p(array.ctypes.data)
        size = ctypes.c_size_t(array.nbytes)
        self.functions.emulator_add_array(buffer.name.encode(), address, size, given is not None)
        return array

    def launch(self, launch: Launch, held: Arrays, extents: Mapping[str, int], seed: int) -> None:
        """One kernel; raises EmulatorFault."""
        blocks = launch.blocks.value(extents)
        if launch.busy:  # as where an inspector has told it; the interpreter of kernels goes through all
            blocks = min(blocks, int(held[launch.busy][0]))
        if not (0 < launch.threads <= MOST_THREADS and 0 < launch.columns <= MOST_COLUMNS):
            raise EmulatorFault(f"{launch.symbol}: no device has {launch.columns} columns of {launch.threads} threads")
        values = [held[name].ctypes.data if name in held else extents[name] for name in launch.arguments]
        arguments = np.array(values, np.uint64)
        place = ctypes.c_size_t(0)
        message = self.functions.emulator_launch(
            getattr(self.functions, f"run_{launch.symbol}"),
            ctypes.c_void_p(arguments.ctypes.data),
            *(blocks, launch.columns, launch.threads, ctypes.c_size_t(launch.shared_bytes), seed),
            ctypes.byref(place),
        )
        if message is not None:
            raise EmulatorFault(f"{launch.symbol}: {message.decode()}{self.line_at(place.value)}")

    def line_at(self, place: int) -> str:
        """The line of the text that the code before this place in the library belongs to."""
        if not place:
            return ""
        command = ["addr2line", "--inlines", "--exe", str(self.path), hex(place - 1)]
        frames = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        numbers = [int(number) for number in re.findall(r"text\.cpp:(\d+)", frames)]
        shown = [f"\n  line {number}: {self.lines[number - 1].strip()}" for number in numbers]
        return "".join(shown)


def as_cpp(code: Code) -> str:
    """The text as C++: line for line, then a function `run_SYMBOL(arguments)` for each kernel.

    Device functions of inline PTX go, because the headers have them."""
    text = "".join(f"{line.text}\n" for line in code.lines)
    functions = DEVICE_FUNCTION.findall(text)
    named = {NAMED.search(function)[1] for function in functions if "asm" in function}

    def kept(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n") if NAMED.search(match[0])[1] in named else match[0]

    text = DEVICE_FUNCTION.sub(kept, text)
    text = DYNAMIC_SHARED.sub(r"\1* const \2 = static_cast<\1*>(emulator::dynamic_shared_memory());", text)
    text = SCALAR.sub(r"\1 \2 = emulator::Unset();", text)
    for launch in code.launches:
        arguments = ", ".join(f"arguments[{place}]" for place in range(len(launch.arguments)))
        head = f'extern "C" UNSEEN void run_{launch.symbol}(const emulator::Argument* arguments)'
        text += f"{head} {{ emulator::forget_copies(); {launch.symbol}({arguments}); }}\n"
    return text


def _guarded(shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An array with nothing near it, aligned as on the device."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.empty(size + 2 * GUARD + ALIGNMENT, np.uint8)
    first = GUARD + -(memory.ctypes.data + GUARD) % ALIGNMENT
    return memory[first : first + size].view(dtype).reshape(shape)


@cache
def _folder() -> Path:
    """Where this process keeps what it compiled, until it ends."""
    path = tempfile.mkdtemp(prefix="emulator-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)


@cache
def _runtime() -> tuple[Path, ...]:
    """The object files of what the text calls."""
    found = []
    for source in ("memory", "threads"):
        path = _folder() / f"{source}.o"
        _compile(*COMMON, *RUNTIME_FLAGS, "-c", str(HERE / f"{source}.cpp"), "-o", str(path))
        found.append(path)
    return tuple(found)


@cache
def _compiled(text: str) -> Path:
    """The library of a text: compiled once a process, and kept for later ones by all that it is made of."""
    folder = _folder() / hashlib.sha256(text.encode()).hexdigest()[:16]
    folder.mkdir()
    library = folder / "text.so"
    flags = (*COMMON, *TEXT_FLAGS, "--", *RUNTIME_FLAGS, "--", *LINK_FLAGS)
    (packed,) = kept((*_compiler(), *flags, text), lambda: (zlib.compress(_linked(text, folder).read_bytes(), 1),))
    library.write_bytes(zlib.decompress(packed))
    return library


def _linked(text: str, folder: Path) -> Path:
    source, compiled, linked = folder / "text.cpp", folder / "text.o", folder / "linked.so"
    source.write_text(text)
    headers = [f"--include={HERE / name}.hpp" for name in ("cuda", "ptx")]
    _compile(*COMMON, *TEXT_FLAGS, *headers, "-c", str(source), "-o", str(compiled))
    _compile(*LINK_FLAGS, *map(str, _runtime()), str(compiled), "-o", str(linked))
    return linked


@cache
def _compiler() -> tuple[str, ...]:
    """Which compiler it is, and the emulator's own sources."""
    version = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout
    return version, *(path.read_text() for path in sorted(HERE.glob("*.[ch]pp")))


def _compile(*arguments: str) -> None:
    done = subprocess.run([COMPILER, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise EmulatorFault(f"{COMPILER} does not take the text:\n{done.stderr}")
