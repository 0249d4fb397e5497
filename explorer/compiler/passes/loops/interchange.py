"""Exchanges the loops of a product so that the innermost one walks a matrix along its rows, which lie contiguous.

Fusion leaves `for k { s = 0; for d { s += u[d] * P[d, k] } ... }`, which strides through P. Since a sum may be taken
in any order of its terms, the loops can be exchanged once `s` has become a row `y[k]`.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.compiler.frozen import replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Names, merge, walk
from explorer.compiler.ir.statements import all_names, loop_origin, pure, rename, slice_for
from explorer.compiler.report import Report


@each_program
def interchange(kernel: loops.Kernel, report: Report) -> loops.Kernel:
    """The kernel with every pair of loops exchanged that strides through a matrix and may be."""
    names = Names(all_names(kernel))
    matrices = {buffer.name for buffer in kernel.buffers if buffer.kind in ("param", "input", "temporary")}
    body = _exchange_in(kernel.body, matrices, names, report)
    return replace(kernel, body=body)


def _exchange_in(
    body: tuple[loops.Statement, ...], matrices: set[str], names: Names, report: Report
) -> tuple[loops.Statement, ...]:
    result: list[loops.Statement] = []
    for statement in body:
        if not isinstance(statement, loops.For):
            result.append(statement)
            continue
        product = None if statement.parallel else _match(statement)
        inner = _exchange_in(statement.body, matrices, names, report) if product is None else statement.body
        if product is None or not _worthwhile(product, matrices, report):
            result.append(replace(statement, body=inner))
        else:
            result += _exchange(product, names)
    return tuple(result)


@dataclass
class _Product:
    """`for outer { before; acc total; for inner { ... total += ... }; after }`."""

    outer: loops.For
    before: tuple[loops.Statement, ...]
    total: loops.Accumulator
    inner: loops.For
    after: tuple[loops.Statement, ...]


def _match(outer: loops.For) -> _Product | None:
    """The loop as a product, where it is one whose outer part is nothing but scalars."""
    places = [at for at, statement in enumerate(outer.body) if isinstance(statement, loops.For)]
    if len(places) != 1 or places[0] == 0:
        return None
    inner, total = outer.body[places[0]], outer.body[places[0] - 1]
    before, after = outer.body[: places[0] - 1], outer.body[places[0] + 1 :]
    if not isinstance(inner, loops.For) or not isinstance(total, loops.Accumulator):
        return None
    changes = [s for s in inner.body if not pure(s)]
    one_sum = len(changes) == 1 and isinstance(changes[0], loops.Accumulate) and changes[0].target == total.name
    if not one_sum or not all(pure(statement) for statement in before):
        return None
    return _Product(outer, before, total, inner, after)


def _worthwhile(product: _Product, matrices: set[str], report: Report) -> bool:
    """Whether every matrix that both loops walk has its rows along the outer one."""
    outer, inner = product.outer.variable, product.inner.variable
    walked = [
        load
        for load in walk(product.inner)
        if isinstance(load, loops.Load) and load.buffer in matrices and {outer, inner} <= set(load.indices)
    ]
    if not walked:
        return False
    along_inner = sorted({load.buffer for load in walked if load.indices[-1] == inner})
    if along_inner:
        report.refused(f"loops {outer} and {inner} stay: {inner} walks the rows of {', '.join(along_inner)} already")
        return False
    if any(load.indices[-1] != outer for load in walked):
        report.refused(f"loops {outer} and {inner} stay: neither walks along rows")
        return False
    if not report.options.interchange:
        report.refused(f"loops {outer} and {inner} stay: the option interchange is off")
        return False
    matrix = ", ".join(sorted({load.buffer for load in walked}))
    report.did(f"{inner} outside {outer}: the innermost loop walks the rows of {matrix}")
    return True


def _exchange(product: _Product, names: Names) -> list[loops.Statement]:
    outer, inner, total = product.outer, product.inner, product.total
    direct = _stored_row(product)
    row = direct or names.new("y")
    extent = outer.extent
    origin = merge(total.origin, *(s.origin for s in inner.body if isinstance(s, loops.Accumulate)))
    result: list[loops.Statement] = []
    if direct is None:
        result.append(loops.Row(name=row, extents=(extent,), origin=origin))
    start = names.new(outer.variable)
    clear = loops.Store(target=row, indices=(start,), function="copy", operands=(total.start,), origin=total.origin)
    result.append(loops.For(variable=start, extent=extent, body=(clear,), origin=total.origin))
    result.append(_sum_loop(product, row, names))
    if direct is None:
        read = loops.Load(result=total.name, buffer=row, indices=(outer.variable,), origin=total.origin)
        body = (*product.before, read, *product.after)
        result.append(replace(outer, body=body, origin=loop_origin(body, outer.extent)))
    return result


def _stored_row(product: _Product) -> str | None:
    """The row that the outer loop only fills with the sums, if that is all it does with them."""
    match product.after:
        case (loops.Store(target=row, indices=(index,), function="copy", operands=(value,)),):
            if index == product.outer.variable and value == product.total.name:
                return row
    return None


def _sum_loop(product: _Product, row: str, names: Names) -> loops.For:
    """`for inner { for outer { row[outer] += ... } }`, with copies of what the sum needs of the outer loop."""
    column = names.new(product.outer.variable)
    needed = slice_for(product.before, product.inner.body)
    changes = {product.outer.variable: column}
    changes |= {name: names.new(name) for s in needed if (name := loops.result_of(s)) is not None}
    body: list[loops.Statement] = []
    for statement in (*needed, *product.inner.body):
        renamed = rename(statement, changes)
        if isinstance(renamed, loops.Accumulate):
            renamed = replace(renamed, target=row, indices=(column,))
        body.append(renamed)
    origin = loop_origin(body, product.outer.extent)
    columns = loops.For(
        variable=column, extent=product.outer.extent, body=tuple(body), note="along the rows", origin=origin
    )
    return replace(product.inner, body=(columns,), note="interchanged", origin=origin)
