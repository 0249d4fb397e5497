"""Runs the fused loops on the CPU: machine code by Numba, the batch shared among threads.

Python's own threads call the machine code, which holds no lock. Numba's prange would do the same, but takes three
times as long to compile, and where other work shares the cores its OpenMP threads wait by spinning.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import platform
import types
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.codegen.cpu import HostFunction, generate_host
from explorer.compiler.codegen.text import Unsupported
from explorer.compiler.ir.loops import Buffer, Kernel, Load
from explorer.compiler.ir.node import walk
from explorer.runtime.inputs import InputError

FLOAT_RULES = {"reassoc", "contract", "nsz"}
"""LLVM may reorder sums (or it could not use vectors for them) and fuse a multiplication with an addition, but must
keep infinities and NaNs as they are."""
CHUNKS_PER_THREAD = 8
"""Chunks of the batch for each thread, so that a thread that starts late does not hold up the others."""


@dataclass(frozen=True)
class Prepared:
    """A kernel compiled for this machine; call it with the inputs by name."""

    kernel: Kernel
    function: HostFunction
    machine_code: Callable[..., None]
    compile_ms: float
    device: str  # a sentence for people: the processor and the threads in use

    def __call__(self, inputs: Mapping[str, Any]) -> npt.NDArray[np.float32]:
        """The scores, [B], or [B, N] with negatives; an empty batch has an empty result.

        Raises InputError for missing arrays, shapes that do not fit, and indices out of range: the machine code
        itself checks nothing.
        """
        arrays, extents = check_inputs(self.kernel, inputs)
        (output,) = (buffer for buffer in self.kernel.buffers if buffer.kind == "output")
        result = np.empty(tuple(extents[extent] for extent in output.extents), np.float32)
        arguments = [arrays.get(name, result) for name in self.function.arguments]
        if self.function.grouped_by is not None:
            arguments.append(np.argsort(arrays[self.function.grouped_by], kind="stable"))
        _share(lambda first, last: self.machine_code(*arguments, first, last), len(result))
        return result


def prepare(kernel: Kernel, *, grouping: bool = True) -> Prepared:
    """Compiles the kernel; `grouping` off keeps iterations in the batch's order.

    Raises InputError for a kernel that cannot run here.
    """
    import numba

    begin = perf_counter()
    try:
        function = generate_host(kernel, grouping=grouping)
    except Unsupported as error:
        raise InputError(str(error)) from None
    compiler: Any = numba.njit(  # annotated by Numba for use as a plain decorator only
        _signature(kernel, function), fastmath=FLOAT_RULES, error_model="numpy", nogil=True
    )
    machine_code = compiler(_python_function(function))
    return Prepared(kernel, function, machine_code, (perf_counter() - begin) * 1e3, device_name())


def _share(work: Callable[[int, int], None], count: int) -> None:
    """Calls `work(first, last)` for pieces of 0..count from all threads, each taking the next piece when it is free."""
    pieces = min(count, CHUNKS_PER_THREAD * threads())
    numbers = itertools.count()

    def take() -> None:
        while (piece := next(numbers)) < pieces:
            work(piece * count // pieces, (piece + 1) * count // pieces)

    others = [_pool().submit(take) for _ in range(min(threads(), pieces) - 1)]
    take()
    for other in others:
        other.result()


def threads() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads(), thread_name_prefix="kernel")


def check_inputs(
    kernel: Kernel, inputs: Mapping[str, Any]
) -> tuple[dict[str, npt.NDArray[Any]], dict[str | int, int]]:
    """The kernel's arrays as the machine code wants them, and the size of every extent; raises InputError."""
    extents: dict[str | int, int] = dict(kernel.sizes)
    extents |= {e: e for buffer in kernel.buffers for e in buffer.extents if isinstance(e, int)}
    arrays = {
        buffer.name: _array(buffer, inputs, extents) for buffer in kernel.buffers if buffer.kind != "output"
    }
    for index, table, position in _lookups(kernel):
        _check_range(index.name, arrays[index.name], table.name, extents[table.extents[position]])
    return arrays, extents


def _array(buffer: Buffer, inputs: Mapping[str, Any], extents: dict[str | int, int]) -> npt.NDArray[Any]:
    """One array, contiguous and of the buffer's element type; learns the extents that only the arrays know."""
    if buffer.name not in inputs:
        raise InputError(f"There is no array for {buffer.name}.")
    array = np.asarray(inputs[buffer.name])
    wanted = [extents.get(extent) for extent in buffer.extents]
    if array.ndim != len(wanted) or _differs(wanted, array.shape):
        pairs = zip(buffer.extents, wanted, strict=True)
        shape = ", ".join(str(extent) if size in (None, extent) else f"{extent} = {size}" for extent, size in pairs)
        raise InputError(f"{buffer.name} has the shape {list(array.shape)}, but is declared [{shape}].")
    extents.update(zip(buffer.extents, array.shape, strict=True))
    if buffer.kind != "index":
        return np.ascontiguousarray(array, np.float32)
    if not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{buffer.name} holds {array.dtype} where indices are whole numbers.")
    if array.size and (array.min() < 0 or array.max() >= 2**31):
        raise InputError(f"{buffer.name} holds indices outside 0 to 2147483647.")
    return np.ascontiguousarray(array, np.int32)


def _differs(wanted: list[int | None], shape: tuple[int, ...]) -> bool:
    return any(size is not None and size != given for size, given in zip(wanted, shape, strict=True))


def _lookups(kernel: Kernel) -> list[tuple[Buffer, Buffer, int]]:
    """Which index buffer picks from which table at which position."""
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    loads = [node for node in walk(kernel) if isinstance(node, Load) and node.buffer in buffers]
    picks = {load.result: load.buffer for load in loads if buffers[load.buffer].kind == "index"}
    found = {
        (picks[atom], load.buffer, position)
        for load in loads
        for position, atom in enumerate(load.indices)
        if isinstance(atom, str) and atom in picks
    }
    return [(buffers[index], buffers[table], position) for index, table, position in sorted(found)]


def _check_range(name: str, indices: npt.NDArray[Any], table: str, rows: int) -> None:
    if indices.size and (worst := int(indices.max())) >= rows:
        place = np.unravel_index(int(indices.argmax()), indices.shape)
        at = ", ".join(str(int(position)) for position in place)
        raise InputError(f"{name}[{at}] is {worst}, but {table} has {rows:,} rows.")


def _signature(kernel: Kernel, function: HostFunction) -> tuple[Any, ...]:
    """Numba's types of the arguments, so that it compiles here and not on the first call."""
    from numba import types as nt

    kinds = {buffer.name: buffer for buffer in kernel.buffers}
    arguments = [
        nt.Array(
            nt.int32 if kinds[name].kind == "index" else nt.float32,
            len(kinds[name].extents),
            "C",
            readonly=kinds[name].kind != "output",
        )
        for name in function.arguments
    ]
    order = [nt.Array(nt.int64, 1, "C")] if function.grouped_by is not None else []
    return (*arguments, *order, nt.int64, nt.int64)


def _python_function(function: HostFunction) -> types.FunctionType:
    """The function that the text defines, taken from its compiled module without running the module.

    The text holds the generator's own words and names that it has checked to be plain identifiers, never text of
    the model.
    """
    module = compile(function.text, f"<{function.name}>", "exec")
    code = next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))
    surroundings = {
        "empty": np.empty,
        "float32": np.float32,
        "int64": np.int64,
        "inf": math.inf,
        "nan": math.nan,
        **{name: getattr(math, name) for name in ("exp", "log", "sqrt", "tanh", "erf", "sin", "cos")},
    }
    return types.FunctionType(code, surroundings, function.name)


def device_name() -> str:
    """`Intel(R) Xeon(R) Processor @ 2.50GHz, 2 threads`."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line.partition(":")[2] for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        name = models[0].strip() if models else name
    return f"{name}, {threads()} thread{'s' if threads() > 1 else ''}"
