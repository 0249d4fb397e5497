"""Dots: lanes that share a row sum over it, for many rows a warp. What g-SDDMM is, and each edge's or pair's logit.

G-Sparse §III-B, Algorithm 3: kLaneWidth lanes take an element of the parallel loop, each a part of its dot product,
and a tree of shuffles joins them. A warp has 32 elements, so that the index arrays are read by the line, and a block as
many as `block_rows` says (the edges of a block, G-Sparse §III-C).
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import walk
from explorer.compiler.passes.report import Report
from explorer.compiler.passes.statements import rename
from explorer.compiler.schedule.batches import Batch
from explorer.compiler.schedule.lane_groups import WARPS, lines_of
from explorer.compiler.schedule.lane_shares import lanes_for, say_lanes
from explorer.compiler.schedule.lanes import (
    LANES,
    VECTOR,
    Nest,
    Spread,
    Unfit,
    batch_size,
    nest_of,
    on_lanes,
    spread_rows,
    with_resident,
)
from explorer.compiler.schedule.output_tiles import check_registers, warps_for
from explorer.compiler.schedule.writer import Writer

ELEMENTS = 32
"""Elements of the parallel loop that a warp does."""
LINE = 8
"""Lanes that read 128 bytes, a line of memory."""
VECTORS = 4
"""Vectors of a row that a lane takes before more lanes share the row."""
LOADS = 8
"""The most elements with their rows in registers, where rows are short."""
UNROLL = 2
"""Batches side by side, so that the indices of the next are on their way."""
MOST_HEADS = 8
"""The longest loop around the dot products for which a group of lanes is enough."""


def schedule_dots(kernel: loops.Kernel, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel with kLaneWidth lanes an element; empty, and the reason reported, where it cannot be."""
    try:
        nest = nest_of(kernel)
        _check(nest)
        spread = spread_rows(nest, lanes_for(nest, report, lane_width(nest)))
        made = _scheduled(nest, spread, report)
        say_lanes(nest, spread, report)
        report.heeds("block_rows")
        return (made,)
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
    stored = {node.target for node in walk(nest.loop) if isinstance(node, loops.Store)}
    for node in walk(nest.loop):
        if isinstance(node, loops.Load) and node.buffer in stored and _is_output(nest, node.buffer):
            raise Unfit(f"it reads {node.buffer} back, of which one lane has stored what others read")


def _is_output(nest: Nest, name: str) -> bool:
    return any(buffer.name == name and buffer.kind == "output" for buffer in nest.kernel.buffers)


def lane_width(nest: Nest) -> int:
    """kLaneWidth: lanes that read a line of memory together, more where a row is long, fewer where it is short."""
    longest = max(nest.kernel.size(loop.extent) for loop in nest.row_loops)
    wanted = max(LINE, -(-longest // (VECTOR * VECTORS)))
    return min(LANES, 1 << (wanted - 1).bit_length())


def _scheduled(nest: Nest, spread: Spread, report: Report) -> kernels.ScheduledKernel:
    kernel, loop = nest.kernel, nest.loop
    warps = warps_for(kernel.name, ELEMENTS, WARPS, report)
    lines = [
        f"split {loop.variable}: a block of {warps} warps has {warps * ELEMENTS} elements, a warp {ELEMENTS}",
        f"kLaneWidth = {spread.width}: a warp has {spread.groups} elements at a time",
        *lines_of(nest, spread),
        f"clamp {loop.variable} to the last element",
    ]
    report.did(f"{kernel.name} by dots: {', '.join(lines)}")
    scheduled = kernels.ScheduledKernel(
        name=kernel.name,
        template="dots",
        sizes=kernel.sizes,
        buffers=kernel.buffers,
        threads=LANES * warps,
        schedule=tuple(lines),
        body=(_in_blocks(nest, spread, warps),),
        origin=kernel.origin,
    )
    check_registers(scheduled, spread, report)
    return with_resident(scheduled, spread)


def _in_blocks(nest: Nest, spread: Spread, warps: int) -> kernels.Statement:
    """The loops over blocks, warps, rounds and groups of lanes around a batch of elements.

    What is past the end is the last element again, up to its stores: lanes that shuffle stay together, and an
    unrolled gather needs no condition."""
    loop = nest.loop
    write = Writer(nest.kernel, loop.origin)
    body = on_lanes(nest, loop.body, spread, write.names)
    size = min(_in_flight(nest, spread, body), ELEMENTS // spread.groups)
    turns = ELEMENTS // spread.groups // size
    block, warp, turn, group = (write.names.new(hint) for hint in ("block", "warp", "turn", "group"))
    base = write.index("base", "mul", block, warps)
    own = write.index("own", "add", base.result, warp)
    start = write.index("start", "mul", own.result, ELEMENTS)
    assert isinstance(loop.extent, str | int)
    last = write.index("last", "sub", loop.extent, 1)
    offset = write.index("offset", "mul", turn, spread.groups * size)
    first = write.index("first", "add", start.result, offset.result)
    element = write.index("element", "add", first.result, group)
    steps = _steps(nest, spread, body, size, element.result, last.result, write)
    grouped = write.loop(group, spread.groups, element, *steps, bind="lane", width=spread.groups)
    in_turn = replace(write.loop(turn, turns, offset, first, grouped), unroll=min(turns, UNROLL))
    shared_out = write.loop(warp, warps, own, start, last, in_turn, bind="warp")
    blocks = kernels.Count(((loop.extent, warps * ELEMENTS),))
    return write.loop(block, blocks, base, shared_out, bind="block")


def _in_flight(nest: Nest, spread: Spread, body: tuple[kernels.Statement, ...]) -> int:
    """How many elements have their rows in registers at a time: a power of 2."""
    try:
        size = batch_size(body, spread, {buffer.name: buffer for buffer in nest.kernel.buffers}, LOADS)
    except ValueError:
        return 1
    return 1 << (size.bit_length() - 1)


def _steps(
    nest: Nest,
    spread: Spread,
    body: tuple[kernels.Statement, ...],
    size: int,
    element: str,
    last: str,
    write: Writer,
) -> tuple[kernels.Statement, ...]:
    """A batch of elements, `groups` apart: all their rows first, where they can be loaded so."""
    loop = nest.loop
    buffers = {buffer.name: buffer for buffer in nest.kernel.buffers}

    def guard(body: tuple[kernels.Statement, ...], place: str = loop.variable) -> tuple[kernels.Statement, ...]:
        return tuple(_stored_below(statement, loop, place, set(buffers), write) for statement in body)

    try:
        batch = Batch(body, loop.variable, size, buffers, write.names)
        return batch.statements(element, spread.groups, last, write.loop(loop.variable, size), guard)
    except ValueError:
        slot = write.names.new("slot")
        offset = write.index("offset", "mul", slot, spread.groups)
        ahead = write.index("ahead", "add", element, offset.result)
        place = loops.Index(result=loop.variable, function="min", operands=(ahead.result, last), origin=loop.origin)
        return (write.loop(slot, size, offset, ahead, place, *guard(body, ahead.result)),)


def _stored_below(
    statement: kernels.Statement, loop: loops.For, place: str, buffers: set[str], write: Writer
) -> kernels.Statement:
    """The statement with stores at `place`, the element before it is clamped, only where there is such an element."""
    if isinstance(statement, kernels.Loop):
        body = tuple(_stored_below(child, loop, place, buffers, write) for child in statement.body)
        return replace(statement, body=body)
    if not isinstance(statement, loops.Store) or statement.target not in buffers:
        return statement
    renamed = rename(statement, {loop.variable: place})
    assert isinstance(renamed, loops.Store)
    assert isinstance(loop.extent, str | int)
    operands = replace(renamed, operands=statement.operands)
    return write.where(place, "<", loop.extent, operands)
