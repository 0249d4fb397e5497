"""What the kernels of a program have of one another: names, a count of candidates, who reads the result again."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.compiler.frozen import replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Count, ScheduledKernel, reads_of
from explorer.compiler.ir.node import Names, walk


def named_apart(kernels: Sequence[ScheduledKernel]) -> tuple[ScheduledKernel, ...]:
    """The kernels, a number behind the name of one that has another's: what is left of a nest keeps the nest's name,
    so that two templates may each have made, say, a kernel that groups its rows. One that keeps its name stays the same
    object, which has been verified."""
    names = Names(set())
    named = ((kernel, names.new(kernel.name)) for kernel in kernels)
    return tuple(kernel if kernel.name == name else replace(kernel, name=name) for kernel, name in named)


def with_count(kernel: ScheduledKernel, count: tuple[str, Count] | None) -> ScheduledKernel:
    """The kernel, with how many candidates there are where its arrays need that."""
    if count is None:
        return kernel
    named = {extent for buffer in kernel.buffers for extent in buffer.extents}
    named |= {name for node in walk(kernel) for name in reads_of(node)}
    named |= {extent for _, number in kernel.counts for extent in number.names}
    named -= {name for name, _ in kernel.counts}
    return replace(kernel, counts=(count, *kernel.counts)) if count[0] in named else kernel


def streaming(results: tuple[str, ...], kernels: tuple[ScheduledKernel, ...]) -> tuple[ScheduledKernel, ...]:
    """The kernels, those over pieces storing each of the program's results past the caches if nothing reads it
    again."""
    loaded = {node.buffer for kernel in kernels for node in walk(kernel) if isinstance(node, loops.Load)}

    def one(kernel: ScheduledKernel) -> ScheduledKernel:
        stored = {node.target for node in walk(kernel) if isinstance(node, loops.Store)} - loaded
        streamed = tuple(result for result in dict.fromkeys(results) if result in stored)
        over_pieces = kernel.template == "nonzeros" and streamed
        return replace(kernel, streamed=(*kernel.streamed, *streamed)) if over_pieces else kernel

    return tuple(map(one, kernels))
