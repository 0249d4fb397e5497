"""What a score does for each edge, in the order in which a block does it for a chunk of edges (cuKE §V-B).

The loops of an edge become loops over blocks of elements with the chunk's edges inside, so that all operators share
what a block of elements brings into shared memory. What an edge carries from one such loop to the next are its sums;
its scalars are computed again where they are needed.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Extent, walk
from explorer.compiler.ir.statements import pure
from explorer.compiler.schedule.match.matrix_products import Product, declared_late, find_products


class Unfit(Exception):
    """Why a score cannot be computed by chunks, as the end of a sentence."""


@dataclass(frozen=True)
class Gather:
    """Rows of a table that edges choose by an index array."""

    table: str
    chosen: str


Phase = Product | loops.For | loops.Store
"""A product of each edge's row and matrix, a loop over the elements of rows, or the store of a score."""


@dataclass(frozen=True)
class Plan:
    """A score's nest by phases. `scalars` are those of an edge, in order; `accumulators` what the phases add to."""

    kernel: loops.Kernel
    rows: loops.For
    scalars: tuple[loops.Statement, ...]
    accumulators: tuple[loops.Accumulator, ...]
    phases: tuple[Phase, ...]

    def gather(self, load: loops.Statement, variable: str) -> Gather | None:
        """The gather that a load in a loop over `variable` is of; None for any other."""
        if not isinstance(load, loops.Load) or len(load.indices) != 2 or load.indices[1] != variable:
            return None
        chosen = next((s for s in self.scalars if loops.result_of(s) == load.indices[0]), None)
        if not isinstance(chosen, loops.Load) or chosen.indices != (self.rows.variable,):
            return None
        indices = {buffer.name for buffer in self.kernel.buffers if buffer.type == "i32"}
        return Gather(load.buffer, chosen.buffer) if chosen.buffer in indices else None

    @property
    def matrices(self) -> dict[str, str]:
        """The tables of matrices, by the index array that edges choose them by."""
        found = [phase for phase in self.phases if isinstance(phase, Product)]
        return {phase.matrix_index.buffer: phase.matrix.buffer for phase in found if phase.matrix_index}

    @property
    def gathers(self) -> tuple[Gather, ...]:
        """All rows that the phases gather, each once, in order."""
        found: list[Gather] = []
        for phase in self.phases:
            for body, variable in bodies(phase):
                found += [gather for s in body if (gather := self.gather(s, variable))]
        return tuple(dict.fromkeys(found))

    @property
    def chosen(self) -> tuple[str, ...]:
        """The index arrays that edges choose rows or matrices by."""
        return tuple(dict.fromkeys((*self.matrices, *(gather.chosen for gather in self.gathers))))


def bodies(phase: Phase) -> tuple[tuple[tuple[loops.Statement, ...], str], ...]:
    """The straight-line code of a phase that is done for each element of rows, with the element's variable."""
    match phase:
        case Product():
            return (phase.prologue, phase.depth), (phase.epilogue, phase.column)
        case loops.For():
            return ((phase.body, phase.variable),)
    return ()


def plan_of(kernel: loops.Kernel) -> Plan:
    """The phases of a score's nest; raises Unfit."""
    rows = kernel.body[0] if len(kernel.body) == 1 else None
    if not isinstance(rows, loops.For) or not rows.parallel:
        raise Unfit("it is no loop over a batch")
    rows = replace(rows, body=declared_late(rows.body))
    found = find_products(replace(kernel, body=(rows,)))
    head, products, rest = (found.head, found.products, found.rest) if found else ((), (), rows.body)
    for product in products:
        _check_product(product)
    scalars = [*head, *(statement for statement in rest if pure(statement))]
    accumulators = [accumulator for product in products for accumulator in product.accumulators]
    phases: list[Phase] = list(products)
    for statement in rest:
        match statement:
            case loops.Accumulator():
                accumulators.append(statement)
            case loops.For():
                _check_loop(kernel, rows, statement)
                phases.append(statement)
            case loops.Store() if statement.indices == (rows.variable,):
                phases.append(statement)
            case _ if not pure(statement):
                raise Unfit("an edge's rows are needed as a whole")
    plan = Plan(kernel, rows, tuple(scalars), tuple(accumulators), tuple(phases))
    if not plan.chosen:
        raise Unfit("edges choose no rows or matrices")
    return plan


def _check_product(product: Product) -> None:
    """A matrix an edge, read along its rows, is what is staged."""
    chosen = product.matrix_index
    if chosen is None or chosen.indices != (product.rows.variable,):
        raise Unfit(f"edges do not choose their matrices in {product.matrix.buffer}")
    if product.heads or product.segment or product.transposed or len(product.matrix.indices) != 3:
        raise Unfit(f"{product.matrix.buffer} is not read as a matrix an edge, along its rows")


def _check_loop(kernel: loops.Kernel, rows: loops.For, loop: loops.For) -> None:
    """A loop over the elements of rows in memory that adds to sums."""
    if loop.lower != 0 or loop.step != 1 or not (isinstance(loop.extent, int) or loop.extent in dict(kernel.sizes)):
        raise Unfit(f"the loop over {loop.variable} is of a length that only a run knows")
    buffers = {buffer.name for buffer in kernel.buffers}
    for node in walk(loop):
        match node:
            case loops.For() if node is not loop:
                raise Unfit(f"the loop over {loop.variable} has a loop over {node.variable} in it")
            case loops.Load() if node.buffer not in buffers:
                raise Unfit(f"the row {node.buffer} of an edge is needed as a whole")
            case loops.Accumulate() if node.indices:
                raise Unfit(f"sums are taken in {node.target}, by element")
            case loops.Store() if node.indices[:1] != (rows.variable,) or node.target not in buffers:
                raise Unfit(f"the row {node.target} of an edge is needed as a whole")


def chosen_from(plan: Plan) -> dict[str, Extent]:
    """By index array, how many rows or matrices there are to choose from."""
    extents = {buffer.name: buffer.extents[0] for buffer in plan.kernel.buffers}
    tables = {gather.chosen: gather.table for gather in plan.gathers} | plan.matrices
    return {array: extents[table] for array, table in tables.items()}


def sort_index(plan: Plan) -> str:
    """The index array that sorting by brings most: that of the matrices; else the one that alone chooses from its
    tables, and from most of them (both ends of an edge are entities, which are many; relations are few)."""
    if plan.matrices:
        return next(iter(plan.matrices))
    sets, gathered = chosen_from(plan), [gather.chosen for gather in plan.gathers]
    return min(plan.chosen, key=lambda array: (list(sets.values()).count(sets[array]), -gathered.count(array)))
