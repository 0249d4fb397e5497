"""The template that fits every program: a warp an iteration of the parallel loop, its lanes along the rows.

An innermost loop is spread over the lanes where its iterations do not disturb each other; all other loops run in all
lanes alike. A row that only such loops touch, each at its own variable, is private to the lanes and lives in
registers; any other row lives in shared memory. Where rows are short, several iterations share a warp.

Sources: cuKE §V-A for the warp a triple; gather rows as vectors, kept in registers: measured, as is how wide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Loop, Reduce, ScheduledKernel, Statement, Tile
from explorer.compiler.ir.loops import Accumulate, Load, Store
from explorer.compiler.ir.node import Atom, VerificationError, walk
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.passes.loops.cleared import clear_sums
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.barriers import add_barriers, holds_barriers
from explorer.compiler.schedule.edit.primitives import (
    accesses_in_lanes,
    bind,
    place,
    unroll,
    vectorise,
    why_not_private,
    why_not_vector,
)
from explorer.compiler.schedule.edit.queries import (
    Body,
    ScheduleError,
    accesses,
    begin,
    edit,
    find_loop,
    floats,
    names_of,
    places,
    scheduled,
    static_extent,
    tiles_of,
    touched_in,
)
from explorer.compiler.schedule.edit.reductions import make_atomic, reduce_parts
from explorer.compiler.schedule.fitting import blocks_at_a_time
from explorer.compiler.schedule.warps.column_blocks import in_columns
from explorer.compiler.schedule.warps.gathered import fewer_lanes, floats_gathered, rounds_together
from explorer.compiler.schedule.warps.lane_each import a_lane_each, fits_a_lane, share_out
from explorer.compiler.schedule.warps.lane_safety import shared_by_lanes
from explorer.compiler.schedule.warps.row_registers import accumulate_in, stage
from explorer.compiler.target import FLOAT_BYTES, STATIC_SHARED_BYTES, WARP
from explorer.compiler.unsupported import Unsupported

LANES = WARP
MOST_WARPS, SCORE_WARPS, NARROW_WARPS = 8, 4, 2
BLOCK_WARPS = Decision(
    name="warps",
    domain=tuple(range(1, MOST_WARPS + 1)),
    why="warps of a block: small blocks end together with their last warp",
    source="8, where shared memory allows, and 4 for iterations of like length; measured on an H100",
)
ROW_LANES = Decision(
    name="lanes",
    domain=(1, 2, 4, 8, 16, LANES),
    why="lanes that share an iteration: fewer have more iterations at a time, and more of a row to wait for each",
    source="as many as the longest row has vectors, up to a warp, measured on an H100; half of them for iterations that"
    " only gather, measured on an H200",
)
REGISTERS_A_THREAD = 128
"""Registers for a lane that keeps rows. Left alone, the assembler waits for some rows before it asks for others: on an
H100 TransH takes 54 registers for 71, and 6 % more time, TransF 38 for 56, and 5 %."""
KEPT = Decision(
    name="kept",
    domain=(0, 16, 32, 64, 128),
    why="floats of rows that a lane keeps in registers",
    source="64, half of what a thread may have with 512 threads on a multiprocessor",
)
SHARED_BYTES = STATIC_SHARED_BYTES
"""Shared memory that a block has where nothing else is said."""
LOADS = Decision(
    name="loads",
    domain=(1, 2, 4, 8),
    why="iterations of a loop over a segment side by side, so that their gathers are in flight together",
    source="4: 8 lose 5 to 16 % on short segments, measured on an H100",
)
ROUNDS = Decision(
    name="rounds",
    domain=(1, 2, 4, 8, 16, 32),
    why="most iterations of a lane of which all loads are issued together",
    source="4, measured on an H100; more where an iteration only gathers, measured on an H200",
)
VECTORS = (4, 2, 1)


class RowsTooLarge(Unsupported):
    """No block has room for the `rows` of one warp, given with how many numbers each has."""

    def __init__(self, rows: Mapping[str, int], most_bytes: int) -> None:
        self.rows = rows
        super().__init__(
            f"The rows {', '.join(rows)} of an iteration take {FLOAT_BYTES * sum(rows.values()):,} bytes, and a block"
            f" has {most_bytes:,} bytes of shared memory."
        )


def schedule_warps(kernel: loops.Kernel, report: Report, most_bytes: int = SHARED_BYTES) -> ScheduledKernel:
    """The kernel, a warp an iteration; raises Unsupported for one that cannot be done so, RowsTooLarge where that is
    for want of shared memory.

    A block of several warps has SHARED_BYTES of shared memory; one warp whose rows need more may have `most_bytes`."""
    prologue, batch = _batch_loop(kernel)
    atomic = frozenset() if batch.parallel else frozenset(_only_sums(kernel))
    reread = _reread(kernel, batch, _outputs(kernel) - atomic)
    whole = replace(batch, body=(*prologue, *batch.body))
    own = replace(kernel, body=(whole,))
    nest = begin(kernel, own.body if atomic else clear_sums(own).body)
    plain, nest = nest, make_atomic(nest, atomic)
    for variable in shared_by_lanes(nest, _body_of(nest), _outputs(kernel)):
        nest = bind(nest, variable, "lane")
    floats_kept = report.number(kernel.name, KEPT, 64)
    nest = _rows_in_registers(nest, batch.variable, floats_kept)
    lanes = [node.variable for node in walk(nest) if isinstance(node, Loop) and node.bind == "lane"]
    shared = {t.name: floats(nest, t) or 0 for t in walk(nest) if isinstance(t, Tile) and t.memory == "shared"}
    if shared and not atomic and fits_a_lane(plain):
        said = report.mark()
        if (made := _a_lane_each(plain, batch.variable, report)) is not None:
            return made
        report.back_to(said)
    return _mapped(nest, batch.variable, lanes, shared, most_bytes, reread, _outputs(kernel), floats_kept, report)


def _a_lane_each(nest: ScheduledKernel, variable: str, report: Report) -> ScheduledKernel | None:
    """The nest with an iteration for each lane; None where more are asked for, or some element of a row is in no
    register that is known."""
    if _width(nest, 1, 1, report) > 1:
        return None
    warps = report.number(nest.name, BLOCK_WARPS, NARROW_WARPS)
    made = replace(a_lane_each(nest, variable, warps), threads=LANES * warps)
    try:
        verify_scheduled(made)
    except VerificationError:
        return None
    report.did(f"a lane an iteration of {variable}, {warps} warp{'s' if warps > 1 else ''} a block")
    return made


def _mapped(
    nest: ScheduledKernel,
    variable: str,
    lanes: list[str],
    shared: dict[str, int],
    most_bytes: int,
    reread: frozenset[str],
    outputs: set[str],
    floats_kept: int,
    report: Report,
) -> ScheduledKernel:
    """The nest with its iterations given to warps, or to groups of lanes, and its rows cut into vectors."""
    groups = _tied(nest, lanes)
    kept = {name for name in reread if len(accesses(_as_node(nest), name)) > 1}
    whole = bool(shared or kept or _meets_in_segments(nest))
    vectors = LANES if whole else _vectors(nest, groups)
    most = min(LANES, 1 << (vectors - 1).bit_length())
    least = most if whole else _fewest(nest, most, floats_kept)
    gathered = 0 if whole else floats_gathered(nest, _body_of(nest))
    width = _width(nest, max(least, fewer_lanes(most, vectors, gathered)), least, report)
    for group in groups:
        step = _step(nest, group, width)
        for name in group:
            nest = vectorise(nest, name, step) if step > 1 else nest
    warps = _warps(nest, shared, most_bytes, report)
    nest = share_out(nest, variable, warps, LANES // width)
    if width < LANES:
        nest = _narrowed(nest, lanes, width)
    nest = reduce_parts(nest, width) if lanes and width > 1 else nest
    nest = add_barriers(nest, frozenset(shared) | reread)
    nest = nest if shared else in_columns(nest, outputs, report)
    nest = _side_by_side(nest, lanes, rounds_together(_most_rounds(nest, lanes), width, gathered), report)
    _tell(nest, variable, warps, LANES // width, lanes, shared, report)
    return replace(nest, threads=LANES * warps, resident=_resident(nest, LANES * warps, report))


def _resident(nest: ScheduledKernel, threads: int, report: Report) -> int:
    """How many blocks a multiprocessor is to have at a time where lanes keep rows, and no loop comes back to them: so
    few that each thread may have the registers for all of its loads. Elsewhere the assembler knows best."""
    inside = [node for node in walk(nest) if isinstance(node, (Loop, Tile))]
    keeps_rows = any(isinstance(node, Tile) and node.memory == "register" for node in inside)
    comes_back = any(isinstance(node, Loop) and not node.bind for node in inside)
    usual = report.target.resident(threads, REGISTERS_A_THREAD) if keeps_rows and not comes_back else 0
    return blocks_at_a_time(nest.name, usual, threads, report)


def _tell(
    nest: ScheduledKernel,
    variable: str,
    warps: int,
    each: int,
    lanes: list[str],
    shared: dict[str, int],
    report: Report,
) -> None:
    iterations = f"{each} iterations" if each > 1 else "an iteration"
    report.did(f"a warp {iterations} of {variable}, {warps} warp{'s' if warps > 1 else ''} a block")
    if lanes:
        report.did("lanes share " + ", ".join(lanes))
    registers = [node.name for node in walk(nest) if isinstance(node, Tile) and node.memory == "register"]
    if registers:
        report.did("in registers: " + ", ".join(sorted(registers)))
    if shared:
        report.did("in shared memory: " + ", ".join(sorted(shared)))


def _batch_loop(kernel: loops.Kernel) -> tuple[tuple[loops.Statement, ...], loops.For]:
    """What precedes the loop whose iterations are shared out, and that loop."""
    *prologue, last = kernel.body or (None,)
    if not isinstance(last, loops.For):
        raise Unsupported("The kernel does not end in a loop over the batch.")
    if any(isinstance(statement, loops.For) and statement.parallel for statement in prologue):
        raise Unsupported("The kernel has more than one parallel loop.")
    return tuple(statement for statement in prologue if statement is not None), last


def _outputs(kernel: loops.Kernel) -> set[str]:
    return {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}


def _reread(kernel: loops.Kernel, batch: loops.For, outputs: Set[str]) -> frozenset[str]:
    """Those of some outputs to which the kernel goes back, or which it writes in several places: only ever elements of
    its own iteration."""
    stores: Counter[str] = Counter()
    again: set[str] = set()
    for node in walk(kernel):
        if isinstance(node, Store):
            stores[node.target] += 1
        elif isinstance(node, (Load, Accumulate)):
            array = node.buffer if isinstance(node, Load) else node.target
            if array in outputs and node.indices[:1] != (batch.variable,):
                raise Unsupported(f"The kernel goes back to elements of {array} that belong to other iterations.")
            again.add(array)
    return frozenset(name for name in outputs if name in again or stores[name] > 1)


def _only_sums(kernel: loops.Kernel) -> set[str]:
    """The outputs that a kernel does nothing with but add to their elements, in whatever order."""
    nodes = list(walk(kernel))
    read = {n.buffer for n in nodes if isinstance(n, Load)} | {n.target for n in nodes if isinstance(n, Store)}
    other = {n.target for n in nodes if isinstance(n, Accumulate) and n.reduction != "sum"}
    return _outputs(kernel) - read - other


def _body_of(nest: ScheduledKernel) -> Body:
    """The body of the loop whose iterations are shared out."""
    (batch,) = nest.body
    assert isinstance(batch, Loop)
    return batch.body


def _as_node(nest: ScheduledKernel) -> Loop:
    (batch,) = nest.body
    assert isinstance(batch, Loop)
    return batch


def _rows_in_registers(nest: ScheduledKernel, variable: str, free: int) -> ScheduledKernel:
    """Rows that the lanes keep to themselves, as many as registers hold: the program's, sums, gathers read twice."""
    for tile in tiles_of(nest):
        slots = -(-_size(nest, tile) // LANES)
        if slots <= free and not why_not_private(nest, tile):
            nest, free = place(nest, tile.name, "register"), free - slots
    for buffer in nest.buffers:
        if buffer.kind == "output" and len(buffer.extents) == 2:
            nest, free = _attempt(nest, buffer, (variable,), variable, free)
    for buffer in nest.buffers:
        for row in dict.fromkeys(access.indices[:-1] for _, access in places(nest.body, buffer.name)):
            if buffer.kind != "output":
                nest, free = _attempt(nest, buffer, row, "", free)
    return nest


def _attempt(
    nest: ScheduledKernel, buffer: loops.Buffer, row: tuple[Atom, ...], iteration: str, free: int
) -> tuple[ScheduledKernel, int]:
    """A row of a buffer kept in registers, summed or staged, where that is legal and there is room."""
    size = static_extent(nest, buffer.extents[-1])
    slots = -(-size // LANES) if size is not None else free + 1
    if slots > free or buffer.type != "f32" or len(row) != len(buffer.extents) - 1:
        return nest, free
    tile = names_of(nest).new(f"{buffer.name}_row")
    try:
        if iteration:
            return accumulate_in(nest, buffer.name, row, iteration, tile), free - slots
        return stage(nest, buffer.name, row, tile), free - slots
    except ScheduleError:
        return nest, free


def _size(nest: ScheduledKernel, tile: Tile) -> int:
    size = floats(nest, tile)
    if size is None:
        (unknown, *_) = (extent for extent in tile.extents if static_extent(nest, extent) is None)
        raise Unsupported(f"The size {unknown} of the row {tile.name} is not known when the kernel is compiled.")
    return size


def _warps(nest: ScheduledKernel, shared: dict[str, int], most_bytes: int, report: Report) -> int:
    """Warps a block, so that every warp has its slice of the shared memory."""
    needed = FLOAT_BYTES * sum(shared.values())
    if needed > most_bytes:
        raise RowsTooLarge(shared, most_bytes)
    most = max(1, min(MOST_WARPS, SHARED_BYTES // needed)) if needed else MOST_WARPS
    usual = most if shared or _segments(nest) else SCORE_WARPS
    fitting = tuple(warps for warps in BLOCK_WARPS.domain if int(warps) <= most)
    warps = report.number(nest.name, BLOCK_WARPS, usual, lambda: fitting)
    if warps > most:
        report.settle(nest.name, BLOCK_WARPS, most, f"a block has shared memory for the rows of {most} warps")
    return min(warps, most)


def _width(nest: ScheduledKernel, usual: int, least: int, report: Report) -> int:
    """How many lanes share an iteration: the `usual` number, or what is asked for, no fewer than `least`."""
    fitting = tuple(lanes for lanes in ROW_LANES.domain if int(lanes) >= least)
    width = report.number(nest.name, ROW_LANES, usual, lambda: fitting)
    if width < least:
        report.settle(nest.name, ROW_LANES, least, f"its rows take {least} lanes")
    return max(width, least)


def _fewest(nest: ScheduledKernel, usual: int, floats_kept: int) -> int:
    """The fewest lanes that may share an iteration which `usual` ones share: those that hold the rows in registers."""
    rows = [_size(nest, tile) for tile in tiles_of(nest) if tile.memory == "register"]
    fewer = (lanes for lanes in map(int, ROW_LANES.domain) if 2 <= lanes < usual)
    return next((lanes for lanes in fewer if sum(-(-row // lanes) for row in rows) <= floats_kept), usual)


def _tied(nest: ScheduledKernel, lanes: list[str]) -> list[list[str]]:
    """The loops that lanes share, in groups that touch the same register tiles and so go in the same steps."""
    groups = {name: [name] for name in lanes}
    for tile in [tile.name for tile in tiles_of(nest) if tile.memory == "register"]:
        names = {loop.variable for loop, _ in accesses_in_lanes(nest.body, tile) if loop is not None}
        joined = [name for name in lanes if any(name in groups[other] for other in names)]
        groups |= dict.fromkeys(joined, joined)
    return [list(group) for group in dict.fromkeys(tuple(group) for group in groups.values())]


def _legal_steps(nest: ScheduledKernel, group: list[str]) -> list[int]:
    found = [find_loop(nest, name) for name in group]
    return [step for step in VECTORS if step == 1 or all(not why_not_vector(nest, loop, step) for loop in found)]


def _extent(nest: ScheduledKernel, group: list[str]) -> int | None:
    """The most iterations of a group's loops, None where they are known only at run time."""
    bounds = [find_loop(nest, name) for name in group]
    sizes = [static_extent(nest, loop.extent) if isinstance(loop.lower, int) else None for loop in bounds]
    return None if None in sizes else max(size for size in sizes if size is not None)


def _step(nest: ScheduledKernel, group: list[str], width: int) -> int:
    """How wide the vectors of a group's loops are: the fewest rounds of the lanes, then the most lanes at work."""
    size, legal = _extent(nest, group), _legal_steps(nest, group)
    return 1 if size is None else min(legal, key=lambda step: (-(-size // (step * width)), step))


def _vectors(nest: ScheduledKernel, groups: list[list[str]]) -> int:
    """How many vectors the longest row takes, at least 2 where lanes share any; as many as a warp has lanes where that
    is known only at run time."""
    needed = 2 if groups else 1
    for group in groups:
        size = _extent(nest, group)
        if size is None:
            return LANES
        needed = max(needed, -(-size // max(_legal_steps(nest, group))))
    return needed


def _segments(nest: ScheduledKernel) -> list[Loop]:
    """The loops inside an iteration whose bounds are known only at run time."""
    found = [node for statement in _body_of(nest) for node in walk(statement) if isinstance(node, Loop)]
    return [node for node in found if not isinstance(node.lower, int) or static_extent(nest, node.extent) is None]


def _meets_in_segments(nest: ScheduledKernel) -> bool:
    """Whether lanes put sums together inside a loop that may end earlier for one iteration than for another."""
    reduced = reduce_parts(nest, LANES)
    return any(isinstance(node, Reduce) for loop in _segments(reduced) for node in walk(loop))


def _narrowed(nest: ScheduledKernel, lanes: list[str], width: int) -> ScheduledKernel:
    """The loops that lanes share given to groups of `width` of them."""

    def of(statement: Statement) -> Body:
        mine = isinstance(statement, Loop) and statement.variable in lanes
        return (replace(statement, width=width) if mine and isinstance(statement, Loop) else statement,)

    if not lanes:
        return nest
    return scheduled(nest, f"narrow {', '.join(lanes)} to {width} lanes", edit(nest.body, of))


def _side_by_side(nest: ScheduledKernel, lanes: list[str], rounds: int, report: Report) -> ScheduledKernel:
    """Loops over registers unrolled, and those that gather rows, so that their loads are in flight together."""
    registers = {tile.name for tile in tiles_of(nest) if tile.memory == "register"}
    for loop in [node for node in walk(nest) if isinstance(node, Loop)]:
        mine = loop.variable in lanes
        if mine and (_few_rounds(nest, loop, rounds, report) or not registers.isdisjoint(touched_in(loop))):
            nest = unroll(nest, loop.variable)
        elif not loop.bind and loop.unroll == 1 and not holds_barriers(loop.body) and _gathers(loop):
            nest = unroll(nest, loop.variable, report.number(nest.name, LOADS, 4))
    return nest


def _few_rounds(nest: ScheduledKernel, loop: Loop, usual: int, report: Report) -> bool:
    """Whether a lane has so few iterations of a loop that all its loads may be in flight together."""
    rounds = _rounds(nest, loop)
    return rounds is not None and rounds <= report.number(nest.name, ROUNDS, usual)


def _most_rounds(nest: ScheduledKernel, lanes: list[str]) -> int:
    """The most iterations that a lane has of a loop, of those whose sizes are known."""
    mine = (node for node in walk(nest) if isinstance(node, Loop) and node.variable in lanes)
    return max((_rounds(nest, loop) or 0 for loop in mine), default=0)


def _rounds(nest: ScheduledKernel, loop: Loop) -> int | None:
    """How many iterations of a loop a lane has, None where that is known only at run time."""
    size = static_extent(nest, loop.extent) if loop.lower == 0 else None
    return None if size is None else -(-size // (loop.step * (loop.width or LANES)))


def _gathers(loop: Loop) -> bool:
    """Whether a loop holds no other than those that lanes share."""
    inner = [node for statement in loop.body for node in walk(statement) if isinstance(node, Loop)]
    return bool(inner) and all(node.bind == "lane" for node in inner)
