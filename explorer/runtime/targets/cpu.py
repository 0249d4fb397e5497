"""Runs the fused loops on the CPU: machine code by Numba, the iterations of each kernel shared among threads.

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
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.codegen.cpu.program import FROM_MATH, HostFunction, generate_host, iterations
from explorer.compiler.ir.loops import Buffer, For, Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import walk
from explorer.compiler.unsupported import Unsupported
from explorer.runtime import liveness
from explorer.runtime.arrays import Arrays, Extents, check_inputs, kernels_of
from explorer.runtime.data.triples import InputError

FLOAT_RULES = {"reassoc", "contract", "nsz"}
"""LLVM may reorder sums (or it could not use vectors for them) and fuse a multiplication with an addition, but must
keep infinities and NaNs as they are."""
CHUNKS_PER_THREAD = 8
"""Chunks of the iterations for each thread, so that a thread that starts late does not hold up the others."""
SKEWED_CHUNKS_PER_THREAD = 64
"""The same where an iteration walks a segment, of which a few are far longer than the others."""


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel's machine code."""

    kernel: Kernel
    function: HostFunction
    machine_code: Callable[..., None]

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """The buffers that it writes."""
        return tuple(buffer for buffer in self.kernel.buffers if buffer.kind == "output")

    @property
    def chunks(self) -> int:
        """Into how many pieces all threads together share the iterations."""
        if self.function.sequential:
            return 1
        segments = any(isinstance(node, For) and node.lower != 0 for node in walk(self.kernel))
        return threads() * (SKEWED_CHUNKS_PER_THREAD if segments else CHUNKS_PER_THREAD)

    def run(self, arrays: Arrays, extents: Extents, order: npt.NDArray[np.int64] | None) -> None:
        """Does all iterations, on arrays that have been checked."""
        arguments: list[Any] = [arrays[name] for name in self.function.arguments]
        arguments += [extents[count] for count in self.function.counts]
        if order is not None:
            arguments.append(order)
        count = extents[iterations(self.kernel)]
        in_parallel(lambda first, last: self.machine_code(*arguments, first, last), count, self.chunks)


@dataclass(frozen=True)
class Prepared:
    """A program compiled for this machine; call it with the inputs by name."""

    program: Kernel | Module
    kernels: tuple[CompiledKernel, ...]
    compile_ms: float
    device: str  # a sentence for people: the processor and the threads in use

    @property
    def result(self) -> str:
        """The name of the output that is the definition's."""
        return self.program.result if isinstance(self.program, Module) else self.kernels[0].outputs[0].name

    @property
    def gradients(self) -> tuple[tuple[str, str], ...]:
        """By tensor: the name of the output that is its gradient."""
        return self.program.gradients if isinstance(self.program, Module) else ()

    def bind(self, inputs: Mapping[str, Any]) -> Bound:
        """The program with its inputs, checked once, to be run any number of times while nobody changes them.

        Raises InputError for missing arrays, shapes that do not fit, and indices out of range: the machine code
        itself checks nothing.
        """
        return self.bind_checked(*check_inputs(self.program, inputs))

    def bind_checked(self, arrays: Arrays, extents: Extents) -> Bound:
        """`bind` for arrays that fit, and the sizes of all extents: nothing is checked or copied."""
        orders = [
            None if k.function.grouped_by is None else np.argsort(arrays[k.function.grouped_by], kind="stable")
            for k in self.kernels
        ]
        return Bound(self, arrays, extents, tuple(orders))

    def __call__(self, inputs: Mapping[str, Any]) -> npt.NDArray[np.float32]:
        """The result, in the shape of the output; an empty batch has an empty result. Raises as `bind` does."""
        return self.bind(inputs)()


@dataclass(frozen=True, eq=False)
class Bound:
    """A prepared program and arrays that fit it."""

    prepared: Prepared
    arrays: Arrays
    extents: Extents
    orders: tuple[npt.NDArray[np.int64] | None, ...]

    def __call__(self) -> npt.NDArray[np.float32]:
        """The result alone; see `run`."""
        return self.run()[0]

    def run(self) -> tuple[npt.NDArray[np.float32], dict[str, npt.NDArray[np.float32]]]:
        """Runs the kernels in order: the result, and the gradients by tensor where the program has them.

        What one kernel leaves for later ones is freed as soon as the last has read it."""
        arrays = dict(self.arrays)
        for _ in self._steps(arrays):
            pass
        gradients = {tensor: arrays[name] for tensor, name in self.prepared.gradients}
        return arrays[self.prepared.result], gradients

    def time_nests(self) -> list[float]:
        """One run, of which this is what each kernel takes, in milliseconds, with making its arrays."""
        begun, found = perf_counter(), []
        for _ in self._steps(dict(self.arrays)):
            found.append((perf_counter() - begun) * 1e3)
            begun = perf_counter()
        return found

    def _steps(self, arrays: Arrays) -> Iterator[None]:
        """Runs a kernel at each step, on what those before have left in `arrays`."""
        for compiled, order, over in zip(self.prepared.kernels, self.orders, self._last_uses(), strict=True):
            for buffer in compiled.outputs:
                make = np.zeros if compiled.function.sequential else np.empty
                arrays[buffer.name] = make(self._shape(buffer), np.float32)
            compiled.run(arrays, self.extents, order)
            for name in over:
                del arrays[name]
            yield

    @property
    def peak_bytes(self) -> int:
        """The most that a run holds at once besides its inputs: outputs, temporaries, and the rows of all threads."""
        program = self.prepared.program
        return liveness.peak_bytes(kernels_of(program), liveness.kept_to_the_end(program), self.extents, threads())

    def _shape(self, buffer: Buffer) -> tuple[int, ...]:
        return tuple(self.extents[extent] for extent in buffer.extents)

    def _last_uses(self) -> list[list[str]]:
        """For each kernel, the arrays made in the run that nobody needs after it."""
        program = self.prepared.program
        return liveness.last_uses(kernels_of(program), liveness.kept_to_the_end(program))


def prepare(program: Kernel | Module, *, grouping: bool = True, checked: bool = False) -> Prepared:
    """Compiles the program; `grouping` off keeps iterations in the batch's order, and `checked` code, as for what
    somebody has edited, asks of each access whether it is inside of its array: it raises IndexError where it is not.

    A module's iterations keep their order: the edges and pairs of a graph are sorted already. Raises InputError for
    a program that cannot run here.
    """
    begin = perf_counter()
    grouping = grouping and isinstance(program, Kernel)
    kernels = tuple(_compile(kernel, grouping, checked) for kernel in kernels_of(program))
    return Prepared(program, kernels, (perf_counter() - begin) * 1e3, device_name())


@functools.lru_cache(maxsize=16)
def prepare_once(program: Kernel | Module, checked: bool = False) -> Prepared:
    """`prepare`, whose machine code is kept for the next run of an equal program."""
    return prepare(program, checked=checked)


def _compile(kernel: Kernel, grouping: bool, checked: bool) -> CompiledKernel:
    try:
        function = generate_host(kernel, grouping=grouping)
    except Unsupported as error:
        raise InputError(str(error)) from None
    return CompiledKernel(kernel, function, _machine_code(function, _signature(kernel, function), checked))


@functools.lru_cache(maxsize=128)
def _machine_code(function: HostFunction, signature: tuple[Any, ...], checked: bool = False) -> Callable[..., None]:
    """What Numba makes of a function, kept: programs that differ elsewhere, or by a backward pass, share kernels."""
    import numba

    njit: Any = numba.njit  # annotated by Numba for use as a plain decorator, and without this option
    compiler = njit(
        signature,
        fastmath=FLOAT_RULES,
        error_model="numpy",
        nogil=True,
        boundscheck=checked,
        no_cfunc_wrapper=True,  # for C to call it by its address, which nothing does
    )
    made: Callable[..., None] = compiler(_python_function(function))
    return made


def in_parallel(work: Callable[[int, int], None], count: int, chunks: int) -> None:
    """Calls `work(first, last)` for pieces of 0..count from all threads, each taking the next piece when it is free."""
    pieces = min(count, chunks)
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
    counts = [nt.int64] * len(function.counts)
    order = [nt.Array(nt.int64, 1, "C")] if function.grouped_by is not None else []
    return (*arguments, *counts, *order, nt.int64, nt.int64)


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
        **{name: getattr(math, name) for name in FROM_MATH},
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
