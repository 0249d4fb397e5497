"""Merging by rows: a warp puts together what small pieces have of a row, if that is in more than one of them.

Where a row's state is a few numbers, each lane has a piece of a few elements, and a row of some thousands has as many
pieces. Its states are shared out among a warp's lanes, and joined once.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.decisions import Decision
from explorer.compiler.ir import kernels, loops
from explorer.compiler.schedule.lanes.log import LaneLog
from explorer.compiler.schedule.lanes.mapping import Nest, Spread, Unfit, on_lanes
from explorer.compiler.schedule.lanes.state import mean_length
from explorer.compiler.schedule.segments.by_rows import in_blocks
from explorer.compiler.schedule.segments.merge import STATES, STATES_IN_FLIGHT, merge_states, merged_arrays, merging
from explorer.compiler.schedule.segments.partials import Pieces

MERGE = Decision(
    name="merge",
    domain=("by_rows", "by_pieces"),
    why="who puts together what chunks have of a row: a warp for each row, or whoever had the chunk that it begins in",
    source="by rows where a lane has a piece of at most 16 elements, and rows are of two and more, measured on an H100",
)
OFTEN = 2
"""A million nonzeros in 100 thousand rows, pieces of 8: by rows they are merged in 23 us, by pieces in 15 (H200)."""
SMALL_PIECE = 16
"""Elements of a piece up to which a row may have so many of them that a warp shares its states: what the usual
`merge` is told by."""


def merged_by(pieces: Pieces) -> kernels.ScheduledKernel:
    """The kernel that merges, by rows or by pieces."""
    report, name = pieces.report, pieces.kernel.name
    if pieces.nest.heads is not None or any(part.scale for part in pieces.segment.state):
        return merging(pieces)
    usual = "by_rows" if pieces.size <= SMALL_PIECE and _often_cut(pieces) else "by_pieces"
    if report.choose(name, MERGE, usual) == "by_rows":
        if (by_rows := merging_by_rows(pieces)) is not None:
            return by_rows
        report.settle(name, MERGE, "by_pieces", "iterations over states depend on one another")
    return merging(pieces)


def _often_cut(pieces: Pieces) -> bool:
    """Whether a row is in OFTEN pieces on average, or nobody knows: a warp has little to do for a row of few."""
    length = mean_length(pieces.segment, pieces.report.counts)
    return not length or length >= OFTEN * pieces.size


def merging_by_rows(pieces: Pieces) -> kernels.ScheduledKernel | None:
    """The kernel in which a warp has a row; None where its states must be put together in order."""
    write, loop, size = pieces.write, pieces.nest.loop, pieces.size
    in_flight = pieces.report.number(pieces.kernel.name, STATES, STATES_IN_FLIGHT)
    begin = write.load("from", pieces.segment.offsets, loop.variable)
    following = write.index("next", "add", loop.variable, 1)
    end = write.load("upto", pieces.segment.offsets, following.result)
    final = write.index("final", "sub", end.result, 1)
    first = write.index("first", "div", begin.result, size)
    last = write.index("last", "div", final.result, size)
    try:
        spread = replace(pieces.spread, sharing=pieces.spread.groups, unroll=in_flight, log=LaneLog())
        merged = _merged(pieces, spread, first, last)
    except Unfit:
        return None
    body = (begin, following, end, final, first, last, write.where(first.result, "<", last.result, *merged))
    lines = [
        f"a row of more than one piece: its warp shares the states, {in_flight} a lane in flight",
        *spread.log.lines,
    ]
    name = write.names.new(f"{pieces.kernel.name}_merge")
    blocks = in_blocks(loop, body, write.names, 1, pieces.warps)
    buffers = tuple(buffer for buffer in merged_arrays(pieces) if buffer.name != pieces.rows)
    return pieces.scheduled(name, "merge", lines, buffers, blocks, spread)


def _merged(pieces: Pieces, spread: Spread, first: loops.Index, last: loops.Index) -> tuple[kernels.Statement, ...]:
    """What the pieces have of a row, from its first one to its last, and its end; raises Unfit."""
    write, segment = pieces.write, pieces.segment
    stop = write.index("stop", "add", last.result, 1)
    other = write.names.new("other")
    missed = write.index("missed", "sub", other, first.result)
    place = write.index("place", "min", missed.result, 1)
    body = (missed, place, *merge_states(pieces, pieces.stores, (other, place.result)))
    states = loops.For(variable=other, lower=first.result, extent=stop.result, body=body, origin=write.origin)
    everything = (*segment.before, stop, states, *segment.after)
    kernel = replace(pieces.kernel, buffers=(*pieces.kernel.buffers, *pieces.states("temporary")))
    nest = Nest(kernel, replace(pieces.nest.loop, body=everything))
    return on_lanes(nest, everything, spread, write.names)
