"""What the runtime uses of CuPy, without a GPU: device memory is NumPy's, and time is what kernels are said to take.

A kernel cannot run here, so the last of a program's launches has the loops' interpreter compute what all of them
would, and writes it where they would. `DEVICE` is what tests look at and change: what broke, how long things take.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field, replace
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any

import numpy as np

from explorer.compiler.codegen.text import Code
from explorer.compiler.interpret import run_program
from explorer.compiler.ir.module import Module as Loops
from explorer.compiler.returned import each_returned
from explorer.runtime.liveness import kept_to_the_end
from explorer.runtime.targets.gpu import program as gpu

__spec__ = ModuleSpec("cupy", None)


class CUDARuntimeError(RuntimeError):
    pass


class CUDADriverError(RuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    pass


@dataclass
class Device:
    """The pretended device: an H100's size, and a log of what was launched in what order."""

    free_bytes: int = 80 << 30
    capability: tuple[int, int] = (9, 0)
    kernel_ms: float = 0.25
    cold_ms: float = 0.5  # what the first kernel after a flush takes besides
    # A part of the symbol of a kernel that reads where it must not; a worker process is told it by its environment.
    breaks: str = field(default_factory=lambda: os.environ.get("FAKE_CUDA_BREAKS", ""))
    spoils: bool = False  # results are wrong
    now_ms: float = 0.0
    flushed: bool = False
    broken: bool = False
    allocated: int = 0
    log: list[str] = field(default_factory=list)
    shared: dict[str, int] = field(default_factory=dict)
    programs: list[tuple[Code, Any]] = field(default_factory=list)
    seen: dict[str, Any] = field(default_factory=dict)
    arrays: dict[int, Any] = field(default_factory=dict, repr=False)  # by address, where only that is told
    known: dict[Any, Any] = field(default_factory=dict, repr=False)
    recording: list[Any] | None = None  # the launches of a graph

    def check(self) -> None:
        if self.broken:
            raise CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")


DEVICE = Device()


class Pointer:
    """A place in the pretended memory."""

    def __init__(self, memory: np.ndarray, offset: int = 0) -> None:
        self.memory, self.offset = memory, offset

    @property
    def ptr(self) -> int:
        return self.memory.ctypes.data + self.offset

    def __add__(self, offset: int) -> Pointer:
        return Pointer(self.memory, self.offset + offset)

    def copy_from_host(self, source: int, size: int) -> None:
        ctypes.memmove(self.ptr, source, size)


class ndarray:
    """An array of the pretended memory."""

    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float32, memptr: Pointer | None = None) -> None:
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if memptr is None:
            if size > DEVICE.free_bytes:
                raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes.")
            DEVICE.allocated += size
            memory = np.full(size + 256, 0xFF, np.uint8)  # floats that are NaN
            memptr = Pointer(memory, -memory.ctypes.data % 256)
        self.data = memptr
        self.numpy = memptr.memory[memptr.offset : memptr.offset + size].view(dtype).reshape(shape)
        self.shape, self.dtype, self.nbytes = self.numpy.shape, self.numpy.dtype, self.numpy.nbytes
        self.flags = SimpleNamespace(c_contiguous=True)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __sub__(self, other: ndarray) -> ndarray:
        return asarray(self.numpy - other.numpy)

    def max(self) -> Any:
        return self.numpy.max()

    def view(self, dtype: Any) -> ndarray:
        return ndarray(self.shape, dtype, self.data)


def empty(shape: Any, dtype: Any = np.float32) -> ndarray:
    return ndarray(shape if isinstance(shape, tuple) else (shape,), dtype)


def full(shape: Any, value: Any, dtype: Any) -> ndarray:
    made = empty(shape, dtype)
    made.numpy[...] = value
    return made


def asarray(array: Any) -> ndarray:
    made = empty(np.shape(array), np.asarray(array).dtype)
    made.numpy[...] = array
    return made


def abs(array: ndarray) -> ndarray:
    return asarray(np.abs(array.numpy))


def asnumpy(array: ndarray) -> np.ndarray:
    DEVICE.check()
    return array.numpy.copy()


def from_dlpack(array: Any) -> ndarray:
    """What shares its memory: that of another library's array, or of a tensor that is said to be on the device."""
    if hasattr(array, "shared"):
        return array.shared
    import torch

    if array.dtype not in (torch.float32, torch.float16, torch.int32, torch.int16, torch.int8):
        raise BufferError(f"{array.dtype} has no type here")
    plain = array.as_subclass(torch.Tensor).numpy()
    return ndarray(plain.shape, plain.dtype, Pointer(plain.reshape(-1).view(np.uint8)))


class Symbol(str):
    """A kernel's name as its handle, which knows its image too: programs have kernels of one name."""

    image: bytes | str = b""


ALL_BUSY = 2**30
"""What a kernel that counts busy blocks has found: more than there are."""


class Function:
    """A kernel by its symbol."""

    def __init__(self, symbol: str, image: bytes | str = b"") -> None:
        self.symbol = self.ptr = Symbol(symbol)
        self.ptr.image = image

    def __call__(self, grid: Any, block: Any, args: Any, shared_mem: int = 0, stream: Any = None) -> None:
        DEVICE.check()
        if DEVICE.recording is not None:
            DEVICE.recording.append(lambda: self(grid, block, args, shared_mem))
            return
        assert all(count > 0 for count in (*grid, *block))
        DEVICE.log.append(self.symbol)
        if self.symbol == "hold":
            return
        DEVICE.now_ms += DEVICE.kernel_ms + (DEVICE.cold_ms if DEVICE.flushed else 0.0)
        DEVICE.flushed = False
        DEVICE.broken = bool(DEVICE.breaks) and DEVICE.breaks.lower() in self.symbol.lower()
        found = _program_of(self.ptr)
        if found:
            _launched(*found, self.symbol, args)


def _program_of(symbol: Symbol) -> tuple[Code, Any] | None:
    """The program that a kernel is of: the last one with that machine code."""
    found = [p for p in DEVICE.programs if symbol in {each.symbol for each in p[0].launches}]
    return next((p for p in reversed(found) if gpu._image(p[0]) == symbol.image), None)


def _launch_kernel(symbol: Symbol, *rest: int) -> None:
    """A launch through the driver: `parameters` are addresses of the arguments."""
    blocks, columns, _, threads, _, _, shared_bytes, _, parameters, _ = rest
    found = _program_of(symbol)
    assert found is not None
    launch = next(launch for launch in found[0].launches if launch.symbol == symbol)
    arrays = {buffer.name for buffer in found[0].buffers}
    slots = (ctypes.c_uint64 * len(launch.arguments)).from_address(parameters)
    values = [ctypes.c_uint64.from_address(slot).value for slot in slots]
    args = [
        DEVICE.arrays.get(value, value) if name in arrays else np.int32(value)
        for name, value in zip(launch.arguments, values, strict=True)
    ]
    Function(symbol, symbol.image)((blocks, columns), (threads,), args, shared_bytes)


def _launched(code: Code, loops: Any, symbol: str, args: Any) -> None:
    """Remembers a kernel's arrays, but for those of which only the address is told; the last kernel of a program does
    the work of all, and the last that writes a result makes all, where the results' gradients are not there yet."""
    launch = next(launch for launch in code.launches if launch.symbol == symbol)
    DEVICE.seen |= {n: v for n, v in zip(launch.arguments, args, strict=True) if not isinstance(v, int)}
    for name in launch.writes & {each.busy for each in code.launches} & DEVICE.seen.keys():
        DEVICE.seen[name].numpy[...] = ALL_BUSY
    results = loops.results if isinstance(loops, Loops) else kept_to_the_end(loops)[:1]
    writers = [step.symbol for step in code.launches if step.writes.intersection(results)]
    absent = {buffer.name for buffer in code.buffers if buffer.kind == "upstream"} - DEVICE.seen.keys()
    if launch != code.launches[-1] and not (absent and symbol in writers[-1:]):
        return
    made = [buffer.name for buffer in code.buffers if buffer.kind == "output"]
    inputs = {name: given.numpy if isinstance(given, ndarray) else given for name, given in DEVICE.seen.items()}
    inputs |= {name: np.zeros_like(inputs[result]) for name, result in zip(sorted(absent), results, strict=False)}
    key = (id(code), *(inputs[name].tobytes() for name in sorted(inputs.keys() - {*made})))
    if key not in DEVICE.known:  # repeats would take the interpreter seconds
        DEVICE.known[key] = run_program(_first_part(loops) if absent else loops, inputs)
    found, gradients = DEVICE.known[key]
    given_back = zip(results, each_returned(found), strict=True)
    wanted = {name: array * (2 if DEVICE.spoils else 1) for name, array in given_back}
    if isinstance(loops, Loops) and not absent:
        wanted |= {name: gradients[tensor] for tensor, name in loops.gradients}
    for name, array in wanted.items():
        DEVICE.seen[name].numpy[...] = array.reshape(DEVICE.seen[name].shape)
    if absent:
        return
    once = {name for each in code.launches if each.once for name in each.arguments}  # they come but with the graph
    DEVICE.seen = {name: given for name, given in DEVICE.seen.items() if name in once}


def _first_part(module: Any) -> Any:
    """The programs of a module as far as the last that writes a result."""
    writers = [
        at
        for at, program in enumerate(module.programs)
        if any(buffer.name in module.results and buffer.kind == "output" for buffer in program.buffers)
    ]
    return replace(module, programs=module.programs[: writers[-1] + 1], gradients=())


class Module:
    """Machine code of any content has every kernel."""

    image: bytes | str = b""

    def load(self, image: bytes) -> None:
        DEVICE.log.append(f"load {len(image)} bytes")
        self.image = image

    def get_function(self, symbol: str) -> Function:
        return Function(symbol, self.image)


class RawModule:
    """CUDA C++ of any content has every kernel."""

    def __init__(self, code: str, options: tuple[str, ...] = ()) -> None:
        DEVICE.log.append(f"compile {len(code)} characters")
        self.module = Module()
        self.module.image = code


class Event:
    """A moment of the pretended time."""

    ptr = 0

    def __init__(self, disable_timing: bool = False) -> None:
        self.at = 0.0

    def record(self, stream: Any = None) -> None:
        DEVICE.check()
        self.at = DEVICE.now_ms

    def synchronize(self) -> None:
        DEVICE.check()


class Graph:
    """Launches that run in the order in which they were recorded."""

    def __init__(self, launches: list[Any]) -> None:
        self.launches = launches

    def launch(self, stream: Any = None) -> None:
        DEVICE.log.append("graph")
        for each in self.launches:
            each()


class Stream:
    """The one stream."""

    ptr = 0

    def __init__(self, non_blocking: bool = False) -> None:
        pass

    def begin_capture(self) -> None:
        DEVICE.recording = []

    def end_capture(self) -> Graph:
        launches, DEVICE.recording = DEVICE.recording, None
        return Graph(launches or [])

    def wait_event(self, event: Event) -> None:
        DEVICE.check()

    def synchronize(self) -> None:
        DEVICE.check()


def _memset(pointer: int, value: int, size: int, stream: int) -> None:
    DEVICE.log.append("flush")
    DEVICE.flushed = True


def _copy(target: int, source: int, size: int, kind: int, stream: int) -> None:
    DEVICE.now_ms += 2 * size / 3e9  # 3 TB/s


def _alloc(size: int) -> Pointer:
    DEVICE.log.append(f"allocate {size} bytes")
    return empty(size, np.uint8).data


class _Pinned(bytearray):
    """Memory of the host that the device reaches."""

    @property
    def ptr(self) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(self))


def _pinned(size: int) -> _Pinned:
    return _Pinned(b"\xff" * size)


def _properties(number: int) -> dict[str, Any]:
    major, minor = DEVICE.capability
    return {
        "name": b"Pretended GPU",
        "major": major,
        "minor": minor,
        "multiProcessorCount": 132,
        "l2CacheSize": 1 << 16,
        "totalGlobalMem": DEVICE.free_bytes,
    }


def get_default_memory_pool() -> Any:
    return SimpleNamespace(free_bytes=lambda: 0, free_all_blocks=lambda: None)


cuda = SimpleNamespace(
    alloc=_alloc,
    alloc_pinned_memory=_pinned,
    set_allocator=lambda allocator: DEVICE.log.append("no pool" if allocator is None else "pool"),
    Event=Event,
    Stream=Stream,
    get_elapsed_time=lambda start, end: end.at - start.at,
    get_current_stream=Stream,
    function=SimpleNamespace(Module=Module),
    driver=SimpleNamespace(
        CUDADriverError=CUDADriverError,
        launchKernel=_launch_kernel,
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
        funcSetAttribute=lambda function, attribute, value: DEVICE.shared.update({function: value}),
    ),
    runtime=SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDevice=lambda: 0,
        setDevice=lambda number: None,
        eventRecord=lambda event, stream: None,
        getDeviceProperties=_properties,
        memGetInfo=lambda: (DEVICE.free_bytes, 80 << 30),
        memsetAsync=_memset,
        memcpyAsync=_copy,
        memcpyDeviceToDevice=3,
    ),
)


def _recording(original: Any) -> Any:
    """`GpuProgram.of`, whose results the device remembers with the loops that they were made of."""

    def of(cls: Any, compilation: Any) -> Any:
        program = original(compilation)
        loops, scheduled = (compilation.stages[name].program for name in ("loops", "kernels"))
        read = {buffer.name for buffer in program.code.buffers}
        needs = {
            buffer.name for nest in getattr(loops, "programs", ()) for buffer in nest.buffers if buffer.kind == "index"
        }
        scatters = isinstance(loops, Loops) and loops.inverses  # and is given no order of the batch, as loops need
        DEVICE.programs.append((program.code, scheduled if scatters or needs - read else loops))
        return program

    return classmethod(of)


gpu.GpuProgram.of = _recording(gpu.GpuProgram.of)  # type: ignore[method-assign]

if os.environ.get("FAKE_CUDA_PEERS"):  # PyTorch beside it, on this processor
    from explorer.runtime import on_gpu
    from explorer.runtime.peers import timed as peers

    def _eager(setup: Any) -> list[peers.Peer]:
        peer = peers.eager(setup, "cpu")
        launch = peer.launch

        def timed() -> None:
            launch()
            DEVICE.now_ms += 3 * DEVICE.kernel_ms

        peer.launch = timed
        return [peer]

    on_gpu.peers_of = _eager
