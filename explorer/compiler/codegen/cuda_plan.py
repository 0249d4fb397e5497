"""Where a GPU kernel's loops run and where its rows live, decided before any text is written.

A warp takes an iteration of the parallel loop. An innermost loop is spread over the warp's 32 lanes where its
iterations do not disturb each other; all other loops run in all lanes alike. A row that only such loops touch, each
at its own variable, is private to the lanes and lives in registers; any other row lives in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from explorer.compiler.codegen.text import Unsupported
from explorer.compiler.ir.loops import (
    Accumulate,
    Accumulator,
    For,
    Kernel,
    Load,
    Row,
    Statement,
    Store,
    reads_of,
    result_of,
)
from explorer.compiler.ir.node import Atom, Node, walk

LANES = 32
MOST_WARPS = 8
"""Warps a block where shared memory allows: 256 threads."""
MOST_REGISTERS = 64
"""Floats a lane for rows in registers: half of what a thread may have with 512 threads on a multiprocessor."""
SHARED_BYTES = 48 * 1024
"""Static shared memory a block may have on every GPU since Fermi."""
FULL_WARP_NEUTRAL = {"sum": (0.0,), "product": (1.0,), "max": None, "min": None}
"""Starts for which 32 partial accumulators may begin alike; None: any, as a maximum of equals changes nothing."""


@dataclass(frozen=True)
class Access:
    """One access to an element of a row or an output: `loop` is the loop spread over the lanes around it, if any."""

    row: str
    indices: tuple[Atom, ...]
    loop: For | None
    writes: bool

    @property
    def pattern(self) -> str:
        """Which lanes touch which elements. Two accesses of one pattern touch an element from the same lane:
        `own p` by the lane that index p names, `first` by lane 0; `all` is any other."""
        if self.loop is not None and self.loop.lower == 0 and self.loop.variable in self.indices:
            return f"own {self.indices.index(self.loop.variable)}"
        return "first" if self.writes and self.loop is None else "all"


@dataclass(frozen=True)
class Touch:
    """What accesses of one kind do to a row in shared memory, or to an output that the kernel reads again."""

    row: str
    pattern: str
    writes: bool

    def disturbs(self, other: Touch) -> bool:
        """Whether a lane may touch an element that another lane writes, when one follows the other."""
        apart = self.pattern != other.pattern or self.pattern == "all"
        return self.row == other.row and (self.writes or other.writes) and apart


@dataclass(frozen=True)
class Plan:
    """The mapping of one kernel."""

    prologue: tuple[Statement, ...]  # what precedes the parallel loop, done by every warp
    batch: For
    lane_loops: frozenset[str]  # by variable
    register_rows: frozenset[str]
    shared_rows: dict[str, int]  # floats a warp
    reread: frozenset[str]  # outputs that the kernel reads again, or adds to
    atomic: frozenset[str]  # outputs that iterations add to where others do too
    deferred: frozenset[str]  # accumulators that stay partial until all their loops are over
    warps: int

    def touches(self, statement: Node, loop: For | None = None) -> set[Touch]:
        """What a statement and those below it do to memory that all lanes see."""
        found = {
            Touch(access.row, access.pattern, access.writes)
            for access in row_accesses(statement, loop)
            if access.row in self.shared_rows or access.row in self.reread
        }
        if isinstance(statement, For):
            inner = statement if statement.variable in self.lane_loops else loop
            for child in statement.body:
                found |= self.touches(child, inner)
        return found


def row_accesses(statement: Node, loop: For | None) -> Iterator[Access]:
    """The accesses of one statement to elements of rows or buffers; an accumulator has no elements."""
    match statement:
        case Load():
            yield Access(statement.buffer, statement.indices, loop, writes=False)
        case Store() | Accumulate() if statement.indices:
            yield Access(statement.target, statement.indices, loop, writes=True)


def make_plan(kernel: Kernel) -> Plan:
    """Decides the mapping; raises Unsupported for a kernel that one warp an iteration cannot do."""
    prologue, batch = _split(kernel)
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    atomic = frozenset() if batch.parallel else frozenset(name for name in outputs if _only_sums(kernel, name))
    reread = frozenset(name for name in outputs - atomic if _rereads(kernel, batch, name))
    loops = {loop.variable: loop for loop in _innermost(batch) if _spreads(loop, outputs)}
    rows = [node for node in walk(kernel) if isinstance(node, Row)]
    registers = _register_rows(kernel, rows, loops)
    shared = {row.name: _floats(kernel, row) for row in rows if row.name not in registers}
    plan = Plan(prologue, batch, frozenset(loops), registers, shared, reread, atomic, frozenset(), _warps(shared))
    deferred = frozenset((*_deferred(prologue, plan.lane_loops), *_deferred(batch.body, plan.lane_loops)))
    return replace(plan, deferred=deferred)


def _rereads(kernel: Kernel, batch: For, output: str) -> bool:
    """Whether the kernel reads or adds to what it has written: only ever elements of its own iteration."""
    loads = [node for node in walk(kernel) if isinstance(node, Load) and node.buffer == output]
    sums = [node for node in walk(kernel) if isinstance(node, Accumulate) and node.target == output]
    again: list[Load | Accumulate] = [*loads, *sums]
    if any(node.indices[:1] != (batch.variable,) for node in again):
        raise Unsupported(f"The kernel goes back to elements of {output} that belong to other iterations.")
    return bool(again)


def _only_sums(kernel: Kernel, output: str) -> bool:
    """Whether a kernel does nothing with an output but add to its elements, in whatever order."""
    nodes = list(walk(kernel))
    written = [n for n in nodes if isinstance(n, Store | Accumulate) and n.target == output]
    sums = all(isinstance(n, Accumulate) and n.reduction == "sum" for n in written)
    return sums and not any(isinstance(n, Load) and n.buffer == output for n in nodes)


def _split(kernel: Kernel) -> tuple[tuple[Statement, ...], For]:
    *prologue, last = kernel.body or (None,)
    if not isinstance(last, For):
        raise Unsupported("The kernel does not end in a loop over the batch.")
    if any(isinstance(statement, For) and statement.parallel for statement in prologue):
        raise Unsupported("The kernel has more than one parallel loop.")
    return tuple(statement for statement in prologue if statement is not None), last


def _innermost(loop: For) -> Iterator[For]:
    """The loops inside `loop` that hold no loop."""
    inner = [statement for statement in loop.body if isinstance(statement, For)]
    for statement in inner:
        if any(isinstance(child, For) for child in statement.body):
            yield from _innermost(statement)
        else:
            yield statement


def _spreads(loop: For, outputs: set[str]) -> bool:
    """Whether the lanes may share the iterations: each writes elements of its own, or all reduce into one."""
    local = {name for statement in loop.body if (name := result_of(statement)) is not None}
    read = {name for statement in loop.body for name in _operands(statement)}
    for statement in loop.body:
        if isinstance(statement, Row):
            return False
        if not isinstance(statement, Store | Accumulate) or statement.target in local:
            continue
        if loop.variable in statement.indices:
            mine = statement.target in outputs or _same_elements(loop, statement)
        else:
            fixed = local.isdisjoint(map(str, statement.indices)) and statement.target not in read
            mine = isinstance(statement, Accumulate) and fixed and _only_reduced(loop, statement)
        if not mine:
            return False
    return True


def _operands(statement: Statement) -> tuple[str, ...]:
    """What a statement reads, an accumulation's own target apart."""
    reads = reads_of(statement)
    return reads[1:] if isinstance(statement, Accumulate) else reads


def _same_elements(loop: For, write: Store | Accumulate) -> bool:
    """Whether the loop touches the written row at the written element alone."""
    accesses = [access for child in loop.body for access in row_accesses(child, loop)]
    return all(access.indices == write.indices for access in accesses if access.row == write.target)


def _only_reduced(loop: For, write: Accumulate) -> bool:
    """Whether the loop does nothing with the target but this one kind of reduction into this one element."""
    return all(
        isinstance(child, Accumulate) and child.indices == write.indices and child.reduction == write.reduction
        for child in loop.body
        if isinstance(child, Store | Accumulate) and child.target == write.target
    )


def _register_rows(kernel: Kernel, rows: list[Row], loops: dict[str, For]) -> frozenset[str]:
    """Rows that the lanes keep to themselves, as many as registers hold, in program order."""
    seen: dict[str, list[Access]] = {row.name: [] for row in rows}
    _collect(kernel.body, None, loops, seen)
    chosen, free = set(), MOST_REGISTERS
    for row in rows:
        slots = -(-_floats(kernel, row) // LANES)
        private = len(row.extents) == 1 and all(
            access.loop is not None
            and access.indices == (access.loop.variable,)
            and access.loop.lower == 0
            and static_extent(kernel, access.loop.extent) == _floats(kernel, row)
            for access in seen[row.name]
        )
        if private and slots <= free:
            chosen.add(row.name)
            free -= slots
    return frozenset(chosen)


def _collect(
    body: tuple[Statement, ...], loop: For | None, loops: dict[str, For], seen: dict[str, list[Access]]
) -> None:
    for statement in body:
        for access in row_accesses(statement, loop):
            if access.row in seen:
                seen[access.row].append(access)
        if isinstance(statement, For):
            _collect(statement.body, loops.get(statement.variable, loop), loops, seen)


def _warps(shared: dict[str, int]) -> int:
    """Warps a block, so that every warp has its slice of the shared memory."""
    needed = 4 * sum(shared.values())
    if needed > SHARED_BYTES:
        raise Unsupported(
            f"The rows that the lanes of a warp share take {needed:,} bytes, and a block has {SHARED_BYTES:,} bytes"
            f" of shared memory: make {', '.join(shared)} smaller."
        )
    return min(MOST_WARPS, SHARED_BYTES // needed) if needed else MOST_WARPS


def _deferred(body: tuple[Statement, ...], lane_loops: frozenset[str]) -> Iterator[str]:
    """Accumulators of this body and the bodies below whose warp reduction can wait for the last of their loops."""
    last = last_accumulations(body)
    for place, statement in enumerate(body):
        if isinstance(statement, For) and statement.variable not in lane_loops:
            yield from _deferred(statement.body, lane_loops)
        if isinstance(statement, Accumulator):
            until = last.get(statement.name, place) + 1
            if _waits(statement, body[place + 1 : until], lane_loops):
                yield statement.name


def last_accumulations(body: Sequence[Statement]) -> dict[str, int]:
    """For each target, the place in `body` of the last statement that accumulates into it, itself or below."""
    return {
        node.target: place
        for place, statement in enumerate(body)
        for node in walk(statement)
        if isinstance(node, Accumulate)
    }


def _waits(accumulator: Accumulator, body: tuple[Statement, ...], lane_loops: frozenset[str]) -> bool:
    reductions = set()
    for node, in_lanes in _with_place(body, lane_loops, False):
        if isinstance(node, Accumulate) and node.target == accumulator.name:
            reductions.add(node.reduction)
            if not in_lanes or accumulator.name in node.operands:
                return False
        elif accumulator.name in reads_of(node):
            return False
    if len(reductions) != 1:
        return False
    starts = FULL_WARP_NEUTRAL[reductions.pop()]
    return starts is None or accumulator.start in starts


def _with_place(
    body: tuple[Statement, ...], lane_loops: frozenset[str], in_lanes: bool
) -> Iterator[tuple[Statement, bool]]:
    for statement in body:
        yield statement, in_lanes
        if isinstance(statement, For):
            yield from _with_place(statement.body, lane_loops, in_lanes or statement.variable in lane_loops)


def static_extent(kernel: Kernel, extent: Atom) -> int | None:
    """The number that an extent or a bound stands for, where it is known when the kernel is compiled."""
    return dict(kernel.sizes).get(extent) if isinstance(extent, str) else int(extent)


def _floats(kernel: Kernel, row: Row) -> int:
    product = 1
    for extent in row.extents:
        size = static_extent(kernel, extent)
        if size is None:
            raise Unsupported(f"The size {extent} of the row {row.name} is not known when the kernel is compiled.")
        product *= size
    return product
