"""Rows: a group of lanes takes an iteration of the parallel loop from its first element to its last, all in registers.

G-Sparse's SpMM (§III-B) with its names: a block has kMTile rows, a group of lanes all kNTile = D columns of a row,
each lane kNRegTile of its vectors, and a segment that only sums may be shared by the groups of a warp. The options
`block_rows`, `block_columns`, `lanes` and `lane_vectors` make them other numbers, and `preload` has a warp fetch
kNnzTile elements of its row together.
"""

from __future__ import annotations

from functools import partial
from math import ceil

from explorer.compiler.decisions import Decision, Value
from explorer.compiler.frozen import replace
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.index_sets import is_of_lists
from explorer.compiler.ir.node import Names
from explorer.compiler.ir.statements import all_names
from explorer.compiler.options import PRELOADS
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.inspect.balance_rows import balanced
from explorer.compiler.schedule.lanes.hoist_heads import rows_nest
from explorer.compiler.schedule.lanes.log import LaneLog
from explorer.compiler.schedule.lanes.mapping import (
    IN_FLIGHT,
    LANES,
    USUAL_IN_FLIGHT,
    Nest,
    Spread,
    Unfit,
    of_heads,
    on_lanes,
    spread_rows,
)
from explorer.compiler.schedule.lanes.output_tiles import ColumnTiles, check_registers, column_tiles, warps_for
from explorer.compiler.schedule.lanes.registers import with_resident
from explorer.compiler.schedule.lanes.state import mean_length, segment_of
from explorer.compiler.schedule.lanes.widths import fewest_waiting, lanes_for, say_lanes
from explorer.compiler.schedule.staging.elements import BOTH, STAGED
from explorer.compiler.schedule.staging.preload import Preload

WARPS = 8
"""Warps a block: more would wait for the longest of more rows."""
LOADS_OF_LISTS, LOADS_OF_ROWS = 8, 4
"""Rows of a table in flight: for lists that a user gives, long and of like length, and for a matrix's rows or a graph's
nodes, most of which are shorter than 8."""
BATCHES = 4
"""Rounds of loads that a group of lanes has of a list before others share it: 8,448 bags of 64 take 11.5 us so and 12.2
with two rounds each, on an H200."""
LOADS = Decision(
    name="loads",
    domain=(1, 2, 4, 8, 16),
    why="rows of a table that a lane waits for at a time, as far as registers go: more hide more of memory's latency,"
    " and the last of a short row come to nothing",
    source="8 for lists, 4 for graphs and matrices, most of whose rows are shorter than 8; measured on an H100",
)
SHARING = Decision(
    name="sharing",
    domain=(1, 2, 4, 8, 16, 32),
    why="groups of lanes that share a row's elements, of as many as a warp has: more wait for fewer elements each, of"
    " fewer a warp has more rows under way",
    source="all that a warp has, and of short lists fewer: bags of 1 to 4 take a third of the time so, on an H200",
)
PRELOAD = Decision(
    name="preload",
    domain=PRELOADS,
    why="elements of a row that its warp fetches into shared memory at a time (kNnzTile); 0 for none",
    source="G-Sparse kNnzTile; without it, measured on an H100",
)
SHARED = Decision(
    name="staged",
    domain=STAGED,
    why="what of a row's elements its warp fetches into shared memory: the indices that pick rows, the values that"
    " weigh them, or both",
    source="G-Sparse §III-D, the switches of its search space for colIdx and values; both, for rows wait for either",
)
BALANCE = Decision(
    name="balance",
    domain=(False, True),
    why="rows in the order of their length, the longest first, sorted once for a graph",
    source="G-Sparse §III-B, Algorithm 2; off, for where rows differ little it costs locality",
)


def schedule_rows(kernel: loops.Kernel, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel with a group of lanes a row; empty, and the reason reported, where it cannot be."""
    try:
        whole = rows_nest(kernel)
        tiles = column_tiles(whole, report)
        nest = tiles.nest if tiles else whole
        loads = loads_in_flight(nest, report)
        spread = waiting(spread_rows(nest, lanes_for(nest, report, fewest_waiting(nest, loads))), nest, loads, report)
        made = _Rows(nest, spread, tiles, report).kernel()
    except Unfit as reason:
        report.refused(f"{kernel.name} is not scheduled by rows: {reason}")
        return ()
    say_lanes(nest, spread, report)
    report.did(f"{kernel.name} by rows: {', '.join(made.schedule)}")
    return _with_balance(made, nest, report)


def _with_balance(kernel: kernels.ScheduledKernel, nest: Nest, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel, its rows in the order of an inspector before it where the option says so and they have lengths."""
    if not report.choose(nest.kernel.name, BALANCE, False, lambda: _fitting_order(nest)):
        return (kernel,)
    try:
        offsets = segment_of(nest).offsets
    except Unfit as reason:
        report.refused(f"the rows of {kernel.name} are not balanced: {reason}")
        report.settle(nest.kernel.name, BALANCE, False)
        return (kernel,)
    report.did(f"{kernel.name} takes its rows by their length, the longest first, sorted once for a graph")
    return balanced(kernel, nest.loop.variable, nest.loop.extent, offsets)


def _fitting_order(nest: Nest) -> tuple[Value, ...]:
    """Whether rows have a length to be sorted by."""
    try:
        segment_of(nest)
    except Unfit:
        return (False,)
    return False, True


def waiting(spread: Spread, nest: Nest, loads: int, report: Report) -> Spread:
    """The spread with the loads in flight that are chosen: of so many elements, usually."""
    name = nest.kernel.name
    return replace(
        spread, unroll=report.number(name, LOADS, loads), floats=report.number(name, IN_FLIGHT, USUAL_IN_FLIGHT)
    )


def loads_in_flight(nest: Nest, report: Report) -> int:
    """How many iterations of a segment's loop are unrolled: by what its elements are, and no more than segments have
    that are known to be short."""
    most = LOADS_OF_LISTS if _of_lists(nest) else LOADS_OF_ROWS
    return min(most, power_from(_length(nest, report)) or most)


def _of_lists(nest: Nest) -> bool:
    return any(buffer.extents and is_of_lists(buffer.extents[0]) for buffer in nest.kernel.buffers)


def _length(nest: Nest, report: Report) -> float:
    """How many elements a segment has on average; 0 where nobody knows."""
    try:
        return mean_length(segment_of(nest), report.counts)
    except Unfit:
        return 0.0


def power_from(number: float) -> int:
    """The least power of 2 that is no less than a number; 0 of 0."""
    return 1 << (ceil(number) - 1).bit_length() if number else 0


def _usual_sharing(nest: Nest, spread: Spread, report: Report) -> int:
    """The groups that share a segment: all of a warp, for a matrix's or a graph's longest rows have a thousand times as
    many elements as most, and tiles of elements are of one row; of lists as many as have BATCHES of loads each, or keep
    all multiprocessors busy."""
    length = _length(nest, report) if _of_lists(nest) else 0.0
    lists = report.counts.of(str(nest.loop.extent))
    if not length or not lists or report.wants(nest.kernel.name, PRELOAD):
        return spread.groups
    least = max(power_from(length / (BATCHES * spread.unroll)), 1)
    busy = power_from(report.target.busy_warps * spread.groups / lists)
    return min(spread.groups, max(least, busy))


def elements_in_flight(kernel: loops.Kernel, report: Report) -> int:
    """How many elements of a row's segment are loaded together; 0 where the kernel cannot be scheduled by rows."""
    try:
        nest = rows_nest(kernel)
        loads = loads_in_flight(nest, report)
        wide = spread_rows(nest, lanes_for(nest, report, fewest_waiting(nest, loads)))
        _, spread = _on_lanes(nest, wide, _names(nest), report)
    except Unfit:
        return 0
    return loads * spread.sharing


def _with_preload(
    nest: Nest, size: int, warps: int, spread: Spread, staged: str = BOTH
) -> tuple[Preload, tuple[kernels.Statement, ...]]:
    """The tiles of so many elements of a segment, and the body that reads them; raises Unfit."""
    preload = Preload(nest, size, warps, spread, staged)
    names = preload.write.names
    return preload, on_lanes(preload.nest, preload.nest.loop.body, preload.spread, names, preload.around)


def _fitting_tiles(nest: Nest, warps: int, spread: Spread) -> tuple[Value, ...]:
    """How many elements tiles may have; 0 is no tiles."""
    found: list[Value] = [0]
    for size in PRELOADS[1:]:
        try:
            _with_preload(nest, size, warps, spread)
        except Unfit:
            continue
        found.append(size)
    return tuple(found)


def _fitting_staged(nest: Nest, size: int, warps: int, spread: Spread) -> tuple[Value, ...]:
    """What of elements tiles of a size may have."""
    found: list[Value] = []
    for staged in STAGED:
        try:
            _with_preload(nest, size, warps, spread, staged)
        except Unfit:
            continue
        found.append(staged)
    return tuple(found)


class _Rows:
    """The kernel in which a group of lanes, or a warp whose groups share a segment, has a row."""

    def __init__(self, nest: Nest, spread: Spread, tiles: ColumnTiles | None, report: Report) -> None:
        self.tiles, self.report = tiles, report
        self.names = _names(nest)
        self.body, self.spread = _on_lanes(nest, spread, self.names, report)
        self.warps = warps_for(nest.kernel.name, self.spread.segments, WARPS, report)
        self.nest, self.preload = nest, self._preloaded(nest)

    def _preloaded(self, nest: Nest) -> Preload | None:
        """The tiles of a segment's elements where the options ask for them; None, with the reason, where they cannot
        be."""
        name, report = nest.kernel.name, self.report
        wanted = report.number(name, PRELOAD, 0, partial(_fitting_tiles, nest, self.warps, self.spread))
        if not wanted:
            return None
        unfit: list[Unfit] = []
        for size in sorted((size for size in PRELOADS if 0 < size <= wanted), reverse=True):
            try:
                made, body = _with_preload(nest, size, self.warps, self.spread)
            except Unfit as reason:
                unfit.append(reason)
            else:
                report.settle(name, PRELOAD, size, str(unfit[0]) if unfit else "")
                return self._staged(nest, size, made, body)
        report.settle(name, PRELOAD, 0)
        report.refused(f"{name}: preload={wanted}: nothing, for {unfit[-1]}")
        return None

    def _staged(self, nest: Nest, size: int, made: Preload, body: tuple[kernels.Statement, ...]) -> Preload:
        """The tiles of so many elements, of what is chosen of them."""
        name, report = nest.kernel.name, self.report
        wanted = str(report.choose(name, SHARED, BOTH, partial(_fitting_staged, nest, size, self.warps, self.spread)))
        if wanted != BOTH:
            try:
                made, body = _with_preload(nest, size, self.warps, self.spread, wanted)
            except Unfit as reason:
                report.settle(name, SHARED, BOTH, str(reason))
        self.names, self.spread, self.body = made.write.names, made.spread, body
        return made

    def kernel(self) -> kernels.ScheduledKernel:
        """The kernel, without an inspector."""
        kernel, tiles = self.nest.kernel, self.tiles
        apart = LANES // self.spread.segments if self.spread.sharing > 1 else 0
        blocks = in_blocks(self.nest.loop, self.body, self.names, self.spread.segments, self.warps, tiles, apart)
        made = kernels.ScheduledKernel(
            name=kernel.name,
            template="rows",
            sizes=kernel.sizes,
            buffers=kernel.buffers,
            threads=LANES * self.warps,
            schedule=tuple(self._lines()),
            body=(blocks,),
            origin=kernel.origin,
        )
        check_registers(made, self.spread, self.report)
        return with_resident(made, self.spread, self.report.target)

    def _lines(self) -> list[str]:
        nest, spread, rows = self.nest, self.spread, self.warps * self.spread.segments
        lines = [f"split {nest.loop.variable}: a block of {self.warps} warps has kMTile = {rows} rows"]
        lines += [self.tiles.line] if self.tiles else []
        if self.preload is None:
            lines += spread.log.lines
        else:
            lines += [*self.preload.lines, *spread.log.lines]
        if spread.sharing > 1:
            lines.append(f"share each segment among {spread.sharing} groups of {spread.width} lanes")
        return lines


def _names(nest: Nest) -> Names:
    return Names(all_names(nest.kernel) | ({nest.heads.variable} if nest.heads else set()))


def _on_lanes(nest: Nest, spread: Spread, names: Names, report: Report) -> tuple[tuple[kernels.Statement, ...], Spread]:
    """The body on lanes, its segments shared by groups of a warp's lanes where they can be."""
    if spread.groups > 1 and nest.segment_loops and nest.heads is None:
        name, usual = nest.kernel.name, _usual_sharing(nest, spread, report)
        shared = replace(spread, sharing=report.number(name, SHARING, usual, partial(_fitting_sharing, nest, spread)))
        shared = replace(shared, sharing=min(shared.sharing, spread.groups))
        try:
            body = on_lanes(nest, nest.loop.body, shared, names)
            report.settle(name, SHARING, shared.sharing, f"a warp has {spread.groups} groups of {spread.width} lanes")
            return body, shared
        except Unfit as reason:  # a segment whose iterations depend on one another is walked by one group
            report.settle(name, SHARING, 1, str(reason))
    return of_heads(nest, on_lanes(nest, nest.loop.body, spread, names), spread), spread


def _fitting_sharing(nest: Nest, spread: Spread) -> tuple[Value, ...]:
    """How many groups of lanes may share a segment."""
    try:
        on_lanes(nest, nest.loop.body, replace(spread, sharing=spread.groups, log=LaneLog()), _names(nest))
    except Unfit:
        return (1,)
    return tuple(groups for groups in SHARING.domain if int(groups) <= spread.groups)


def in_blocks(
    loop: loops.For,
    body: tuple[kernels.Statement, ...],
    names: Names,
    groups: int,
    warps: int = WARPS,
    tiles: ColumnTiles | None = None,
    apart: int = 0,
) -> kernels.Statement:
    """The loops over blocks, `warps` warps and `groups` groups of lanes around one iteration of the parallel loop, with
    that over `tiles`; groups are so many lanes `apart`, 0 for as many as share the loops inside."""
    write = Writer.named(names, loop.origin)
    block, warp = names.new("block"), names.new("warp")
    first = write.index("first", "mul", block, warps)
    guarded = write.where(loop.variable, "<", loop.extent, *body)
    if groups == 1:
        inner: tuple[kernels.Statement, ...] = (first, write.define(loop.variable, "add", first.result, warp), guarded)
    else:
        group = names.new("group")
        number = write.index("number", "add", first.result, warp)
        start = write.index("start", "mul", number.result, groups)
        row = write.define(loop.variable, "add", start.result, group)
        of_group = write.loop(group, groups, row, guarded, bind="lane", width=groups, apart=apart)
        inner = (first, number, start, of_group)
    shared_out: kernels.Statement = write.loop(warp, warps, *inner, bind="warp")
    if tiles:
        shared_out = tiles.around(shared_out)
    rows = warps * groups
    blocks = kernels.Count(((loop.extent, rows),)) if rows > 1 else loop.extent
    return write.loop(block, blocks, shared_out, bind="block")
