"""Dots: lanes that share a row sum over it, for many rows a warp. What g-SDDMM is, and each edge's or pair's logit.

G-Sparse §III-B, Algorithm 3: kLaneWidth lanes take an element of the parallel loop, each a part of its dot product,
and a tree of shuffles joins them. A warp has 32 elements, so that the index arrays are read by the line.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.passes.report import Report
from explorer.compiler.passes.statements import all_names
from explorer.compiler.schedule.lanes import LANES, VECTOR, Nest, Spread, Unfit, nest_of, on_lanes, spread_rows
from explorer.compiler.schedule.lane_groups import WARPS, lines_of

ELEMENTS = 32
"""Elements of the parallel loop that a warp does."""
LINE = 8
"""Lanes that read 128 bytes, a line of memory."""
VECTORS = 4
"""Vectors of a row that a lane takes before more lanes share the row."""
LOADS = 8
"""Vectors of each operand that a lane has in flight."""
MOST_HEADS = 8
"""The longest loop around the dot products for which a group of lanes is enough."""


def schedule_dots(kernel: loops.Kernel, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel with kLaneWidth lanes an element; empty, and the reason reported, where it cannot be."""
    try:
        nest = nest_of(kernel)
        _check(nest)
        spread = spread_rows(nest, lane_width(nest))
        return (_scheduled(nest, spread, report),)
    except Unfit as reason:
        report.refused(f"{kernel.name} is not scheduled by dots: {reason}")
        return ()


def _check(nest: Nest) -> None:
    """Raises Unfit unless all that an element takes is sums over rows."""
    if nest.segment_loops:
        raise Unfit("it walks segments")
    if not nest.row_loops:
        raise Unfit("it has no sum over a row")
    for loop in nest.row_loops:
        if any(isinstance(child, loops.Store) for child in loop.body):
            raise Unfit(f"its loop over {loop.variable} stores a row")
    for node in walk(nest.loop):
        if not isinstance(node, loops.For) or node is nest.loop or nest.over_row(node):
            continue
        if nest.kernel.size(node.extent) > MOST_HEADS:
            raise Unfit(f"an element has more than {MOST_HEADS} sums, one for each {node.variable}")
    if any(isinstance(node, loops.Accumulate) and _is_output(nest, node.target) for node in walk(nest.loop)):
        raise Unfit("it adds to an output")


def _is_output(nest: Nest, name: str) -> bool:
    return any(buffer.name == name and buffer.kind == "output" for buffer in nest.kernel.buffers)


def lane_width(nest: Nest) -> int:
    """kLaneWidth: lanes that read a line of memory together, more where a row is long, fewer where it is short."""
    longest = max(nest.kernel.size(loop.extent) for loop in nest.row_loops)
    wanted = max(LINE, -(-longest // (VECTOR * VECTORS)))
    return min(LANES, 1 << (wanted - 1).bit_length())


def _scheduled(nest: Nest, spread: Spread, report: Report) -> kernels.ScheduledKernel:
    kernel, loop = nest.kernel, nest.loop
    unroll = min(max(LOADS // spread.rounds, 1), ELEMENTS // spread.groups)
    lines = [
        f"split {loop.variable}: a block of {WARPS} warps has {WARPS * ELEMENTS} elements, a warp {ELEMENTS}",
        f"kLaneWidth = {spread.width}: a warp has {spread.groups} elements at a time",
        *lines_of(nest, spread),
        f"clamp {loop.variable} to the last element",
    ]
    report.did(f"{kernel.name} by dots: {', '.join(lines)}")
    return kernels.ScheduledKernel(
        name=kernel.name,
        template="dots",
        sizes=kernel.sizes,
        buffers=kernel.buffers,
        threads=LANES * WARPS,
        schedule=tuple(lines),
        body=(_in_blocks(nest, on_lanes(nest, loop.body, spread), spread, unroll),),
        origin=kernel.origin,
    )


def _in_blocks(
    nest: Nest, body: tuple[kernels.Statement, ...], spread: Spread, unroll: int
) -> kernels.Statement:
    """The loops over blocks, warps, rounds and groups of lanes around one element.

    What is past the end is the last element again, which stores the same: lanes that shuffle stay together, and an
    unrolled gather needs no condition."""
    loop, names = nest.loop, Names(all_names(nest.kernel))
    origin = loop.origin

    def index(hint: str, function: str, *operands: str | int) -> loops.Index:
        return loops.Index(result=names.new(hint), function=function, operands=operands, origin=origin)

    block, warp, turn, group = (names.new(hint) for hint in ("block", "warp", "turn", "group"))
    first = index("first", "mul", block, WARPS)
    number = index("number", "add", first.result, warp)
    start = index("start", "mul", number.result, ELEMENTS)
    assert isinstance(loop.extent, str | int)
    last = index("last", "sub", loop.extent, 1)
    offset = index("offset", "mul", turn, spread.groups)
    own = index("own", "add", start.result, offset.result)
    place = index("place", "add", own.result, group)
    element = loops.Index(
        result=loop.variable, function="min", operands=(place.result, last.result), origin=origin
    )
    grouped = kernels.Loop(
        variable=group, extent=spread.groups, body=(place, element, *body), bind="lane", width=spread.groups, origin=origin
    )
    turns = kernels.Loop(
        variable=turn, extent=ELEMENTS // spread.groups, body=(offset, own, grouped), unroll=unroll, origin=origin
    )
    warps = kernels.Loop(
        variable=warp, extent=WARPS, body=(number, start, last, turns), bind="warp", origin=origin
    )
    blocks = kernels.Count(((loop.extent, WARPS * ELEMENTS),))
    return kernels.Loop(variable=block, extent=blocks, body=(first, warps), bind="block", origin=origin)
