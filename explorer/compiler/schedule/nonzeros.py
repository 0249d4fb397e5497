"""Nonzeros: the elements of all segments cut into pieces of one size, and what two pieces share merged afterwards.

Rows of a matrix and nodes of a graph differ in length by orders of magnitude, so that rows shared out evenly are work
shared out unevenly. Here it is the elements that are shared out: a group of lanes searches for its piece's first row
and does the rows that it finds one after another. Rows that are wholly in the piece end as they always do; of a row
that is cut, the state that the piece leaves is stored, and a second kernel merges a row's states and ends it. Sums are
taken in the same order on every run.

Sources: merge-based SpMM (Yang, Buluç and Owens, Euro-Par 2018) for the search; Hector's kernels cut nodes likewise.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.counts import SETS
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import walk
from explorer.compiler.passes.report import Report
from explorer.compiler.schedule.heads import rows_nest
from explorer.compiler.schedule.lane_groups import LOADS_OF_ROWS, WARPS, lines_of
from explorer.compiler.schedule.lane_shares import lanes_for, say_lanes
from explorer.compiler.schedule.lanes import (
    LANES,
    Nest,
    Unfit,
    of_heads,
    on_lanes,
    spread_rows,
    with_resident,
)
from explorer.compiler.schedule.merging import merging
from explorer.compiler.schedule.merging_by_rows import merging_by_rows
from explorer.compiler.schedule.pieces import Pieces
from explorer.compiler.schedule.popular import keep_popular
from explorer.compiler.schedule.segments import segment_of
from explorer.compiler.schedule.staging import Staging
from explorer.compiler.schedule.writer import Writer

CHUNK, LARGE_CHUNK = 256, 512
"""Elements a warp, and where there are more than LARGE."""
LARGE = 10_000_000
WARPS_OF_WIDE_ROWS = 4
"""Warps a block where a warp has one row at a time: its place is free sooner than that of eight (SpMM of 1.2 million
nonzeros, which all are under way at once: -1 %; of 40 and 62 million: the same)."""
FEWEST_WARPS = 4_000
"""Warps that keep all multiprocessors of an H100 busy: fewer elements a warp rather than fewer warps."""


def schedule_nonzeros(kernel: loops.Kernel, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel over pieces and the one that merges; empty, and the reason reported, where it cannot be."""
    try:
        nest = rows_nest(kernel)
        segment = segment_of(nest)
        chunk, why = chunk_of(segment.elements, report)
        spread = replace(spread_rows(nest, lanes_for(nest, report)), unroll=LOADS_OF_ROWS)
        warps = WARPS if spread.groups > 1 else WARPS_OF_WIDE_ROWS
        pieces = Pieces(segment, spread, chunk, Writer(nest.kernel, nest.loop.origin), warps)
        summing, merged = _Summing(pieces).kernel(), merging_by_rows(pieces) or merging(pieces)
    except Unfit as reason:
        report.refused(f"{kernel.name} is not split by nonzeros: {reason}")
        return ()
    say_lanes(nest, spread, report)
    report.heeds("split", "chunk", "popular")
    report.did(f"{kernel.name} by nonzeros, since rows differ in length: {chunk} {segment.elements} a warp, {why}")
    return *_with_popular(summing, report), merged


def _with_popular(kernel: kernels.ScheduledKernel, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel, behind the inspector that marks popular rows for it where the option says so and it can be."""
    if not report.options.popular:
        return (kernel,)
    try:
        found = keep_popular(kernel)
    except Unfit as reason:
        report.refused(f"no rows that {kernel.name} gathers are marked as popular: {reason}")
        return (kernel,)
    report.did(f"{kernel.name} has popular rows kept in the L2 cache, marked once for a graph")
    return found


def chunk_of(elements: str, report: Report) -> tuple[int, str]:
    """How many elements a warp takes, a power of 2, and why."""
    if report.options.chunk:
        return report.options.chunk, "as it was asked"
    if elements not in SETS:
        return CHUNK, "whatever their number"
    count = report.counts[SETS[elements]]
    chunk = LARGE_CHUNK if count > LARGE else CHUNK
    while chunk > LANES and count // chunk < FEWEST_WARPS:
        chunk //= 2
    return chunk, f"of {count:,} in {report.counts.name}"


class _Summing:
    """The kernel in which a group of lanes does a piece."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces, self.segment, self.spread, self.write = pieces, pieces.segment, pieces.spread, pieces.write
        self.nest = pieces.nest
        self.begin, self.end = str(self.segment.loop.lower), str(self.segment.loop.extent)
        self.staging = Staging(self.segment, pieces.chunk, self.write, WARPS)
        self.bounds = self.write.names.new("bounds")

    def kernel(self) -> kernels.ScheduledKernel:
        """The kernel, with the states of its pieces as outputs."""
        segment, spread, pieces, warps = self.segment, self.spread, self.pieces, self.pieces.warps
        lines = [
            f"split {segment.elements}: a block of {warps} warps has {warps * pieces.chunk}, a warp {pieces.chunk}",
            f"search {segment.offsets} for the rows of a piece",
            f"bound {segment.loop.variable}: [from, upto - 1] = [max({self.begin}, first), min({self.end}, last) - 1]",
            *lines_of(self.nest, spread, "from", "upto"),
            "end rows that are whole, store what there is of the others",
        ]
        if spread.groups > 1:
            lines.insert(1, f"share a warp's among {spread.groups} groups of {spread.width} lanes, {pieces.size} each")
        if self.staging.kept:
            lines.insert(-1, self.staging.line)
        scheduled = pieces.scheduled(pieces.kernel.name, "nonzeros", lines)
        buffers = (*pieces.kernel.buffers, *pieces.states("output"))
        body = (self._in_blocks(),)
        return with_resident(replace(scheduled, buffers=buffers, body=body, streamed=self.staging.streamed), spread)

    def _in_blocks(self) -> kernels.Statement:
        """The loops over blocks, warps and groups of lanes around what is done for one piece."""
        write, groups, pieces = self.write, self.spread.groups, self.pieces
        block, warp, group = (write.names.new(hint) for hint in ("block", "warp", "group"))
        base = write.index("base", "mul", block, pieces.warps)
        own = write.index("own", "add", base.result, warp)
        inner: tuple[kernels.Statement, ...] = (own, *self.staging.fill(own.result))
        if groups == 1:
            inner = (*inner, self._guarded(own.result))
        else:
            start = write.index("start", "mul", own.result, groups)
            piece = write.index("piece", "add", start.result, group)
            inner = (*inner, start, pieces.groups(group, piece, self._guarded(piece.result)))
        return pieces.blocks(block, base, write.loop(warp, pieces.warps, *inner, bind="warp"))

    def _guarded(self, piece: str) -> kernels.Statement:
        return self.write.where(piece, "<", self.pieces.count, *self._piece(piece))

    def _piece(self, piece: str) -> tuple[kernels.Statement, ...]:
        """The rows of a piece: from the one that its first element may continue to the one of its last.

        The last piece has the empty rows behind all elements as well."""
        write, segment = self.write, self.segment
        first = write.index("first", "mul", piece, self.pieces.size)
        after = write.index("after", "add", first.result, self.pieces.size)
        last = write.index("last", "min", after.result, segment.elements)
        ahead = write.index("ahead", "sub", first.result, 1)
        above = write.search("above", segment.offsets, ahead.result, 0, segment.rows)
        top = write.index("top", "max", above.result, 0)
        final = write.index("final", "sub", after.result, 1)
        within = write.index("within", "min", final.result, segment.elements)
        bottom = write.search("bottom", segment.offsets, within.result, top.result, segment.rows)
        stop = write.index("stop", "add", bottom.result, 1)
        body = self._row(piece, first.result, last.result)
        rows = replace(write.loop(segment.row, stop.result, *body), lower=top.result)
        known = write.store(self.pieces.rows, bottom.result, piece)
        found = (first, after, last, ahead, above, top, final, within, bottom, stop, known)
        return (*found, *of_heads(self.nest, (*self._first_bounds(top.result), rows), self.spread))

    def _first_bounds(self, top: str) -> tuple[kernels.Statement, ...]:
        """The tile of where a row begins and ends, with the bounds of a piece's first row."""
        write = self.write
        tile = kernels.Tile(name=self.bounds, extents=(2,), memory="register", type="i32", origin=write.origin)
        begin = write.load("from", self.segment.offsets, top)
        return tile, begin, write.store(self.bounds, begin.result, 0), *self._end_ahead(top, 1)

    def _end_ahead(self, row: str, further: int) -> tuple[kernels.Statement, ...]:
        """The load of where the row `further - 1` after a row ends, into the tile; behind the last row, its end."""
        write = self.write
        following = write.index("following", "add", row, further)
        known = write.index("known", "min", following.result, self.segment.rows)
        end = write.load("ahead", self.segment.offsets, known.result)
        return following, known, end, write.store(self.bounds, end.result, 1)

    def _row(self, piece: str, first: str, last: str) -> tuple[kernels.Statement, ...]:
        """What a piece does for one row."""
        write, segment = self.write, self.segment
        lower = write.index("from", "max", self.begin, first)
        upper = write.index("upto", "min", self.end, last)
        loop = replace(self.staging.loop, lower=lower.result, extent=upper.result)
        head = self._summed((*self._before(), lower, upper, loop))
        mine = write.index("mine", "sub", upper.result, lower.result)
        length = write.index("length", "sub", self.end, self.begin)
        missed = write.index("missed", "sub", lower.result, self.begin)
        whole = write.where(mine.result, "==", length.result, *self._ended())
        part = write.where(mine.result, "<", length.result, missed, *self._stored(piece, missed))
        moved = (write.store(self.bounds, self.end, 0), *self._end_ahead(segment.row, 2))
        at = 1 + max(at for at, statement in enumerate(head) if statement in (lower, upper))
        head = (*head[:at], *moved, *head[at:])
        return (*head, mine, length, whole, write.where(0, "<", mine.result, part))

    def _before(self) -> tuple[loops.Statement, ...]:
        """The statements before a segment, with a row's bounds from the tile, where they are since the row before."""
        places = {self.begin: 0, self.end: 1}
        found = tuple(
            replace(statement, buffer=self.bounds, indices=(places[statement.result],))
            if isinstance(statement, loops.Load) and statement.result in places
            else statement
            for statement in self.segment.before
        )
        row = (*found, self.segment.loop, *self.segment.after)
        read = {name for statement in row for node in walk(statement) for name in loops.reads_of(node)}
        return tuple(each for each in found if not isinstance(each, loops.Index) or each.result in read)

    def _summed(self, body: tuple[loops.Statement, ...]) -> tuple[kernels.Statement, ...]:
        """The statements of a row up to its segment's loop, on lanes."""
        nest = Nest(self.staging.kernel, replace(self.nest.loop, body=(*body, *self.segment.after)))
        on = on_lanes(nest, body, self.spread, self.write.names)
        if any(isinstance(statement, kernels.Reduce) for statement in on):
            raise Unfit("lanes join what they sum over a row's segment after it")
        return on

    def _ended(self) -> tuple[kernels.Statement, ...]:
        """The statements of a row behind its segment's loop, on lanes."""
        return on_lanes(self.nest, self.segment.after, self.spread, self.write.names)

    def _stored(self, piece: str, missed: loops.Index) -> tuple[kernels.Statement, ...]:
        """The state of a row that is cut, in a piece's first place where the row begins in it, else in its second."""
        place = self.write.index("place", "min", missed.result, 1)
        body: list[loops.Statement] = [place]
        for part in self.segment.state:
            body += self.pieces.stored(part, self.pieces.stores[part.name], (piece, place.result, *self.pieces.head))
        nest = Nest(self.pieces.kernel, replace(self.nest.loop, body=(*self.segment.before, *body)))
        return on_lanes(nest, body, self.spread, self.write.names)
