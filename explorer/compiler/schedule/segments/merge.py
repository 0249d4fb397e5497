"""Merging: what pieces have of the rows that are cut, put together, and the rows ended.

A group of lanes has a piece, and with it the row that begins in the piece and goes on behind it. It reads the row's
states in its block's pieces itself. One row at most goes on past those, perhaps over thousands of pieces: the rest of
its states is shared out among all groups of the block before, whose parts meet in shared memory. Both are one loop over
states: a share of those that go on past the block's pieces, and then those of a group's own row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import walk
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.fitting import nearest
from explorer.compiler.schedule.lanes.log import LaneLog
from explorer.compiler.schedule.lanes.mapping import of_heads, on_lanes
from explorer.compiler.schedule.lanes.state import Part
from explorer.compiler.schedule.segments.partials import Pieces
from explorer.compiler.target import FLOAT_BYTES, STATIC_SHARED_BYTES

STATES_IN_FLIGHT = 8
"""The usual `states`, but for rows that have a warp."""
STATES = Decision(
    name="states",
    domain=(1, 2, 4, 8, 16),
    why="states of a row that is cut whose loads from memory are under way together",
    source="8, and 4 where a row has a warp, for most such rows have two; measured on an H100",
)
JOINED = Decision(
    name="joined",
    domain=(1, 2, 4, 8),
    why="states of a row that goes on past a block whose loads from shared memory are under way together: more take"
    " registers from those of `states`",
    source="4, half of the usual `states`: shared memory answers sooner than the GPU's",
)

BLOCKS = (2, 4, 8, 16, 32)
"""Warps that a block that merges may have."""
MERGE_WARPS = Decision(
    name="merge_warps",
    domain=BLOCKS,
    why="warps of a block that merges: more share the states of a row that goes on past its pieces, and wait for one"
    " another",
    source="8: half a million nonzeros with 602 columns take 170 us so, 177 with 4, 193 with 16, on an H200",
)

USUAL_WARPS = 8
"""The usual `merge_warps`, where a block has shared memory for their states."""

Found = tuple[tuple[loops.Statement, ...], tuple[str | int, ...]]
"""Where a state is: what finds the place, and its indices, those of its own elements apart."""


def merging(pieces: Pieces, in_flight: int = STATES_IN_FLIGHT) -> kernels.ScheduledKernel:
    """The kernel that follows the one over pieces, usually with so many states of a row in flight."""
    name, report = pieces.kernel.name, pieces.report
    in_flight, joined = report.number(name, STATES, in_flight), report.number(name, JOINED, 4)
    fitting = tuple(warps for warps in BLOCKS if _joined_bytes(pieces, warps) <= STATIC_SHARED_BYTES) or BLOCKS[:1]
    why = "a block has no shared memory for the states of more"
    warps = nearest(name, MERGE_WARPS, USUAL_WARPS, fitting, report, why)
    return _Merging(pieces.in_blocks_of(warps), in_flight, joined).kernel()


def _joined_bytes(pieces: Pieces, warps: int) -> int:
    """The shared memory of a block of so many warps, which have a state a group of lanes."""
    extents = ((*pieces.of_heads, *part.extents) for part in pieces.segment.state)
    floats = sum(prod(map(pieces.kernel.size, each)) for each in extents)
    return warps * pieces.spread.groups * floats * FLOAT_BYTES


@dataclass(frozen=True)
class _Turn:
    """Which row a group is at: `own` is 0 for the one that goes on past the block's pieces, and 1 for that of its own
    piece. The row begins in the pieces from `piece` on, and goes on `beyond` them up to `end`; `past` follows the
    block's pieces. The group is the block's `member`."""

    own: str
    member: str
    piece: str
    beyond: str
    past: str
    end: str


class _Merging:
    def __init__(self, pieces: Pieces, in_flight: int, joined_in_flight: int) -> None:
        self.in_flight, self.joined_in_flight = in_flight, joined_in_flight
        self.pieces, self.segment, self.write = pieces, pieces.segment, pieces.write
        self.spread = replace(pieces.spread, log=LaneLog())
        self.joined = {part.name: self.write.names.new(f"{part.name}_joined") for part in self.segment.state}

    def kernel(self) -> kernels.ScheduledKernel:
        """The kernel; of the segment's arrays it has those that rows begin and end with."""
        pieces = self.pieces
        spread = replace(self.spread, unroll=1)
        name, blocks = self.write.names.new(f"{pieces.kernel.name}_merge"), self._in_blocks()
        lines = [
            f"a piece's last row, where it goes on: {self.in_flight} of its states in flight",
            f"share a row's states past a block's {pieces.in_block} pieces among all of its groups",
            *spread.log.lines,
        ]
        made = pieces.scheduled(name, "merge", lines, merged_arrays(pieces), blocks, spread)
        # Registers for one block more: two more would take the loads of a batch apart (SpMM of 40 million: 38 %).
        return replace(made, resident=made.resident + bool(made.resident))

    def _in_blocks(self) -> kernels.Statement:
        """The loop over blocks around the row that goes on past a block's pieces, and then those of each of them."""
        write, pieces = self.write, self.pieces
        block, own = write.names.new("block"), write.names.new("own")
        start = write.index("start", "mul", block, pieces.in_block)
        past = write.index("past", "add", start.result, pieces.in_block)
        tiles = (
            kernels.Tile(
                name=self.joined[part.name],
                extents=(pieces.in_block, *pieces.of_heads, *part.extents),
                memory="shared",
                origin=write.origin,
            )
            for part in self.segment.state
        )
        rows = self._each_group(lambda member: self._row(start.result, past.result, member, own))
        barrier = kernels.Barrier(level="block", origin=write.origin)
        both = replace(write.loop(own, 2, rows, barrier), unroll=kernels.ROLLED)
        return pieces.blocks(block, start, past, *tiles, both)

    def _each_group(self, body: Callable[[str], tuple[kernels.Statement, ...]]) -> kernels.Statement:
        """The loops over a block's groups of lanes around what is done by the one of a number."""
        write, groups, warp = self.write, self.spread.groups, self.write.names.new("warp")
        if groups == 1:
            return write.loop(warp, self.pieces.warps, *body(warp), bind="warp")
        group = write.names.new("group")
        first = write.index("first", "mul", warp, groups)
        member = write.index("member", "add", first.result, group)
        of_group = self.pieces.groups(group, member, *body(member.result))
        return write.loop(warp, self.pieces.warps, first, of_group, bind="warp")

    def _row(self, start: str, past: str, member: str, own: str) -> tuple[kernels.Statement, ...]:
        """The row that begins in the block's pieces and goes on behind `past`, or, the second time, in a group's `own`
        piece and behind that, if there is one."""
        write, pieces = self.write, self.pieces
        mine = write.index("mine", "add", start, member)
        piece = write.index("piece", "select", own, mine.result, start)
        before = write.index("before", "add", start, member)
        after = write.index("after", "add", before.result, 1)
        beyond = write.index("beyond", "select", own, after.result, past)
        first = write.index("first", "mul", piece.result, pieces.size)
        whole = write.index("whole", "sub", pieces.count, 1)  # and what is behind them is of no row's middle
        boundary = write.index("boundary", "mul", beyond.result, pieces.size)
        final = write.index("final", "sub", beyond.result, 1)
        row, begin, following, end = self._row_of(final.result)
        states = self._states(_Turn(own, member, piece.result, beyond.result, past, end.result))
        goes_on = write.where(boundary.result, "<", end.result, *states)
        begins = write.where(first.result, "<=", begin.result, goes_on)
        of_row = write.where(0, "<=", row.result, begin, following, end, begins)  # no piece has one of no rows
        inside = write.where(beyond.result, "<", whole.result, first, boundary, final, row, of_row)
        return mine, piece, before, after, beyond, whole, inside

    def _states(self, turn: _Turn) -> tuple[kernels.Statement, ...]:
        """What a group has of the row: its share of the states past the block's pieces, which it leaves to the others;
        or those of its own row up to there, and with what the groups have left, the row's end."""
        write, pieces, segment = self.write, self.pieces, self.segment
        counted = self._counted(turn)
        lower, stop = counted[-2:]
        loop = self._sum(lower.result, stop.result, pieces.stores, lambda other: self._place(turn, other))
        left = [
            statement
            for part in segment.state
            for statement in pieces.stored(part, self.joined[part.name], (turn.member, *pieces.head))
        ]
        reach = write.index("reach", "mul", turn.past, pieces.size)
        gone = write.index("gone", "sub", turn.end, reach.result)
        any_past = write.index("any", "less", 0, gone.result)
        members = write.index("members", "select", any_past.result, pieces.in_block, 0)
        far = self._sum(0, members.result, self.joined, lambda other: ((), (other,)))
        ended = (reach, gone, any_past, members, far, *segment.after)
        inside = (
            *self._on_lanes((*segment.before, *counted, loop), self.in_flight),
            write.where(turn.own, "==", 0, *self._on_lanes(tuple(left), 1)),
            write.where(turn.own, "==", 1, *self._on_lanes(ended, self.joined_in_flight)),
        )
        return of_heads(pieces.nest, inside, self.spread)

    def _counted(self, turn: _Turn) -> tuple[loops.Index, ...]:
        """The first of a group's states, and what follows its last."""
        write, in_block = self.write, self.pieces.in_block
        final = write.index("final", "sub", turn.end, 1)
        last = write.index("last", "div", final.result, self.pieces.size)
        behind = write.index("behind", "add", last.result, 1)
        left = write.index("left", "sub", behind.result, turn.beyond)
        padded = write.index("padded", "add", left.result, in_block - 1)
        share = write.index("share", "div", padded.result, in_block)
        skipped = write.index("skipped", "mul", turn.member, share.result)
        far = write.index("far", "add", turn.beyond, skipped.result)
        lower = write.index("from", "select", turn.own, turn.piece, far.result)
        near_stop = write.index("stop", "min", behind.result, turn.past)
        limit = write.index("limit", "add", far.result, share.result)
        far_stop = write.index("stop", "min", behind.result, limit.result)
        stop = write.index("stop", "select", turn.own, near_stop.result, far_stop.result)
        return final, last, behind, left, padded, share, skipped, far, near_stop, limit, far_stop, lower, stop

    def _place(self, turn: _Turn, other: str) -> Found:
        """Where the state of a piece is: in its first place where the row begins in it, else in its second."""
        write = self.write
        missed = write.index("missed", "sub", other, turn.piece)
        second = write.index("place", "min", missed.result, 1)
        return (missed, second), (other, second.result)

    def _row_of(self, piece: str) -> tuple[loops.Load, loops.Load, loops.Index, loops.Load]:
        """The row of a piece's last element, where it begins, the next row, and where that begins."""
        write, offsets, name = self.write, self.segment.offsets, self.segment.row
        row = replace(write.load("", self.pieces.rows, piece), result=name)
        following = write.index("next", "add", name, 1)
        return row, write.load("from", offsets, name), following, write.load("upto", offsets, following.result)

    def _sum(
        self, lower: str | int, stop: str, arrays: dict[str, str], place: Callable[[str], Found]
    ) -> loops.Statement:
        """The loop over states, each with its parts in the arrays by their names."""
        other = self.write.names.new("other")
        found, indices = place(other)
        body = (*found, *merge_states(self.pieces, arrays, (*indices, *self.pieces.head)))
        return loops.For(variable=other, lower=lower, extent=stop, body=body, origin=self.write.origin)

    def _on_lanes(self, body: tuple[loops.Statement, ...], in_flight: int) -> tuple[kernels.Statement, ...]:
        """Statements of a row on lanes."""
        pieces, segment = self.pieces, self.segment
        kernel = replace(pieces.kernel, buffers=(*pieces.kernel.buffers, *pieces.states("temporary")))
        before = tuple(each for each in segment.before if each not in body)
        nest = replace(pieces.nest, kernel=kernel, loop=replace(pieces.nest.loop, body=(*before, *body)))
        return on_lanes(nest, body, replace(self.spread, unroll=in_flight), self.write.names)


def merge_states(
    pieces: Pieces, arrays: Mapping[str, str], place: tuple[str | int, ...]
) -> tuple[loops.Statement, ...]:
    """Every target's part from its place in its array, by the targets' names: what is kept relative to a maximum
    behind that, column by column where that is a row."""
    write, state = pieces.write, pieces.segment.state
    body: list[loops.Statement] = []
    behind: list[loops.Statement] = []
    for part in (part for part in state if not part.scale):
        scaled = [other for other in state if other.scale == part.name]
        variables = write.over(part.extents)
        value = write.load(part.name, arrays[part.name], *place, *variables)
        add = write.add(part.name, part.reduction, value.result, *variables)
        if not scaled:
            body += write.nested(variables, part.extents, (value, add))
            continue
        old, grown, shrink, grow = _grown(write, part, value.result, variables)
        inside: list[loops.Statement] = []
        for other in scaled:
            own = variables or write.over(other.extents)
            merged = _scaled(write, other, (arrays[other.name], *place, *own), own, shrink, grow)
            if variables:
                inside += merged
            else:
                behind += write.nested(own, other.extents, merged)
        body += write.nested(variables, part.extents, (value, *old, *grown, add, *inside))
    return *body, *behind


def _grown(
    write: Writer, part: Part, value: str, variables: tuple[str, ...]
) -> tuple[tuple[loops.Statement, ...], tuple[loops.Statement, ...], str, str]:
    """The loads of a maximum, what its growth by a value shrinks the old and the new by, and the names of both."""
    old = (write.load(part.name, part.name, *variables),) if variables else ()
    name = old[0].result if old else part.name
    now = write.compute("now", "max", name, value)
    fallen = write.compute("fallen", "sub", name, now.result)
    shrink_by = write.compute("shrink", "exp", fallen.result)
    below = write.compute("below", "sub", value, now.result)
    grow_by = write.compute("grow", "exp", below.result)
    return old, (now, fallen, shrink_by, below, grow_by), shrink_by.result, grow_by.result


def _scaled(
    write: Writer, part: Part, place: tuple[str | int, ...], variables: tuple[str, ...], shrink: str, grow: str
) -> tuple[loops.Statement, ...]:
    """A sum that is kept relative to a maximum with its part, from its place, once that has grown."""
    array, *indices = place
    value = write.load(part.name, str(array), *indices)
    scaled = write.compute("scaled", "mul", value.result, grow)
    shrunk = write.add(part.name, "product", shrink, *variables)
    return value, scaled, shrunk, write.add(part.name, "sum", scaled.result, *variables)


def merged_arrays(pieces: Pieces) -> tuple[loops.Buffer, ...]:
    """The arrays that a kernel that merges has: those that rows begin and end with, and the states."""
    return (*row_arrays(pieces), *pieces.states("temporary"))


def row_arrays(pieces: Pieces) -> tuple[loops.Buffer, ...]:
    """The arrays that rows begin and end with."""
    segment = pieces.segment
    written = {buffer.name for buffer in pieces.kernel.buffers if buffer.kind == "output"}
    read = loops_read((*segment.before, *segment.after)) | written | {segment.offsets}
    return tuple(buffer for buffer in pieces.kernel.buffers if buffer.name in read)


def loops_read(body: tuple[loops.Statement, ...]) -> set[str]:
    """The arrays and rows that statements read, at any depth."""
    return {node.buffer for statement in body for node in walk(statement) if isinstance(node, loops.Load)}
