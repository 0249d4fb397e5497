"""Iterations that do nothing but gather rows and give numbers, such as the score of a triple: how many lanes share one,
and how much of its rows a lane asks for at once.

With one vector of each row, a lane asks for little, and then adds what it has to the others' in as many steps as if it
had several. With several, a warp has more iterations, and fewer warps do the batch: fewer than keep a GPU busy where
the batch is small, which is why half as many lanes is all that is usual. Measured on an H200, with batches of 1,024 to
131,072 (benchmarks/NOTES.md).
"""

from __future__ import annotations

from explorer.compiler.ir.kernels import Loop, ScheduledKernel
from explorer.compiler.ir.loops import Load
from explorer.compiler.ir.node import Atom
from explorer.compiler.schedule.edit.queries import Body, access_of, array_of, static_extent

LEAST_LANES = 4
"""Fewer ask for 32 bytes of a row at a time: 16 numbers by 2 lanes take 1.05 to 1.22 of the time by 4."""
MOST_VECTORS, MOST_FLOATS = 3, 32
"""Of the longest row, and of all rows together, that a lane has where half as many lanes share an iteration. Of 4
vectors, batches of 1,024 take 1.07 of the time; of 40 floats, RotatE's of 131,072 take 1.12."""
ROUNDS = (4, 8, 16, 32)
"""What is usual of the most iterations of a lane whose loads are issued together: the first, or as many as it has."""
UNROLLED_FLOATS = 64
"""Of a lane that issues all of its loads together, be they of more iterations than are usual: three rows of 602, which
are 56 a lane, take 0.85 to 0.97 of the time so."""


def floats_gathered(nest: ScheduledKernel, body: Body) -> int:
    """How many numbers all rows have that an iteration with this body gathers; 0 where it does more: stores elements of
    rows, has loops that lanes do not share, or rows whose sizes are known only at run time."""
    rows: dict[tuple[str, tuple[Atom, ...]], int] = {}
    buffers = {buffer.name for buffer in nest.buffers}
    for loop in [statement for statement in body if isinstance(statement, Loop)]:
        size = static_extent(nest, loop.extent) if loop.bind == "lane" and loop.lower == 0 else None
        if size is None or any(isinstance(statement, Loop) for statement in loop.body):
            return 0
        found = [access for statement in loop.body if (access := access_of(statement)) is not None]
        for access in [access for access in found if array_of(access) in buffers]:
            if not isinstance(access, Load):
                return 0
            rows[access.buffer, access.indices[:-1]] = size
    return sum(rows.values())


def fewer_lanes(usual: int, vectors: int, floats: int) -> int:
    """How many lanes share an iteration that gathers so many `floats`, and of the longest row so many `vectors`: half
    of the `usual` number, with which a lane has one of these up to a warp, where it then has few enough of both."""
    half = usual // 2
    few = 0 < floats <= MOST_FLOATS * half and vectors <= MOST_VECTORS * half
    return half if few and half >= LEAST_LANES else usual


def rounds_together(iterations: int, lanes: int, floats: int) -> int:
    """The most iterations whose loads are issued together, usually, where a lane has so many, and `lanes` of them share
    so many `floats`."""
    fits = 0 < floats <= UNROLLED_FLOATS * lanes
    return next((most for most in ROUNDS if most >= iterations), ROUNDS[0]) if fits else ROUNDS[0]
