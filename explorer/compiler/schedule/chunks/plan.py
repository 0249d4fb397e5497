"""What a score does for each edge, in the order in which a block does it for a chunk of edges (cuKE §V-B).

The loops of an edge become loops over blocks of elements with the chunk's edges inside, so that all operators share
what a block of elements brings into shared memory. What an edge carries from one such loop to the next are its sums;
its scalars are computed again where they are needed. Where triples have candidates, these are the edges: each has what
is its triple's at its number over how many a triple has. In a backward pass edges add to rows, or to matrices, that
they choose: a sum of what many give.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.index_sets import SINGULAR
from explorer.compiler.ir.node import Atom, Extent, Names
from explorer.compiler.ir.statements import all_names, closure, pure
from explorer.compiler.passes.loops.cleared import ADDS
from explorer.compiler.schedule.edit.inline import inlined
from explorer.compiler.schedule.match.matrix_products import Product, declared_late, find_products, rows_at
from explorer.compiler.schedule.match.outer_products import MATRIX_INDICES, OuterSum, find_scattered


class Unfit(Exception):
    """Why a score cannot be computed by chunks, as the end of a sentence."""


@dataclass(frozen=True)
class Gather:
    """Rows of a table that edges choose by an index array."""

    table: str
    chosen: str


Phase = Product | OuterSum | loops.For | loops.Store | loops.Accumulate
"""A product of each edge's row and matrix, an outer product that it adds to a matrix, a loop over the elements of rows,
the store of a score, or a number that it adds to one of a table."""


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
        chosen = self.choice(load.indices[0])
        return Gather(load.buffer, chosen.buffer) if chosen else None

    def choice(self, index: Atom) -> loops.Load | None:
        """The load of the index that an edge, or its triple, has chosen; None for any other."""
        chosen = next((s for s in self.scalars if loops.result_of(s) == index), None)
        if not isinstance(chosen, loops.Load) or not rows_at(self.scalars, self.rows.variable, chosen.indices):
            return None
        indices = {buffer.name for buffer in self.kernel.buffers if buffer.type == "i32"}
        return chosen if chosen.buffer in indices else None

    def adds(self, phase: Phase) -> Gather | None:
        """The table that a phase adds to, and the index array that edges choose its rows or matrices by."""
        match phase:
            case OuterSum():
                target, index = phase.output.name, phase.segment
            case loops.For(body=(*_, loops.Accumulate(indices=(index, _), target=target))):
                pass
            case _:
                return None
        chosen = self.choice(index)
        return Gather(target, chosen.buffer) if chosen else None

    @property
    def triples(self) -> dict[str, int]:
        """By index array, how many edges next to each other have one element of it: 1 where it has one for each."""
        found = {}
        for scalar in self.scalars:
            if isinstance(scalar, loops.Load) and (chosen := self.choice(scalar.result)):
                found[chosen.buffer] = rows_at(self.scalars, self.rows.variable, chosen.indices)
        return found

    @property
    def products(self) -> tuple[Product, ...]:
        """The products of edges' rows and matrices."""
        return tuple(phase for phase in self.phases if isinstance(phase, Product))

    @property
    def matrices(self) -> dict[str, str]:
        """The tables of matrices, by the index array that edges choose them by."""
        return {each.matrix_index.buffer: each.matrix.buffer for each in self.products if each.matrix_index}

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
        added = [gather.chosen for phase in self.phases if (gather := self.adds(phase))]
        return tuple(dict.fromkeys((*self.matrices, *added, *(gather.chosen for gather in self.gathers))))


def bodies(phase: Phase) -> tuple[tuple[tuple[loops.Statement, ...], str], ...]:
    """The straight-line code of a phase that is done for each element of rows, with the element's variable."""
    match phase:
        case Product():
            return (phase.prologue, phase.depth), (phase.epilogue, phase.column)
        case OuterSum():
            return (phase.of_down, phase.down.variable), (phase.of_across, phase.across.variable)
        case loops.For():
            return ((phase.body, phase.variable),)
    return ()


def plan_of(kernel: loops.Kernel) -> Plan:
    """The phases of a score's nest, or of one that adds to its gradients; raises Unfit."""
    rows = kernel.body[0] if len(kernel.body) == 1 else None
    if not isinstance(rows, loops.For):
        raise Unfit("it is no loop over a batch")
    plan = _of_sums(kernel, rows) if not rows.parallel else _of_scores(kernel, rows)
    _check_order(plan)
    if not plan.chosen:
        raise Unfit("edges choose no rows or matrices")
    return plan


def of_triples(kernel: loops.Kernel) -> bool:
    """Whether a nest is of a batch of triples: its iterations choose among the entities or relations of some table."""
    tables = any(buffer.extents and buffer.extents[0] in SINGULAR for buffer in kernel.buffers)
    return kernel.template == "batch" or (tables and any(buffer.kind == "index" for buffer in kernel.buffers))


def _of_scores(kernel: loops.Kernel, rows: loops.For) -> Plan:
    """The phases of a nest each of whose iterations has its own results."""
    rows = replace(rows, body=declared_late(inlined(rows.body, Names(all_names(kernel)))))
    found = find_products(replace(kernel, body=(rows,)))
    head, products, rest = (found.head, found.products, found.rest) if found else ((), (), rows.body)
    scalars = [*head, *(statement for statement in rest if pure(statement))]
    accumulators = [accumulator for product in products for accumulator in product.accumulators]
    accumulators += [statement for statement in rest if isinstance(statement, loops.Accumulator)]
    phases: list[Phase] = list(products)
    for statement in rest:
        match statement:
            case loops.For():
                _check_loop(kernel, rows, statement, statement.body)
                phases.append(statement)
            case loops.Store() if statement.indices == (rows.variable,):
                phases.append(statement)
            case _ if not (pure(statement) or isinstance(statement, loops.Accumulator)):
                raise Unfit("an edge's rows are needed as a whole")
    plan = Plan(replace(kernel, body=(rows,)), rows, tuple(scalars), tuple(accumulators), tuple(phases))
    for product in products:
        _check_product(plan, product)
    return plan


def _of_sums(kernel: loops.Kernel, rows: loops.For) -> Plan:
    """The phases of a nest whose iterations add to rows, or matrices, of one another, which another has cleared."""
    if kernel.template != ADDS:
        raise Unfit("it clears what it adds to")
    names = Names(all_names(kernel))
    rows = replace(rows, body=inlined(rows.body, names))
    scalars = tuple(statement for statement in rows.body if pure(statement))
    accumulators = tuple(statement for statement in rows.body if isinstance(statement, loops.Accumulator))
    plan = Plan(replace(kernel, body=(rows,)), rows, scalars, accumulators, ())
    if scattered := find_scattered(kernel, names):
        outer, chosen = scattered
        if outer.head or len(outer.indices) != MATRIX_INDICES:
            raise Unfit(f"{outer.output.name} has several matrices for each that is chosen")
        kept = {loops.result_of(s) for s in (*scalars, chosen)}
        own = tuple(s for s in outer.of_down if loops.result_of(s) not in kept)
        left, right = (closure(own, {factor}) for factor in outer.factors)
        plan = replace(plan, phases=(replace(outer, of_down=left, of_across=right),))
    else:
        rest = (s for s in rows.body if not pure(s) and not isinstance(s, loops.Accumulator))
        plan = replace(plan, phases=tuple(_checked_sum(plan, statement) for statement in rest))
    if any(isinstance(phase, OuterSum) and not plan.adds(phase) for phase in plan.phases):
        raise Unfit("edges do not choose what they add to")
    return plan


def _checked_sum(plan: Plan, statement: loops.Statement) -> Phase:
    """A loop that adds to a row of a table, a number that is added, or a loop that adds to sums of the edge."""
    match statement:
        case loops.For(body=(*body, loops.Accumulate(indices=(_, variable)) as add)) if variable == statement.variable:
            _check_loop(plan.kernel, plan.rows, statement, tuple(body))
            if not plan.adds(statement) or add.reduction != "sum":
                raise Unfit(f"edges do not choose the rows of {add.target} that they add to")
        case loops.For():
            _check_loop(plan.kernel, plan.rows, statement, statement.body)
        case loops.Accumulate(indices=(index,), reduction="sum", target=target):
            if not plan.choice(index):
                raise Unfit(f"edges do not choose the numbers of {target} that they add to")
        case _:
            raise Unfit("an edge's rows are needed as a whole")
    return statement


def _check_product(plan: Plan, product: Product) -> None:
    """A matrix an edge, read along its rows or its columns, is what is staged."""
    matrix = product.matrix
    if not plan.choice(matrix.indices[0]):
        raise Unfit(f"edges do not choose their matrices in {matrix.buffer}")
    if product.heads or product.segment or len(matrix.indices) != MATRIX_INDICES:
        raise Unfit(f"{matrix.buffer} is not read as a matrix an edge")


def _check_loop(kernel: loops.Kernel, rows: loops.For, loop: loops.For, body: tuple[loops.Statement, ...]) -> None:
    """A loop over the elements of rows in memory that adds to sums, with the statements that are no sum in memory."""
    if loop.lower != 0 or loop.step != 1 or not (isinstance(loop.extent, int) or loop.extent in dict(kernel.sizes)):
        raise Unfit(f"the loop over {loop.variable} is of a length that only a run knows")
    buffers = {buffer.name for buffer in kernel.buffers}
    for node in body:
        match node:
            case loops.For():
                raise Unfit(f"the loop over {loop.variable} has a loop over {node.variable} in it")
            case loops.Load() if node.buffer not in buffers:
                raise Unfit(f"the row {node.buffer} of an edge is needed as a whole")
            case loops.Accumulate() if node.indices:
                raise Unfit(f"sums are taken in {node.target}, by element")
            case loops.Store() if node.indices[:1] != (rows.variable,) or node.target not in buffers:
                raise Unfit(f"the row {node.target} of an edge is needed as a whole")


def _check_order(plan: Plan) -> None:
    """No array is read that an earlier phase stores: other lanes may have stored what one reads."""
    stored: set[str] = set()
    scalars = [s for s in plan.scalars if isinstance(s, loops.Load)]
    for phase in plan.phases:
        read = {s.buffer for body, _ in bodies(phase) for s in body if isinstance(s, loops.Load)}
        if both := stored & read:
            raise Unfit(f"{min(both)} is stored and read again")
        for body in (*(body for body, _ in bodies(phase)), (phase,) if isinstance(phase, loops.Store) else ()):
            stored |= {s.target for s in body if isinstance(s, loops.Store)}
    if both := stored & {s.buffer for s in scalars}:
        raise Unfit(f"{min(both)} is stored and read again")


def chosen_from(plan: Plan) -> dict[str, Extent]:
    """By index array, how many rows or matrices there are to choose from."""
    extents = {buffer.name: buffer.extents[0] for buffer in plan.kernel.buffers}
    added = {gather.chosen: gather.table for phase in plan.phases if (gather := plan.adds(phase))}
    tables = {gather.chosen: gather.table for gather in plan.gathers} | added | plan.matrices
    return {array: extents[table] for array, table in tables.items()}


def sort_index(plan: Plan) -> str:
    """The index array that sorting by brings most: that of the matrices, or of what edges add to; else the one that
    alone chooses from its tables, and from most of them (both ends of an edge are entities, which are many; relations
    are few)."""
    added = [gather.chosen for phase in plan.phases if (gather := plan.adds(phase))]
    if plan.matrices or added:
        return (*plan.matrices, *added)[0]
    sets, gathered = chosen_from(plan), [gather.chosen for gather in plan.gathers]
    return min(plan.chosen, key=lambda array: (list(sets.values()).count(sets[array]), -gathered.count(array)))
