"""Writes the kernel of a score by chunks: a block finds out what its edges share, keeps blocks of the rows and matrices
that several choose in shared memory, and computes all of its scores there (cuKE §V-B: one kernel, whose operators share
their outer loops; §VI for the inspection)."""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.node import Names, made
from explorer.compiler.ir.statements import all_names
from explorer.compiler.schedule.chunks.edges import LANES, ChunkSizes, Edges, chunk_of
from explorer.compiler.schedule.chunks.elements import Elements
from explorer.compiler.schedule.chunks.inspector import Inspector
from explorer.compiler.schedule.chunks.plan import Plan, sort_index
from explorer.compiler.schedule.chunks.product import Products
from explorer.compiler.schedule.chunks.product_rows import RowsBy
from explorer.compiler.schedule.chunks.sums import Sums
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.match.matrix_products import Product
from explorer.compiler.schedule.match.outer_products import OuterSum
from explorer.compiler.target import GpuTarget

REGISTERS_A_THREAD = 64
"""What a thread's loads, side by side, need (measured: left to itself, the assembler takes 32
to 100, and either way loses up to a third)."""


def write_chunks(plan: Plan, sizes: ChunkSizes, target: GpuTarget, by: RowsBy) -> ScheduledKernel:
    """The kernel of a score, whose products have their rows `by` one way or another."""
    steps, kernel = Steps(Names(all_names(plan.kernel)), plan.rows.origin), plan.kernel
    with steps.loop("chunk", Count(((plan.rows.extent, sizes.edges),)), "block") as number:
        edge = plan.rows.variable
        if sizes.group > 1:
            steps.did(f"sort {edge} by {sort_index(plan)} in groups of {sizes.group} x {sizes.edges}")
        chunk = chunk_of(steps, plan, sizes, number)
        steps.did(f"split {edge} by {sizes.edges} @block, by {sizes.each} @warp", f"split rows by {sizes.block} @lane")
        # An array that chooses rows and matrices is inspected once: the rows are cached with their matrices.
        rows = [array for array in plan.chosen if array not in plan.matrices]
        with steps.of(made("inspect a chunk", "schedule", plan.rows.origin)):
            inspector = Inspector.declare(steps, chunk, tuple(plan.matrices), rows, sizes.cached)
            inspector.inspect()
        steps.did(*(f"inspect {array} in shared memory" for array in plan.chosen))
        _phases(Elements(Edges(steps, plan, sizes, chunk), inspector), by)
    threads = LANES * sizes.warps
    arrays = (*kernel.buffers, *by.stored.values())
    scheduled = steps.kernel(kernel.name, "chunks", threads, arrays, sizes=kernel.sizes)
    return replace(scheduled, counts=by.counts(plan, sizes), resident=target.resident(threads, REGISTERS_A_THREAD))


def _phases(elements: Elements, by: RowsBy) -> None:
    """What is done for the edges, one phase after another."""
    steps, plan, edges = elements.steps, elements.plan, elements.edges
    products = Products(elements, by) if plan.matrices else None
    adding = any(plan.adds(phase) or isinstance(phase, loops.Accumulate) for phase in plan.phases)
    sums = Sums(elements) if adding else None
    edges.start_sums()
    cached = elements.sizes.cached
    steps.did(*(f"stage {cached} matrices of {table} by {array}" for array, table in plan.matrices.items()))
    stored = [product.matrix.buffer for product in plan.products if product.total in by.stored]
    steps.did(*(f"store rows that {table} multiplies once, reload" for table in stored))
    steps.did(*(f"hand rows that {p.matrix.buffer} multiplies from lane to lane" for p in plan.products if by.shuffled))
    steps.did(*(f"stage repeated rows of {gather.table} by {gather.chosen}" for gather in plan.gathers))
    added = [gather for phase in plan.phases if (gather := plan.adds(phase))]
    steps.did(*(f"sum what edges add to {gather.table} by {gather.chosen}" for gather in added))
    waited = True
    for place, phase in enumerate(plan.phases):
        if not (waited or isinstance(phase, (loops.Store, loops.Accumulate))):
            steps.barrier()  # before rows are staged where those of the last phase were
        match phase:
            case Product():
                assert products is not None
                products.write(phase)
                waited = False
            case OuterSum() | loops.Accumulate():
                assert sums is not None
                waited = _add(sums, phase) and waited
            case loops.For() if (gather := plan.adds(phase)) and sums is not None:
                sums.rows(phase, gather)
                waited = plan.kernel.size(phase.extent) > elements.sizes.block
            case loops.For():
                elements.loop(phase)
                waited = plan.kernel.size(phase.extent) > elements.sizes.block
            case loops.Store():
                with edges.each() as edge, steps.where(edge.place, "<", edges.chunk.here):
                    steps.copy((phase,), edges.known(edge, edge.place, (phase,)))
        edges.join_sums(place)


def _add(sums: Sums, phase: OuterSum | loops.Accumulate) -> bool:
    """Writes an outer product or a number that edges add. Whether no rows are staged for it."""
    if isinstance(phase, loops.Accumulate):
        sums.number(phase)
        return True
    added = sums.plan.adds(phase)
    assert added is not None
    sums.matrices(phase, added)
    return False
