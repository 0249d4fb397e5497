"""Row balancing: an inspector that puts rows in the order of their length, the longest first (G-Sparse §III-B).

Blocks start in order, so that those with long rows start first, and rows that share a block end at like times. Which of
two rows of one length comes first changes from run to run; what is computed for it does not.

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
from explorer.compiler.target import BLOCK_THREADS

LONGEST = 1024
"""Rows of as many elements, less one, or more count as equally long. No decision, nor is what follows: rows are sorted
once for a graph, and other numbers give the same order but of the longest."""
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
    groups = LONGEST // GROUP
    with steps.loop("block", 1, "block"):
        of_length = steps.tile("of_length", [LONGEST], "shared", type="i32")
        of_group = steps.tile("of_group", [groups], "shared", type="i32")
        first = steps.tile("first", [LONGEST], "shared", type="i32")
        for tile, size in ((of_length, LONGEST), (of_group, groups), (first, LONGEST)):
            with steps.loop("n", size, "thread") as each:
                steps.store(tile, [each], 0)
        steps.barrier()
        with steps.loop("r", rows, "thread", unroll=4) as row:
            missing = _missing(steps, offsets.name, row)
            steps.atomic(of_length, [missing], 1)
            steps.atomic(of_group, [steps.index("g", "div", missing, GROUP)], 1)
        steps.barrier()
        with steps.loop("n", LONGEST, "thread") as each:
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
    steps.know((*facts.of_lack(missing, LONGEST), *facts.of_lack(again, LONGEST), *facts.of_place(place, rows)))
    line = f"sort the rows by how many elements {offsets.name} gives them, the longest first, in one block"
    return inspection.kernel("balance", steps, THREADS, line)


def _missing(steps: Steps, offsets: str, row: str) -> Extent:
    """What a row's elements are short of the longest; 0 for all that have more."""
    begin = steps.load("begin", offsets, row)
    end = steps.load("end", offsets, steps.index("next", "add", row, 1))
    length = steps.index("length", "min", steps.index("elements", "sub", end, begin), LONGEST - 1)
    return steps.index("missing", "sub", LONGEST - 1, length)
