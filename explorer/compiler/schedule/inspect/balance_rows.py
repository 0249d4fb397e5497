"""Row balancing: an inspector that puts rows in the order of their length, the longest first (G-Sparse §III-B).

Blocks start in order, so that those with long rows start first, and rows that share a block end at like times. Lengths
from 1,024 on are told apart to within 1 in 128: they are divided by 8 until they are below that, and those that were
divided more often are longer. Which of two rows of one length comes first changes from run to run; what is computed for
it does not.

Source: G-Sparse §III-B, Algorithm 2, whose balancedIdx this is, after Sputnik's row swizzle.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.node import Extent, made
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.edit.primitives import bind_buffer
from explorer.compiler.schedule.inspect import facts
from explorer.compiler.schedule.inspect.inspection import Inspection
from explorer.compiler.target import BLOCK_THREADS, EXTENT_LIMIT

EXACT, SHRINK = 1024, 8
"""Lengths below the one have a place each; longer ones are divided by the other until they are below it. No decision,
nor is what follows: rows are sorted once for a graph, and other numbers give nearly the same order."""
LEVELS = next(n for n in range(32) if EXACT * SHRINK**n >= EXTENT_LIMIT)
EACH = EXACT - EXACT // SHRINK
"""Places of lengths that were divided as often."""
PLACES = EXACT + LEVELS * EACH
GROUP = 32
"""Lengths that are added up together."""
THREADS = BLOCK_THREADS


def balanced(kernel: ScheduledKernel, row: str, rows: Extent, offsets: str) -> tuple[ScheduledKernel, ScheduledKernel]:
    """The inspector, which runs once for a graph, and the kernel with its rows in the inspector's order."""
    origin = made("order the rows by their length", "schedule", kernel.origin)
    order = loops.Buffer(name=f"{kernel.name}_balanced", kind="index", extents=(rows,), origin=origin)
    lengths = next(buffer for buffer in kernel.buffers if buffer.name == offsets)
    inspection = Inspection(kernel.name, (lengths,), {"order": order}, (), once=True, origin=origin)
    reading = bind_buffer(replace(kernel, buffers=(*kernel.buffers, order)), row, order.name)
    return _inspector(inspection, lengths, order), reading


def _inspector(inspection: Inspection, offsets: loops.Buffer, order: loops.Buffer) -> ScheduledKernel:
    """One block, so that its threads can wait for one another: rows by length, where those of a length begin in the
    order, and each row in its place."""
    (rows,) = order.extents
    steps = inspection.steps()
    groups = PLACES // GROUP
    with steps.loop("block", 1, "block"):
        of_length = steps.tile("of_length", [PLACES], "shared", type="i32")
        of_group = steps.tile("of_group", [groups], "shared", type="i32")
        first = steps.tile("first", [PLACES], "shared", type="i32")
        for tile, size in ((of_length, PLACES), (of_group, groups), (first, PLACES)):
            with steps.loop("n", size, "thread") as each:
                steps.store(tile, [each], 0)
        steps.barrier()
        with steps.loop("r", rows, "thread", unroll=4) as row:
            missing = _missing(steps, offsets.name, row)
            steps.atomic(of_length, [missing], 1)
            steps.atomic(of_group, [steps.index("g", "div", missing, GROUP)], 1)
        steps.barrier()
        with steps.loop("n", PLACES, "thread") as each:
            group = steps.index("g", "div", each, GROUP)
            start = steps.index("start", "mul", group, GROUP)
            for longer, lower, upper in ((of_group, 0, group), (of_length, start, each)):
                with steps.segment("more", lower, upper, 1) as more:
                    added, before = steps.load("rows", longer, more), steps.load("before", first, each)
                    steps.store(first, [each], steps.index("sum", "add", before, added))
        steps.barrier()
        with steps.loop("r", rows, "thread", unroll=4) as row:
            again = _missing(steps, offsets.name, row)
            place = steps.atomic(first, [again], 1, "place")
            steps.store(order.name, [place], row)
    steps.know((*facts.of_lack(missing, PLACES), *facts.of_lack(again, PLACES), *facts.of_place(place, rows)))
    line = f"sort the rows by how many elements {offsets.name} gives them, the longest first, in one block"
    return inspection.kernel("balance", steps, THREADS, line)


def _missing(steps: Steps, offsets: str, row: str) -> Extent:
    """How many places a row's length is before that of the longest there may be."""
    begin = steps.load("begin", offsets, row)
    end = steps.load("end", offsets, steps.index("next", "add", row, 1))
    length, level = (steps.tile(hint, [1], "register", type="i32") for hint in ("length", "level"))
    steps.store(length, [0], steps.index("elements", "sub", end, begin))
    steps.store(level, [0], 0)
    with steps.loop("again", LEVELS), steps.where(EXACT, "<=", steps.load("left", length, 0)):
        steps.store(length, [0], steps.index("less", "div", steps.load("left", length, 0), SHRINK))
        steps.count(level, [0], EACH)
    place = steps.index("place", "add", steps.load("own", length, 0), steps.load("passed", level, 0))
    return steps.index("missing", "sub", PLACES - 1, place)
