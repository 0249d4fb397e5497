"""Rows of a product's result that several pieces are added to start at 0; all others are stored once."""

from __future__ import annotations

from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import made
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.gemm.tiling import THREADS_ACROSS
from explorer.compiler.schedule.inspect.group_by_matrix import THREADS
from explorer.compiler.target import VECTOR

CLEARED = 8
"""Rows that a row of threads clears, if they are to be cleared."""


def clear_rows(
    name: str, sums: Buffer, added: Buffer, columns: int, sizes: tuple[tuple[str, int], ...]
) -> ScheduledKernel:
    """The kernel that sets rows of the sums, of so many columns, to 0: those of nodes that several pieces are `added`
    to. A row of threads looks at several, whose loads are under way together."""
    nodes, _ = sums.extents
    step = 1 if columns % VECTOR else VECTOR
    wide = THREADS_ACROSS * step
    down = THREADS // THREADS_ACROSS
    steps = Steps.over((sums, added), made("zero the sums", "schedule", sums.origin))
    with steps.loop("block", Count(((nodes, down * CLEARED),)), "block") as block:
        first = steps.index("first", "mul", block, down * CLEARED)
        counted = steps.tile("pieces", [CLEARED, down], "register", type="i32")
        with steps.loop("row", down, "thread") as row, steps.loop("q", wide, "thread", step=step) as along:
            start = steps.index("n", "add", first, row)
            with steps.all("side", CLEARED) as side:
                node = steps.index("n", "add", start, steps.index("above", "mul", side, down))
                there = steps.index("n", "min", node, steps.index("last", "sub", nodes, 1))
                steps.store(counted, [side, row], steps.load("pieces", added.name, there))
            with (
                steps.all("side", CLEARED) as side,
                steps.where(1, "<", steps.load("pieces", counted, side, row)),
                steps.all("pass", -(-columns // wide)) as which,
            ):
                node = steps.index("n", "add", start, steps.index("above", "mul", side, down))
                column = steps.index("k", "add", steps.index("before", "mul", which, wide), along)
                with (
                    steps.where(node, "<", nodes),
                    steps.where(column, "<", columns, needed=bool(columns % wide)),
                ):
                    steps.store(sums.name, [node, column], 0.0)
    line = f"clear rows of {sums.name} that several pieces are added to, {down} a block"
    return steps.kernel(name, "rows", THREADS, (sums, added), line, sizes=sizes)
