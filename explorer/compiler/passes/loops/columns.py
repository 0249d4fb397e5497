"""Where packed and padded arrays lie: an array of vectors [*rows, length] with scalars [*rows] as columns behind them.

The vectors' elements stay where they are in a row. Rows are padded to the alignment that they had, up to 16 bytes, so
that what was loaded as vectors still can be: rows of 64 numbers and one more are 68 apart. A layout may have a longer
stride of its own (`pad`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd
from typing import Any, TypeVar

from explorer.compiler.frozen import replace
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.module import Packing
from explorer.compiler.ir.node import Extent, rewrite
from explorer.compiler.passes.stored.storage import SECTOR
from explorer.compiler.target import VECTOR

AnyKernel = TypeVar("AnyKernel", loops.Kernel, kernels.ScheduledKernel)


def stride(length: int, scalars: int) -> int:
    """The numbers from one packed row to the next."""
    alignment = gcd(length, VECTOR)
    return -(-(length + scalars) // alignment) * alignment


def sectors(filled: int, apart: int) -> Fraction:
    """The sectors that a row of so many numbers touches, on the mean over rows that begin so many numbers apart."""
    begins = [row * apart % SECTOR for row in range(SECTOR)]  # the next row begins in a sector as the first one does
    return Fraction(sum(-(-(begin + filled) // SECTOR) for begin in begins), SECTOR)


def in_columns(kernel: AnyKernel, packings: Sequence[Packing]) -> AnyKernel:
    """A kernel whose accesses of packed scalars are of columns, and whose arrays of vectors have these, and the
    layouts' strides."""
    for packing in packings:
        kernel = _with_rows(kernel, packing)
    return kernel


def _with_rows(kernel: AnyKernel, packing: Packing) -> AnyKernel:
    """A kernel with the arrays of one packing in one."""
    vectors, together = packing.vectors, {packing.vectors, *packing.scalars}
    own = [buffer for buffer in kernel.buffers if buffer.name in together]
    if not own:
        return kernel
    length = kernel.size(packing.length)
    columns = {name: length + place for place, name in enumerate(packing.scalars)}

    def change(node: Any) -> Any:
        match node:
            case loops.Load() if node.buffer in columns:
                return replace(node, buffer=vectors, indices=(*node.indices, columns[node.buffer]))
            case loops.Store() | loops.Accumulate() if node.target in columns:
                return replace(node, target=vectors, indices=(*node.indices, columns[node.target]))
        return node

    rows: tuple[Extent, ...] = own[0].extents[:-1] if own[0].name == vectors else own[0].extents
    written = any(buffer.kind == "output" for buffer in own)
    apart = packing.stride or stride(length, len(columns))
    packed = replace(own[0], name=vectors, kind="output" if written else own[0].kind, extents=(*rows, apart))
    # In the place of the first of them: outputs stand behind what is read, in the order in which they are made.
    first = next(buffer for buffer in own if buffer.kind == packed.kind)
    buffers = (
        packed if buffer is first else buffer for buffer in kernel.buffers if buffer is first or buffer not in own
    )
    body = tuple(rewrite(statement, change) for statement in kernel.body)
    streamed: dict[str, Any] = {}
    if isinstance(kernel, kernels.ScheduledKernel):
        # The caches need not keep what is touched once: of a row, where that is all of it.
        whole = {buffer.name for buffer in own} <= {*kernel.streamed}
        names = (vectors if name in together else name for name in kernel.streamed if whole or name not in together)
        streamed = {"streamed": tuple(dict.fromkeys(names))}
    return replace(kernel, buffers=tuple(buffers), body=body, **streamed)
