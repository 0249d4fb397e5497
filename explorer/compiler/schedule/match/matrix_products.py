"""Finds, in the loops of a kernel, products of rows and matrices: Hector's `Y[S] = X[G] * W[T]` (§3.3.1), cuKE's bmv.

What is looked for is `parallel for b { ... row y[K]; y = 0; for d { u = ...; for k { y[k] += u * P[ir, d, k] } } }`,
by itself or inside a loop over heads, and the same with the sum innermost, where the matrix is read along its rows
(`P[ir, k, d]`: a product with the transpose, as backward passes have it). The sums may be taken in any order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import field

from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Extent, Origin
from explorer.compiler.ir.statements import names_read, pure, rename, written_names

LEAST_COLUMNS = 16
"""Columns of a matrix that are worth a tile."""


@dataclass(frozen=True)
class Segment:
    """What a product's rows are sums over: elements `variable` from `begin` to `stop`, scalars of the head; `scalars`
    are those of an element. The prologue ends in what it adds to the sum, for each depth. What is `distant` no cache
    holds."""

    variable: str
    begin: str
    stop: str
    scalars: tuple[loops.Statement, ...]
    distant: bool


@dataclass(frozen=True)
class Product:
    """`total[column] = sum over depth of factor * matrix[..., depth, column]` for each iteration of a parallel loop.

    `head` are scalars of the iteration, `heads` the loop over heads around the product, if there is one. `prologue`
    computes `factor` for each depth. `epilogue` is straight-line code for each column: it loads the sums as a row
    named `total`, stores into rows of outputs, and sums over the columns into `accumulators`. With a
    `segment`, the factor is a sum. `guards` are by array a scalar of the head: an iteration's row is there only where
    that is positive, and stands for zeros elsewhere. `adding` names the row that is added to: where that is
    negative, nobody else adds to `-1 - row`, and it is stored to instead. "" if all is added.

    The sums of a product that is `added`, of the same iterations and columns, are added to these: of that only the
    operands count. An iteration whose matrix is behind the last has the sums of that alone."""

    rows: loops.For
    head: tuple[loops.Statement, ...]
    heads: loops.For | None
    depth: str
    depth_extent: Extent
    column: str
    column_extent: Extent
    prologue: tuple[loops.Statement, ...]
    factor: Atom
    matrix: loops.Load
    total: str
    epilogue: tuple[loops.Statement, ...]
    accumulators: tuple[loops.Accumulator, ...]
    origin: Origin
    segment: Segment | None = None
    guards: tuple[tuple[str, str], ...] = ()
    adding: str = ""
    added: Product | None = None

    def reduction_of(self, accumulator: str) -> str:
        """How the epilogue adds to one of the accumulators."""
        return next(s.reduction for s in self.epilogue if isinstance(s, loops.Accumulate) and s.target == accumulator)

    @property
    def transposed(self) -> bool:
        """Whether the matrix lies along the depth in memory, and not along the columns."""
        return self.matrix.indices[-1] == self.depth

    @property
    def outer(self) -> tuple[Atom, ...]:
        """The matrix's indices that are neither the depth nor the column: which matrix it is, and which head."""
        return tuple(index for index in self.matrix.indices if index not in (self.depth, self.column))

    @property
    def matrix_index(self) -> loops.Load | None:
        """The load of the index that an iteration's matrix has; None where all have the same."""
        chosen = set(self.outer)
        for statement in self.head:
            if isinstance(statement, loops.Load) and statement.result in chosen:
                return statement
        return None

    @property
    def shared(self) -> int:
        """How many rows next to each other have the same matrix by its index; 0 where no such rule tells."""
        chosen = self.matrix_index
        return 1 if chosen is None else rows_at(self.head, self.rows.variable, chosen.indices)


def rows_at(head: Sequence[loops.Statement], row: str, indices: tuple[Atom, ...]) -> int:
    """How many rows next to each other have the same element of an array, by its index: 1 where it is the row's, 17
    where it is that of `row // 17`; 0 for other elements."""
    if indices == (row,):
        return 1
    for statement in head:
        match statement:
            case loops.Index(function="div", operands=(whole, int(by))) if (indices, whole) == (
                (statement.result,),
                row,
            ):
                return by
    return 0


@dataclass(frozen=True)
class Found:
    """The products that a kernel does one after another, and the statements that follow them in an iteration."""

    rows: loops.For
    head: tuple[loops.Statement, ...]
    products: tuple[Product, ...]
    rest: tuple[loops.Statement, ...]


@dataclasses.dataclass
class _Search:
    """What has been seen of an iteration: its scalars, its products, and the rows that are computed by element."""

    kernel: loops.Kernel
    rows: loops.For
    outputs: set[str]
    head: list[loops.Statement] = field(default_factory=list)
    accumulators: list[loops.Accumulator] = field(default_factory=list)
    filled: dict[str, loops.For] = field(default_factory=dict)
    declared: dict[str, loops.Row] = field(default_factory=dict)
    products: list[Product] = field(default_factory=list)

    @property
    def incomplete(self) -> set[str]:
        """Accumulators, of which a block has a part of the sum until it ends."""
        return {accumulator.name for accumulator in self.accumulators}


def find_products(kernel: loops.Kernel) -> Found | None:
    """The products that each iteration of the kernel's parallel loop starts with; None where there are none."""
    if len(kernel.body) != 1 or not isinstance(rows := kernel.body[0], loops.For) or not rows.parallel:
        return None
    rows = replace(rows, body=declared_late(rows.body))
    search, at = _Search(kernel, rows, {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}), 0
    while at < len(rows.body):
        taken = _take(search, rows.body[at:])
        if not taken:
            break
        at += taken
    if not search.products:
        return None
    rest = _unfinished(search, rows.body[at:])
    return None if rest is None else Found(rows, tuple(search.head), tuple(search.products), rest)


def declared_late(body: Sequence[loops.Statement]) -> tuple[loops.Statement, ...]:
    """An iteration's statements with rows declared where they are first used."""
    found: list[loops.Statement] = []
    waiting: dict[str, loops.Row] = {}
    for statement in body:
        if isinstance(statement, loops.Row):
            waiting[statement.name] = statement
            continue
        used = names_read([statement]) | written_names([statement])
        found += [waiting.pop(name) for name in list(waiting) if name in used]
        found.append(statement)
    return tuple(found)


def _unfinished(search: _Search, rest: tuple[loops.Statement, ...]) -> tuple[loops.Statement, ...] | None:
    """What is left to do after the products, with the accumulators that none of them adds to, and with the rows that
    are computed again for it; None where it needs a row that they leave in registers only."""
    touched = names_read(rest) | written_names(rest)
    if touched & {product.total for product in search.products}:
        return None
    done = {accumulator.name for product in search.products for accumulator in product.accumulators}
    again: list[loops.Statement] = [a for a in search.accumulators if a.name not in done]
    for name, row in search.declared.items():
        if name in touched:
            again += (row, search.filled[name]) if name in search.filled else (row,)
    return (*again, *rest)


def _take(search: _Search, body: Sequence[loops.Statement]) -> int:
    """How many of the next statements are understood, now part of the search; 0 where it ends."""
    first = body[0]
    if pure(first) and not (search.incomplete | search.outputs) & set(loops.reads_of(first)):
        search.head.append(first)
        return 1
    match first:
        case loops.Accumulator():
            search.accumulators.append(first)
            return 1
        case loops.Row():
            product = _interchanged(search, body, None)
            if product is not None:
                return 3 if _follows(search, product) else 0
            search.declared[first.name] = first
            return 1
        case loops.For():
            return int(_take_loop(search, first))
    return 0


def _take_loop(search: _Search, loop: loops.For) -> bool:
    if loop.lower != 0 or loop.step != 1:
        return False
    if _fills(search, loop) or _extends(search, loop):
        return True
    product = _summed_inside(search, loop, None) or _of_heads(search, loop)
    return product is not None and _follows(search, product)


def _follows(search: _Search, product: Product) -> bool:
    """Takes a product; but for the first not one that is worth no tile, which is left to what follows."""
    if search.products and search.kernel.size(product.column_extent) < LEAST_COLUMNS:
        return False
    search.products.append(product)
    return True


def _fills(search: _Search, loop: loops.For) -> bool:
    """Takes a loop that computes a row by element: products may compute it again, in place."""
    *before, last = loop.body
    if not isinstance(last, loops.Store) or last.indices != (loop.variable,):
        return False
    if last.target not in search.declared or last.target in search.filled:
        return False
    if not all(_readable(search, statement) for statement in before):
        return False
    search.filled[last.target] = loop
    return True


def _readable(search: _Search, statement: loops.Statement) -> bool:
    """Whether a statement is arithmetic on what is known before the products' sums are complete."""
    unknown = search.incomplete | set(search.declared) | {p.total for p in search.products}
    return pure(statement) and not unknown & set(loops.reads_of(statement))


def _interchanged(search: _Search, body: Sequence[loops.Statement], heads: loops.For | None) -> Product | None:
    """`row y; for k { y[k] = 0 } for d { ...; for k { y[k] += u * p } }`."""
    match body[:3]:
        case [
            loops.Row(name=total),
            loops.For(body=(loops.Store(target=cleared, operands=(0.0,)),), lower=0),
            loops.For(body=(*prologue, loops.For(lower=0) as columns), lower=0) as depths,
        ] if cleared == total:
            pass
        case _:
            return None
    match columns.body:
        case (
            loops.Load() as matrix,
            loops.Accumulate(target=target, indices=(index,), reduction="sum", function="mul", operands=operands),
        ) if target == total and index == columns.variable and matrix.result in operands:
            left, right = operands
            factor = left if right == matrix.result else right
            return _product(search, heads, depths, columns, tuple(prologue), factor, matrix, total)
    return None


def _summed_inside(search: _Search, columns: loops.For, heads: loops.For | None) -> Product | None:
    """`for k { acc s = 0; for d { ...; s += u * p }; out[b, k] = s }`."""
    match columns.body:
        case (
            loops.Accumulator(start=0.0) as total,
            loops.For(
                lower=0,
                body=(*inner, loops.Accumulate(indices=(), reduction="sum", function="mul", operands=operands) as sums),
            ) as depths,
            *after,
        ) if sums.target == total.name:
            pass
        case _:
            return None
    loads = [s for s in inner if isinstance(s, loops.Load) and {columns.variable, depths.variable} <= set(s.indices)]
    if len(loads) != 1 or loads[0].result not in operands:
        return None
    matrix, (left, right) = loads[0], operands
    factor = left if right == matrix.result else right
    prologue = tuple(s for s in inner if s is not matrix)
    product = _product(search, heads, depths, columns, prologue, factor, matrix, total.name)
    if product is None:
        return None
    read = loops.Load(result=total.name, buffer=total.name, indices=(columns.variable,), origin=total.origin)
    epilogue = _epilogue(search, product, (read, *after))
    return None if epilogue is None else _extended(search, product, epilogue)


def _of_heads(search: _Search, heads: loops.For) -> Product | None:
    """A product inside a loop over heads, with what is done with its sums."""
    match heads.body:
        case (loops.For(lower=0) as columns,):
            return _summed_inside(search, columns, heads)
    product = _interchanged(search, heads.body, heads)
    if product is None:
        return None
    for loop in heads.body[3:]:
        if not isinstance(loop, loops.For) or (loop.lower, loop.extent) != (0, product.column_extent):
            return None
        changes = {loop.variable: product.column}
        added = _epilogue(search, product, tuple(rename(s, changes) for s in loop.body))
        if added is None or any(isinstance(s, loops.Accumulate) for s in added):
            return None
        product = replace(product, epilogue=(*product.epilogue, *added))
    return product


def _product(
    search: _Search,
    heads: loops.For | None,
    depths: loops.For,
    columns: loops.For,
    prologue: tuple[loops.Statement, ...],
    factor: Atom,
    matrix: loops.Load,
    total: str,
) -> Product | None:
    """The product of these loops; None where it is not one of a row that is known and a matrix that others share."""
    if search.incomplete and search.products:
        return None
    computed = _in_place(search, prologue, depths.variable)
    walked = {depths.variable, columns.variable}
    if computed is None or not walked <= set(matrix.indices) or matrix.indices[-1] not in walked:
        return None
    if len(set(matrix.indices)) < len(matrix.indices) or search.rows.variable in matrix.indices:
        return None
    of_rows = {factor} | {name for s in computed for name in loops.reads_of(s)}
    if of_rows & {columns.variable, matrix.result}:  # else the factor is of the matrix itself, as in its squares
        return None
    return Product(
        rows=search.rows,
        head=tuple(search.head),
        heads=heads,
        depth=depths.variable,
        depth_extent=depths.extent,
        column=columns.variable,
        column_extent=columns.extent,
        prologue=computed,
        factor=factor,
        matrix=matrix,
        total=total,
        epilogue=(),
        accumulators=(),
        origin=depths.origin,
    )


def _in_place(search: _Search, prologue: tuple[loops.Statement, ...], depth: str) -> tuple[loops.Statement, ...] | None:
    """The prologue with what it loads from rows computed in place; None where that cannot be."""
    result: list[loops.Statement] = []
    for statement in prologue:
        if isinstance(statement, loops.Load) and statement.buffer in search.filled:
            if statement.indices != (depth,):
                return None
            fill = search.filled[statement.buffer]
            *before, last = (rename(s, {fill.variable: depth}) for s in fill.body)
            assert isinstance(last, loops.Store)
            value = loops.Compute(
                result=statement.result, function=last.function, operands=last.operands, origin=last.origin
            )
            result += [*before, value]
        elif _readable(search, statement):
            result.append(statement)
        else:
            return None
    return tuple(result)


def _extends(search: _Search, loop: loops.For) -> bool:
    """Takes a loop over the last product's columns as part of its epilogue."""
    if not search.products or search.products[-1].heads is not None:
        return False
    product = search.products[-1]
    if loop.extent != product.column_extent:
        return False
    added = _epilogue(search, product, tuple(rename(s, {loop.variable: product.column}) for s in loop.body))
    if added is None:
        return False
    search.products[-1] = replace(_extended(search, product, added), head=tuple(search.head))
    return True


def _extended(search: _Search, product: Product, added: tuple[loops.Statement, ...]) -> Product:
    """The product with more in its epilogue, and with the accumulators that this adds to."""
    names = {s.target for s in added if isinstance(s, loops.Accumulate)}
    summed = tuple(a for a in search.accumulators if a.name in names and a not in product.accumulators)
    return replace(product, epilogue=(*product.epilogue, *added), accumulators=(*product.accumulators, *summed))


def _epilogue(
    search: _Search, product: Product, body: tuple[loops.Statement, ...]
) -> tuple[loops.Statement, ...] | None:
    """Straight-line code for a column, with what it reads of its own row's stores named again; None for other code."""
    stored = {(s.target, s.indices): s for s in (*product.epilogue, *body) if isinstance(s, loops.Store)}
    written = {target for target, _ in stored} | set(search.declared) | search.incomplete
    result: list[loops.Statement] = []
    for statement in body:
        own = stored.get((statement.buffer, statement.indices)) if isinstance(statement, loops.Load) else None
        match statement:
            case loops.Load() if own is not None:
                named = loops.Compute(
                    result=statement.result, function=own.function, operands=own.operands, origin=statement.origin
                )
                result.append(named)
            case loops.Load(buffer=product.total):
                result.append(statement)
            case loops.Load() | loops.Index() | loops.Compute() if not written & set(loops.reads_of(statement)):
                result.append(statement)
            case loops.Store() if statement.indices[:1] == (product.rows.variable,):
                result.append(statement)
            case loops.Accumulate(indices=()) if statement.target in search.incomplete:
                result.append(statement)
            case _:
                return None
    return tuple(result)
