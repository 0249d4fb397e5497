"""Row pieces: a warp has one row at a time, from its first element to where elements are cut.

Where a piece of elements has many short rows, whoever has it does them one after another, and all wait for the slowest
piece. Here each row has a warp of its own for its first elements, and every place where elements are cut has one for
the row that is cut there: a warp never has more than one row, nor more than a piece's elements. What there is of rows
that are cut is stored as pieces have it, and merged as there.

The warp's lanes compute the scalars of an element each, so that what a row waits for is looked up once, for all
elements together; then the warp's groups of lanes sum rows. That is how attention is best written by hand.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from explorer.compiler.counts import SETS
from explorer.compiler.decisions import Value
from explorer.compiler.ir import kernels, loops
from explorer.compiler.options import CHUNKS
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.fitting import lowered
from explorer.compiler.schedule.inspect.popular_rows import POPULAR
from explorer.compiler.schedule.lanes.hoist_heads import rows_nest
from explorer.compiler.schedule.lanes.mapping import Nest, Unfit, on_lanes, spread_rows
from explorer.compiler.schedule.lanes.state import Segment, cut_segment_of, mean_length
from explorer.compiler.schedule.lanes.widths import lanes_for, say_lanes
from explorer.compiler.schedule.segments.by_nonzeros import BLOCK_WARPS, CHUNK
from explorer.compiler.schedule.segments.by_rows import LOADS_OF_ROWS, WARPS, waiting
from explorer.compiler.schedule.segments.merge import merging
from explorer.compiler.schedule.segments.partials import Pieces
from explorer.compiler.schedule.staging.row_elements import RowElements
from explorer.compiler.schedule.strategies import ROW_PIECES, STRATEGY
from explorer.compiler.target import FLOAT_BYTES

PIECE = 128
"""The usual `chunk`."""
STATES_IN_FLIGHT = 4
"""The usual `states`: most rows have two."""
LONG = 16
"""Elements that rows have on average from which on one is enough for a warp: what the usual strategy is told by."""


def schedule_row_pieces(kernel: loops.Kernel, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel over pieces of rows and the one that merges; empty where rows are few or short, or not a graph's,
    and where it cannot be."""
    try:
        nest = rows_nest(kernel)
        segment = cut_segment_of(nest)
        length = length_of(segment, report)
        wanted_here = report.wanted(kernel.name, STRATEGY) == ROW_PIECES
        spread = waiting(spread_rows(nest, lanes_for(nest, report)), nest, LOADS_OF_ROWS, report)
        if (length < LONG and not wanted_here) or nest.heads is not None or spread.width == 1:
            return ()
        warps = report.number(kernel.name, BLOCK_WARPS, WARPS)
        wanted = report.number(kernel.name, CHUNK, PIECE, partial(_fitting, segment, warps, report.target.shared_most))
        size = _size(segment, wanted, warps, report)
        pieces = Pieces(segment, spread, size * spread.groups, Writer(nest.kernel, segment.origin), report, warps)
        scheduled = _Summing(pieces).kernel(), merging(pieces, STATES_IN_FLIGHT)
    except Unfit:
        return ()
    say_lanes(nest, spread, report)
    report.settle(kernel.name, CHUNK, size, f"{_bytes(segment, wanted, warps):,} bytes of shared memory are too many")
    if report.choose(kernel.name, POPULAR, False, lambda: (False,)):
        report.settle(kernel.name, POPULAR, False)
        report.refused(f"no rows that {kernel.name} gathers are marked as popular: a warp has one row (split=nonzeros)")
    report.did(
        f"{kernel.name} by rows, a warp each, cut at every {size} {segment.elements}, since a row has {length:.0f} of"
        f" them on average in {report.counts.name}"
    )
    return scheduled


def length_of(segment: Segment, report: Report) -> float:
    """How many elements a row of a graph has on average; 0 where nobody knows, or where rows are too few for warps
    that keep a device busy."""
    if segment.elements not in SETS or segment.rows not in SETS:
        return 0.0
    return mean_length(segment, report.counts) if report.counts[SETS[segment.rows]] >= report.target.busy_warps else 0.0


def _size(segment: Segment, wanted: int, warps: int, report: Report) -> int:
    """How many elements a piece has: as many as are wanted, if a block has shared memory for their scalars."""
    most = report.target.shared_most
    size = lowered(wanted, CHUNKS, lambda each: _bytes(segment, each, warps) <= most)
    if size is None:
        raise Unfit("a block has no shared memory for the scalars of its elements")
    return size


def _fitting(segment: Segment, warps: int, most: int) -> tuple[Value, ...]:
    """The pieces for which a block has shared memory, `most` bytes."""
    return tuple(size for size in CHUNKS[1:] if _bytes(segment, size, warps) <= most) or (CHUNKS[1],)


def _bytes(segment: Segment, size: int, warps: int) -> int:
    """The shared memory of a block of so many warps, which have so many elements each."""
    elements = RowElements(segment, size, Writer(segment.nest.kernel, segment.loop.origin))
    return warps * size * FLOAT_BYTES * len(elements.tiles.kept)


class _Summing:
    """The kernel in which a warp does what it has of one row."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces, self.segment, self.write = pieces, pieces.segment, pieces.write
        self.spread = replace(pieces.spread, split=True)
        self.nest, self.size = pieces.nest, pieces.size
        self.begin, self.end = str(self.segment.loop.lower), str(self.segment.loop.extent)
        self.elements = RowElements(self.segment, self.size, self.write)

    def kernel(self) -> kernels.ScheduledKernel:
        """The kernel, with the states of its pieces as outputs."""
        segment, spread, pieces = self.segment, self.spread, self.pieces
        blocks = self._in_blocks()
        lines = [
            f"cut {segment.elements} at every {self.size}: a warp for what each row has up to there, and for the rest",
            f"search {segment.offsets} for the row that is cut",
            f"bind {segment.loop.variable} to lanes for its scalars, staged in shared memory",
            f"share a row's among {spread.groups} groups of {spread.width} lanes",
            *spread.log.lines,
            "end rows that are whole, store what there is of the others",
        ]
        name, buffers = pieces.kernel.name, (*pieces.kernel.buffers, *pieces.states("output"))
        return pieces.scheduled(name, "nonzeros", lines, buffers, blocks, spread, self.elements.streamed)

    def _in_blocks(self) -> kernels.Statement:
        """The loops over blocks and warps: first the pieces, whole blocks of them, then the rows."""
        write, count, warps = self.write, self.pieces.count, self.pieces.warps
        block, warp = write.names.new("block"), write.names.new("warp")
        base = write.index("base", "mul", block, warps)
        own = write.index("own", "add", base.result, warp)
        inner = (own, *self.elements.tiles.declared(), *self._found(own.result))
        blocks = kernels.Count(((count, warps), (self.segment.rows, warps)))
        return write.loop(block, blocks, base, write.loop(warp, warps, *inner, bind="warp"), bind="block")

    def _found(self, own: str) -> tuple[kernels.Statement, ...]:
        """The row of a warp, and the first element that it has of it. A warp past those of the pieces has a row of its
        own, another one has the row that is cut where its piece begins, if it does not begin there."""
        write, segment, rows, warps = self.write, self.segment, self.segment.rows, self.pieces.warps
        padded = write.index("padded", "add", self.pieces.count, warps - 1)
        blocks = write.index("blocks", "div", padded.result, warps)
        cuts = write.index("cuts", "mul", blocks.result, warps)
        past = write.index("past", "sub", own, cuts.result)
        of_row = write.index("of_row", "at_most", 0, past.result)
        piece = write.index("piece", "min", own, self.pieces.count)
        place = write.index("place", "mul", piece.result, self.size)
        first = write.index("first", "select", of_row.result, 0, place.result)
        among = write.index("among", "max", rows, 1)
        upper = write.index("upper", "select", of_row.result, 1, among.result)
        cut = write.search("cut", segment.offsets, first.result, 0, upper.result)
        number = write.index("number", "max", past.result, 0)
        row = write.define(segment.row, "add", cut.result, number.result)
        most = write.index("most", "max", segment.elements, 1)
        known = write.where(own, "<", self.pieces.count, *self._last_row(own, first.result, cut.result))
        begins = write.load("begins", segment.offsets, segment.row)
        before = write.index("before", "less", begins.result, first.result)
        own_row = write.index("mine", "select", of_row.result, 1, before.result)
        start = write.index("from", "max", begins.result, first.result)
        mine = write.where(own_row.result, "==", 1, start, *self._row(start.result))
        inside = write.where(segment.row, "<", rows, known, begins, before, own_row, mine)
        counted = (padded, blocks, cuts, past, of_row, piece, place, first, among, upper)
        return (*counted, cut, number, row, most, write.where(first.result, "<", most.result, inside))

    def _last_row(self, piece: str, first: str, row: str) -> tuple[kernels.Statement, ...]:
        """Stores the row that a piece ends in, for those who merge."""
        write, segment = self.write, self.segment
        after = write.index("after", "add", first, self.size)
        final = write.index("final", "sub", after.result, 1)
        bottom = write.search("bottom", segment.offsets, final.result, row, segment.rows)
        return after, final, bottom, write.store(self.pieces.rows, bottom.result, piece)

    def _row(self, start: str) -> tuple[kernels.Statement, ...]:
        """What a warp does for a row from an element on: up to the row's end, or to where it is cut next."""
        write, segment = self.write, self.segment
        piece = write.index("piece", "div", start, self.size)
        following = write.index("next", "add", piece.result, 1)
        boundary = write.index("boundary", "mul", following.result, self.size)
        upper = write.index("upto", "min", self.end, boundary.result)
        phases: list[kernels.Statement | loops.Statement] = []
        for loop in self.elements.phased(start, upper.result):
            phases += [*([kernels.Barrier(level="warp", origin=write.origin)] if phases else []), loop]
        found = (piece, following, boundary, upper)
        head = self._on_lanes((*segment.before, *found, *phases))  # type: ignore[arg-type]
        return (*head, *self.pieces.left(self.spread, piece.result, start, upper.result))

    def _on_lanes(self, body: tuple[loops.Statement, ...]) -> tuple[kernels.Statement, ...]:
        """Statements of a row on lanes, its loops over elements shared by all of the warp."""
        kernel = self.nest.kernel
        kernel = replace(kernel, buffers=(*kernel.buffers, *self.elements.tiles.arrays))
        nest = Nest(kernel, replace(self.nest.loop, body=(*body, *self.segment.after)))
        return on_lanes(nest, body, self.spread, self.write.names)
