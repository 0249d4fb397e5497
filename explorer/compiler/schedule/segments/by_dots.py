"""Dots: lanes that share a row sum over it, for many rows a warp. What g-SDDMM is, and each edge's or pair's logit.

G-Sparse §III-B, Algorithm 3: kLaneWidth lanes take an element of the parallel loop, each a part of its dot product,
and a tree of shuffles joins them. A warp has 32 elements or more, whose indices and numbers its lanes fetch together,
and a block as many as `block_rows` says (the edges of a block, G-Sparse §III-C).
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.decisions import Decision
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import serving, walk
from explorer.compiler.ir.statements import rename
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.load_ahead import Batch
from explorer.compiler.schedule.edit.queries import edit
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.inspect.popular_rows import POPULAR, with_popular
from explorer.compiler.schedule.lanes.mapping import (
    IN_FLIGHT,
    LANES,
    USUAL_IN_FLIGHT,
    Nest,
    Spread,
    Unfit,
    batch_size,
    nest_of,
    on_lanes,
    spread_rows,
)
from explorer.compiler.schedule.lanes.output_tiles import check_registers, warps_for
from explorer.compiler.schedule.lanes.registers import with_resident
from explorer.compiler.schedule.lanes.state import elements_of
from explorer.compiler.schedule.lanes.widths import lanes_for, say_lanes
from explorer.compiler.schedule.segments.by_rows import WARPS
from explorer.compiler.schedule.staging.elements import Staging
from explorer.compiler.target import FLOAT_BYTES, LINE_BYTES, VECTOR

ELEMENTS = Decision(
    name="elements",
    domain=(LANES, 2 * LANES, 4 * LANES),
    why="elements of a warp, whose indices its lanes fetch together: more have fewer warps wait for their first rows,"
    " and take more shared memory",
    source="32, one for each lane",
)
VECTORS = 4
"""Vectors of a row that a lane takes before more lanes share the row: what the usual `lanes` is told by."""
LOADS = Decision(
    name="loads",
    domain=(1, 2, 4, 8, 16),
    why="elements whose rows a lane waits for at a time, as far as registers go",
    source="8, where rows are short enough; measured on an H100",
)
UNROLL = Decision(
    name="unroll",
    domain=(1, 2, 4),
    why="batches of elements side by side, so that rows of the next are on their way",
    source="2, but of rows as wide as a warp, of which a batch has enough; measured on an H100",
)
SHUFFLE = Decision(
    name="shuffle",
    domain=(True, False),
    why="how lanes join their parts of a sum: by exchanging registers, or through an element of shared memory for each",
    source="G-Sparse §III-D, a switch of its search space; shuffles, which take no memory and no barrier",
)
MOST_HEADS = 8
"""The longest loop around the dot products for which a group of lanes is enough: longer ones are no work of so few."""


def schedule_dots(kernel: loops.Kernel, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel with kLaneWidth lanes an element, behind the inspector that marks popular rows for it where the option
    says so; empty, and the reason reported, where it cannot be.

    A load's lanes share what the cache is told of it, so that rows that are to be told apart have a load each."""
    try:
        nest = nest_of(kernel)
        _check(nest)
        usual = LANES if report.choose(kernel.name, POPULAR, False) else lane_width(nest)
        spread = spread_rows(nest, lanes_for(nest, report, usual))
        made = _Dots(nest, spread, report).kernel()
        say_lanes(nest, spread, report)
        return with_popular(made, report)
    except Unfit as reason:
        report.refused(f"{kernel.name} is not scheduled by dots: {reason}")
        return ()


def _check(nest: Nest) -> None:
    """Raises Unfit unless all that an element takes is sums over rows."""
    if nest.segment_loops:
        raise Unfit("it walks segments")
    if not nest.row_loops:
        raise Unfit("it has no sum over a row")
    for loop in nest.row_loops:
        if any(isinstance(child, loops.Store) for child in loop.body):
            raise Unfit(f"its loop over {loop.variable} stores a row")
    for node in walk(nest.loop):
        if not isinstance(node, loops.For) or node is nest.loop or nest.over_row(node):
            continue
        if nest.kernel.size(node.extent) > MOST_HEADS:
            raise Unfit(f"an element has more than {MOST_HEADS} sums, one for each {node.variable}")
    if any(isinstance(node, loops.Accumulate) and _is_output(nest, node.target) for node in walk(nest.loop)):
        raise Unfit("it adds to an output")
    stored = {node.target for node in walk(nest.loop) if isinstance(node, loops.Store)}
    for node in walk(nest.loop):
        if isinstance(node, loops.Load) and node.buffer in stored and _is_output(nest, node.buffer):
            raise Unfit(f"it reads {node.buffer} back, of which one lane has stored what others read")


def _is_output(nest: Nest, name: str) -> bool:
    return any(buffer.name == name and buffer.kind == "output" for buffer in nest.kernel.buffers)


def lane_width(nest: Nest) -> int:
    """kLaneWidth: lanes that read a line of memory together, more where rows are long, fewer where they are short, or
    half as many are idle for a fifth less of it (rows of 48: 45.6 us by 4, 49.8 by 8, on an H200)."""
    longest = max(nest.kernel.size(loop.extent) for loop in nest.row_loops)
    wanted = max(LINE_BYTES // (FLOAT_BYTES * VECTOR), -(-longest // (VECTOR * VECTORS)))
    lanes, vectors = min(LANES, 1 << (wanted - 1).bit_length()), nest.vectors[1]
    while lanes > 1 and 5 * padded(vectors, lanes // 2) <= 4 * padded(vectors, lanes):
        lanes //= 2
    return lanes


def padded(vectors: int, lanes: int) -> int:
    """The vectors of a row, with those that lanes are idle for."""
    return -(-vectors // lanes) * lanes


class _Dots:
    """The kernel in which a group of lanes has an element at a time."""

    def __init__(self, nest: Nest, spread: Spread, report: Report) -> None:
        name = nest.kernel.name
        self.whole, self.report = nest, report
        self.loads = report.number(name, LOADS, 8)
        self.spread = replace(spread, floats=report.number(name, IN_FLIGHT, USUAL_IN_FLIGHT))
        self.unroll = report.number(name, UNROLL, 2) if spread.groups > 1 else 0
        self.elements = report.number(name, ELEMENTS, LANES)
        self.warps = warps_for(name, self.elements, WARPS, report)
        self.shuffle = spread.width == 1 or report.choose(name, SHUFFLE, True)
        sums = (node.origin for node in walk(nest.loop) if isinstance(node, loops.Accumulate))
        self.write = Writer(nest.kernel, serving("dots of elements", "schedule", (nest.loop.origin,), sums))
        self.staging = Staging(elements_of(nest), self.elements, self.write, self.warps)
        self.nest = Nest(self.staging.kernel, self.staging.loop)
        self.buffers = {buffer.name: buffer for buffer in self.staging.kernel.buffers}
        self.parts = "" if self.shuffle else self.write.names.new("parts")

    def kernel(self) -> kernels.ScheduledKernel:
        """The kernel, without an inspector."""
        kernel, loop, spread, warps = self.whole.kernel, self.whole.loop, self.spread, self.warps
        each = self.elements
        body = (self._in_blocks(),)
        lines = [
            f"split {loop.variable}: a block of {warps} warps has {warps * each} elements, a warp {each}",
            f"kLaneWidth = {spread.width}: a warp has {spread.groups} elements at a time",
            *spread.log.lines,
            f"clamp {loop.variable} to the last element",
        ]
        if self.staging.kept:
            lines.insert(1, f"stage {', '.join(self.staging.arrays)} in shared memory, a warp's {each} together")
        if self.parts:
            lines.insert(2, f"join lanes in shared memory, a warp's {LANES} parts at a time")
        self.report.did(f"{kernel.name} by dots: {', '.join(lines)}")
        scheduled = kernels.ScheduledKernel(
            name=kernel.name,
            template="dots",
            sizes=kernel.sizes,
            buffers=kernel.buffers,
            threads=LANES * warps,
            schedule=tuple(lines),
            body=body,
            streamed=self.staging.streamed,
            origin=kernel.origin,
        )
        check_registers(scheduled, spread, self.report)
        return with_resident(scheduled, spread, self.report.target)

    def _in_blocks(self) -> kernels.Statement:
        """The loops over blocks and warps around what a warp has; of warps past the end nothing is asked."""
        write, extent = self.write, self.whole.loop.extent
        assert isinstance(extent, (str, int))
        block, warp = write.names.new("block"), write.names.new("warp")
        base = write.index("base", "mul", block, self.warps)
        own = write.index("own", "add", base.result, warp)
        start = write.define(self.staging.start, "mul", own.result, self.elements)
        last = write.index("last", "sub", extent, 1)
        turns: tuple[kernels.Statement, ...] = (self._turns(last.result),)
        declared = self.staging.declared
        if self.parts:
            declared = (
                *declared,
                kernels.Tile(name=self.parts, extents=(LANES,), memory="shared", origin=write.origin),
            )
            turns = edit(turns, self._joined_in_parts)
        if self.staging.kept:
            wait = kernels.Barrier(level="warp", origin=write.origin)
            inside = write.where(start.result, "<", extent, last, self.staging.filling(last.result), wait, *turns)
            inner: tuple[kernels.Statement, ...] = (own, start, *declared, inside)
        else:
            inner = (own, start, *declared, last, *turns)
        blocks = kernels.Count(((extent, self.warps * self.elements),))
        return write.loop(block, blocks, base, write.loop(warp, self.warps, *inner, bind="warp"), bind="block")

    def _joined_in_parts(self, statement: kernels.Statement) -> tuple[kernels.Statement, ...]:
        """The statement; lanes join what they have of a sum in shared memory."""
        return (replace(statement, parts=self.parts) if isinstance(statement, kernels.Reduce) else statement,)

    def _turns(self, last: str) -> kernels.Statement:
        """The loops over rounds and groups of lanes around a batch of elements.

        What is past the end is the last element again, up to its stores: lanes that shuffle stay together, and an
        unrolled gather needs no condition."""
        spread, write = self.spread, self.write
        body = on_lanes(self.nest, self.nest.loop.body, spread, write.names)
        each = self.elements // spread.groups
        size = min(self._in_flight(body), each)
        turns = each // size
        turn, group = write.names.new("turn"), write.names.new("group")
        offset = write.index("offset", "mul", turn, spread.groups * size)
        first = write.index("first", "add", self.staging.start, offset.result)
        element = write.index("element", "add", first.result, group)
        steps = self._steps(body, size, element.result, last)
        grouped = write.loop(group, spread.groups, element, *steps, bind="lane", width=spread.groups)
        unroll = min(turns, self.unroll) if self.unroll else kernels.ROLLED
        return replace(write.loop(turn, turns, offset, first, grouped), unroll=unroll)

    def _in_flight(self, body: tuple[kernels.Statement, ...]) -> int:
        """How many elements have their rows in registers at a time: a power of 2."""
        try:
            size = batch_size(body, self.spread, self.buffers, self.loads)
        except ValueError:
            return 1
        return 1 << (size.bit_length() - 1)

    def _steps(
        self, body: tuple[kernels.Statement, ...], size: int, element: str, last: str
    ) -> tuple[kernels.Statement, ...]:
        """A batch of elements, `groups` apart: all their rows first, where they can be loaded so."""
        loop, groups, write = self.whole.loop, self.spread.groups, self.write

        def guard(body: tuple[kernels.Statement, ...], place: str = loop.variable) -> tuple[kernels.Statement, ...]:
            return tuple(_stored_below(statement, loop, place, set(self.buffers), write) for statement in body)

        try:
            batch = Batch(body, loop.variable, size, self.buffers, write.names)
            return batch.statements(element, groups, last, write.loop(loop.variable, size), guard)
        except ValueError:
            slot = write.names.new("slot")
            offset = write.index("offset", "mul", slot, groups)
            ahead = write.index("ahead", "add", element, offset.result)
            place = loops.Index(result=loop.variable, function="min", operands=(ahead.result, last), origin=loop.origin)
            return (write.loop(slot, size, offset, ahead, place, *guard(body, ahead.result)),)


def _stored_below(
    statement: kernels.Statement, loop: loops.For, place: str, buffers: set[str], write: Writer
) -> kernels.Statement:
    """The statement with stores at `place`, the element before it is clamped, only where there is such an element."""
    if isinstance(statement, kernels.Loop):
        body = tuple(_stored_below(child, loop, place, buffers, write) for child in statement.body)
        return replace(statement, body=body)
    if not isinstance(statement, loops.Store) or statement.target not in buffers:
        return statement
    renamed = rename(statement, {loop.variable: place})
    assert isinstance(renamed, loops.Store)
    assert isinstance(loop.extent, (str, int))
    operands = replace(renamed, operands=statement.operands)
    return write.where(place, "<", loop.extent, operands)
