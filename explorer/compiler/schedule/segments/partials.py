"""Pieces: what the kernel that sums the elements of all segments and the one that merges have in common.

A piece is as many elements as a group of lanes does, wherever rows begin and end. What it has of a row that is cut is
stored in one of two places: that of a row that begins in it, and that of one that comes from the piece before.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from explorer.compiler.ir import kernels, loops
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.lanes.mapping import LANES, Nest, Spread, on_lanes
from explorer.compiler.schedule.lanes.registers import with_resident
from explorer.compiler.schedule.lanes.state import Part, Segment
from explorer.compiler.schedule.segments.by_rows import WARPS


class Pieces:
    """The pieces of one segment's elements: `size` each, `chunk` a warp. `stores` are the arrays of their states by
    part, [pieces, 2, heads, ...]; `rows` is the array of the row that each one's last element belongs to, [pieces].
    A block has `warps` of them."""

    def __init__(
        self, segment: Segment, spread: Spread, chunk: int, write: Writer, report: Report, warps: int = WARPS
    ) -> None:
        self.segment, self.spread, self.chunk, self.write, self.warps = segment, spread, chunk, write, warps
        self.report = report
        self.size = chunk // spread.groups
        self.nest, self.kernel = segment.nest, segment.nest.kernel
        heads = self.nest.heads
        if heads is not None:
            write.names.new(heads.variable)
        self.of_heads = () if heads is None else (heads.extent,)
        self.head = () if heads is None else (heads.variable,)
        self.count = write.names.new(f"{self.kernel.name}_pieces")
        self.stores = {part.name: write.names.new(f"{self.kernel.name}_{part.name}") for part in segment.state}
        self.rows = write.names.new(f"{self.kernel.name}_rows")

    def in_blocks_of(self, warps: int) -> Pieces:
        """The same pieces, with blocks of so many warps."""
        other = copy(self)
        other.warps = warps
        return other

    @property
    def in_block(self) -> int:
        """The pieces of a block."""
        return self.warps * self.spread.groups

    def states(self, kind: str) -> tuple[loops.Buffer, ...]:
        """The arrays of what pieces have of rows, and of the rows that they end in."""
        found = [
            loops.Buffer(
                name=self.stores[part.name],
                kind=kind,
                extents=(self.count, 2, *self.of_heads, *part.extents),
                origin=part.target.origin,
            )
            for part in self.segment.state
        ]
        return (*found, loops.Buffer(name=self.rows, kind="index", extents=(self.count,), origin=self.write.origin))

    def scheduled(
        self,
        name: str,
        template: str,
        lines: list[str],
        buffers: tuple[loops.Buffer, ...],
        blocks: kernels.Statement,
        spread: Spread,
        streamed: tuple[str, ...] = (),
    ) -> kernels.ScheduledKernel:
        """A kernel over pieces: the loop over its blocks, whose rows are spread over lanes."""
        # one piece more, for empty rows behind all elements
        count = kernels.Count(((self.segment.elements, self.size), (1, 1)))
        made = kernels.ScheduledKernel(
            name=name,
            template=template,
            sizes=self.kernel.sizes,
            buffers=buffers,
            threads=LANES * self.warps,
            schedule=tuple(lines),
            body=(blocks,),
            counts=((self.count, count),),
            streamed=streamed,
            origin=self.kernel.origin,
        )
        return with_resident(made, spread, self.report.target)

    def blocks(self, block: str, *body: kernels.Statement) -> kernels.Statement:
        """The loop over blocks."""
        return self.write.loop(block, kernels.Count(((self.count, self.in_block),)), *body, bind="block")

    def groups(self, group: str, *body: kernels.Statement) -> kernels.Statement:
        """The loop over a warp's groups of lanes, of which there is more than one."""
        return self.write.loop(group, self.spread.groups, *body, bind="lane", width=self.spread.groups)

    def stored(self, part: Part, array: str, place: tuple[str, ...]) -> tuple[loops.Statement, ...]:
        """The statements that store what a piece has of a part in a place of an array."""
        return self.write.stored(part.name, part.extents, part.name, array, *place)

    def ended(self, spread: Spread) -> tuple[kernels.Statement, ...]:
        """The statements of a row behind its segment's loop, on lanes."""
        return on_lanes(self.nest, self.segment.after, spread, self.write.names)

    def left(self, spread: Spread, piece: str, start: str, upto: str) -> tuple[kernels.Statement, ...]:
        """What a piece, with a row's elements from `start` up to `upto`, leaves of the row: its end where those are
        all, else their state."""
        write, begin, end = self.write, self.segment.loop.lower, self.segment.loop.extent
        mine = write.index("mine", "sub", upto, start)
        length = write.index("length", "sub", end, begin)
        missed = write.index("missed", "sub", start, begin)
        whole = write.where(mine.result, "==", length.result, *self.ended(spread))
        part = write.where(mine.result, "<", length.result, missed, *self._cut(spread, piece, missed))
        return mine, length, whole, write.where(0, "<", mine.result, part)

    def _cut(self, spread: Spread, piece: str, missed: loops.Index) -> tuple[kernels.Statement, ...]:
        """The state of a row that is cut, in a piece's first place where the row begins in it, else in its second."""
        place = self.write.index("place", "min", missed.result, 1)
        body: list[loops.Statement] = [place]
        for part in self.segment.state:
            body += self.stored(part, self.stores[part.name], (piece, place.result, *self.head))
        nest = Nest(self.kernel, replace(self.nest.loop, body=(*self.segment.before, *body)))
        return on_lanes(nest, body, spread, self.write.names)
