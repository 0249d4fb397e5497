"""Unrolls and jams outer products for the CPU: some of them at each visit of the matrix that they are summed in.

`for b in begin..end { for d { for k { G[d, k] += x[b, d] * y[b, k] } } }` reads and writes all of G once an element of
the segment. With four at a time, `G[d, k] += x[b, d] * y[b, k] + ... + x[b + 3, d] * y[b + 3, k]`, it does so a quarter
as often, and enters the innermost loop a quarter as often. What is left of a segment is summed one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from explorer.compiler.codegen.cpu.blocks import ROWS, summed
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.loops import Accumulate, Compute, For, Index, Kernel, Statement, result_of
from explorer.compiler.ir.node import Atom, Names, walk
from explorer.compiler.ir.statements import all_names, pure, read_in, rename, renamed, written_in

DEPTH = 3
"""Two loops and the sum in them: a matrix. What is added to a row is in registers or the first cache anyway."""


def jam_outer_products(kernel: Kernel) -> Kernel:
    """The kernel with the sums of outer products that can be taken ROWS at a time taken so."""
    return replace(kernel, body=tuple(_jam_in(kernel.body, kernel, Names(all_names(kernel)))))


@dataclass(frozen=True)
class _Products:
    """`for outer in lower..upper { before; nest }`, where the `nest` adds to an element of a matrix at each step and
    `before` writes nothing but what it defines."""

    outer: For
    lower: Atom
    upper: Atom
    before: tuple[Statement, ...]
    nest: Statement


def _jam_in(body: tuple[Statement, ...], kernel: Kernel, names: Names) -> Iterator[Statement]:
    for statement in body:
        if not isinstance(statement, For):
            yield statement
            continue
        products = None if statement.parallel else _match(statement, kernel)
        if products is None:
            yield replace(statement, body=tuple(_jam_in(statement.body, kernel, names)))
        else:
            yield from _jammed(products, names)


def _match(outer: For, kernel: Kernel) -> _Products | None:
    """The loop as a sum of outer products, if it is one."""
    sizes, defined = dict(kernel.sizes), {result_of(node) for node in walk(kernel)}
    lower, upper = (sizes.get(b, b) if isinstance(b, str) else b for b in (outer.lower, outer.extent))
    if any(isinstance(bound, str) and bound not in defined for bound in (lower, upper)):
        return None
    if isinstance(lower, int) and isinstance(upper, int) and upper - lower < ROWS:
        return None
    *before, nest = outer.body
    nested = list(_nest(nest))
    total = nested[-1]
    own = {outer.variable, *_defined(before)}
    if len(nested) < DEPTH or not isinstance(total, Accumulate) or total.reduction != "sum":
        return None
    if not {loop.variable for loop in nested if isinstance(loop, For)} <= set(total.indices):
        return None  # a product, whose sums blocks.py keeps
    moves = any(not own.isdisjoint((each.lower, each.extent)) for each in nested if isinstance(each, For))
    private = total.target not in own and all(written_in(statement) <= own for statement in before)
    read = any(total.target in read_in(statement) for statement in (*before, *_beside(nest)))
    if moves or not private or read or not own.isdisjoint(total.indices):
        return None
    return _Products(outer, lower, upper, tuple(before), nest)


def _nest(statement: Statement) -> Iterator[Statement]:
    """Loops in each other, in which nothing is done but to name scalars, and the last statement of the innermost."""
    yield statement
    if isinstance(statement, For) and all(map(pure, statement.body[:-1])):
        yield from _nest(statement.body[-1])


def _beside(nest: Statement) -> Iterator[Statement]:
    """The statements of a nest before its loops and its sum."""
    if isinstance(nest, For):
        yield from nest.body[:-1]
        yield from _beside(nest.body[-1])


def _defined(body: Iterable[Statement]) -> set[str]:
    """The names that statements define, at any depth."""
    return {name for statement in body for node in walk(statement) if (name := result_of(node)) is not None}


def _jammed(products: _Products, names: Names) -> Iterator[Statement]:
    """A loop over whole blocks of the elements, and one over what is left, as it was."""
    outer, lower, upper = products.outer, products.lower, products.upper
    block, count, blocks, left, start = (names.new(hint) for hint in ("block", "n", "n", "n", "first"))

    def index(result: str, function: str, *operands: Atom) -> Index:
        return Index(result=result, function=function, operands=operands, origin=outer.origin)

    yield index(count, "sub", upper, lower)
    yield index(blocks, "div", count, ROWS)
    first, before, copies = names.new("first"), list[Statement](), list[dict[str, str]]()
    before += [index(left, "mul", block, ROWS), index(first, "add", lower, left)]
    for number in range(ROWS):
        changes = {name: names.new(name) for name in (outer.variable, *sorted(_defined(products.before)))}
        before += [index(changes[outer.variable], "add", first, number), *renamed(products.before, changes)]
        copies.append(changes)
    body = (*before, _together(products.nest, copies, names))
    yield replace(outer, variable=block, lower=0, extent=blocks, body=body)
    done = names.new("n")
    yield index(done, "mul", blocks, ROWS)
    yield index(start, "add", lower, done)
    yield replace(outer, lower=start)


def _together(statement: Statement, copies: list[dict[str, str]], names: Names) -> Statement:
    """A nest with the scalars of each copy of an element, and the sum of their terms."""
    assert isinstance(statement, For)
    *scalars, last = statement.body
    inside: list[Statement] = []
    copies = [changes | {name: names.new(name) for name in sorted(_defined(scalars))} for changes in copies]
    inside += [rename(scalar, changes) for changes in copies for scalar in scalars]
    if isinstance(last, For):
        return replace(statement, body=(*inside, _together(last, copies, names)))
    assert isinstance(last, Accumulate)
    terms = []
    for changes in copies:
        operands = tuple(changes.get(atom, atom) if isinstance(atom, str) else atom for atom in last.operands)
        terms.append(names.new("u"))
        inside.append(Compute(result=terms[-1], function=last.function, operands=operands, origin=last.origin))
    return replace(statement, body=(*inside, *summed(terms, last, names)))
