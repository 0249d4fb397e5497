"""Runs generated kernels on a GPU: machine code loaded through CuPy, on arrays of NumPy, CuPy, PyTorch or any library
that shares the device's memory by DLPack or `__cuda_array_interface__`.

A `GpuProgram` is a code's kernels; `bind` gives them arrays, once; what it returns launches them any number of times
without allocating, copying or waiting, on any stream.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.compiler.codegen.text import Code, Launch, text_of
from explorer.compiler.ir.loops import Buffer, Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.storage import STORAGES
from explorer.compiler.returned import as_returned, for_each_returned
from explorer.compiler.stored import packed
from explorer.compiler.target import EXTENT_LIMIT
from explorer.runtime.arrays import as_declared
from explorer.runtime.data.triples import InputError
from explorer.runtime.liveness import kept_to_the_end
from explorer.runtime.targets.gpu.cuda_graph import Replayed, Span
from explorer.runtime.targets.gpu.device import available_bytes, cupy_module, current_device, faults
from explorer.runtime.targets.gpu.memory import (
    Placement,
    apart,
    buffer_bytes,
    check_fits,
    lifetimes,
    place,
    shape_of,
    sizes_of,
)

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation

VECTOR_BYTES = 16
"""What the widest access of a kernel takes, from an address that is a multiple of it."""
CUDA_MEMORY = (2, 13)
"""DLPack's kinds of devices whose arrays kernels read as they are: CUDA and CUDA managed."""
BITS_OF = {"f16": ("float16", "int16"), "bf16": ("bfloat16", "int16")}
"""Types by NumPy's names whose elements lie in memory as a storage's: 16-bit floats, and what PyTorch views them as."""
CUDA_FLAGS = ("--std=c++17",)

DeviceArray = Any
"""A cupy.ndarray: CuPy has no types of its own."""


@dataclass(frozen=True, eq=False)
class GpuProgram:
    """Kernels that run one after another.

    `code` is the program of the stage `ptx`, whose machine code is loaded as it is where the device executes it, and
    made of the PTX by the driver where the device is newer; or that of the stage `cuda`, which CuPy compiles. `result`
    names the buffer that is the definition's (by default the first output), `further` those behind it where it returns
    several, `gradients` by tensor those that are its gradients. All other outputs are for later kernels alone and share
    memory where they can.
    """

    code: Code
    result: str = ""
    gradients: tuple[tuple[str, str], ...] = ()
    further: tuple[str, ...] = ()

    @classmethod
    def of(cls, compilation: Compilation) -> GpuProgram:
        """A compilation's kernels. Raises InputError where it has none."""
        return cls.of_stage(compilation, "ptx" if compilation.stages["ptx"].available else "cuda")

    @classmethod
    def of_stage(cls, compilation: Compilation, name: str) -> GpuProgram:
        """Those of one stage: of `cuda`, nothing is compiled to machine code. Raises InputError where it has none."""
        stage, program = compilation.stages[name], compilation.stages["loops"].program
        if not isinstance(stage.program, Code):
            raise InputError(f"there is no program for a GPU: {stage.reason}")
        if not isinstance(program, Kernel | Module):
            raise InputError(f"there are no loops to run: {compilation.stages['loops'].reason}")
        result, *_ = kept_to_the_end(program)
        gradients, further = (program.gradients, program.further) if isinstance(program, Module) else ((), ())
        return cls(as_declared(stage.program, program), result, gradients, further)

    @property
    def results(self) -> tuple[str, ...]:
        """The buffers that the definition returns, in order."""
        first = self.result or next(buffer.name for buffer in self.code.buffers if buffer.kind == "output")
        return (first, *self.further)

    @property
    def kept(self) -> tuple[str, ...]:
        """The buffers that a caller gets: the results first."""
        return (*self.results, *(name for _, name in self.gradients))

    def bind(self, arrays: Mapping[str, Any], extents: Mapping[Any, int], limit: int | None = None) -> BoundProgram:
        """The kernels with arrays by the buffers' names, and the sizes of extents that only a run knows.

        Arrays of the device are used as they are, so they must be contiguous float32, int32 for indices, or of the type
        that a tensor is stored in (of 16-bit floats also their bits, uint16 or int16); others are copied to it. What
        kernels make and nobody gives is allocated in one piece. Nothing is checked of indices: see
        `explorer.runtime.arrays.check_inputs`. Raises NoGpu; InputError for arrays that are missing or do not
        fit, and where more than `limit` bytes, or than are free, would be needed; MemoryError; DeviceFault.

        Kernels that need run but once run here, so the arrays of indices that they read must stay as they are.
        """
        sizes = sizes_of(self.code, {name: size for name, size in extents.items() if isinstance(name, str)})
        check_extents(sizes)
        given = [buffer for buffer in self.code.buffers if buffer.name in arrays]
        made = [buffer for buffer in self.code.buffers if buffer.name not in arrays]
        for buffer in made:
            if buffer.name not in self.code.made:
                raise InputError(f"There is no array for {buffer.name}.")
        current_device()
        with faults():
            placed = self._placed(made, sizes)
            copied = [buffer for buffer in given if not _is_on_device(arrays[buffer.name])]
            total = placed.total + sum(buffer_bytes(buffer, sizes) for buffer in copied)
            _check_memory(total, limit, [*made, *copied], sizes)
            on_device = {buffer.name: _on_device(buffer, arrays[buffer.name], sizes) for buffer in given}
            arena = cupy_module().empty(placed.total, np.uint8)
            for buffer in made:
                if buffer.name in placed.offsets:
                    place_of = arena.data + placed.offsets[buffer.name]
                    shape = shape_of(buffer, sizes)
                    on_device[buffer.name] = cupy_module().ndarray(shape, _element_type(buffer), memptr=place_of)
            bound = tuple(self._launches(on_device, sizes))
            inspectors, launches = _run_once(bound)
        given_bytes = sum(on_device[buffer.name].nbytes for buffer in given)
        return BoundProgram(self, on_device, launches, placed.total, given_bytes, inspectors)

    def made_bytes(self, extents: Mapping[Any, int]) -> int:
        """What the kernels make takes in one piece, where extents have these sizes."""
        made = [buffer for buffer in self.code.buffers if buffer.name in self.code.made]
        return self._placed(made, sizes_of(self.code, extents)).total

    def _placed(self, made: Sequence[Buffer], sizes: Mapping[str, int]) -> Placement:
        """Where arrays that the kernels make lie in one piece."""
        needed = lifetimes((buffer.name for buffer in made), self.code.launches, self.kept)
        taken = {buffer.name: buffer_bytes(buffer, sizes) for buffer in made}
        return place(apart(needed, taken), taken)

    def _launches(self, arrays: Mapping[str, DeviceArray], sizes: Mapping[str, int]) -> list[BoundLaunch]:
        """The launches of a run, those of no blocks left out: CUDA refuses a grid of none."""
        found = []
        for launch in self.code.launches:
            grid = (launch.blocks.value(sizes), launch.columns)
            if grid[0]:
                values = [arrays[name] if name in arrays else np.int32(sizes[name]) for name in launch.arguments]
                found.append(BoundLaunch(launch, self.function_of(launch), grid, (launch.threads,), tuple(values)))
        return found

    def function_of(self, launch: Launch) -> Any:
        """A launch's kernel on the current device, allowed the shared memory that it needs."""
        function = _loaded(_image(self.code), current_device().number).get_function(launch.symbol)
        if launch.shared_bytes:
            driver = cupy_module().cuda.driver
            attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(function.ptr, attribute, launch.shared_bytes)
        return function


def _run_once(bound: tuple[BoundLaunch, ...]) -> tuple[tuple[BoundLaunch, ...], tuple[BoundLaunch, ...]]:
    """Runs the launches that are to run once, and gives them and the others, with the blocks that have something to do
    where that has been counted."""
    once = tuple(each for each in bound if each.launch.once)
    for each in once:
        each.run(None)
    if once:  # later launches may be on another stream
        cupy_module().cuda.get_current_stream().synchronize()
    counted = {name: array for each in once for name, array in each.arrays.items() if name in each.launch.writes}
    others = [_busy(each, counted) for each in bound if not each.launch.once]
    return once, tuple(each for each in others if each.grid[0])


def _busy(bound: BoundLaunch, counted: Mapping[str, DeviceArray]) -> BoundLaunch:
    """The launch, of no more blocks than are known to have something to do."""
    if bound.launch.busy not in counted:
        return bound
    blocks, columns = bound.grid
    busy = cupy_module().asnumpy(counted[bound.launch.busy])
    return replace(bound, grid=(min(blocks, int(busy[0])), columns))


@dataclass(frozen=True)
class BoundLaunch:
    """One launch of a run: the kernel's function, its grid of blocks, a block's threads, and the arguments."""

    launch: Launch
    function: Any
    grid: tuple[int, int]
    block: tuple[int]
    arguments: tuple[Any, ...]

    def run(self, stream: Any) -> None:
        """Queues the kernel on a CuPy stream, None for the current one."""
        self.function(self.grid, self.block, self.arguments, shared_mem=self.launch.shared_bytes, stream=stream)

    @property
    def arrays(self) -> dict[str, DeviceArray]:
        """Its arguments that are arrays, by name."""
        named = zip(self.launch.arguments, self.arguments, strict=True)
        return {name: value for name, value in named if not isinstance(value, np.int32)}

    @property
    def spans(self) -> tuple[list[Span], list[Span]]:
        """Where the arrays lie that the kernel touches, and those of them that it writes."""
        spans = {name: (array.data.ptr, array.data.ptr + array.nbytes) for name, array in self.arrays.items()}
        return [*spans.values()], [span for name, span in spans.items() if name in self.launch.writes]


@dataclass(frozen=True, eq=False)
class BoundProgram:
    """Kernels with their arrays on the device. `made_bytes` is what was allocated for what they make, `given_bytes`
    what the arrays of the caller take, `inspectors` the kernels that needed to run but once, and have."""

    program: GpuProgram
    arrays: Mapping[str, DeviceArray]
    launches: tuple[BoundLaunch, ...]
    made_bytes: int
    given_bytes: int
    inspectors: tuple[BoundLaunch, ...] = ()

    @cached_property
    def _replayed(self) -> Replayed:
        return Replayed(self.launches)

    def launch(self, stream: Any = None) -> None:
        """Launches all kernels on a CuPy stream, by default the current one, and returns at once: in their order, or,
        from the second time on, as a graph, in which those that need nothing of one another need not wait.

        Raises DeviceFault; of a kernel that breaks, only a later call of CUDA knows."""
        with faults():
            self._replayed.launch(stream)

    def results(self) -> tuple[DeviceArray, dict[str, DeviceArray]]:
        """The result, a tuple of several, and gradients by tensor, of the device: what the next launch will write
        again."""
        gradients = {tensor: self.arrays[name] for tensor, name in self.program.gradients}
        return as_returned(self.arrays[name] for name in self.program.results), gradients

    def run(self) -> tuple[Any, dict[str, np.ndarray[Any, Any]]]:
        """Launches, waits, and copies the results here. Raises DeviceFault."""
        self.launch()
        with faults():
            cupy = cupy_module()
            result, gradients = self.results()
            return for_each_returned(cupy.asnumpy, result), {
                tensor: cupy.asnumpy(array) for tensor, array in gradients.items()
            }


def check_extents(sizes: Mapping[str, int]) -> None:
    """Raises InputError for what kernels cannot count to."""
    for name, size in sizes.items():
        if size >= EXTENT_LIMIT:
            raise InputError(f"{name} is {size:,}, but kernels of the GPU count in 32 bits: to {EXTENT_LIMIT - 1:,}.")


def _check_memory(needed: int, limit: int | None, buffers: list[Buffer], sizes: Mapping[str, int]) -> None:
    """Raises InputError where a run does not fit; the driver is asked only if CuPy's own pool has not enough."""
    pooled = int(cupy_module().get_default_memory_pool().free_bytes())
    if needed > min(pooled, needed if limit is None else limit):
        available = available_bytes()
        check_fits(needed, available if limit is None else min(available, limit), buffers, sizes)


def _is_on_device(array: Any) -> bool:
    if hasattr(array, "__dlpack_device__"):
        return int(array.__dlpack_device__()[0]) in CUDA_MEMORY
    return hasattr(array, "__cuda_array_interface__")


def _on_device(buffer: Buffer, array: Any, sizes: Mapping[str, int]) -> DeviceArray:
    """A caller's array as kernels read it: without a copy where it lies on the device. Raises InputError."""
    cupy = cupy_module()
    dtype = _element_type(buffer)
    shape = shape_of(buffer, sizes)
    if tuple(array.shape) != shape:
        raise InputError(f"{buffer.name} has the shape {list(array.shape)}, but needs {list(shape)}.")
    if not _is_on_device(array):
        return cupy.asarray(np.ascontiguousarray(packed(array, buffer.storage) if dtype != np.int32 else array, dtype))
    array = _of_cupy(array, buffer.storage)
    if array.dtype.name in BITS_OF.get(buffer.storage, ()):
        array = array.view(dtype)
    if array.dtype != dtype or not array.flags.c_contiguous:
        order = "" if array.flags.c_contiguous else " and is not contiguous"
        raise InputError(
            f"{buffer.name} holds {array.dtype} on the device{order}: it must be contiguous {dtype.__name__}."
        )
    if array.data.ptr % VECTOR_BYTES:
        raise InputError(
            f"{buffer.name} begins at an address of the device that is no multiple of {VECTOR_BYTES} bytes."
        )
    return array


def _of_cupy(array: Any, storage: str) -> DeviceArray:
    """An array of the device as CuPy's. PyTorch's bfloat16 comes as its bits: not every CuPy has such a type."""
    cupy = cupy_module()
    if isinstance(array, cupy.ndarray):
        return array
    if storage == "bf16" and str(getattr(array, "dtype", "")) == "torch.bfloat16":
        import torch

        array = array.view(torch.int16)
    return cupy.from_dlpack(array) if hasattr(array, "__dlpack__") else cupy.asarray(array)


def _element_type(buffer: Buffer) -> type[np.generic]:
    return np.int32 if buffer.kind == "index" else np.dtype(STORAGES[buffer.storage].bits).type


def _image(code: Code) -> bytes | str:
    """What the current device loads: machine code, or PTX for its driver to translate; or CUDA C++, for CuPy to compile
    where there is nothing else, or where that is for a newer device."""
    if code.binary is None:
        return text_of(code.lines)
    device, made_for = current_device(), {resources.arch for resources in code.binary.resources}
    if all(map(device.runs, made_for)):
        return code.binary.cubin
    if all(map(device.translates, made_for)):
        return text_of(code.lines).encode() + b"\0"
    return text_of(code.binary.source)


@functools.lru_cache(maxsize=64)
def _loaded(image: bytes | str, device: int) -> Any:
    """A module on a device; equal texts and machine codes are loaded once."""
    cupy = cupy_module()
    if isinstance(image, str):
        return cupy.RawModule(code=image, options=CUDA_FLAGS).module
    module = cupy.cuda.function.Module()
    module.load(image)
    return module


def made() -> int:
    """How many modules this process has loaded. Their kernels' code is on the device, and in the host's memory."""
    return _loaded.cache_info().misses
