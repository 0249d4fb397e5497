"""Distributes a loop over what its iterations compute that does not depend on one another.

    for f { x1 = x[n, f]; q[f] = x1; z[f] = tanh(x1) }    for f { x1 = x[n, f]; q[f] = x1 }
                                                          for f1 { x2 = x[n, f1]; u = tanh(x2); z[f1] = u }

Each loop then belongs to one row, and goes where that is needed; what both load is loaded twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.ir.statements import loop_origin, names_read, pure, renamed, slice_for, written_names
from explorer.compiler.schedule.edit.nests import Body, static_loop


def fissioned(kernel: loops.Kernel, body: Iterable[loops.Statement], names: Names) -> Body:
    """The statements of an iteration with each loop of a known extent distributed."""
    return tuple(
        part
        for statement in body
        for part in (_parts(statement, names) if static_loop(kernel, statement) else (statement,))
    )


def _parts(loop: loops.Statement, names: Names) -> Body:
    """The loop as one loop for each group of statements that have to do with one another."""
    assert isinstance(loop, loops.For)
    groups = _groups(loop.body)
    if len(groups) < 2:
        return (loop,)
    scalars = tuple(s for s in loop.body if pure(s))
    parts: list[loops.Statement] = []
    for group in groups:
        needed = slice_for(scalars, group)
        body = tuple(s for s in loop.body if any(s is member for member in (*needed, *group)))
        part = replace(loop, body=body, origin=loop_origin(body, loop.extent))
        parts += renamed((part,), _fresh(part, names)) if parts else (part,)
    return tuple(parts)


def _groups(body: Body) -> list[list[loops.Statement]]:
    """The statements that write or declare, those together that touch the same of what is written or declared."""
    scalars = tuple(s for s in body if pure(s))
    units = [s for s in body if not pure(s)]
    changing = written_names(units) | {name for unit in units for name in _declared(unit)}
    groups: list[tuple[set[str], list[loops.Statement]]] = []
    for unit in units:
        touched = changing & _touched((*slice_for(scalars, (unit,)), unit))
        joined = [group for group in groups if group[0] & touched]
        groups = [group for group in groups if not group[0] & touched]
        groups.append((touched.union(*(g[0] for g in joined)), [s for g in joined for s in g[1]] + [unit]))
    return [group for _, group in groups]


def _touched(body: Sequence[loops.Statement]) -> set[str]:
    return names_read(body) | written_names(body) | {name for statement in body for name in _declared(statement)}


def _declared(statement: loops.Statement) -> set[str]:
    return {node.name for node in walk(statement) if isinstance(node, (loops.Row, loops.Accumulator))}


def _fresh(part: loops.For, names: Names) -> dict[str, str]:
    """New names for all that a loop defines."""
    return {name: names.new(name) for node in walk(part) if (name := loops.result_of(node)) is not None}
