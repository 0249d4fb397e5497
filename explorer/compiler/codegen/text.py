"""What the code generators return: a text with origins, and how to launch the kernel in it."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.compiler.ir.node import Line


class Unsupported(Exception):
    """A kernel for which a stage cannot be made; the message is a sentence that the user reads."""


@dataclass(frozen=True)
class Launch:
    """How to run a GPU kernel.

    `arguments` are the buffers' names in order, then the extents known only at run time, as 64-bit integers; the
    batch is the first of them. A launch of ceil(batch / warps) blocks of 32 * warps threads does the whole batch.
    """

    symbol: str
    arguments: tuple[str, ...]
    warps: int


@dataclass(frozen=True)
class Code:
    """A generated text: CUDA C++ or PTX."""

    lines: tuple[Line, ...]
    launch: Launch
