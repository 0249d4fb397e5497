"""Row pieces: a warp, or some of its lanes, has one row at a time, from its first element to where elements are cut.

Where a piece of elements has many short rows, whoever has it does them one after another, and all wait for the slowest
piece. Here each row has lanes of its own for its first elements, and every place where elements are cut has some for
the row that is cut there: they never have more than one row, nor more than a piece's elements. What there is of rows
that are cut is stored as pieces have it, and merged as there.

Where a row has a whole warp, its lanes compute the scalars of an element each, so that what a row waits for is looked
up once, for all elements together; then the warp's groups of lanes sum rows. That is how attention is best written by
hand. Of narrow rows a warp has several, each of some groups of lanes (`sharing`), which read their scalars themselves.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from explorer.compiler.decisions import Value
from explorer.compiler.ir import kernels, loops
from explorer.compiler.options import CHUNKS
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.fitting import lowered
from explorer.compiler.schedule.inspect.popular_rows import POPULAR
from explorer.compiler.schedule.lanes.hoist_heads import rows_nest
from explorer.compiler.schedule.lanes.mapping import LANES, Nest, Spread, Unfit, on_lanes, spread_rows
from explorer.compiler.schedule.lanes.state import Segment, cut_segment_of, mean_length
from explorer.compiler.schedule.lanes.widths import fewest_waiting, lanes_for, say_lanes
from explorer.compiler.schedule.segments.by_nonzeros import BLOCK_WARPS, CHUNK
from explorer.compiler.schedule.segments.by_rows import LOADS_OF_ROWS, SHARING, WARPS, power_from, waiting
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
BATCHES, LEAST_SHARE = 8, 32
"""Rounds of loads that a group of lanes has of a narrow row before others share it, and elements that it has of a
piece. On an H200, GCN of 16 features on biokg takes 72 us with 2 groups a row and pieces of 128, 79 with 4 groups, 80
with pieces of 64."""
NARROW, SEVERAL = 8, 8
"""Groups of lanes of a warp from which on rows are narrow, and rows that it then has at most at a time. Of 10 matrices
with 8 and 16 columns this took 0.72 to 0.97 of the time of nonzeros, with 32 columns 1.0 and 1.1 (H200)."""


def schedule_row_pieces(kernel: loops.Kernel, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel over pieces of rows and the one that merges; empty where rows are few, or short and wide, or not a
    graph's, and where it cannot be."""
    try:
        nest = rows_nest(kernel)
        segment = cut_segment_of(nest)
        spread = waiting(
            spread_rows(nest, lanes_for(nest, report, fewest_waiting(nest, LOADS_OF_ROWS))), nest, LOADS_OF_ROWS, report
        )
        if nest.heads is not None or not _usual_here(nest, segment, spread, report):
            return ()
        warps = report.number(kernel.name, BLOCK_WARPS, WARPS)
        sharing = _sharing(segment, spread, report)
        size = _size(segment, warps, report) if sharing == spread.groups else _cut_at(segment, sharing, report)
        pieces = Pieces(segment, spread, size * spread.groups, Writer(nest.kernel, segment.origin), report, warps)
        scheduled = _Summing(pieces, sharing).kernel(), merging(pieces, STATES_IN_FLIGHT)
    except Unfit:
        return ()
    say_lanes(nest, spread, report)
    if report.choose(kernel.name, POPULAR, False, lambda: (False,)):
        report.settle(kernel.name, POPULAR, False)
        why = "its rows are cut, and not shared out by their elements (split=nonzeros)"
        report.refused(f"no rows that {kernel.name} gathers are marked as popular: {why}")
    report.did(
        f"{kernel.name} by rows, {sharing * spread.width} lanes each, cut at every {size} {segment.elements}: a row"
        f" has {mean_length(segment, report.counts):.0f} of them on average in {report.counts.name}"
    )
    return scheduled


def _usual_here(nest: Nest, segment: Segment, spread: Spread, report: Report) -> bool:
    """Whether rows are cut so unless another strategy is asked for, or this one is: long rows of a graph, or narrow
    ones of known lengths, of which a warp has several, that are enough to keep a device busy."""
    if report.wanted(nest.kernel.name, STRATEGY) == ROW_PIECES:
        return True
    if spread.width > 1 and length_of(segment, report) >= LONG:
        return True
    scaled = any(part.scale for part in segment.state)  # of which a warp has one row at a time
    if scaled or not mean_length(segment, report.counts) or report.wants(nest.kernel.name, POPULAR):
        return False
    rows = report.counts.of(segment.rows) or 0
    gathers = any(isinstance(each, loops.For) and nest.over_row(each) for each in segment.loop.body)
    return gathers and spread.groups >= NARROW and rows * SEVERAL >= report.target.busy_warps * spread.groups


def length_of(segment: Segment, report: Report) -> float:
    """How many elements a row of a graph has on average; 0 where nobody knows, or where rows are too few for warps
    that keep a device busy."""
    counts = report.counts
    if not (counts.is_of_graph(segment.elements) and counts.is_of_graph(segment.rows)):
        return 0.0
    return mean_length(segment, counts) if (counts.of(segment.rows) or 0) >= report.target.busy_warps else 0.0


def _sharing(segment: Segment, spread: Spread, report: Report) -> int:
    """How many of a warp's groups of lanes share a row: all, or, of narrow rows, as many as have BATCHES of loads each,
    and so many that a warp has SEVERAL rows at most, whose lengths differ, as far as those give each a batch."""
    name, groups = segment.nest.kernel.name, spread.groups
    usual, length = groups, mean_length(segment, report.counts)
    if groups >= NARROW and length and not any(part.scale for part in segment.state):
        batches = length / spread.unroll
        least = min(groups // SEVERAL, power_from(batches))
        usual = min(groups, max(1, least, power_from(batches / BATCHES)))
    fitting = tuple(each for each in SHARING.domain if int(each) <= groups)
    sharing = min(groups, report.number(name, SHARING, usual, lambda: fitting))
    report.settle(name, SHARING, sharing, f"a warp has {groups} groups of lanes")
    return sharing


def _cut_at(segment: Segment, sharing: int, report: Report) -> int:
    """How many elements a piece has where a warp has several rows, all of whose lanes wait for the longest: so few that
    this is soon done, and twice those of a row, of which few are cut then."""
    wanted = max(LEAST_SHARE * sharing, power_from(2 * mean_length(segment, report.counts)))
    return report.number(segment.nest.kernel.name, CHUNK, min(PIECE, wanted))


def _size(segment: Segment, warps: int, report: Report) -> int:
    """How many elements a piece has: as many as are wanted, if a block has shared memory for their scalars."""
    name, most = segment.nest.kernel.name, report.target.shared_most
    wanted = report.number(name, CHUNK, PIECE, partial(_fitting, segment, warps, most))
    size = lowered(wanted, CHUNKS, lambda each: _bytes(segment, each, warps) <= most)
    if size is None:
        raise Unfit("a block has no shared memory for the scalars of its elements")
    report.settle(name, CHUNK, size, f"{_bytes(segment, wanted, warps):,} bytes of shared memory are too many")
    return size


def _fitting(segment: Segment, warps: int, most: int) -> tuple[Value, ...]:
    """The pieces for which a block has shared memory, `most` bytes."""
    return tuple(size for size in CHUNKS[1:] if _bytes(segment, size, warps) <= most) or (CHUNKS[1],)


def _bytes(segment: Segment, size: int, warps: int) -> int:
    """The shared memory of a block of so many warps, which have so many elements each."""
    elements = RowElements(segment, size, Writer(segment.nest.kernel, segment.loop.origin))
    return warps * size * FLOAT_BYTES * len(elements.tiles.kept)


class _Summing:
    """The kernel in which a warp does what it has of one row, or so many groups of lanes, `sharing` its elements, each
    of one row: then lanes read what elements are weighed with themselves, for rows end at different times."""

    def __init__(self, pieces: Pieces, sharing: int) -> None:
        self.pieces, self.segment, self.write = pieces, pieces.segment, pieces.write
        self.spread = replace(pieces.spread, sharing=sharing)
        self.in_block = pieces.warps * self.spread.segments
        self.nest, self.size = pieces.nest, pieces.size
        self.begin, self.end = str(self.segment.loop.lower), str(self.segment.loop.extent)
        self.elements = RowElements(self.segment, self.size, self.write) if self.spread.segments == 1 else None

    def kernel(self) -> kernels.ScheduledKernel:
        """The kernel, with the states of its pieces as outputs."""
        segment, spread, pieces = self.segment, self.spread, self.pieces
        blocks = self._in_blocks()
        who = "a warp" if spread.segments == 1 else f"one of a warp's {spread.segments} parts"
        lines = [
            f"cut {segment.elements} at every {self.size}: {who} for what each row has up to there, and for the rest",
            f"search {segment.offsets} for the row that is cut",
        ]
        lines += [f"bind {segment.loop.variable} to lanes for its scalars, staged in shared memory"] * self.staged
        lines += [f"share a row's among {spread.sharing} groups of {spread.width} lanes"] * (spread.sharing > 1)
        lines += [*spread.log.lines, "end rows that are whole, store what there is of the others"]
        name, buffers = pieces.kernel.name, (*pieces.kernel.buffers, *pieces.states("output"))
        streamed = self.elements.streamed if self.elements else ()
        return pieces.scheduled(name, "nonzeros", lines, buffers, blocks, spread, streamed)

    @property
    def staged(self) -> bool:
        """Whether elements' scalars are in shared memory."""
        return self.elements is not None

    def _in_blocks(self) -> kernels.Statement:
        """The loops over blocks, warps and their rows: first the pieces, whole blocks of them, then the rows."""
        write, count, warps, segments = self.write, self.pieces.count, self.pieces.warps, self.spread.segments
        block, warp = write.names.new("block"), write.names.new("warp")
        base = write.index("base", "mul", block, warps)
        own = write.index("own", "add", base.result, warp)
        if self.elements:
            inner: tuple[kernels.Statement, ...] = (own, *self.elements.tiles.declared(), *self._found(own.result))
        else:
            group = write.names.new("group")
            start = write.index("start", "mul", own.result, segments)
            item = write.index("item", "add", start.result, group)
            found = self._found(item.result)
            several = write.loop(group, segments, item, *found, bind="lane", width=segments, apart=LANES // segments)
            inner = (own, start, several)
        blocks = kernels.Count(((count, self.in_block), (self.segment.rows, self.in_block)))
        return write.loop(block, blocks, base, write.loop(warp, warps, *inner, bind="warp"), bind="block")

    def _found(self, own: str) -> tuple[kernels.Statement, ...]:
        """The row of a warp, or of one of its parts, and the first element that it has of it. One past those of the
        pieces has a row of its own, another one has the row that is cut where its piece begins, if it does not begin
        there."""
        write, segment, rows, in_block = self.write, self.segment, self.segment.rows, self.in_block
        padded = write.index("padded", "add", self.pieces.count, in_block - 1)
        blocks = write.index("blocks", "div", padded.result, in_block)
        cuts = write.index("cuts", "mul", blocks.result, in_block)
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
        found = (piece, following, boundary, upper)
        head = self._on_lanes((*segment.before, *found, *self._phases(start, upper.result)))  # type: ignore[arg-type]
        return (*head, *self.pieces.left(self.spread, piece.result, start, upper.result))

    def _phases(self, start: str, upper: str) -> list[kernels.Statement | loops.Statement]:
        """The loops over a row's elements: one, or where scalars are staged one after another."""
        if self.elements is None:
            return [replace(self.segment.loop, lower=start, extent=upper)]
        phases: list[kernels.Statement | loops.Statement] = []
        for loop in self.elements.phased(start, upper):
            phases += [*([kernels.Barrier(level="warp", origin=self.write.origin)] if phases else []), loop]
        return phases

    def _on_lanes(self, body: tuple[loops.Statement, ...]) -> tuple[kernels.Statement, ...]:
        """Statements of a row on lanes, its loops over elements shared by those that have it."""
        kernel = self.nest.kernel
        staged = self.elements.tiles.arrays if self.elements else ()
        kernel = replace(kernel, buffers=(*kernel.buffers, *staged))
        nest = Nest(kernel, replace(self.nest.loop, body=(*body, *self.segment.after)))
        return on_lanes(nest, body, self.spread, self.write.names)
