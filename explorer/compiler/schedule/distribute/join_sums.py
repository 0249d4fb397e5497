"""Joins kernels of sums over one whole set that are each a row in registers: several biases are summed together, which
saves launches, and loads that their terms share are done once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Names, merge, walk
from explorer.compiler.ir.statements import all_names, pure, renamed
from explorer.compiler.schedule.distribute.fission import TOGETHER, walked_by_few
from explorer.compiler.schedule.edit.nests import Body, only_loop

MOST_NUMBERS = 256
"""Numbers that are summed in one kernel: a warp's lanes keep 8 each, and have registers left for what is in flight."""


def sums_together(
    parts: Sequence[loops.Kernel], plain: Callable[[loops.Kernel], bool]
) -> tuple[tuple[loops.Kernel, ...], ...]:
    """The kernels in order, in groups: `plain` sums over one set that nothing between them may need, and each other
    kernel by itself."""
    found: list[tuple[loops.Kernel, ...]] = []
    groups: dict[object, int] = {}
    for kernel in parts:
        if not walked_by_few(kernel):
            groups.clear()
        over = _over(kernel) if walked_by_few(kernel) and plain(kernel) else None
        at = groups.get(over)
        if over is not None and at is not None and sum(map(_numbers, (*found[at], kernel))) <= MOST_NUMBERS:
            found[at] = (*found[at], kernel)
            continue
        if over is not None:
            groups[over] = len(found)
        found.append((kernel,))
    return tuple(found)


def joined(kernels: Sequence[loops.Kernel], names: Names) -> loops.Kernel:
    """One kernel that does what some do."""
    first, *others = kernels
    for other in others:
        first = _joined(first, other, names)
    return replace(first, template=TOGETHER)


def _over(kernel: loops.Kernel) -> object:
    """What a sum goes over: the extents of the nest, and of its one long loop; and whether it is of rows, or of
    numbers, for which each lane has an element of its own. None where it has other loops."""
    loop = only_loop(kernel)
    done = [statement for statement in loop.body if not pure(statement)] if loop is not None else []
    if loop is None or len({(s.lower, s.extent) for s in done if isinstance(s, loops.For)}) != 1:
        return None
    (segment, *_) = done
    assert isinstance(segment, loops.For)
    rows = {len(buffer.extents) > 1 for buffer in kernel.buffers if buffer.kind == "output"}
    return loop.extent, segment.lower, segment.extent, frozenset(rows)


def _numbers(kernel: loops.Kernel) -> int:
    """How many numbers an iteration sums."""
    outputs = (buffer for buffer in kernel.buffers if buffer.kind == "output")
    return sum(prod(kernel.size(extent) for extent in buffer.extents[1:]) for buffer in outputs)


def _joined(first: loops.Kernel, second: loops.Kernel, names: Names) -> loops.Kernel:
    """One kernel that does what two do, by the iterations of the first."""
    loop, other = only_loop(first), only_loop(second)
    assert loop is not None
    assert other is not None
    taken = all_names(first)
    defined = {name for s in other.body for node in walk(s) if (name := loops.result_of(node)) is not None}
    changes = {name: names.new(name) for name in sorted(defined & taken)} | {other.variable: loop.variable}
    body: Body = (*loop.body, *renamed(other.body, changes))
    known = {buffer.name: buffer for buffer in (*second.buffers, *first.buffers)}
    origin = merge(first.origin, second.origin)
    joined = replace(loop, body=body, origin=origin)
    return replace(first, buffers=tuple(known.values()), body=(joined,), origin=origin)
