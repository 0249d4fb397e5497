"""What the code generators return: a text with origins, and how to launch the kernels in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.compiler.codegen.resources import Resources
from explorer.compiler.ir.node import Extent, Line

WARP = 32
"""Threads of a warp."""


class Unsupported(Exception):
    """A kernel for which a stage cannot be made; the message is a sentence that the user reads."""


@dataclass(frozen=True)
class Launch:
    """How to run a GPU kernel.

    `arguments` are the buffers' names in order, then the extents known only at run time, as 64-bit integers. A launch
    of ceil(iterations / warps) blocks of 32 * warps threads does everything; `iterations` is an extent, or a number.
    """

    symbol: str
    arguments: tuple[str, ...]
    iterations: Extent
    warps: int


@dataclass(frozen=True)
class Binary:
    """The machine code of a translation unit: the cubin, the CUDA lines that it was made of, what it takes."""

    cubin: bytes = field(repr=False)
    source: tuple[Line, ...] = field(repr=False)
    resources: tuple[Resources, ...]


@dataclass(frozen=True)
class Code:
    """A generated text: CUDA C++, PTX or SASS, and its kernels in the order in which they run."""

    lines: tuple[Line, ...]
    launches: tuple[Launch, ...]
    binary: Binary | None = None
