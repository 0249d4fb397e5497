"""The template of cuKE's run-time inspection: a score, or a part of its backward pass, by chunks of edges, in one
kernel (cuKE §V and §VI).

It is the user's to choose, beside the whole batch grouped by its matrices (`grouping`), which measures better: the
inspection of a chunk costs as much as its vectors do, and a warp an edge reads each matrix from shared memory once an
edge, where a tile of rows reads it once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from explorer.compiler.decisions import Decision
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ScheduledKernel, Tile
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.options import BLOCK_ELEMENTS, CACHED_MATRICES, CHUNK_EDGES, CHUNKS_A_GROUP, Options
from explorer.compiler.report import Report
from explorer.compiler.schedule.chunks.edges import ChunkSizes
from explorer.compiler.schedule.chunks.kernel import write_chunks
from explorer.compiler.schedule.chunks.plan import Plan, Unfit, of_triples, plan_of, sort_index
from explorer.compiler.schedule.chunks.product_rows import RowsBy, stored_rows, why_recomputed
from explorer.compiler.target import FLOAT_BYTES, GpuTarget

CHOICES = {
    "edges": Decision(
        name="inspect_edges",
        domain=CHUNK_EDGES,
        why="edges of a chunk: more share more, and take more of a block's shared memory",
        source="cuKE C, where it is 16; 64 measured better on an H100",
    ),
    "cached": Decision(
        name="inspect_cached",
        domain=tuple(CACHED_MATRICES),
        why="matrices of a chunk in shared memory at a time",
        source="cuKE C1",
    ),
    "block": Decision(
        name="inspect_block",
        domain=BLOCK_ELEMENTS,
        why="elements of a row that are in shared memory at a time",
        source="cuKE D",
    ),
    "group": Decision(
        name="inspect_group",
        domain=CHUNKS_A_GROUP,
        why="chunks whose edges are sorted together, 1 for no sorting: edges of a chunk then share more",
        source="cuKE p, where it is 128; 32 measured better on an H100",
    ),
}
"""The decision of each size."""
RELOAD = Decision(
    name="inspect_reload",
    domain=(False, True),
    why="rows that products are taken of are computed once, stored and reloaded for each further block of columns, or"
    " computed again for each",
    source="cuKE Listing 6, which stores them",
)
SHUFFLE = Decision(
    name="inspect_shuffle",
    domain=(False, True),
    why="lanes hand the elements of rows that products are taken of on by shuffles, which takes no shared memory, or"
    " all find them there",
    source="cuKE §V-B, which shuffles what is computed",
)
USUAL = ChunkSizes(*(getattr(Options(), decision.name) for decision in CHOICES.values()))


def schedule_chunks(kernel: loops.Kernel, names: Names, report: Report) -> tuple[ScheduledKernel, ...]:
    """The kernel of a batch's nest by chunks; none, with the reason, where it does not fit. `names` are the module's,
    in which arrays of the kernel's own get theirs."""
    if not of_triples(kernel):
        return ()
    try:
        plan = plan_of(kernel)
    except Unfit as reason:
        report.refused(f"{kernel.name} is not inspected by chunks: {reason}")
        return ()
    chosen = {size: report.number(kernel.name, CHOICES[size], getattr(USUAL, size)) for size in CHOICES}
    asked = ChunkSizes(**chosen)
    reload, shuffle = (
        bool(report.choose(kernel.name, way, False, lambda: (False, True) if plan.products else (False,)))
        for way in (RELOAD, SHUFFLE)
    )
    by = RowsBy(shuffled=shuffle and bool(plan.products))
    sizes = _fitting(plan, asked, by, report.target)
    if sizes is None:
        report.refused(f"{kernel.name} is not inspected by chunks: no chunk's tiles fit a block's shared memory")
        return ()
    _tell(plan, asked, sizes, by, report)
    by = replace(by, stored=stored_rows(plan, sizes, names) if reload else {})
    _tell_rows(plan, sizes, by, report)
    return (write_chunks(plan, sizes, report.target, by),)


def _fitting(plan: Plan, sizes: ChunkSizes, by: RowsBy, target: GpuTarget) -> ChunkSizes | None:
    """The sizes, or those nearest to them whose tiles fit: one step down at a time, where one step is enough the one
    that gives up the least, else the one that gives up the most."""
    needed = shared_bytes(write_chunks(plan, sizes, target, by))
    while needed > target.shared_most:
        smaller = [(shared_bytes(write_chunks(plan, each, target, by)), each) for each in _steps_down(sizes)]
        if not smaller:
            return None
        fit = [each for each in smaller if each[0] <= target.shared_most]
        needed, sizes = max(fit, key=_bytes) if fit else min(smaller, key=_bytes)
    return sizes


def _bytes(found: tuple[int, ChunkSizes]) -> int:
    return found[0]


def _steps_down(sizes: ChunkSizes) -> Iterator[ChunkSizes]:
    """The sizes with one of them the next smaller choice of its option."""
    for name, decision in CHOICES.items():
        below = [int(choice) for choice in decision.domain if int(choice) < getattr(sizes, name)]
        if below:
            yield replace(sizes, **{name: max(below)})


def shared_bytes(kernel: ScheduledKernel) -> int:
    """What a block's tiles take in shared memory, each on a boundary of 16 bytes."""
    tiles = [node for node in walk(kernel) if isinstance(node, Tile) and node.memory == "shared"]
    return sum(-(-prod(map(kernel.size, tile.extents)) // 4) * 4 * FLOAT_BYTES for tile in tiles)


def _tell(plan: Plan, asked: ChunkSizes, sizes: ChunkSizes, by: RowsBy, report: Report) -> None:
    name, arrays = plan.kernel.name, ", ".join(plan.chosen)
    needed = shared_bytes(write_chunks(plan, asked, report.target, by)) if sizes != asked else 0
    reason = f"{needed:,} bytes of shared memory are too many"
    for size, decision in CHOICES.items():
        before, value = getattr(asked, size), getattr(sizes, size)
        report.settle(name, decision, value)
        if value != before:
            report.refused(f"{name}: {decision.name}={before}: {value}, for {reason}")
    report.did(f"{name}: {sizes.edges} edges a block, inspected in shared memory by {arrays} (chunks)")
    if sizes.group > 1:
        report.did(
            f"{name}: groups of {sizes.group} chunks sorted by {sort_index(plan)}; scores go to their own places"
        )
    for table in plan.matrices.values():
        report.did(f"{name}: {sizes.cached} matrices of {table} by {sizes.block} x {sizes.block} in shared memory")
    if plan.gathers:
        tables = ", ".join(dict.fromkeys(gather.table for gather in plan.gathers))
        report.did(f"{name}: repeated rows of {tables} by {sizes.block} in shared memory")
    if not plan.matrices and report.wanted(name, CHOICES["cached"]):
        report.refused(f"{name}: inspect_cached={asked.cached}: nothing, for edges choose no matrices")


def _tell_rows(plan: Plan, sizes: ChunkSizes, by: RowsBy, report: Report) -> None:
    """How products have their rows, and why not as was asked for."""
    name = plan.kernel.name
    if by.shuffled:
        report.did(f"{name}: lanes hand the rows on that {', '.join(plan.matrices.values())} multiplies, by shuffles")
    else:
        report.settle(name, SHUFFLE, False, "edges choose no matrices")
    tables = ", ".join(each.matrix.buffer for each in plan.products if each.total in by.stored)
    if tables:
        report.did(f"{name}: rows that {tables} multiplies are stored at the first block of columns, then reloaded")
        return
    why = [why_recomputed(plan, product, sizes.block) for product in plan.products]
    report.settle(name, RELOAD, False, "; ".join(dict.fromkeys(why)) or "edges choose no matrices")
