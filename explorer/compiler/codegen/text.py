"""What the code generators return: a text with origins, and how to launch the kernels in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from explorer.compiler.codegen.resources import Resources
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Line


@dataclass(frozen=True)
class Launch:
    """How to run a GPU kernel: on a grid of `blocks` by `columns` blocks of `threads` threads.

    `arguments` are the buffers' names in order, then the extents known only at run time, as 32-bit integers
    below EXTENT_LIMIT.
    `shared_bytes` is the dynamic shared memory that it must be allowed and given: what it declares itself is not in.
    One that is to run `once` depends on the graph alone: for the same graph, what it wrote may be used again.
    `writes` are the arguments that it writes. `busy` names the array of one index, or "", in which an earlier launch
    leaves how many blocks have something to do: the first; the others need not be launched.
    """

    symbol: str
    arguments: tuple[str, ...]
    blocks: Count
    threads: int
    columns: int = 1
    shared_bytes: int = 0
    once: bool = False
    writes: frozenset[str] = field(default=frozenset(), compare=False)
    busy: str = ""


@dataclass(frozen=True)
class Binary:
    """The machine code of a translation unit: the cubin, the CUDA lines that it was made of, what it takes."""

    cubin: bytes = field(repr=False)
    source: tuple[Line, ...] = field(repr=False)
    resources: tuple[Resources, ...]


@dataclass(frozen=True)
class Code:
    """A generated text: CUDA C++, PTX or SASS, and its kernels in the order in which they run.

    `buffers` are all that the kernels' arguments name, each once: an "output" is written by a kernel before any other
    reads it, so no array need be cleared. `made` are those that some kernel writes: nobody need give them. `counts` are
    numbers that launching needs besides the extents of what is given, each of what comes before it."""

    lines: tuple[Line, ...]
    launches: tuple[Launch, ...]
    buffers: tuple[Buffer, ...] = ()
    counts: tuple[tuple[str, Count], ...] = ()
    made: frozenset[str] = frozenset()
    binary: Binary | None = None


def text_of(lines: Sequence[Line]) -> str:
    """Lines as a text."""
    return "".join(f"{line.text}\n" for line in lines)
