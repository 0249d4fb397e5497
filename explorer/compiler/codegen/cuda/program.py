"""From scheduled kernels to CUDA C++: syntax alone, an operation of the model a line; who does what and where is in the
kernels. `cuda_places` says what has a name of its own, and what is written where it is used.

The kernels come first, behind the declarations of the device functions that they call; those are behind them.

The text includes no header, so NVRTC compiles it anywhere. How wide integers are, `cuda_integers` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.compiler.codegen.cuda.helpers import WIDTH, Helpers
from explorer.compiler.codegen.cuda.narrow import element_type
from explorer.compiler.codegen.cuda.writer import Writer
from explorer.compiler.codegen.text import Code, Launch
from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Line
from explorer.compiler.report import Report
from explorer.compiler.target import GpuTarget

DEVICE_FUNCTIONS = "// Device functions, declared above."
"""The line behind the kernels, and before what they call."""


def generate_cuda(program: ScheduledKernel | Module, report: Report) -> Code:
    """The CUDA C++ of one kernel or of a module's, each computing line with its origin; Unsupported says why there
    is none."""
    programs = [program] if isinstance(program, ScheduledKernel) else program.programs
    kernels = [kernel for kernel in programs if isinstance(kernel, ScheduledKernel)]
    helpers = Helpers()
    functions, launches, made = [], [], set[str]()
    for kernel in kernels:
        lines, launch, used = _written(kernel, report.target)
        helpers.add(used)
        functions.append(lines)
        launches.append(launch)
        made |= launch.writes
    counts = {name: count for kernel in kernels for name, count in kernel.counts}
    code = Code((), tuple(launches), kernel_buffers(kernels), tuple(counts.items()), frozenset(made))
    called = helpers.lines()
    behind = [Line(""), Line(DEVICE_FUNCTIONS), *called] if called else []
    if isinstance(program, ScheduledKernel):
        comment, *function = functions[0]
        return replace(code, lines=(comment, *helpers.declarations(), *function, *behind))
    head = Line(f"// {program.name}: {len(kernels)} kernel{'s' if len(kernels) > 1 else ''}, run in order.")
    text = [line for function in functions for line in (Line(""), *function)]
    return replace(code, lines=(head, *helpers.declarations(), *text, *behind))


def kernel_buffers(kernels: Sequence[ScheduledKernel]) -> tuple[Buffer, ...]:
    """All buffers that the kernels name, each once and as the first kernel has it: an output before a temporary."""
    return tuple({buffer.name: buffer for kernel in reversed(kernels) for buffer in kernel.buffers}.values())


def _written(kernel: ScheduledKernel, target: GpuTarget) -> tuple[list[Line], Launch, Helpers]:
    """One kernel's function, its launch and what it calls: kept with the kernel, which other schedules of a text have
    as well."""
    kept = kernel.__dict__.setdefault("_written", {})
    if target not in kept:
        helpers = Helpers()
        kept[target] = (*_function(kernel, Writer(kernel, helpers, target)), helpers)
    found: tuple[list[Line], Launch, Helpers] = kept[target]
    return found


def _function(kernel: ScheduledKernel, writer: Writer) -> tuple[list[Line], Launch]:
    """One kernel's lines, comment first, and its launch."""
    body = writer.body()
    names = writer.names
    symbol = names.new(f"{kernel.name}_kernel")
    counts = [name for name in _run_time_names(kernel) if name in writer.used]
    parameters = [f"{_pointer(buffer, writer.written)} {names[buffer.name]}" for buffer in kernel.buffers]
    if counts:
        parameters.append(", ".join(f"int {names[count]}" for count in counts))
    sizes = [f"{names[n]} = {size}" for n, size in kernel.sizes if n in writer.used]
    columns = writer.columns
    bounds = f"{kernel.threads}, {kernel.resident}" if kernel.resident else str(kernel.threads)
    grid = f", {columns} columns" if columns > 1 else ""
    lines = [
        Line(f"// {kernel.name}: blocks of {kernel.threads} threads{grid}."),
        Line(f'extern "C" __global__ void __launch_bounds__({bounds}) {symbol}('),
        *(
            Line(f"    {line}")
            for line in _filled([*(f"{each}," for each in parameters[:-1]), f"{parameters[-1]}) {{"])
        ),
        *([Line(f"  constexpr int {', '.join(sizes)};")] if sizes else []),
        *body,
        Line("}"),
    ]
    arguments = (*(buffer.name for buffer in kernel.buffers), *counts)
    shared_bytes = writer.memory.launch_bytes
    writes = frozenset(writer.written & {buffer.name for buffer in kernel.buffers})
    launch = Launch(
        symbol=symbol,
        arguments=arguments,
        blocks=_blocks(writer),
        threads=kernel.threads,
        columns=columns,
        shared_bytes=shared_bytes,
        once=kernel.once,
        writes=writes,
        busy=kernel.busy,
    )
    return lines, launch


def _filled(words: Sequence[str]) -> list[str]:
    """Words in lines as full as may be."""
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) < WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _blocks(writer: Writer) -> Count:
    extent = writer.grid.extent
    return extent if isinstance(extent, Count) else Count(((extent, 1),))


def _run_time_names(kernel: ScheduledKernel) -> list[str]:
    """The numbers that only a run knows, in the order of the buffers' extents, then the kernel's counts, and what these
    are made of."""
    extents = [extent for buffer in kernel.buffers for extent in buffer.extents if isinstance(extent, str)]
    counts = [*(name for name, _ in kernel.counts), *(part for _, count in kernel.counts for part in count.names)]
    sizes = {name for name, _ in kernel.sizes}
    return [name for name in dict.fromkeys([*extents, *counts]) if name not in sizes]


def _pointer(buffer: Buffer, written: set[str]) -> str:
    """The type of a buffer's argument. What the kernel does not write is constant, and restricted, so that its loads
    may move over stores. What it writes is not: of restricted memory a compiler may keep what a thread stored or loaded
    over a barrier, as if no other thread could write there."""
    kind = f"{element_type(buffer)}*"
    return kind if buffer.name in written else f"const {kind} __restrict__"
