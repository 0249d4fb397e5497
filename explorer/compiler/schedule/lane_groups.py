"""Rows: a group of lanes takes an iteration of the parallel loop from its first element to its last, all in registers.

G-Sparse's SpMM (§III-B) with its names: a block has kMTile rows, a group of lanes all kNTile = D columns of a row,
each lane kNRegTile of its vectors, and a segment that only sums may be shared by the groups of a warp.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.passes.report import Report
from explorer.compiler.passes.statements import all_names
from explorer.compiler.schedule.balancing import balanced
from explorer.compiler.schedule.heads import rows_nest
from explorer.compiler.schedule.lanes import (
    LANES,
    VECTOR,
    Nest,
    Spread,
    Unfit,
    in_flight,
    of_heads,
    on_lanes,
    spread_rows,
    with_resident,
)
from explorer.compiler.schedule.segments import segment_of

WARPS = 8
"""Warps a block: more would wait for the longest of more rows."""
LOADS_OF_LISTS, LOADS_OF_ROWS = 8, 4
"""Rows of a table in flight: for lists that a user gives, long and of like length, and for a matrix's rows or a graph's
nodes, most of which are shorter than 8."""
LISTS = "entries"
"""The set of what lists hold; a matrix has nonzeros, a graph edges."""


def schedule_rows(kernel: loops.Kernel, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel with a group of lanes a row; empty, and the reason reported, where it cannot be."""
    try:
        nest = rows_nest(kernel)
        spread = replace(spread_rows(nest, report.options.lanes or LANES), unroll=loads_in_flight(nest))
        return _with_balance(_scheduled(nest, spread, report), nest, report)
    except Unfit as reason:
        report.refused(f"{kernel.name} is not scheduled by rows: {reason}")
        return ()


def _with_balance(kernel: kernels.ScheduledKernel, nest: Nest, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel, its rows in the order of an inspector before it where the option says so and they have lengths."""
    if not report.options.balance:
        return (kernel,)
    try:
        offsets = segment_of(nest).offsets
    except Unfit as reason:
        report.refused(f"the rows of {kernel.name} are not balanced: {reason}")
        return (kernel,)
    report.did(f"{kernel.name} takes its rows by their length, the longest first, sorted once for a graph")
    return balanced(kernel, nest.loop.variable, nest.loop.extent, offsets)


def loads_in_flight(nest: Nest) -> int:
    """How many iterations of a segment's loop are unrolled: by what its elements are."""
    lists = any(buffer.extents[:1] == (LISTS,) for buffer in nest.kernel.buffers)
    return LOADS_OF_LISTS if lists else LOADS_OF_ROWS


def _scheduled(nest: Nest, spread: Spread, report: Report) -> kernels.ScheduledKernel:
    kernel, loop = nest.kernel, nest.loop
    names = Names(all_names(kernel) | ({nest.heads.variable} if nest.heads else set()))
    body, spread = _on_lanes(nest, spread, names)
    groups = 1 if spread.split else spread.groups
    rows = WARPS * groups
    lines = [f"split {loop.variable}: a block of {WARPS} warps has kMTile = {rows} rows"]
    lines += lines_of(nest, spread)
    if spread.split:
        lines.append(f"share each segment among {spread.groups} groups of {spread.width} lanes")
    report.did(f"{kernel.name} by rows: {', '.join(lines)}")
    scheduled = kernels.ScheduledKernel(
        name=kernel.name,
        template="rows",
        sizes=kernel.sizes,
        buffers=kernel.buffers,
        threads=LANES * WARPS,
        schedule=tuple(lines),
        body=(in_blocks(loop, body, names, groups),),
        origin=kernel.origin,
    )
    return with_resident(scheduled, spread)


def _on_lanes(nest: Nest, spread: Spread, names: Names) -> tuple[tuple[kernels.Statement, ...], Spread]:
    """The body on lanes, its segments shared by a warp's groups of lanes where they can be."""
    if spread.groups > 1 and nest.segment_loops and nest.heads is None:
        try:
            shared = replace(spread, split=True)
            return on_lanes(nest, nest.loop.body, shared, names), shared
        except Unfit:
            pass  # a segment whose iterations depend on one another is walked by one group
    return of_heads(nest, on_lanes(nest, nest.loop.body, spread, names), spread), spread


def lines_of(nest: Nest, spread: Spread, *bounds: str) -> list[str]:
    """What the schedule says of rows on lanes, a primitive a line; `bounds` are a segment's first element and what
    follows its last, where they are not its own."""
    lines = [f"bind a row's elements to {spread.width} lanes"]
    if spread.step == VECTOR:
        lines.append(f"vectorise by {VECTOR}")
    if spread.rounds > 1:
        lines.append(f"stride: a lane has kNRegTile = {spread.rounds} vectors of a row, {spread.width} lanes apart")
    if nest.rows:
        lines.append(f"keep in registers: {', '.join(nest.rows)}")
    lines += [_preloading(nest, spread, segment, *bounds) for segment in nest.segment_loops if spread.unroll > 1]
    return lines


def _preloading(nest: Nest, spread: Spread, segment: loops.For, *bounds: str) -> str:
    """How many elements of a segment are loaded ahead, and which: the bound is that of the loads' buffers too."""
    tables = {buffer.name for buffer in nest.kernel.buffers}
    inner = [
        child for loop in walk(segment) if isinstance(loop, loops.For) and nest.over_row(loop) for child in loop.body
    ]
    rows = sum(isinstance(child, loops.Load) and child.buffer in tables for child in inner)
    if not rows:
        return f"unroll {segment.variable} by {spread.unroll}"
    tile = in_flight(rows, spread) * (spread.groups if spread.split else 1)
    lower, upper = bounds or (str(segment.lower), str(segment.extent))
    last = f"min({lower} + {tile} t + {tile}, {upper}) - 1"
    return f"preload {segment.variable} by kNnzTile = {tile}: [{lower} + {tile} t, {last}]"


def in_blocks(loop: loops.For, body: tuple[kernels.Statement, ...], names: Names, groups: int) -> kernels.Statement:
    """The loops over blocks, warps and `groups` groups of lanes around one iteration of the parallel loop."""
    origin = loop.origin

    def index(hint: str, function: str, *operands: str | int) -> loops.Index:
        return loops.Index(result=names.new(hint), function=function, operands=operands, origin=origin)

    block, warp = names.new("block"), names.new("warp")
    first = index("first", "mul", block, WARPS)
    if groups == 1:
        row = loops.Index(result=loop.variable, function="add", operands=(first.result, warp), origin=origin)
        inner: tuple[kernels.Statement, ...] = (first, row)
    else:
        group = names.new("group")
        number = index("number", "add", first.result, warp)
        start = index("start", "mul", number.result, groups)
        row = loops.Index(result=loop.variable, function="add", operands=(start.result, group), origin=origin)
        inner = (first, number, start)
    guarded = kernels.Where(left=loop.variable, comparison="<", right=loop.extent, body=body, origin=origin)
    if groups == 1:
        inner = (*inner, guarded)
    else:
        shared = kernels.Loop(
            variable=group, extent=groups, body=(row, guarded), bind="lane", width=groups, origin=origin
        )
        inner = (*inner, shared)
    warps = kernels.Loop(variable=warp, extent=WARPS, body=inner, bind="warp", origin=origin)
    blocks = kernels.Count(((loop.extent, WARPS * groups),))
    return kernels.Loop(variable=block, extent=blocks, body=(warps,), bind="block", origin=origin)
