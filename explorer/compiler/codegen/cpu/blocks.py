"""Blocks the products of a kernel for the CPU: some rows of a matrix at each visit of the sums, where one would do.

`for d { for k { y[k] += x[d] * W[d, k] } }` reads and writes each y[k] once a row of W. With four rows at a time,
`y[k] += x[d] * W[d, k] + ... + x[d + 3] * W[d + 3, k]`, the sums move a quarter as often between registers and cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.loops import Accumulate, Compute, For, Index, Kernel, Statement, reads_of, result_of
from explorer.compiler.ir.node import Names
from explorer.compiler.ir.statements import all_names, pure, rename

ROWS = 4
"""Rows a visit. Eight are a little faster on a matrix in the first cache, and slower on one that comes from beyond the
second: measured on 64 x 64 matrices on a Xeon with vectors of 256 bits."""


def block_products(kernel: Kernel) -> Kernel:
    """The kernel with every product that can be taken in blocks of ROWS rows taken so."""
    return replace(kernel, body=tuple(_block_in(kernel.body, kernel, Names(all_names(kernel)))))


@dataclass(frozen=True)
class _Product:
    """`for outer { before; for inner { factors; target += term } }`: nothing else happens in either loop."""

    outer: For
    size: int
    before: tuple[Statement, ...]
    inner: For
    factors: tuple[Statement, ...]
    total: Accumulate


def _block_in(body: tuple[Statement, ...], kernel: Kernel, names: Names) -> Iterator[Statement]:
    for statement in body:
        if not isinstance(statement, For):
            yield statement
            continue
        product = None if statement.parallel else _match(statement, dict(kernel.sizes))
        if product is None:
            yield replace(statement, body=tuple(_block_in(statement.body, kernel, names)))
        else:
            yield _blocked(product, names)


def _match(outer: For, sizes: dict[str, int]) -> _Product | None:
    """The loop as a product with whole blocks of rows, if it is one."""
    *before, inner = outer.body
    size = sizes.get(outer.extent, 1) if isinstance(outer.extent, str) else int(outer.extent)
    if outer.lower != 0 or size % ROWS or not isinstance(inner, For):
        return None
    *factors, total = inner.body
    if not isinstance(total, Accumulate) or not all(pure(statement) for statement in (*before, *factors)):
        return None
    own = {outer.variable, *(result_of(statement) for statement in before)}
    target_moves = not own.isdisjoint(total.indices) or own & {inner.lower, inner.extent}
    reads_target = any(total.target in reads_of(statement) for statement in (*before, *factors))
    if not total.indices or target_moves or reads_target or total.reduction != "sum":
        return None
    return _Product(outer, size, tuple(before), inner, tuple(factors), total)


def _blocked(product: _Product, names: Names) -> For:
    """One visit of the inner loop for each block; a term of each row, then their sum."""
    outer, total = product.outer, product.total
    block, first = names.new(outer.variable), names.new(outer.variable)
    before: list[Statement] = [Index(result=first, function="mul", operands=(block, ROWS), origin=outer.origin)]
    inside: list[Statement] = []
    terms: list[str] = []
    for number in range(ROWS):
        changes = {outer.variable: first if number == 0 else names.new(outer.variable)}
        if number:
            row = changes[outer.variable]
            before.append(Index(result=row, function="add", operands=(first, number), origin=outer.origin))
        for statement in (*product.before, *product.factors):
            changes |= {name: names.new(name) for name in [result_of(statement)] if name is not None}
        before += [rename(statement, changes) for statement in product.before]
        inside += [rename(statement, changes) for statement in product.factors]
        operands = tuple(changes.get(atom, atom) if isinstance(atom, str) else atom for atom in total.operands)
        terms.append(names.new("u"))
        inside.append(Compute(result=terms[-1], function=total.function, operands=operands, origin=total.origin))
    inside += summed(terms, total, names)
    inner = replace(product.inner, body=tuple(inside))
    return replace(outer, variable=block, extent=product.size // ROWS, body=(*before, inner))


def summed(terms: list[str], total: Accumulate, names: Names) -> Iterator[Statement]:
    """The terms added pairwise, then to the target."""
    while len(terms) > 1:
        sums = []
        for left, right in zip(terms[::2], terms[1::2], strict=True):
            sums.append(names.new("u"))
            yield Compute(result=sums[-1], function="add", operands=(left, right), origin=total.origin)
        terms = sums
    yield replace(total, function="copy", operands=(terms[0],))
