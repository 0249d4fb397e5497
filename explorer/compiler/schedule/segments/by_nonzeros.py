"""Nonzeros: the elements of all segments cut into pieces of one size, and what two pieces share merged afterwards.

Rows of a matrix and nodes of a graph differ in length by orders of magnitude, so that rows shared out evenly are work
shared out unevenly. Here it is the elements that are shared out: a group of lanes searches for its piece's first row
and does the rows that it finds one after another. Rows that are wholly in the piece end as they always do; of a row
that is cut, the state that the piece leaves is stored, and a second kernel merges a row's states and ends it. Of
rows without elements there may be any number between two: what a piece does not come to is done by a kernel of its own.
Sums are taken in the same order on every run, but for those of a few numbers each: pieces add what they have of such a
row to what another kernel has cleared, since to ask of each row whether it is cut takes longer than to sum it.

Sources: merge-based SpMM (Yang, Buluç and Owens, Euro-Par 2018) for the search; Hector's kernels cut nodes likewise.
"""

from __future__ import annotations

from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import replace
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.index_sets import few
from explorer.compiler.ir.node import walk
from explorer.compiler.options import CHUNKS
from explorer.compiler.passes.loops.cleared import clear_output
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.reductions import stores_added
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.inspect.popular_rows import with_popular
from explorer.compiler.schedule.lanes.hoist_heads import rows_nest
from explorer.compiler.schedule.lanes.mapping import (
    LANES,
    Around,
    Nest,
    Unfit,
    of_heads,
    on_lanes,
    spread_rows,
)
from explorer.compiler.schedule.lanes.state import cut_segment_of, mean_length
from explorer.compiler.schedule.lanes.widths import fewest_waiting, lanes_for, say_lanes
from explorer.compiler.schedule.segments.by_rows import LOADS_OF_ROWS, WARPS, loads_in_flight, waiting
from explorer.compiler.schedule.segments.far_rows import far_rows, near_rows
from explorer.compiler.schedule.segments.merge_by_rows import merged_by
from explorer.compiler.schedule.segments.partials import Pieces
from explorer.compiler.schedule.staging.elements import Staging
from explorer.compiler.schedule.staging.preload import Rounds
from explorer.compiler.schedule.warps.strategy import schedule_warps

USUAL_CHUNK, LARGE_CHUNK = 256, 512
"""Elements a warp, and where there are more than LARGE."""
LARGE = 10_000_000
ENOUGH = 7
"""Eighths of the warps that keep a device busy, from which on chunks are not halved: a million nonzeros with 8 columns
take 33 us in 3,906 chunks of 256 and 38 in chunks of 128, 0.9 million with 128 columns 136 and 139 (H200)."""
CHUNK = Decision(
    name="chunk",
    domain=CHUNKS[1:],
    why="elements of a warp: fewer have more warps under way, and more rows cut, which are merged",
    source="merge-based SpMM; 256, 512 of more than 10 million, as few as keep all multiprocessors busy: on an H100",
)
BLOCK_WARPS = Decision(
    name="warps",
    domain=(1, 2, 4, 8, 16),
    why="warps of a block: its place on a multiprocessor is free when the last of them ends",
    source="8, and 4 of nonzeros where a warp has one row at a time (SpMM of 1.2 million nonzeros, which all are"
    " under way at once: -1 %; of 40 and 62 million: the same), measured on an H100",
)
USUAL_TILE = 64
TILE = Decision(
    name="tile",
    domain=(0, 32, 64, 128, 256),
    why="elements of a row that a warp has in shared memory at a time (kNnzTile); 0 for all of its chunk, which leaves"
    " less of a multiprocessor's memory for the cache of the rows that are gathered",
    source="G-Sparse kNnzTile; 64 of long rows, measured on an H100",
)
ENDED = Decision(
    name="ended",
    domain=("merged", "added"),
    why="how rows that are cut are put together: what each chunk has is stored and merged by a second kernel, in one"
    " order on every run, or added to what a kernel before has cleared",
    source="added where rows are sums of numbers, of a few elements each, measured on an H100",
)
LONG = 2 * USUAL_TILE
"""Elements that rows have on average from which on they are long; of shorter ones many are in a piece, and it is
fetched whole."""
SELDOM = 32
"""Elements of a group of lanes at least, before it adds to one of few rows: its neighbours add to the same one."""
IN_ORDER = 8
"""Elements of a lane at least, whose states are put together in order: with one each nearly every row is cut, and what
puts it together takes longer than to sum it. A softmax of 148 thousand edges by 24 thousand nodes: 10 us for the sums,
36 to put them together, on an H100."""
NARROW, SOON = 8, 1 << 20
"""Groups of a warp from which on they have few numbers each, and elements up to which those are merged: HGT's gradient
of 272 thousand edges by 237 relations, a number each, took 43 us longer with atomics every 4 elements, and 88 with 32,
where a lane then has many short rows; measured on an H100."""
FEW = 16
"""Elements that a row has on average up to which pieces add to its sum, where that is a number."""


def schedule_nonzeros(kernel: loops.Kernel, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel over pieces and the one that merges; empty, and the reason reported, where it cannot be."""
    try:
        nest = rows_nest(kernel)
        segment = cut_segment_of(nest)
        chunk, why = chunk_of(kernel.name, segment.elements, report)
        loads = loads_in_flight(nest, report)
        lanes = fewest_waiting(nest, max(loads, LOADS_OF_ROWS))  # of pieces with short rows the next one is loaded too
        spread = waiting(spread_rows(nest, lanes_for(nest, report, lanes)), nest, loads, report)
        warps = report.number(kernel.name, BLOCK_WARPS, WARPS if spread.groups > 1 else WARPS // 2)

        def pieces_of(chunk: int) -> Pieces:
            return Pieces(segment, spread, chunk, Writer(nest.kernel, segment.origin), report, warps)

        pieces = pieces_of(chunk)
        if _few_rows(pieces) and not _soon_merged(pieces, report):
            return _added(pieces_of(_at_least(SELDOM, pieces, report)), report)
        if _only_adds(pieces, report):
            return _added(pieces, report)
        if spread.width == 1 and any(part.scale for part in segment.state):
            pieces = pieces_of(_at_least(IN_ORDER, pieces, report))
        tile = tile_of(pieces, report)
        summing = _Summing(pieces, tile)
        near, merged = summing.kernel(), merged_by(pieces)
        far = far_rows(pieces, summing.states[:-1], summing.left)
    except Unfit as reason:
        report.refused(f"{kernel.name} is not split by nonzeros: {reason}")
        return ()
    say_lanes(nest, spread, report)
    each = f"{pieces.chunk} {segment.elements}"
    report.did(f"{kernel.name} by nonzeros, since rows differ in length: {each} a warp, {why}")
    return *with_popular(near, report), *far, merged


def _soon_merged(pieces: Pieces, report: Report) -> bool:
    """Whether a warp merges what there is of a row in no time, where lanes have few numbers each, and would take turns
    to add them."""
    count = None if report.counts.assumed else report.counts.of(pieces.segment.elements)
    return pieces.spread.groups >= NARROW and count is not None and count <= SOON


def _at_least(elements: int, pieces: Pieces, report: Report) -> int:
    """The elements of a warp, at least so many for each group of its lanes."""
    name, least = pieces.kernel.name, elements * pieces.spread.groups
    if pieces.chunk >= least or report.wanted(name, CHUNK):
        return pieces.chunk
    report.settle(name, CHUNK, least)
    return least


def _only_adds(pieces: Pieces, report: Report) -> bool:
    """Whether all that rows need is sums of numbers, and these are added to what is cleared: where rows have a few
    elements each, usually. Many are cut then, few of them more than once, and atomics hardly wait for one another."""
    if not _sums_of_numbers(pieces):
        return False
    few = 0 < mean_length(pieces.segment, report.counts) < FEW
    return report.choose(pieces.kernel.name, ENDED, "added" if few else "merged") == "added"


def _sums_of_numbers(pieces: Pieces) -> bool:
    """Whether all that rows need is sums of numbers, which an atomic adds to."""
    segment = pieces.segment
    if pieces.spread.width > 1 or pieces.nest.heads is not None:
        return False
    sums = {part.name for part in segment.state if part.reduction == "sum" and not part.scale and not part.extents}
    stores = [each for each in segment.after if isinstance(each, loops.Store)]
    if len(sums) < len(segment.state) or len(stores) < len(segment.after):
        return False
    plain = all(each.indices == (segment.row,) and each.function == "copy" for each in stores)
    return plain and len(stores) == 1 and {*stores[0].operands} <= sums


def _few_rows(pieces: Pieces) -> bool:
    """Whether rows are few, however many elements there are, and need no more than sums: what is left of one to merge
    would grow with the elements, and be one warp's work."""
    segment = pieces.segment
    sums = {part.name for part in segment.state if part.reduction == "sum" and not part.scale}
    if not few(pieces.nest.loop.extent) or len(sums) < len(segment.state):
        return False
    for node in (node for statement in segment.after for node in walk(statement)):
        match node:
            case loops.For():
                continue
            case loops.Load(buffer=row, result=result) if row in sums:
                sums.add(result)
            case loops.Store(function="copy", operands=(value,), indices=(row, *_)) if value in sums:
                if row != segment.row:
                    return False
            case _:
                return False
    return True


def _added(pieces: Pieces, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernels that clear the rows' sums, and the one in which pieces add to them."""
    kernel, summing = pieces.kernel, _Adding(pieces, tile=0)
    adding, far = summing.kernel(), far_rows(pieces, summing.states[:-1], summing.left)
    stored = {node.target for s in pieces.segment.after for node in walk(s) if isinstance(node, loops.Store)}
    who = "lane" if pieces.spread.width == 1 else "warp" if pieces.spread.groups == 1 else "group of lanes"
    why = "rows are few" if few(pieces.nest.loop.extent) else "rows have few of them"
    report.did(f"{kernel.name} by nonzeros, {pieces.size} a {who}, which adds to what is cleared: {why}")
    clearing = []
    for cleared in (clear_output(kernel, buffer) for buffer in kernel.buffers if buffer.name in stored):
        report.enter(cleared.name)
        clearing.append(schedule_warps(cleared, report))
    return *clearing, *with_popular(adding, report), *far


def chunk_of(name: str, elements: str, report: Report) -> tuple[int, str]:
    """How many elements a warp takes, a power of 2, and why."""
    usual, why = _usual_chunk(elements, report)
    chunk = report.number(name, CHUNK, usual)
    return chunk, "as it was asked" if report.wanted(name, CHUNK) else why


def _usual_chunk(elements: str, report: Report) -> tuple[int, str]:
    count = report.counts.of(elements)
    if count is None:
        return USUAL_CHUNK, "whatever their number"
    chunk, enough = LARGE_CHUNK if count > LARGE else USUAL_CHUNK, report.target.busy_warps * ENOUGH // 8
    while chunk > LANES and count // chunk < enough:
        chunk //= 2
    return chunk, f"of {count:,} in {report.counts.name}"


def tile_of(pieces: Pieces, report: Report) -> int:
    """How many elements of a row a warp fetches at a time, where it has one row and rows are long; 0 where it fetches
    those of its piece together."""
    if pieces.spread.groups > 1 or pieces.nest.heads is not None:
        return 0
    long = mean_length(pieces.segment, report.counts) >= LONG and pieces.chunk > USUAL_TILE
    name, fitting = pieces.kernel.name, tuple(tile for tile in TILE.domain if int(tile) < pieces.chunk)
    tile = report.number(name, TILE, USUAL_TILE if long else 0, lambda: fitting)
    if tile not in fitting:
        report.settle(name, TILE, 0, f"a warp has {pieces.chunk} elements")
    return tile if tile in fitting else 0


class _Summing:
    """The kernel in which a group of lanes does a piece."""

    ending = "end rows that are whole, store what there is of the others"

    def __init__(self, pieces: Pieces, tile: int) -> None:
        self.pieces, self.segment, self.spread, self.write = pieces, pieces.segment, pieces.spread, pieces.write
        self.tile = tile
        self.nest = pieces.nest
        self.begin, self.end = str(self.segment.loop.lower), str(self.segment.loop.extent)
        self.staging = Staging(self.segment, tile or pieces.chunk, self.write, max(WARPS, pieces.warps))
        self.bounds = self.write.names.new("bounds")

    def kernel(self) -> kernels.ScheduledKernel:
        """The kernel, with the states of its pieces as outputs."""
        segment, spread, pieces, warps = self.segment, self.spread, self.pieces, self.pieces.warps
        blocks = self._in_blocks()
        near = f", {near_rows(pieces)} at most" if near_rows(pieces) else ""
        lines = [
            f"split {segment.elements}: a block of {warps} warps has {warps * pieces.chunk}, a warp {pieces.chunk}",
            f"search {segment.offsets} for the rows of a piece{near}",
            f"bound {segment.loop.variable}: [from, upto - 1] = [max({self.begin}, first), min({self.end}, last) - 1]",
            *spread.log.lines,
            self.ending,
        ]
        if spread.groups > 1:
            lines.insert(1, f"share a warp's among {spread.groups} groups of {spread.width} lanes, {pieces.size} each")
        if self.staging.kept:
            lines.insert(-1, self._line())
        name, buffers = pieces.kernel.name, (*pieces.kernel.buffers, *self.states)
        return pieces.scheduled(name, "nonzeros", lines, buffers, blocks, spread, self.staging.streamed)

    def _line(self) -> str:
        """What the schedule says of staging."""
        if not self.tile:
            return self.staging.line
        arrays = ", ".join(self.staging.arrays)
        return f"stage {arrays} in shared memory, kNnzTile = {self.tile} of a row at a time"

    @property
    def states(self) -> tuple[loops.Buffer, ...]:
        """The arrays of what pieces have of rows that are cut."""
        return self.pieces.states("output")

    def _in_blocks(self) -> kernels.Statement:
        """The loops over blocks, warps and groups of lanes around what is done for one piece."""
        write, groups, pieces = self.write, self.spread.groups, self.pieces
        block, warp, group = (write.names.new(hint) for hint in ("block", "warp", "group"))
        base = write.index("base", "mul", block, pieces.warps)
        own = write.index("own", "add", base.result, warp)
        inner: tuple[kernels.Statement, ...] = (own, *self._staged(own.result))
        if groups == 1:
            inner = (*inner, self._guarded(own.result))
        else:
            start = write.index("start", "mul", own.result, groups)
            piece = write.index("piece", "add", start.result, group)
            inner = (*inner, start, pieces.groups(group, piece, self._guarded(piece.result)))
        return pieces.blocks(block, base, write.loop(warp, pieces.warps, *inner, bind="warp"))

    def _staged(self, own: str) -> tuple[kernels.Statement, ...]:
        """A warp's tiles, with what its piece has unless rows are fetched one after another."""
        return self.staging.declared if self.tile else self.staging.fill(own)

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
        most = write.index("most", "add", top.result, near_rows(self.pieces))
        near = write.index("near", "min", stop.result, most.result)
        limit = (most, near) if near_rows(self.pieces) else ()
        body = self._row(piece, first.result, last.result)
        rows = replace(write.loop(segment.row, (limit or (stop,))[-1].result, *body), lower=top.result)
        found = (first, after, last, ahead, above, top, final, within, bottom, stop, *limit)
        ahead_of = (*found, *self._last_row(piece, bottom.result))
        return (*ahead_of, *of_heads(self.nest, (*self._first_bounds(top.result), rows), self.spread))

    def _last_row(self, piece: str, row: str) -> tuple[kernels.Statement, ...]:
        """Stores the row that a piece ends in, for those who merge."""
        return (self.write.store(self.pieces.rows, row, piece),)

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
        rounds = Rounds(self.staging, self.tile, lower.result, upper.result) if self.tile else None
        loop = rounds.loop if rounds else replace(self.staging.loop, lower=lower.result, extent=upper.result)
        head = self._summed((*self._before(), lower, upper, loop), rounds.around if rounds else None)
        moved = (write.store(self.bounds, self.end, 0), *self._end_ahead(segment.row, 2))
        at = 1 + max(at for at, statement in enumerate(head) if statement in (lower, upper))
        return (*head[:at], *moved, *head[at:], *self.left(piece, lower, upper))

    def left(self, piece: str, lower: loops.Index, upper: loops.Index) -> tuple[kernels.Statement, ...]:
        """What a piece leaves of a row."""
        return self.pieces.left(self.spread, piece, lower.result, upper.result)

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

    def _summed(self, body: tuple[loops.Statement, ...], around: Around | None) -> tuple[kernels.Statement, ...]:
        """The statements of a row up to its segment's loop, on lanes, that loop in what is `around` it."""
        nest = Nest(self.staging.kernel, replace(self.nest.loop, body=(*body, *self.segment.after)))
        on = on_lanes(nest, body, self.spread, self.write.names, around)
        if any(isinstance(statement, kernels.Reduce) for statement in on):
            raise Unfit("lanes join what they sum over a row's segment after it")
        return on


class _Adding(_Summing):
    """The kernel in which a group of lanes does a piece, and adds what it has of each row to what has been cleared."""

    ending = "add what there is of each row"

    @property
    def states(self) -> tuple[loops.Buffer, ...]:
        """None: nobody merges."""
        return ()

    def _last_row(self, piece: str, row: str) -> tuple[kernels.Statement, ...]:
        """Nothing: nobody merges."""
        return ()

    def left(self, piece: str, lower: loops.Index, upper: loops.Index) -> tuple[kernels.Statement, ...]:
        """The row's sums of a piece, where the piece has any of them, added to the outputs."""
        outputs = {buffer.name for buffer in self.pieces.kernel.buffers if buffer.kind == "output"}
        return (
            self.write.where(lower.result, "<", upper.result, *stores_added(self.pieces.ended(self.spread), outputs)),
        )
