"""How long the arrays that kernels make for one another are needed, and what they take at the worst moment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from explorer.compiler.ir.loops import Kernel, Row
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Extent, walk

FLOAT_BYTES = 4


def last_uses(kernels: Sequence[Kernel], kept: Iterable[str]) -> list[list[str]]:
    """For each kernel, the arrays made in the run that nobody needs after it; those `kept` are needed to the end."""
    last: dict[str, int] = {}
    for number, kernel in enumerate(kernels):
        made = [buffer.name for buffer in kernel.buffers if buffer.kind in ("output", "temporary")]
        last |= dict.fromkeys(made, number)
    for name in kept:
        last.pop(name, None)
    return [[name for name, at in last.items() if at == number] for number in range(len(kernels))]


def peak_bytes(kernels: Sequence[Kernel], kept: Iterable[str], extents: Mapping[Extent, int], threads: int = 1) -> int:
    """The most that outputs, temporaries and the rows of all threads take at once.

    An array is made when its kernel starts and freed after its last use. `extents` has every extent's size."""
    held: dict[str, int] = {}
    peak = 0
    for kernel, over in zip(kernels, last_uses(kernels, kept), strict=True):
        outputs = (buffer for buffer in kernel.buffers if buffer.kind == "output")
        held |= {buffer.name: FLOAT_BYTES * math.prod(extents[e] for e in buffer.extents) for buffer in outputs}
        peak = max(peak, sum(held.values()) + threads * row_bytes(kernel))
        for name in over:
            del held[name]
    return peak


def row_bytes(kernel: Kernel) -> int:
    """What one thread's rows take."""
    rows = [node for node in walk(kernel) if isinstance(node, Row)]
    return sum(FLOAT_BYTES * math.prod(kernel.size(extent) for extent in row.extents) for row in rows)


def kept_to_the_end(program: Kernel | Module) -> tuple[str, ...]:
    """The outputs that a caller gets: the results and the gradients."""
    if isinstance(program, Kernel):
        return tuple(buffer.name for buffer in program.buffers if buffer.kind == "output")
    return program.kept
