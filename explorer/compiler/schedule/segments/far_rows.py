"""Far rows: what of a piece's rows lies further than a piece goes, since most of them have no elements.

A piece has so many elements, but of rows without elements there may be a million between two: nodes of types that
receive nothing, most rows of a matrix whose degrees follow a power law. So a piece goes `near_rows` far. An inspector
lists the rows behind, once for a graph, and each of them is a group's of its own; where there are none, as mostly, no
block is launched for them.
"""

from __future__ import annotations

from collections.abc import Callable

from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import replace
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.index_sets import few
from explorer.compiler.ir.node import made
from explorer.compiler.schedule.inspect import facts
from explorer.compiler.schedule.inspect.inspection import Inspection
from explorer.compiler.schedule.lanes.log import LaneLog
from explorer.compiler.schedule.lanes.mapping import Nest, Spread, Unfit, of_heads, on_lanes
from explorer.compiler.schedule.segments.partials import Pieces
from explorer.compiler.target import BLOCK_THREADS

NEAR = Decision(
    name="near",
    domain=(64, 128, 256, 512, 1024, 2048, 4096, 8192),
    why="rows that a piece goes at most: those further are listed, and each is a group's of its own",
    source="two for each of its elements, or 64, which take a group some 10 us on an H100",
)
LIST, COUNT, BLOCKS = "far_list", "far_count", "far_blocks"
Left = Callable[[str, loops.Index, loops.Index], tuple[kernels.Statement, ...]]
"""What a piece, with a row's elements from one place up to another, leaves of the row."""


def near_rows(pieces: Pieces) -> int:
    """How many rows a piece goes; 0 for all of them, where there are few."""
    if few(pieces.nest.loop.extent):
        return 0
    return pieces.report.number(pieces.kernel.name, NEAR, min(max(2 * pieces.size, 64), 8192))


def far_rows(pieces: Pieces, states: tuple[loops.Buffer, ...], left: Left) -> tuple[kernels.ScheduledKernel, ...]:
    """The inspector that lists far rows, and the kernel that does what the piece that they begin in would have done:
    `left` says what that leaves of a row, of which `states` are the arrays.

    Row n begins in piece ptr[n] // size, which goes `near_rows` from the row of the element before its own first: n is
    further if the row so far before the one behind it begins in the piece as well."""
    if not near_rows(pieces):
        return ()
    segment, kernel = pieces.segment, pieces.kernel
    origin = made("rows that pieces do not come to", "schedule", kernel.origin)
    names = {held: pieces.write.names.new(f"{kernel.name}_{held}") for held in (LIST, COUNT, BLOCKS)}
    arrays = {
        held: loops.Buffer(name=name, kind="index", extents=(segment.rows if held == LIST else 1,), origin=origin)
        for held, name in names.items()
    }
    offsets = next(buffer for buffer in kernel.buffers if buffer.name == segment.offsets)
    inspection = Inspection(f"{kernel.name}_far", (offsets,), arrays, (), once=True, origin=origin)
    return _inspector(inspection, pieces), _summing(inspection, pieces, states, left)


def _inspector(inspection: Inspection, pieces: Pieces) -> kernels.ScheduledKernel:
    """One block, so that its threads can wait for one another: far rows, in any order, and how many blocks do them."""
    steps, size, offsets, rows = inspection.steps(), pieces.size, pieces.segment.offsets, pieces.segment.rows
    most = near_rows(pieces)
    with steps.loop("block", 1, "block"):
        counted = steps.tile("counted", [1], "shared", type="i32")
        with steps.loop("z", 1, "thread") as only:
            steps.store(counted, [only], 0)
        steps.barrier()
        with steps.loop("n", rows, "thread", unroll=4) as row:
            begin = steps.load("begin", offsets, row)
            first = steps.index("first", "mul", steps.index("piece", "div", begin, size), size)
            behind = steps.index("behind", "max", steps.index("before", "sub", row, most - 1), 0)
            earlier = steps.load("earlier", offsets, behind)
            with steps.where(most, "<=", row), steps.where(first, "<=", earlier):
                place = steps.atomic(counted, [0], 1, "place")
                steps.store(inspection[LIST], [place], row)
        steps.know(facts.of_listed(place, inspection[COUNT], rows))
        steps.barrier()
        with steps.loop("z", 1, "thread") as only:
            count = steps.load("count", counted, only)
            blocks = steps.index("blocks", "div", steps.index("up", "add", count, pieces.in_block - 1), pieces.in_block)
            steps.store(inspection[COUNT], [only], count)
            steps.store(inspection[BLOCKS], [only], blocks)
    said = f"list the rows more than {most} behind the one that their piece begins with"
    return inspection.kernel("rows", steps, BLOCK_THREADS, said)


def _summing(
    inspection: Inspection, pieces: Pieces, states: tuple[loops.Buffer, ...], left: Left
) -> kernels.ScheduledKernel:
    """The kernel in which a group of lanes has a far row, as far as that is in the piece that it begins in."""
    write, segment, spread = pieces.write, pieces.segment, pieces.spread
    spread = replace(spread, sharing=1, log=LaneLog())
    block, warp, group = (write.names.new(hint) for hint in ("block", "warp", "group"))
    base = write.index("base", "mul", block, pieces.warps)
    own = write.index("own", "add", base.result, warp)
    row = _row(pieces, left, spread)
    if spread.groups == 1:
        inner: tuple[kernels.Statement, ...] = (own, *_listed(inspection, pieces, own.result, row))
    else:
        start = write.index("start", "mul", own.result, spread.groups)
        at = write.index("at", "add", start.result, group)
        inner = (own, start, pieces.groups(group, at, *_listed(inspection, pieces, at.result, row)))
    rows = kernels.Count(((segment.rows, pieces.in_block),))
    blocks = write.loop(block, rows, base, write.loop(warp, pieces.warps, *inner, bind="warp"), bind="block")
    buffers = (*pieces.kernel.buffers, *inspection.of.values(), *states)
    lines = ["share far rows among groups of lanes, each up to where elements are cut", *spread.log.lines]
    name = write.names.new(f"{pieces.kernel.name}_far")
    listed = pieces.scheduled(name, "far", lines, buffers, blocks, spread)
    return replace(listed, busy=inspection[BLOCKS])


def _listed(
    inspection: Inspection, pieces: Pieces, at: str, body: tuple[kernels.Statement, ...]
) -> tuple[kernels.Statement, ...]:
    """What is done for the row at a place of the list, if there is one."""
    write, segment = pieces.write, pieces.segment
    count = write.load("count", inspection[COUNT], 0)
    row = replace(write.load("", inspection[LIST], at), result=segment.row)
    return count, write.where(at, "<", count.result, row, *body)


def _row(pieces: Pieces, left: Left, spread: Spread) -> tuple[kernels.Statement, ...]:
    """A row on lanes, from its first element to its last, or to where its piece ends."""
    write, segment, nest = pieces.write, pieces.segment, pieces.nest
    begin, end = segment.loop.lower, segment.loop.extent
    piece = write.index("piece", "div", begin, pieces.size)
    following = write.index("next", "add", piece.result, 1)
    boundary = write.index("boundary", "mul", following.result, pieces.size)
    lower, upper = write.index("from", "max", begin, 0), write.index("upto", "min", end, boundary.result)
    loop = replace(segment.loop, lower=lower.result, extent=upper.result)
    body = (*segment.before, piece, following, boundary, lower, upper, loop)
    on = on_lanes(Nest(nest.kernel, replace(nest.loop, body=(*body, *segment.after))), body, spread, write.names)
    if any(isinstance(statement, kernels.Reduce) for statement in on):
        raise Unfit("lanes join what they sum over a row's segment after it")
    return of_heads(nest, (*on, *left(piece.result, lower, upper)), spread)
