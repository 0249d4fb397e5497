"""Nonzeros: a warp takes as many elements of the segments as any other, wherever they lie, and searches for its rows.

Rows of a matrix and nodes of a graph differ in length by orders of magnitude, so that rows shared out evenly are work
shared out unevenly. Here it is the elements that are shared out: a warp sums the rows that it finds in its piece one
after another, stores those that are wholly its own, and adds its part of those that are cut. A small kernel before it
clears the rows that are cut, and those without elements that no piece has in its midst.

Sources: the merge-based SpMM of Yang, Buluç and Owens (Euro-Par 2018); G-Sparse §III-B for what happens in a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import Names, Origin, walk
from explorer.compiler.passes.report import Report
from explorer.compiler.passes.statements import all_names, rename
from explorer.compiler.schedule.lanes import LANES, Nest, Spread, Unfit, nest_of, on_lanes, row_loop, spread_rows
from explorer.compiler.schedule.rows import LOADS_OF_ROWS, WARPS, lines_of, nest_of_any
from explorer.compiler.schedule.sums import sums_in_rows

CHUNK, LARGE_CHUNK = 256, 512
"""Elements a warp, and where there are more than LARGE."""
LARGE = 10_000_000
FEWEST_WARPS = 4_000
"""Warps that keep all multiprocessors of an H100 busy: fewer elements a warp rather than fewer warps."""
CLEARING_THREADS = 256


@dataclass(frozen=True)
class Segments:
    """A nest that is a sum over each row's segment: `out[r, ...] += ...` for the elements between two offsets.

    `before` is what the row does ahead of its segment, the loads of the offsets among it."""

    nest: Nest
    output: loops.Buffer
    before: tuple[loops.Statement, ...]
    segment: loops.For
    offsets: str
    elements: str

    @property
    def row(self) -> str:
        """The variable of the rows."""
        return self.nest.loop.variable


def segments_of(kernel: loops.Kernel) -> Segments:
    """The kernel as sums over segments; raises Unfit."""
    nest = nest_of_any(kernel)
    *before, segment = nest.loop.body
    if not isinstance(segment, loops.For) or nest.static(segment):
        raise Unfit("a row goes on after its segment")
    if nest.segment_loops != [segment]:
        raise Unfit("a row has more than one segment")
    outputs = [buffer for buffer in kernel.buffers if buffer.kind == "output"]
    if len(outputs) != 1:
        raise Unfit("it has more than one output")
    output = outputs[0]
    writes = [node for node in walk(nest.loop) if isinstance(node, loops.Store | loops.Accumulate)]
    sums = [node for node in writes if node.target == output.name]
    if not all(isinstance(node, loops.Accumulate) and node.reduction == "sum" for node in sums):
        raise Unfit(f"it does more with {output.name} than sum")
    if any(isinstance(node, loops.Accumulator | loops.Row) and _carried(node, segment) for node in before):
        raise Unfit("a row keeps a sum besides its output")
    return Segments(nest, output, tuple(before), segment, _offsets(nest, before, segment), _elements(kernel, segment))


def _carried(declared: loops.Accumulator | loops.Row, segment: loops.For) -> bool:
    """Whether a segment's loop writes what was declared before it."""
    writes = (node for node in walk(segment) if isinstance(node, loops.Store | loops.Accumulate))
    return any(node.target == declared.name for node in writes)


def _offsets(nest: Nest, before: list[loops.Statement], segment: loops.For) -> str:
    """The array of offsets: the segment lies between `ptr[r]` and `ptr[r + 1]`."""
    found = {node.result: node for node in before if isinstance(node, loops.Load)}
    begin, end = (found.get(str(bound)) for bound in (segment.lower, segment.extent))
    following = {
        node.result
        for node in before
        if isinstance(node, loops.Index) and (node.function, node.operands) == ("add", (nest.loop.variable, 1))
    }
    if begin is None or end is None or begin.buffer != end.buffer:
        raise Unfit("its segment has no offsets")
    if begin.indices != (nest.loop.variable,) or end.indices[0] not in following:
        raise Unfit("its segment is not that of its own row")
    return begin.buffer


def _elements(kernel: loops.Kernel, segment: loops.For) -> str:
    """How many elements all segments have: the length of the arrays that the segment's variable indexes."""
    extents = {buffer.name: buffer.extents for buffer in kernel.buffers}
    loads = (node for node in walk(segment) if isinstance(node, loops.Load) and node.buffer in extents)
    lengths = {extents[load.buffer][0] for load in loads if load.indices[:1] == (segment.variable,)}
    if len(lengths) != 1:
        raise Unfit("the number of its elements has no name")
    return str(lengths.pop())


def schedule_nonzeros(kernel: loops.Kernel, report: Report) -> tuple[kernels.ScheduledKernel, ...]:
    """The kernel that clears and the one that sums; empty, and the reason reported, where it cannot be."""
    try:
        found = segments_of(kernel)
        nest = nest_of(sums_in_rows(found.nest).kernel)
        spread = replace(spread_rows(nest), unroll=LOADS_OF_ROWS)
        chunk, reason = chunk_of(found.elements, report)
        body = on_lanes(nest, nest.loop.body, spread)
    except Unfit as reason_not:
        report.refused(f"{kernel.name} is not split by nonzeros: {reason_not}")
        return ()
    report.did(f"{kernel.name} by nonzeros: {chunk} of {found.elements} a warp, {reason}")
    return _clearing(found, chunk // spread.groups), _summing(found, nest, body, spread, chunk)


def chunk_of(elements: str, report: Report) -> tuple[int, str]:
    """How many elements a warp takes, a power of 2, and why."""
    counts = {"edges": report.counts["edge"]}
    if elements not in counts:
        return CHUNK, "whatever their number"
    count = counts[elements]
    chunk = LARGE_CHUNK if count > LARGE else CHUNK
    while chunk > LANES and count // chunk < FEWEST_WARPS:
        chunk //= 2
    return chunk, f"of {count:,} in {report.counts.name}"


class _Writer:
    """Makes index statements of one origin with names that are free."""

    def __init__(self, kernel: loops.Kernel, origin: Origin) -> None:
        self.names = Names(all_names(kernel))
        self.origin = origin

    def index(self, hint: str, function: str, *operands: str | int) -> loops.Index:
        result = self.names.new(hint)
        return loops.Index(result=result, function=function, operands=operands, origin=self.origin)

    def where(self, left: str | int, comparison: str, right: str | int, *body: kernels.Statement) -> kernels.Where:
        return kernels.Where(left=left, comparison=comparison, right=right, body=body, origin=self.origin)

    def loop(self, variable: str, extent: str | int | kernels.Count, *body: kernels.Statement) -> kernels.Loop:
        return kernels.Loop(variable=variable, extent=extent, body=body, origin=self.origin)


def _clearing(found: Segments, piece: int) -> kernels.ScheduledKernel:
    """Clears the rows that a boundary of two pieces cuts, touches, or has where they are empty: a thread a row.

    With whole numbers, `ceil(begin / piece) <= floor(end / piece)` says that a boundary lies from begin to end."""
    kernel, loop = found.nest.kernel, found.nest.loop
    write = _Writer(kernel, loop.origin)
    block, thread = write.names.new("block"), write.names.new("thread")
    first = write.index("first", "mul", block, CLEARING_THREADS)
    row = loops.Index(result=loop.variable, function="add", operands=(first.result, thread), origin=loop.origin)
    begin, end = str(found.segment.lower), str(found.segment.extent)
    bounds = tuple(node for node in found.before if _loads_bound(node, found))
    up = write.index("up", "add", begin, piece - 1)
    above, below = write.index("above", "div", up.result, piece), write.index("below", "div", end, piece)
    cut = write.where(above.result, "<=", below.result, _clear(found, write))
    total = write.names.new("total")
    assert isinstance(loop.extent, str | int)
    count = loops.Load(result=total, buffer=found.offsets, indices=(loop.extent,), origin=loop.origin)
    # what follows the last element belongs to no piece
    trailing = write.where(begin, "==", total, _clear(found, write))
    guarded = write.where(row.result, "<", loop.extent, *bounds, count, up, above, below, cut, trailing)
    threads = replace(write.loop(thread, CLEARING_THREADS, row, guarded), bind="thread")
    blocks = kernels.Count(((loop.extent, CLEARING_THREADS),))
    return kernels.ScheduledKernel(
        name=write.names.new(f"{kernel.name}_clear"),
        template="clear",
        sizes=kernel.sizes,
        buffers=tuple(buffer for buffer in kernel.buffers if buffer.name in (found.output.name, found.offsets)),
        threads=CLEARING_THREADS,
        schedule=(f"a thread a row: clear those that pieces of {piece} {found.elements} cut, or leave out",),
        body=(replace(write.loop(block, blocks, first, threads), bind="block"),),
        origin=kernel.origin,
    )


def _loads_bound(statement: loops.Statement, found: Segments) -> bool:
    """Whether a statement is part of finding a segment's bounds."""
    if isinstance(statement, loops.Load):
        return statement.buffer == found.offsets
    return isinstance(statement, loops.Index) and statement.operands == (found.row, 1)


def _clear(found: Segments, write: _Writer) -> kernels.Statement:
    """`for d in 0..D step 4: out[r, d] = 0.0`."""
    extents = found.output.extents[1:]
    variables = [write.names.new(extent.lower() if isinstance(extent, str) else "i") for extent in extents]
    indices = (found.row, *variables)
    statement: kernels.Statement = loops.Store(
        target=found.output.name, indices=indices, function="copy", operands=(0.0,), origin=write.origin
    )
    step = 4 if extents and found.nest.kernel.size(extents[-1]) % 4 == 0 else 1
    for variable, extent in zip(reversed(variables), reversed(extents), strict=True):
        statement = replace(write.loop(variable, extent, statement), step=step)
        step = 1
    return statement


def _summing(
    found: Segments, nest: Nest, body: tuple[kernels.Statement, ...], spread: Spread, chunk: int
) -> kernels.ScheduledKernel:
    """A piece of the elements for each group of lanes."""
    kernel, write = found.nest.kernel, _Writer(nest.kernel, found.nest.loop.origin)
    piece = chunk // spread.groups
    lines = [
        f"split {found.elements}: a block of {WARPS} warps has {WARPS * chunk}, a warp {chunk}",
        f"search {found.offsets} for the first row and the last of a piece",
        f"bound {found.segment.variable} to the piece: [max({found.segment.lower}, first), min({found.segment.extent}, last) - 1]",
        *lines_of(nest, spread),
        f"store rows that are whole, add the others to {found.output.name}",
    ]
    if spread.groups > 1:
        lines.insert(1, f"share a warp's among {spread.groups} groups of {spread.width} lanes, {piece} each")
    return kernels.ScheduledKernel(
        name=kernel.name,
        template="nonzeros",
        sizes=kernel.sizes,
        buffers=kernel.buffers,
        threads=LANES * WARPS,
        schedule=tuple(lines),
        body=(_in_blocks(found, body, spread, chunk, write),),
        origin=kernel.origin,
    )


@dataclass(frozen=True)
class _Piece:
    """The names of a piece's first element and of what follows its last."""

    first: str
    last: str


def _row(
    found: Segments, body: tuple[kernels.Statement, ...], piece: _Piece, write: _Writer
) -> tuple[kernels.Statement, ...]:
    """What a piece does for one row: the row's iteration, its segment bounded to the piece, its end by how much of
    the row the piece has."""
    *statements, store = body
    assert isinstance(store, kernels.Loop)
    begin, end = str(found.segment.lower), str(found.segment.extent)
    lower, upper = write.index("from", "max", begin, piece.first), write.index("upto", "min", end, piece.last)
    done: list[kernels.Statement] = []
    for statement in statements:
        if isinstance(statement, kernels.Loop) and statement.variable == found.segment.variable:
            statement = replace(statement, lower=lower.result, extent=upper.result)
            done += [lower, upper]
        done.append(statement)
    mine, all_of_it = write.index("mine", "sub", upper.result, lower.result), write.index("all", "sub", end, begin)
    whole = write.where(mine.result, "==", all_of_it.result, store)
    part = write.where(mine.result, "<", all_of_it.result, _added(store, found.output.name, write))
    return (*done, mine, all_of_it, whole, part)


def _added(loop: kernels.Loop, output: str, write: _Writer) -> kernels.Loop:
    """The loops that store a row, adding to it instead."""
    defined = [node for node in walk(loop) if isinstance(node, kernels.Loop | loops.Load)]
    results = [node.variable if isinstance(node, kernels.Loop) else node.result for node in defined]
    names = {result: write.names.new(result) for result in results}

    def added(statement: kernels.Statement) -> kernels.Statement:
        if isinstance(statement, kernels.Loop):
            body = tuple(added(child) for child in statement.body)
            return replace(statement, variable=names[statement.variable], body=body)
        assert isinstance(statement, loops.Load | loops.Store)
        renamed = rename(statement, names)
        if not isinstance(renamed, loops.Store):
            return renamed
        return kernels.AtomicAccumulate(
            target=output,
            indices=renamed.indices,
            reduction="sum",
            function=renamed.function,
            operands=renamed.operands,
            origin=renamed.origin,
        )

    changed = added(loop)
    assert isinstance(changed, kernels.Loop)
    return changed


def _in_blocks(
    found: Segments, body: tuple[kernels.Statement, ...], spread: Spread, chunk: int, write: _Writer
) -> kernels.Statement:
    """The loops over blocks, warps and groups of lanes around a piece, and over the rows in it."""
    size = chunk // spread.groups
    block, warp = write.names.new("block"), write.names.new("warp")
    number = write.index("number", "mul", block, WARPS)
    own = write.index("own", "add", number.result, warp)
    start = write.index("start", "mul", own.result, chunk)
    group, within = write.names.new("group"), write.names.new("within")
    offset = loops.Index(result=within, function="mul", operands=(group, size), origin=write.origin)
    first = write.index("first", "add", start.result, within) if spread.groups > 1 else start
    after = write.index("after", "add", first.result, size)
    last = write.index("last", "min", after.result, found.elements)
    final = write.index("final", "sub", last.result, 1)
    top, bottom = write.names.new("top"), write.names.new("bottom")
    stop = write.index("stop", "add", bottom, 1)
    row = _row(found, body, _Piece(first.result, last.result), write)
    rows = replace(write.loop(found.row, stop.result, *row), lower=top)
    piece = write.where(
        first.result,
        "<",
        found.elements,
        *(after, last, final),
        _search(found, top, first.result, 0),
        _search(found, bottom, final.result, top),
        *(stop, rows),
    )
    inner: tuple[kernels.Statement, ...] = (own, start, piece)
    if spread.groups > 1:
        grouped = replace(write.loop(group, spread.groups, offset, first, piece), bind="lane", width=spread.groups)
        inner = (own, start, grouped)
    warps = replace(write.loop(warp, WARPS, *inner), bind="warp")
    blocks = kernels.Count(((found.elements, WARPS * chunk),))
    return replace(write.loop(block, blocks, number, warps), bind="block")


def _search(found: Segments, result: str, value: str, lower: str | int) -> kernels.Search:
    return kernels.Search(
        result=result,
        buffer=found.offsets,
        value=value,
        lower=lower,
        upper=found.nest.loop.extent,
        origin=found.nest.loop.origin,
    )
