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
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.codegen.cpu.program import FROM_MATH, HostFunction, generate_host, iterations
from explorer.compiler.ir.loops import Buffer, Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Extent
from explorer.compiler.returned import as_returned
from explorer.compiler.unsupported import Unsupported
from explorer.runtime import liveness
from explorer.runtime.arrays import Arrays, Extents, check_inputs, kernels_of
from explorer.runtime.data.triples import InputError
from explorer.runtime.targets.machine_code import machine_code
from explorer.runtime.targets.narrow import from_bits
from explorer.runtime.targets.parts import divide

FLOAT_RULES = {"reassoc", "contract", "nsz"}
"""LLVM may reorder sums (or it could not use vectors for them) and fuse a multiplication with an addition, but must
keep infinities and NaNs as they are."""
PIECES_PER_THREAD = 64
"""Into how many pieces iterations are shared out where each piece takes long: some iterations walk a segment, and a few
segments are far longer than the others."""
WORTH_A_CALL = 100e-6
"""Seconds that a piece should take: a call of machine code with a dozen arrays takes four millionths itself."""
WORTH_A_THREAD = 200e-6
"""Seconds of work from which another thread is woken: two threads save half of it, and one that wakes another and waits
for it spends 40 to 90 millionths on that."""


@dataclass
class Pace:
    """The seconds that an iteration of a kernel took when it ran last, where the extents had these sizes."""

    extents: Extents = field(default_factory=dict)
    seconds: float = 0.0

    def at(self, extents: Extents) -> float | None:
        """The seconds of an iteration at these sizes, where that is known."""
        return self.seconds if self.extents == extents else None


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel's machine code."""

    kernel: Kernel
    function: HostFunction
    machine_code: Callable[..., None]
    pace: Pace = field(default_factory=Pace, compare=False)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arrays that it is given."""
        return self.function.arguments

    @functools.cached_property
    def writes(self) -> frozenset[str]:
        """The names of those that it writes."""
        return frozenset(buffer.name for buffer in self.outputs)

    @functools.cached_property
    def iterations(self) -> Extent:
        """What its parallel loop runs to."""
        return iterations(self.kernel)

    @functools.cached_property
    def outputs(self) -> tuple[Buffer, ...]:
        """The buffers that it writes."""
        return tuple(buffer for buffer in self.kernel.buffers if buffer.kind == "output")

    def run(self, arrays: Arrays, extents: Extents, order: npt.NDArray[np.int64] | None) -> None:
        """Does all iterations, on arrays that have been checked."""
        arguments: list[Any] = [arrays[name] for name in self.function.arguments]
        arguments += [extents[count] for count in self.function.counts]
        if order is not None:
            arguments.append(order)
        count = extents[self.iterations]
        work = functools.partial(self.machine_code, *arguments, 1)
        pace = self.pace.at(extents)
        if self.function.sequential or (pace is not None and pace * count <= WORTH_A_THREAD):
            spent = _timed(work, 0, count)
        else:
            shares = _Shares(work, count, pace)
            shares.work_off()
            spent = shares.spent
        self.pace.extents, self.pace.seconds = extents, spent / max(1, count)


@dataclass(frozen=True)
class Part:
    """Kernels that run in order, and for each the arrays made in the run that nobody needs after it."""

    kernels: tuple[CompiledKernel, ...]
    over: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, kernels: tuple[CompiledKernel, ...], kept: Iterable[str]) -> Part:
        """All of these kernels, which leave what is `kept`."""
        over = liveness.last_uses([compiled.kernel for compiled in kernels], kept)
        return cls(kernels, tuple(map(tuple, over)))


@dataclass(frozen=True)
class Prepared:
    """A program compiled for this machine; call it with the inputs by name."""

    program: Kernel | Module
    kernels: tuple[CompiledKernel, ...]
    compile_ms: float
    device: str  # a sentence for people: the processor and the threads in use

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the outputs that the definition returns."""
        return self.program.results if isinstance(self.program, Module) else (self.kernels[0].outputs[0].name,)

    @property
    def gradients(self) -> tuple[tuple[str, str], ...]:
        """By tensor: the name of the output that is its gradient."""
        return self.program.gradients if isinstance(self.program, Module) else ()

    @functools.cached_property
    def whole(self) -> Part:
        """All kernels."""
        return Part.of(self.kernels, liveness.kept_to_the_end(self.program))

    @functools.cached_property
    def parts(self) -> tuple[Part, Part] | None:
        """Of a program with a backward pass what makes the results, and the rest, which needs their gradients; None
        where the one cannot be made without the other."""
        upstreams = {b.name for kernel in kernels_of(self.program) for b in kernel.buffers if b.kind == "upstream"}
        divided = divide(self.kernels, self.results, upstreams) if self.gradients else None
        if divided is None:
            return None
        kept = divided.crossing.union(self.results)
        return Part.of(divided.forward, kept), Part.of(divided.backward, [name for _, name in self.gradients])

    @functools.cached_property
    def crossing(self) -> frozenset[str]:
        """The arrays that the second of two parts reads of the first."""
        forward, backward = self.parts or (self.whole, Part((), ()))
        made = frozenset(name for compiled in forward.kernels for name in compiled.writes)
        return made.intersection(name for compiled in backward.kernels for name in compiled.arguments)

    def bind(self, inputs: Mapping[str, Any]) -> Bound:
        """The program with its inputs, checked once, to be run any number of times while nobody changes them.

        Raises InputError for missing arrays, shapes that do not fit, and indices out of range: the machine code
        itself checks nothing.
        """
        return self.bind_checked(*check_inputs(self.program, inputs))

    def bind_checked(self, arrays: Arrays, extents: Extents) -> Bound:
        """`bind` for arrays that fit, and the sizes of all extents: nothing is checked or copied."""
        grouped = dict.fromkeys(by for k in self.kernels if (by := k.function.grouped_by) is not None)
        return Bound(self, arrays, extents, {by: np.argsort(arrays[by], kind="stable") for by in grouped})

    def __call__(self, inputs: Mapping[str, Any]) -> Any:
        """The result, a tuple of several, in the shape of the output; an empty batch has an empty result. Raises as
        `bind` does."""
        return self.bind(inputs)()


@dataclass(frozen=True, eq=False)
class Bound:
    """A prepared program and arrays that fit it; `orders` are those of the iterations, by what groups them."""

    prepared: Prepared
    arrays: Arrays
    extents: Extents
    orders: Mapping[str, npt.NDArray[np.int64]]

    def __call__(self) -> Any:
        """The result alone; see `run`."""
        return self.run()[0]

    def run(self) -> tuple[Any, dict[str, npt.NDArray[np.float32]]]:
        """Runs the kernels in order: the result, a tuple of several, and the gradients by tensor where the program has
        them.

        What one kernel leaves for later ones is freed as soon as the last has read it."""
        arrays = self._made(self.prepared.whole, self.arrays)
        return as_returned(arrays[name] for name in self.prepared.results), self._gradients(arrays)

    def start(self) -> Arrays:
        """The results, and what the rest needs, by name: the first of a program's `parts`. Its arrays are all but the
        gradients of the results."""
        assert self.prepared.parts is not None
        return self._made(self.prepared.parts[0], self.arrays)

    def finish(self, started: Arrays, upstreams: Arrays) -> dict[str, npt.NDArray[np.float32]]:
        """The gradients by tensor, after `start`, of the gradients of the results: any number of times."""
        assert self.prepared.parts is not None
        return self._gradients(self._made(self.prepared.parts[1], {**started, **upstreams}))

    def _made(self, part: Part, given: Arrays) -> Arrays:
        """What is given, and what a part leaves."""
        arrays = dict(given)
        for _ in self._steps(part, arrays):
            pass
        return arrays

    def _gradients(self, arrays: Arrays) -> dict[str, npt.NDArray[np.float32]]:
        return {tensor: arrays[name] for tensor, name in self.prepared.gradients}

    def time_nests(self) -> list[float]:
        """One run, of which this is what each kernel takes, in milliseconds, with making its arrays."""
        begun, found = perf_counter(), []
        for _ in self._steps(self.prepared.whole, dict(self.arrays)):
            found.append((perf_counter() - begun) * 1e3)
            begun = perf_counter()
        return found

    def _steps(self, part: Part, arrays: Arrays) -> Iterator[None]:
        """Runs a kernel at each step, on what those before have left in `arrays`."""
        for compiled, over in zip(part.kernels, part.over, strict=True):
            for buffer in compiled.outputs:
                make = np.zeros if compiled.function.sequential else np.empty
                arrays[buffer.name] = make(self._shape(buffer), np.float32)
            compiled.run(arrays, self.extents, self.orders.get(compiled.function.grouped_by or ""))
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
    options = {
        "fastmath": FLOAT_RULES,
        "error_model": "numpy",
        "nogil": True,
        "boundscheck": checked,
        "no_cfunc_wrapper": True,  # for C to call it by its address, which nothing does
    }
    return machine_code(_python_function(function), function.text, signature, options)


def made() -> int:
    """How many kernels this process has machine code of, made or read from disk. Numba gives none of it back."""
    return _machine_code.cache_info().misses


def in_parallel(work: Callable[[int, int], None], count: int, chunks: int) -> None:
    """Calls `work(first, last)` for equal pieces of 0..count from all threads at once, each taking the next when it is
    free."""
    pieces = min(count, chunks)
    numbers = itertools.count()

    def take() -> None:
        while (piece := next(numbers)) < pieces:
            work(piece * count // pieces, (piece + 1) * count // pieces)

    others = [_pool().submit(take) for _ in range(min(threads(), pieces) - 1)]
    take()
    for other in others:
        other.result()


def _timed(work: Callable[[int, int], None], first: int, last: int) -> float:
    """The seconds that `work(first, last)` takes."""
    begun = perf_counter()
    work(first, last)
    return max(perf_counter() - begun, 1e-7)  # as fine as clocks are


class _Shares:
    """The iterations 0..count of some work, which threads take piece by piece.

    One thread begins alone, with a short piece, and wakes the others where what is left looks worth it; where the
    `pace` is known, the seconds of an iteration, at once. Each takes as many iterations as look worth a call, but
    leaves the others their part. `spent` are the seconds of all pieces that are done."""

    def __init__(self, work: Callable[[int, int], None], count: int, pace: float | None = None) -> None:
        self.work, self.count, self.pace, self.threads = work, count, pace, threads()
        self.least = count if self.threads == 1 else -(-count // (self.threads * PIECES_PER_THREAD))
        self.first, self.lock, self.spent = 0, Lock(), 0.0

    def work_off(self) -> None:
        """Calls `work(first, last)` for all pieces, and returns when all are done."""
        others = [] if self.pace is None else self._woken()
        for left in self._pieces():
            if not others and left > WORTH_A_THREAD:
                others = self._woken()
        for other in others:
            if not other.cancel():  # one that has not begun has nothing left to do
                other.result()

    def _woken(self) -> list[Future[None]]:
        return [_pool().submit(self._help) for _ in range(self.threads - 1)]

    def _help(self) -> None:
        for _ in self._pieces():
            pass

    def _pieces(self) -> Iterator[float]:
        """Does a piece at each step: the seconds that what is left would take at its pace."""
        length = self.least if self.pace is None else self._length(self.pace, self.count)
        while True:
            with self.lock:
                first, self.first = self.first, min(self.count, self.first + length)
                last, left = self.first, self.count - self.first
            if first == last:
                return
            took = _timed(self.work, first, last)
            with self.lock:
                self.spent += took
            pace = took / (last - first)
            length = self._length(pace, left)
            yield left * pace

    def _length(self, pace: float, left: int) -> int:
        """The iterations of the next piece, of those that are `left`."""
        length = int(WORTH_A_CALL / pace)
        return length if length >= left else max(self.least, min(length, left // (2 * self.threads)))


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
    stored = {"f32": nt.float32, "f16": nt.uint16, "bf16": nt.uint16, "i8": nt.int8}
    arguments = [
        nt.Array(
            nt.int32 if kinds[name].kind == "index" else stored[kinds[name].storage],
            len(kinds[name].extents),
            "C",
            readonly=kinds[name].kind != "output",
        )
        for name in function.arguments
    ]
    counts = [nt.int64] * len(function.counts)
    order = [nt.Array(nt.int64, 1, "C")] if function.grouped_by is not None else []
    return (*arguments, *counts, *order, nt.int64, nt.int64, nt.int64)


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
        **{name: function for name, function in from_bits().items() if name in code.co_names},
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
