"""Crossing rows: a piece's elements in batches wherever rows begin, so that short rows leave no load of a batch unused.

Most rows of a graph have fewer elements than a batch has loads, and the last batch of each is filled up with its last
element again. Here a warp writes down the row of each of its piece's elements in shared memory, and walks the piece
from end to end: where an element's row is another than the one before, the rows up to it are ended first.

Source: the tiles of rows and elements of merge-based SpMM (Yang, Buluç and Owens, Euro-Par 2018).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import walk
from explorer.compiler.passes.statements import names_read, renamed, slice_for, written_names
from explorer.compiler.schedule.batches import Batch
from explorer.compiler.schedule.lane_groups import WARPS
from explorer.compiler.schedule.lanes import LANES, Nest, batch_size, on_lanes
from explorer.compiler.schedule.pieces import Pieces
from explorer.compiler.schedule.staging import BYTES, MOST_BYTES, Staging

CROSSING = "batch across rows: stage the row of each element of a piece, end rows where the next one begins"

Body = tuple[kernels.Statement, ...]


def crosses(pieces: Pieces, staging: Staging) -> bool:
    """Whether a warp has a piece for itself, with shared memory for what is staged, and its rows begin alike with rows
    in registers, of which elements need nothing but what they add to."""
    segment = pieces.segment
    tiles = (len(staging.kept) + 1) * pieces.chunk * WARPS * BYTES
    if pieces.spread.groups > 1 or pieces.nest.heads is not None or not staging.kept or tiles > MOST_BYTES:
        return False
    of_row = {segment.row}
    for statement in segment.before:
        if names_read((statement,)) & of_row:
            of_row |= {loops.result_of(statement) or "", *written_names((statement,))}
    stores = [node for each in segment.before for node in walk(each) if isinstance(node, loops.Store)]
    alike = all(isinstance(operand, float) for store in stores for operand in store.operands)
    rows = all(isinstance(part.target, loops.Row) and not part.scale for part in segment.state)
    return alike and rows and not names_read(segment.loop.body) & of_row


class Crossing:
    """The walk over one piece's elements. The segment's row is the row of its last element, `above` that of the one
    before its first, `top` the first of its rows."""

    def __init__(self, pieces: Pieces, staging: Staging, above: str, top: str) -> None:
        self.pieces, self.segment, self.staging, self.write = pieces, pieces.segment, staging, pieces.write
        self.row, self.above, self.top = pieces.segment.row, above, top
        new = self.write.names.new
        self.rows, self.owners, self.current = new("row_tile"), new("owners"), new("current")
        self.stop = self.write.names.new("stop")

    def _tile(self, name: str, extent: int, memory: kernels.Memory) -> kernels.Tile:
        return kernels.Tile(name=name, extents=(extent,), memory=memory, type="i32", origin=self.write.origin)

    def walk(self, piece: str, first: str, last: str, end: str) -> Body:
        """What is done for a piece's elements from `first` to `last`, whose last row ends at `end`: all rows that end
        among them, and the state of the one that does not."""
        write = self.write
        stop = replace(write.index("", "add", self.row, 1), result=self.stop)
        row = write.names.new("row")
        filled = replace(write.loop(row, self.stop, *self._filled(row, first, last)), lower=self.top)
        return (
            self._tile(self.rows, self.pieces.chunk + 1, "shared"),
            stop,
            filled,
            *self._behind(last, end),
            self._tile(self.current, 1, "register"),
            write.store(self.current, self.top, 0),
            *self._batches(piece, first, last),
        )

    def _filled(self, row: str, first: str, last: str) -> Body:
        """The piece's elements of one row, by all lanes, who see them before they go on to the next row."""
        write, offsets = self.write, self.segment.offsets
        following = write.index("next", "add", row, 1)
        begin, end = write.load("begin", offsets, row), write.load("end", offsets, following.result)
        lower = write.index("from", "max", begin.result, first)
        upper = write.index("upto", "min", end.result, last)
        element = write.names.new(self.segment.loop.variable)
        place = write.index("at", "sub", element, self.staging.start)
        stored = write.store(self.rows, row, place.result)
        loop = write.loop(element, upper.result, place, stored, bind="lane", width=LANES)
        return following, begin, end, lower, upper, replace(loop, lower=lower.result), self._barrier()

    def _behind(self, last: str, end: str) -> Body:
        """In the place behind the last element, the row up to which rows end: its own, or the next if that one does."""
        write = self.write
        past = write.index("past", "sub", last, end)
        more = write.index("more", "add", past.result, 1)
        whole = write.index("whole", "min", more.result, 1)
        any_more = write.index("any", "max", whole.result, 0)
        upto = write.index("ended", "add", self.row, any_more.result)
        behind = write.index("behind", "sub", last, self.staging.start)
        place = write.index("place", "max", behind.result, 0)  # a piece behind all elements has its first place
        stored = write.store(self.rows, upto.result, place.result)
        return past, more, whole, any_more, upto, behind, place, stored, self._barrier()

    def _barrier(self) -> kernels.Barrier:
        return kernels.Barrier(level="warp", origin=self.write.origin)

    def _batches(self, piece: str, first: str, last: str) -> Body:
        """The elements in batches, and the place behind the last: at each the rows before its own end, and then it is
        added."""
        write, loop = self.write, self.staging.loop
        body = self._on_lanes(loop.body)
        buffers = {buffer.name: buffer for buffer in self.staging.kernel.buffers}
        size = batch_size(body, self.pieces.spread, buffers)
        number = write.names.new("batch")
        final = write.index("final", "sub", last, 1)
        span = write.index("span", "sub", last, first)
        whole = write.index("whole", "div", span.result, size)
        count = write.index("batches", "add", whole.result, 1)
        done = write.index("done", "mul", number, size)
        begin = write.index("first", "add", first, done.result)

        def guard(added: Body) -> Body:
            return (write.where(loop.variable, "<", last, *added),)

        batch = Batch(body, loop.variable, size, buffers, write.names)
        around = kernels.Loop(variable=loop.variable, extent=last, body=(), origin=loop.origin)
        *tiles, loads, computing = batch.statements(begin.result, 1, final.result, around, guard)
        owners = self._owners(begin.result, last, size)
        assert isinstance(computing, kernels.Loop)
        computing = replace(computing, body=(*self._step(piece, computing.variable), *computing.body))
        loaded = write.where(begin.result, "<", last, loads)
        steps = (done, begin, *tiles, *owners, loaded, computing)
        return final, span, whole, count, write.loop(number, count.result, *steps)

    def _owners(self, begin: str, last: str, size: int) -> Body:
        """The rows of a batch's elements, in registers before any is needed; past the last one the place behind it."""
        write, slot = self.write, self.write.names.new("slot")
        ahead = write.index("ahead", "add", begin, slot)
        element = write.index(self.segment.loop.variable, "min", ahead.result, last)
        place = write.index("at", "sub", element.result, self.staging.start)
        owner = write.load("owner", self.rows, place.result)
        kept = write.store(self.owners, owner.result, slot)
        loop = replace(write.loop(slot, size, ahead, element, place, owner, kept), unroll=0)
        return self._tile(self.owners, size, "register"), loop

    def _step(self, piece: str, slot: str) -> Body:
        """The rows before an element's own ended."""
        write = self.write
        owner = write.load("owner", self.owners, slot)
        now = write.load("now", self.current, 0)
        ended = (*self._ended(piece, now.result, owner.result), write.store(self.current, owner.result, 0))
        return owner, now, write.where(now.result, "<", owner.result, *ended)

    def _ended(self, piece: str, now: str, row: str) -> Body:
        """The end of the rows from `now`, whose state there is, to the one before `row`: that of one that comes from
        the piece before is stored. Each leaves the state as another row begins with it."""
        write, segment = self.write, self.segment
        each = write.names.new(segment.row)
        stored = [
            statement
            for part in segment.state
            for statement in self.pieces.stored(part, self.pieces.stores[part.name], (piece, 1))  # type: ignore[arg-type]
        ]
        needed = slice_for(segment.before, segment.after)
        ended = self._again((*(s for s in needed if not isinstance(s, loops.Row)), *segment.after), each)
        begun = self._again((s for s in segment.before if isinstance(s, loops.For | loops.Store)), each)
        limit = write.index("limit", "min", row, self.stop)  # which rows a piece has does not depend on what it staged
        of_each = write.loop(
            each,
            limit.result,
            write.where(self.above, "<", each, *self._on_lanes(ended)),
            *self._on_lanes(begun),
        )
        cut = write.where(now, "<=", self.above, *self._on_lanes(stored))
        return cut, limit, replace(of_each, lower=now)

    def _again(self, body: Iterable[loops.Statement], row: str) -> tuple[loops.Statement, ...]:
        """Statements of a row for another one, under new names."""
        body = tuple(body)
        found = [name for each in body for node in walk(each) if (name := loops.result_of(node))]
        return renamed(body, {self.segment.row: row} | {name: self.write.names.new(name) for name in found})

    def _on_lanes(self, body: Iterable[loops.Statement]) -> Body:
        body = tuple(body)
        around = replace(self.pieces.nest.loop, body=(*self.segment.before, *body))
        return on_lanes(Nest(self.staging.kernel, around), body, self.pieces.spread, self.write.names)
