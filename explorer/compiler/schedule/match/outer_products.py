"""Finds sums of outer products over segments: `out[r, f, g] += x[z, f] * v[z, g]` for the rows z of each segment r."""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Atom, Extent, Names, Origin, walk
from explorer.compiler.ir.statements import all_names, pure, slice_for
from explorer.compiler.schedule.edit.inline import inlined
from explorer.compiler.schedule.edit.nests import every_loop, offsets_of

MATRIX_INDICES = 3
"""Of an element of a matrix: which one it is in, its row and its column."""


@dataclass(frozen=True)
class OuterSum:
    """`segment` is the variable of the segments, whose `row`s lie between `offsets` (None: there is one segment, of
    all `rows`); `head` the loop over matrices of a segment, if there are several; `factors` what is multiplied, of
    `of_down` and `of_across`: the straight-line code that makes them in each iteration of `down` and of `across`."""

    segment: str
    row: loops.For
    rows: Extent
    offsets: Buffer | None
    head: loops.For | None
    down: loops.For
    across: loops.For
    of_down: tuple[loops.Statement, ...]
    of_across: tuple[loops.Statement, ...]
    factors: tuple[str, str]
    product: loops.Compute
    output: Buffer
    indices: tuple[Atom, ...]
    origin: Origin

    @property
    def statements(self) -> tuple[loops.Statement, ...]:
        """What accesses memory along a row of the matrix."""
        sums = loops.Accumulate(
            target=self.output.name,
            indices=self.indices,
            reduction="sum",
            function="copy",
            operands=(self.product.result,),
            origin=self.origin,
        )
        return (*self.of_across, sums)


def find_outer_sum(kernel: loops.Kernel) -> OuterSum | None:
    """The sum that a kernel is; None where it is something else."""
    outputs = [buffer for buffer in kernel.buffers if buffer.kind == "output"]
    loop = kernel.body[0] if len(kernel.body) == 1 else None
    if len(outputs) != 1 or not isinstance(loop, loops.For) or not loop.parallel or loop.lower != 0:
        return None
    *before, row = loop.body
    if not isinstance(row, loops.For) or not all(pure(s) for s in before):
        return None
    segments = segments_of(kernel, loop, tuple(before), row)
    if segments is None:
        return None
    used = tuple(slice_for(tuple(before), row.body))
    return _sum_in(kernel, loop.variable, segments, replace(row, body=(*used, *row.body)), outputs[0])


def find_scattered(kernel: loops.Kernel, names: Names) -> tuple[OuterSum, loops.Load] | None:
    """The sum that a kernel is whose rows say themselves which matrix they add to, and the load that says it."""
    outputs = [buffer for buffer in kernel.buffers if buffer.kind == "output"]
    row = every_loop(kernel)
    if row is None or row.parallel or len(outputs) != 1:
        return None
    body = inlined(row.body, names)
    sums = [node for s in body for node in walk(s) if isinstance(node, loops.Accumulate)]
    if len(sums) != 1 or len(sums[0].indices) < MATRIX_INDICES:
        return None
    chosen = next((s for s in body if isinstance(s, loops.Load) and s.result == sums[0].indices[0]), None)
    if chosen is None:
        return None
    rest = tuple(statement for statement in body if statement is not chosen)
    found = _sum_in(kernel, chosen.result, (row.extent, None), replace(row, body=rest), outputs[0])
    return None if found is None else (found, chosen)


def segments_of(
    kernel: loops.Kernel, loop: loops.For, before: tuple[loops.Statement, ...], row: loops.For
) -> tuple[Extent, Buffer | None] | None:
    """How many rows there are in all segments, and where those begin; None where rows are not in segments."""
    if (loop.extent, row.lower) == (1, 0):
        return row.extent, None
    offsets = offsets_of(before, row, loop.variable)
    if not offsets:
        return None
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    loads = [node for node in walk(row) if isinstance(node, loops.Load) and node.buffer in buffers]
    extents = {buffers[load.buffer].extents[0] for load in loads if load.indices[:1] == (row.variable,)}
    return (extents.pop(), buffers[offsets]) if len(extents) == 1 else None


def _sum_in(
    kernel: loops.Kernel,
    segment: str,
    segments: tuple[Extent, Buffer | None],
    row: loops.For,
    output: Buffer,
) -> OuterSum | None:
    """The sum that the body of a loop over rows adds to."""
    nest, head = _straight(row.body), None
    if nest is None:
        return None
    before, down = nest
    inside = _straight(down.body)
    if inside is not None and isinstance(inside[1].body[-1], loops.For):
        head, (more, down) = down, inside
        before = (*before, *more)
        inside = _straight(down.body)
    if inside is None:
        return None
    of_down, across = inside
    *of_across, sums = across.body
    static = (head, down, across) if head else (down, across)
    if not all(each.lower == 0 and _is_static(kernel, each.extent) for each in static):
        return None
    if not all(pure(s) for s in of_across) or not isinstance(sums, loops.Accumulate) or sums.target != output.name:
        return None
    expected = (segment, *((head.variable,) if head else ()), down.variable, across.variable)
    product = next((s for s in of_across if isinstance(s, loops.Compute) and (s.result,) == sums.operands), None)
    if sums.indices != expected or (sums.reduction, sums.function) != ("sum", "copy") or product is None:
        return None
    code = (*before, *of_down, *(s for s in of_across if s is not product))
    factored = _factors(product, code, down.variable, across.variable, Names(all_names(kernel)))
    if factored is None:
        return None
    factors, products = factored
    code = (*code, *products)
    return OuterSum(
        segment=segment,
        row=row,
        rows=segments[0],
        offsets=segments[1],
        head=head,
        down=down,
        across=across,
        of_down=code,
        of_across=code,
        factors=factors,
        product=product,
        output=output,
        indices=sums.indices,
        origin=sums.origin,
    )


def _straight(body: tuple[loops.Statement, ...]) -> tuple[tuple[loops.Statement, ...], loops.For] | None:
    """Straight-line code and the one loop that ends it."""
    *before, loop = body
    return (tuple(before), loop) if isinstance(loop, loops.For) and all(pure(s) for s in before) else None


def _is_static(kernel: loops.Kernel, extent: Extent) -> bool:
    return isinstance(extent, int) or extent in dict(kernel.sizes)


def _factors(
    product: loops.Compute, code: tuple[loops.Statement, ...], down: str, across: str, names: Names
) -> tuple[tuple[str, str], tuple[loops.Compute, ...]] | None:
    """The factor that depends on the row of the matrix alone, and that of the column alone, with what multiplies them
    together of factors that the loops multiply in another order; None for other values.

    `(x[f] * y[g]) * s` is `(x[f] * s) * y[g]`."""
    depends: dict[str, set[str]] = {down: {down}, across: {across}}
    computed = {statement.result: statement for statement in code if isinstance(statement, loops.Compute)}
    for statement in code:
        found = set().union(*(depends.get(name, set()) for name in loops.reads_of(statement)))
        depends[loops.result_of(statement) or ""] = found
    leaves: dict[str, list[Atom]] = {down: [], across: [], "": []}
    waiting = [product]
    while waiting:
        each = waiting.pop()
        if each.function != "mul":
            return None
        for operand in each.operands:
            of = depends.get(operand, set()) if isinstance(operand, str) else set()
            if len(of) < len((down, across)):
                leaves["".join(of)].append(operand)
            elif operand in computed:
                waiting.append(computed[str(operand)])
            else:
                return None
    if not leaves[down] or not leaves[across]:
        return None
    made: list[loops.Compute] = []
    left, right = (
        _multiplied(factors, product, names, made) for factors in ([*leaves[down], *leaves[""]], leaves[across])
    )
    return (left, right), tuple(made)


def _multiplied(factors: list[Atom], like: loops.Compute, names: Names, made: list[loops.Compute]) -> str:
    """The name of the product of some factors, with what computes it added to what is made."""
    first, *others = factors
    for other in others:
        made.append(replace(like, result=names.new("u"), operands=(first, other)))
        first = made[-1].result
    return str(first)
