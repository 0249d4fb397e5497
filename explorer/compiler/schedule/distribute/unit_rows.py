"""Spreads what one iteration alone does for each row of an array: its outer static loops become the parallel one.

parallel for u in 0..1                            parallel for c in 0..4 * 64
  for h in 0..4 { for f in 0..64 {          ->      h = c // 64; f = c % 64
    for g { W[u, h, f, g] = ... } } }               for g { W[0, h, f, g] = ... }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import cast

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Names, walk
from explorer.compiler.ir.statements import all_names, names_read, pure, renamed, written_names
from explorer.compiler.passes.loops.cleared import clear_outputs
from explorer.compiler.schedule.edit.nests import Body, only_loop, part, static_loop

LEAST_NUMBERS = 2_048
"""Numbers that are more than one warp's work to store: fewer are not worth a launch."""


def rows_of_one(kernel: loops.Kernel) -> tuple[loops.Kernel, ...]:
    """A nest of one iteration as kernels over rows: one for each number of rows that its statements store, and one for
    the rest. The kernel itself where there is nothing to spread, or one statement needs what another stores."""
    loop = only_loop(kernel)
    if loop is None or loop.extent != 1:
        return (kernel,)
    scalars = tuple(s for s in loop.body if pure(s))
    done = [s for s in loop.body if not pure(s)]
    if any(written_names([s]) & names_read([other]) for s in done for other in done if other is not s):
        return (kernel,)
    by_rows: dict[int, list[loops.Statement]] = {}
    for statement in done:
        by_rows.setdefault(_rows(kernel, statement), []).append(statement)
    if set(by_rows) <= {1}:
        return (kernel,)
    found: list[loops.Kernel] = []
    for number, (rows, statements) in enumerate(by_rows.items()):
        name = f"{kernel.name}_part{number}" if len(by_rows) > 1 else kernel.name
        spread = _spread(kernel, loop, (*scalars, *statements), rows)
        found.append(replace(part(kernel, name, spread), template="rows"))
    return tuple(found)


def clear_together(kernel: loops.Kernel, outputs: Sequence[loops.Buffer]) -> tuple[loops.Kernel, ...]:
    """The kernels that clear some outputs, a kernel for all that have as many rows."""
    by_rows: dict[object, list[loops.Buffer]] = {}
    for output in outputs:
        by_rows.setdefault(output.extents[0], []).append(output)
    return tuple(each for group in by_rows.values() for each in rows_of_one(clear_outputs(kernel, *group)))


def _nest(kernel: loops.Kernel, statement: loops.Statement) -> tuple[list[loops.For], loops.Statement]:
    """The loops around the innermost, where each is static and holds no more than scalars and the next."""
    around: list[loops.For] = []
    while isinstance(statement, loops.For) and static_loop(kernel, statement):
        *before, last = statement.body
        if not isinstance(last, loops.For) or not static_loop(kernel, last) or not all(map(pure, before)):
            break
        around.append(statement)
        statement = last
    return around, statement


def _rows(kernel: loops.Kernel, statement: loops.Statement) -> int:
    """How many rows a statement stores, each by itself; 1 where it does something else, or they are few."""
    around, _ = _nest(kernel, statement)
    nodes = list(walk(statement))
    stores = [node for node in nodes if isinstance(node, loops.Store)]
    variables = {loop.variable for loop in around}
    if any(isinstance(node, (loops.Row, loops.Accumulator, loops.Accumulate)) for node in nodes):
        return 1
    if any(variables - set(store.indices) for store in stores):
        return 1
    numbers = prod(kernel.size(node.extent) for node in nodes if isinstance(node, loops.For))
    return prod(kernel.size(loop.extent) for loop in around) if numbers >= LEAST_NUMBERS else 1


def _spread(kernel: loops.Kernel, loop: loops.For, body: Body, rows: int) -> loops.For:
    """The loop over so many rows; the iteration as it is where it is one."""
    if rows == 1:
        return replace(loop, body=body)
    names = Names(all_names(kernel))
    variable = names.new("row")
    found: list[loops.Statement] = []
    only: dict[str, Atom] = {loop.variable: 0}
    for statement in body:
        around, inner = _nest(kernel, statement)
        if len(around) == 1:
            only[around[0].variable] = variable
        found += _places(kernel, around, variable, names)
        found += [s for each in around for s in each.body[:-1]]
        found.append(inner)
    # it puts atoms of any kind in the place of names
    spread = renamed(found, cast(Mapping[str, str], only))
    return replace(loop, variable=variable, extent=rows, body=spread)


def _places(kernel: loops.Kernel, around: Sequence[loops.For], row: str, names: Names) -> Body:
    """What the variables of loops are in a row: its number's digits."""
    found: list[loops.Statement] = []
    for place in reversed(range(1, len(around))):
        loop, size = around[place], kernel.size(around[place].extent)
        rest = names.new("rest") if place > 1 else around[0].variable
        found += [
            loops.Index(result=loop.variable, function="mod", operands=(row, size), origin=loop.origin),
            loops.Index(result=rest, function="div", operands=(row, size), origin=loop.origin),
        ]
        row = rest
    return tuple(found)
