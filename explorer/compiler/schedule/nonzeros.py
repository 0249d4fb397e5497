"""Nonzeros: the elements of all segments cut into pieces of one size, and what two pieces share merged afterwards.

Rows of a matrix and nodes of a graph differ in length by orders of magnitude, so that rows shared out evenly are work
shared out unevenly. Here it is the elements that are shared out: a group of lanes searches for its piece's first row
and does the rows that it finds one after another. Rows that are wholly in the piece end as they always do; of a row
that is cut, the state that the piece leaves is stored, and a second kernel merges a row's states and ends it. Sums are
taken in the same order on every run.

Sources: merge-based SpMM (Yang, Buluç and Owens, Euro-Par 2018) for the search; Hector's kernels cut nodes likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from explorer.compiler.counts import SETS
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import walk
from explorer.compiler.passes.report import Report
from explorer.compiler.schedule.heads import rows_nest
from explorer.compiler.schedule.lane_groups import LOADS_OF_ROWS, WARPS, in_blocks, lines_of
from explorer.compiler.schedule.lanes import (
    LANES,
    Nest,
    Spread,
    Unfit,
    of_heads,
    on_lanes,
    spread_rows,
    with_resident,
)
from explorer.compiler.schedule.segments import Part, Segment, segment_of
from explorer.compiler.schedule.staging import Staging
from explorer.compiler.schedule.writer import Writer

CHUNK, LARGE_CHUNK = 256, 512
"""Elements a warp, and where there are more than LARGE."""
LARGE = 10_000_000
FEWEST_WARPS = 4_000
"""Warps that keep all multiprocessors of an H100 busy: fewer elements a warp rather than fewer warps."""
STATES_IN_FLIGHT = 8
SMALL_PIECE = 16
"""Elements of a piece up to which a row's states are merged by a whole warp: there are as many as it has pieces."""

Body = Callable[[str], tuple[kernels.Statement, ...]]
"""What is done for the piece, or the warp, of a number."""


def schedule_nonzeros(kernel: loops.Kernel, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel over pieces and the one that merges; empty, and the reason reported, where it cannot be."""
    try:
        nest = rows_nest(kernel)
        segment = segment_of(nest)
        chunk, why = chunk_of(segment.elements, report)
        spread = replace(spread_rows(nest), unroll=LOADS_OF_ROWS)
        pieces = _Pieces(segment, spread, chunk, Writer(nest.kernel, nest.loop.origin))
        scheduled = pieces.summing(), pieces.merging()
    except Unfit as reason:
        report.refused(f"{kernel.name} is not split by nonzeros: {reason}")
        return ()
    report.did(f"{kernel.name} by nonzeros, since rows differ in length: {chunk} {segment.elements} a warp, {why}")
    return scheduled


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


class _Pieces:
    """Both kernels of one segment's sum."""

    def __init__(self, segment: Segment, spread: Spread, chunk: int, write: Writer) -> None:
        self.segment, self.spread, self.chunk, self.write = segment, spread, chunk, write
        self.size = chunk // spread.groups
        self.nest, self.kernel = segment.nest, segment.nest.kernel
        if self.nest.heads is not None:
            write.names.new(self.nest.heads.variable)
        self.begin, self.end = str(segment.loop.lower), str(segment.loop.extent)
        heads = self.nest.heads
        self.of_heads = () if heads is None else (heads.extent,)
        self.head = () if heads is None else (heads.variable,)
        self.pieces = write.names.new(f"{self.kernel.name}_pieces")
        # one more, for empty rows behind all elements
        self.counts = ((self.pieces, kernels.Count(((segment.elements, self.size), (1, 1)))),)
        self.staging = Staging(segment, chunk, write)
        self.stores = {part.name: write.names.new(f"{self.kernel.name}_{part.name}") for part in segment.state}

    def summing(self) -> kernels.ScheduledKernel:
        """The kernel in which a group of lanes does a piece."""
        segment, spread = self.segment, self.spread
        lines = [
            f"split {segment.elements}: a block of {WARPS} warps has {WARPS * self.chunk}, a warp {self.chunk}",
            f"search {segment.offsets} for the rows of a piece",
            f"bound {segment.loop.variable}: [from, upto - 1] = [max({self.begin}, first), min({self.end}, last) - 1]",
            *lines_of(self.nest, spread, "from", "upto"),
            "end rows that are whole, store what there is of the others",
        ]
        if spread.groups > 1:
            lines.insert(1, f"share a warp's among {spread.groups} groups of {spread.width} lanes, {self.size} each")
        if self.staging.kept:
            lines.insert(-1, self.staging.line)
        scheduled = self._scheduled(self.kernel.name, "nonzeros", lines)
        buffers = (*self.kernel.buffers, *self._partials("output"))
        return with_resident(
            replace(scheduled, buffers=buffers, body=(self._in_blocks(self._piece, self.staging.fill),)), spread
        )

    def merging(self) -> kernels.ScheduledKernel:
        """The kernel in which a group of lanes merges what pieces have of a row that begins in one of them."""
        written = {buffer.name for buffer in self.kernel.buffers if buffer.kind == "output"}
        read = loops_read((*self.segment.before, *self.segment.after)) | written | {self.segment.offsets}
        kept = tuple(buffer for buffer in self.kernel.buffers if buffer.name in read)
        sized = tuple(buffer for buffer in self.kernel.buffers if self.segment.elements in buffer.extents[:1])[:1]
        known = any(self.segment.elements in buffer.extents for buffer in kept)
        name = self.write.names.new(f"{self.kernel.name}_merge")
        body, line, spread = self._by_rows() or self._by_pieces()
        scheduled = self._scheduled(name, "merge", [line, *lines_of(self.nest, replace(spread, unroll=1))])
        buffers = (*kept, *(() if known else sized), *self._partials("temporary"))
        return with_resident(replace(scheduled, buffers=buffers, body=(body,)), spread)

    def _by_pieces(self) -> tuple[kernels.Statement, str, Spread]:
        """A group of lanes a piece: it merges the row that goes on behind it."""
        line = f"a piece's last row, where it goes on: {STATES_IN_FLIGHT} of its states in flight"
        return self._in_blocks(self._merge, lambda warp: ()), line, self.spread

    def _by_rows(self) -> tuple[kernels.Statement, str, Spread] | None:
        """A warp a row, whose lanes share the states of all of its pieces; None where a piece is not so small that a
        row may have thousands, or the parts must be put together in order."""
        if self.size > SMALL_PIECE or self.nest.heads is not None or any(part.scale for part in self.segment.state):
            return None
        write, loop = self.write, self.nest.loop
        spread = replace(self.spread, split=True)
        begin = write.load("from", self.segment.offsets, loop.variable)
        following = write.index("next", "add", loop.variable, 1)
        end = write.load("upto", self.segment.offsets, following.result)
        final = write.index("final", "sub", end.result, 1)
        first = write.index("first", "div", begin.result, self.size)
        last = write.index("last", "div", final.result, self.size)
        try:
            merged = self._merged(first.result, end.result, spread)
        except Unfit:
            return None
        body = (begin, following, end, final, first, last, write.where(first.result, "<", last.result, *merged))
        line = f"a row of more than one piece: its warp shares the states, {STATES_IN_FLIGHT} a lane in flight"
        return in_blocks(loop, body, write.names, 1), line, spread

    def _scheduled(self, name: str, template: str, lines: list[str]) -> kernels.ScheduledKernel:
        return kernels.ScheduledKernel(
            name=name,
            template=template,
            sizes=self.kernel.sizes,
            buffers=(),
            threads=LANES * WARPS,
            schedule=tuple(lines),
            body=(),
            counts=self.counts,
            origin=self.kernel.origin,
        )

    def _partials(self, kind: str) -> tuple[loops.Buffer, ...]:
        """The arrays of what pieces have of rows: two places a piece, for its first row and its last."""
        return tuple(
            loops.Buffer(
                name=self.stores[part.name],
                kind=kind,
                extents=(self.pieces, 2, *self.of_heads, *part.extents),
                origin=part.target.origin,
            )
            for part in self.segment.state
        )

    def _in_blocks(self, body: Body, ahead: Body) -> kernels.Statement:
        """The loops over blocks, warps and groups of lanes around what is done for one piece, `ahead` for a warp's."""
        write, groups = self.write, self.spread.groups
        block, warp, group = (write.names.new(hint) for hint in ("block", "warp", "group"))
        base = write.index("base", "mul", block, WARPS)
        own = write.index("own", "add", base.result, warp)
        if groups == 1:
            inner: tuple[kernels.Statement, ...] = (own, *ahead(own.result), *self._guarded(own.result, body))
        else:
            start = write.index("start", "mul", own.result, groups)
            piece = write.index("piece", "add", start.result, group)
            shared = write.loop(group, groups, piece, *self._guarded(piece.result, body), bind="lane", width=groups)
            inner = (own, *ahead(own.result), start, shared)
        warps = write.loop(warp, WARPS, *inner, bind="warp")
        blocks = kernels.Count(((self.pieces, WARPS * groups),))
        return write.loop(block, blocks, base, warps, bind="block")

    def _guarded(self, piece: str, body: Body) -> tuple[kernels.Statement, ...]:
        return (self.write.where(piece, "<", self.pieces, *body(piece)),)

    def _piece(self, piece: str) -> tuple[kernels.Statement, ...]:
        """The rows of a piece: from the one that its first element may continue to the one of its last.

        The last piece has the empty rows behind all elements as well."""
        write, segment = self.write, self.segment
        first = write.index("first", "mul", piece, self.size)
        after = write.index("after", "add", first.result, self.size)
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
        found = (first, after, last, ahead, above, top, final, within, bottom, stop)
        return (*found, *of_heads(self.nest, (rows,), self.spread))

    def _row(self, piece: str, first: str, last: str) -> tuple[kernels.Statement, ...]:
        """What a piece does for one row."""
        write, segment = self.write, self.segment
        lower = write.index("from", "max", self.begin, first)
        upper = write.index("upto", "min", self.end, last)
        loop = replace(self.staging.loop, lower=lower.result, extent=upper.result)
        head = self._summed((*segment.before, lower, upper, loop))
        mine = write.index("mine", "sub", upper.result, lower.result)
        length = write.index("length", "sub", self.end, self.begin)
        missed = write.index("missed", "sub", lower.result, self.begin)
        whole = write.where(mine.result, "==", length.result, *self._ended())
        part = write.where(mine.result, "<", length.result, *self._stored(piece, missed))
        return (*head, mine, length, whole, write.where(0, "<", mine.result, missed, part))

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
            body += self._store(part, (piece, place.result, *self.head))
        nest = Nest(self.kernel, replace(self.nest.loop, body=(*self.segment.before, *body)))
        return on_lanes(nest, body, self.spread, self.write.names)

    def _store(self, part: Part, place: tuple[str, ...]) -> tuple[loops.Statement, ...]:
        write, variables = self.write, self.write.over(part.extents)
        store = self.stores[part.name]
        if not variables:
            return (write.store(store, part.name, *place),)
        value = write.load(part.name, part.name, *variables)
        return write.nested(variables, part.extents, (value, write.store(store, value.result, *place, *variables)))

    def _merge(self, piece: str) -> tuple[kernels.Statement, ...]:
        """The row that goes on behind a piece, if it begins in it."""
        write, segment = self.write, self.segment
        first = write.index("first", "mul", piece, self.size)
        boundary = write.index("boundary", "add", first.result, self.size)
        final = write.index("final", "sub", boundary.result, 1)
        row = replace(write.search("row", segment.offsets, final.result, 0, segment.rows), result=segment.row)
        begin = write.load("from", segment.offsets, segment.row)
        following = write.index("next", "add", segment.row, 1)
        end = write.load("upto", segment.offsets, following.result)
        merged = self._merged(piece, end.result, self.spread)
        goes_on = write.where(boundary.result, "<", end.result, *merged)
        begins = write.where(first.result, "<=", begin.result, goes_on)
        inside = write.where(boundary.result, "<", segment.elements, row, begin, following, end, begins)
        return first, boundary, final, inside

    def _merged(self, piece: str, end: str, spread: Spread) -> tuple[kernels.Statement, ...]:
        """What the pieces have of the row, from its first one to its last, and its end."""
        write, segment = self.write, self.segment
        final = write.index("final", "sub", end, 1)
        last = write.index("last", "div", final.result, self.size)
        stop = write.index("stop", "add", last.result, 1)
        other = write.names.new("other")
        missed = write.index("missed", "sub", other, piece)
        place = write.index("place", "min", missed.result, 1)
        body: list[loops.Statement] = [missed, place]
        grown: dict[str, tuple[str, str]] = {}
        for part in segment.state:
            body += self._merge_part(part, (other, place.result, *self.head), grown)
        loop = loops.For(variable=other, lower=piece, extent=stop.result, body=tuple(body), origin=write.origin)
        everything = (*segment.before, final, last, stop, loop, *segment.after)
        spread = replace(spread, unroll=STATES_IN_FLIGHT)
        kernel = replace(self.kernel, buffers=(*self.kernel.buffers, *self._partials("temporary")))
        nest = Nest(kernel, replace(self.nest.loop, body=everything))
        return of_heads(self.nest, on_lanes(nest, everything, spread, self.write.names), spread)

    def _merge_part(
        self, part: Part, place: tuple[str, ...], grown: dict[str, tuple[str, str]]
    ) -> tuple[loops.Statement, ...]:
        """One target's part from its place; `grown` has, by maximum, what shrinks the old and the new to its growth."""
        write, variables = self.write, self.write.over(part.extents)
        value = write.load(part.name, self.stores[part.name], *place, *variables)
        if part.scale:
            shrink, grow = grown[part.scale]
            scaled = write.compute("scaled", "mul", value.result, grow)
            shrunk = write.add(part.name, "product", shrink, *variables)
            body = (value, scaled, shrunk, write.add(part.name, "sum", scaled.result, *variables))
            return write.nested(variables, part.extents, body)
        add = write.add(part.name, part.reduction, value.result, *variables)
        if all(other.scale != part.name for other in self.segment.state):
            return write.nested(variables, part.extents, (value, add))
        before = write.compute("before", "copy", part.name)
        now = write.compute("now", "copy", part.name)
        fallen = write.compute("fallen", "sub", before.result, now.result)
        shrink_by = write.compute("shrink", "exp", fallen.result)
        below = write.compute("below", "sub", value.result, now.result)
        grow_by = write.compute("grow", "exp", below.result)
        grown[part.name] = shrink_by.result, grow_by.result
        return value, before, add, now, fallen, shrink_by, below, grow_by


def loops_read(body: tuple[loops.Statement, ...]) -> set[str]:
    """The arrays and rows that statements read, at any depth."""
    return {node.buffer for statement in body for node in walk(statement) if isinstance(node, loops.Load)}
