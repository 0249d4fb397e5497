"""Merging: what pieces have of the rows that are cut, put together, and the rows ended.

A group of lanes has a piece, and with it the row that begins in the piece and goes on behind it. It reads the row's
states in its block's pieces itself. One row at most goes on past those, perhaps over thousands of pieces: the rest of
its states is shared out among all groups of the block before, whose parts meet in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import walk
from explorer.compiler.passes.statements import renamed, slice_for, written_names
from explorer.compiler.schedule.lane_groups import lines_of
from explorer.compiler.schedule.lanes import Nest, of_heads, on_lanes, with_resident
from explorer.compiler.schedule.pieces import Pieces
from explorer.compiler.schedule.segments import Part

STATES_IN_FLIGHT = 8

Found = tuple[tuple[loops.Statement, ...], tuple[str | int, ...]]
"""Where a state is: what finds the place, and its indices, those of its own elements apart."""


def merging(pieces: Pieces) -> kernels.ScheduledKernel:
    """The kernel that follows the one over pieces."""
    return _Merging(pieces).kernel()


class _Merging:
    def __init__(self, pieces: Pieces) -> None:
        self.pieces, self.segment, self.spread, self.write = pieces, pieces.segment, pieces.spread, pieces.write
        self.joined = {part.name: self.write.names.new(f"{part.name}_joined") for part in self.segment.state}

    def kernel(self) -> kernels.ScheduledKernel:
        """The kernel; of the segment's arrays it has those that rows begin and end with."""
        pieces = self.pieces
        spread = replace(self.spread, unroll=1)
        lines = [
            f"a piece's last row, where it goes on: {STATES_IN_FLIGHT} of its states in flight",
            f"share a row's states past a block's {pieces.in_block} pieces among all of its groups",
            *lines_of(pieces.nest, spread),
        ]
        scheduled = pieces.scheduled(self.write.names.new(f"{pieces.kernel.name}_merge"), "merge", lines)
        return with_resident(replace(scheduled, buffers=merged_arrays(pieces), body=(self._in_blocks(),)), spread)

    def _in_blocks(self) -> kernels.Statement:
        """The loop over blocks around the row that goes on past a block's pieces, and those of each of them."""
        write, pieces = self.write, self.pieces
        block = write.names.new("block")
        start = write.index("start", "mul", block, pieces.in_block)
        beyond = write.index("beyond", "add", start.result, pieces.in_block)
        reach = write.index("reach", "mul", beyond.result, pieces.size)
        tiles = (
            kernels.Tile(
                name=self.joined[part.name],
                extents=(pieces.in_block, *pieces.of_heads, *part.extents),
                memory="shared",
                origin=write.origin,
            )
            for part in self.segment.state
        )
        far = write.where(
            reach.result, "<", self.segment.elements, *self._far(start.result, beyond.result, reach.result)
        )
        barrier = kernels.Barrier(level="block", origin=write.origin)
        own = self._each_group(lambda member: self._near(start.result, member, beyond.result, reach.result))
        return pieces.blocks(block, start, beyond, reach, *tiles, far, barrier, own)

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

    def _far(self, start: str, beyond: str, reach: str) -> tuple[kernels.Statement, ...]:
        """The row that begins in a block and goes on past it, if there is one: each group's part of its states."""
        write, in_block = self.write, self.pieces.in_block
        first = write.index("first", "mul", start, self.pieces.size)
        final = write.index("final", "sub", beyond, 1)
        row, begin, following, end = self._row_of(final.result, write.names.new(self.segment.row))
        last = self._behind_last(end.result)
        span = write.index("span", "sub", last[-1].result, beyond)
        padded = write.index("padded", "add", span.result, in_block - 1)
        share = write.index("share", "div", padded.result, in_block)
        parts = self._each_group(lambda member: self._part_of(member, row.result, beyond, share, last[-1]))
        goes_on = write.where(reach, "<", end.result, *last, span, padded, share, parts)
        return first, final, row, begin, following, end, write.where(first.result, "<=", begin.result, goes_on)

    def _part_of(
        self, member: str, row: str, beyond: str, share: loops.Index, stop: loops.Index
    ) -> tuple[kernels.Statement, ...]:
        """The states that one group reads for all, put together and stored where all see them."""
        write, pieces = self.write, self.pieces
        skipped = write.index("skipped", "mul", member, share.result)
        lower = write.index("from", "add", beyond, skipped.result)
        limit = write.index("limit", "add", lower.result, share.result)
        upper = write.index("upto", "min", limit.result, stop.result)
        loop = self._sum(lower.result, upper.result, pieces.stores, lambda other: ((), (other, 1)))
        stored = [
            statement
            for part in self.segment.state
            for statement in pieces.stored(part, self.joined[part.name], (member, *pieces.head))
        ]
        started = self._started()
        # The rows that are ended are started under these names.
        defined = [name for each in started for node in walk(each) if (name := loops.result_of(node))]
        names = {name: write.names.new(name) for name in (*defined, *pieces.head)}
        body = renamed((*started, loop, *stored), {**names, self.segment.row: row})
        heads = pieces.nest.heads
        nest = replace(pieces.nest, heads=replace(heads, variable=names[heads.variable]) if heads else None)
        return skipped, lower, limit, upper, *self._on_lanes(nest, row, body)

    def _started(self) -> tuple[loops.Statement, ...]:
        """Of the statements before a segment those that declare its state and say what it starts with."""
        state = {part.name for part in self.segment.state}
        before = self.segment.before
        starts = [each for each in before if loops.result_of(each) in state or state & written_names((each,))]
        needed = slice_for(before, starts)
        return tuple(each for each in before if each in starts or each in needed)

    def _near(self, start: str, member: str, beyond: str, reach: str) -> tuple[kernels.Statement, ...]:
        """The row that goes on behind a piece, if it begins in it."""
        write, size = self.write, self.pieces.size
        piece = write.index("piece", "add", start, member)
        first = write.index("first", "mul", piece.result, size)
        boundary = write.index("boundary", "add", first.result, size)
        row, begin, following, end = self._row_of(piece.result, self.segment.row)
        ended = self._ended(piece.result, end.result, beyond, reach)
        goes_on = write.where(boundary.result, "<", end.result, *ended)
        begins = write.where(first.result, "<=", begin.result, goes_on)
        inside = write.where(boundary.result, "<", self.segment.elements, row, begin, following, end, begins)
        return piece, first, boundary, inside

    def _ended(self, piece: str, end: str, beyond: str, reach: str) -> tuple[kernels.Statement, ...]:
        """What the block's pieces have of the row, what its groups have put together of those behind, and its end."""
        write = self.write

        def place(other: str) -> Found:
            missed = write.index("missed", "sub", other, piece)
            second = write.index("place", "min", missed.result, 1)
            return (missed, second), (other, second.result)

        last = self._behind_last(end)
        stop = write.index("stop", "min", last[-1].result, beyond)
        near = self._sum(piece, stop.result, self.pieces.stores, place)
        gone = write.index("gone", "sub", end, reach)
        past = write.index("past", "max", gone.result, 0)
        any_past = write.index("any", "min", past.result, 1)
        members = write.index("members", "mul", any_past.result, self.pieces.in_block)
        far = self._sum(0, members.result, self.joined, lambda other: ((), (other,)))
        counted = (*last, stop, near, gone, past, any_past, members, far)
        body = (*self.segment.before, *counted, *self.segment.after)
        return self._on_lanes(self.pieces.nest, self.segment.row, body)

    def _row_of(self, piece: str, name: str) -> tuple[loops.Load, loops.Load, loops.Index, loops.Load]:
        """The row of a piece's last element, under a name; where it begins, the next row, and where that begins."""
        write, offsets = self.write, self.segment.offsets
        row = replace(write.load("", self.pieces.rows, piece), result=name)
        following = write.index("next", "add", name, 1)
        return row, write.load("from", offsets, name), following, write.load("upto", offsets, following.result)

    def _behind_last(self, end: str) -> tuple[loops.Index, ...]:
        """The piece behind that of the last element before `end`."""
        final = self.write.index("final", "sub", end, 1)
        last = self.write.index("last", "div", final.result, self.pieces.size)
        return final, last, self.write.index("behind", "add", last.result, 1)

    def _sum(
        self, lower: str | int, upper: str, arrays: dict[str, str], place: Callable[[str], Found]
    ) -> loops.Statement:
        """The loop over states, each with its parts in the arrays by their names."""
        other = self.write.names.new("other")
        found, indices = place(other)
        body = [*found]
        grown: dict[str, tuple[str, str]] = {}
        for part in self.segment.state:
            body += merge_part(self.pieces, part, arrays[part.name], (*indices, *self.pieces.head), grown)
        return loops.For(variable=other, lower=lower, extent=upper, body=tuple(body), origin=self.write.origin)

    def _on_lanes(self, nest: Nest, row: str, body: tuple[loops.Statement, ...]) -> tuple[kernels.Statement, ...]:
        """What is done for one row, on lanes."""
        kernel = self.pieces.kernel
        joined = (
            replace(state, name=self.joined[part.name], extents=(self.pieces.in_block, *state.extents[2:]))
            for part, state in zip(self.segment.state, self.pieces.states("temporary"), strict=False)
        )
        kernel = replace(kernel, buffers=(*kernel.buffers, *self.pieces.states("temporary"), *joined))
        loop = replace(self.pieces.nest.loop, variable=row, body=body)
        spread = replace(self.spread, unroll=STATES_IN_FLIGHT)
        return of_heads(nest, on_lanes(Nest(kernel, loop), body, spread, self.write.names), spread)


def merge_part(
    pieces: Pieces, part: Part, array: str, place: tuple[str | int, ...], grown: dict[str, tuple[str, str]]
) -> tuple[loops.Statement, ...]:
    """One target's part from its place; `grown` has, by maximum, what shrinks the old and the new to its growth."""
    write, variables = pieces.write, pieces.write.over(part.extents)
    value = write.load(part.name, array, *place, *variables)
    if part.scale:
        shrink, grow = grown[part.scale]
        scaled = write.compute("scaled", "mul", value.result, grow)
        shrunk = write.add(part.name, "product", shrink, *variables)
        body = (value, scaled, shrunk, write.add(part.name, "sum", scaled.result, *variables))
        return write.nested(variables, part.extents, body)
    add = write.add(part.name, part.reduction, value.result, *variables)
    if all(other.scale != part.name for other in pieces.segment.state):
        return write.nested(variables, part.extents, (value, add))
    before = write.compute("before", "copy", part.name)
    now = write.compute("now", "copy", part.name)
    fallen = write.compute("fallen", "sub", before.result, now.result)
    shrink_by = write.compute("shrink", "exp", fallen.result)
    below = write.compute("below", "sub", value.result, now.result)
    grow_by = write.compute("grow", "exp", below.result)
    grown[part.name] = shrink_by.result, grow_by.result
    return value, before, add, now, fallen, shrink_by, below, grow_by


def merged_arrays(pieces: Pieces) -> tuple[loops.Buffer, ...]:
    """The arrays that a kernel that merges has: those that rows begin and end with, and the states."""
    segment = pieces.segment
    written = {buffer.name for buffer in pieces.kernel.buffers if buffer.kind == "output"}
    read = loops_read((*segment.before, *segment.after)) | written | {segment.offsets}
    kept = tuple(buffer for buffer in pieces.kernel.buffers if buffer.name in read)
    sized = tuple(buffer for buffer in pieces.kernel.buffers if segment.elements in buffer.extents[:1])[:1]
    known = any(segment.elements in buffer.extents for buffer in kept)
    return (*kept, *(() if known else sized), *pieces.states("temporary"))


def loops_read(body: tuple[loops.Statement, ...]) -> set[str]:
    """The arrays and rows that statements read, at any depth."""
    return {node.buffer for statement in body for node in walk(statement) if isinstance(node, loops.Load)}
