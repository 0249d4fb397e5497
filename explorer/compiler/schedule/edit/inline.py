"""Computes the elements of an iteration's rows where they are read, in the place of a loop that fills the row."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Names
from explorer.compiler.ir.statements import pure, rename, written_in
from explorer.compiler.schedule.edit.nests import Body


def inlined(body: Body, names: Names) -> Body:
    """The statements without rows that one loop fills, element by element, with straight-line code."""
    writers = Counter(name for statement in body for name in written_in(statement))
    rows = {s.name for s in body if isinstance(s, loops.Row) and writers[s.name] == 1}
    filled: dict[str, loops.For] = {}
    found: list[loops.Statement] = []
    for statement in body:
        target = _filled(statement)
        if target in rows and isinstance(statement, loops.For):
            filled[target] = replace(statement, body=_computed(statement.body, filled, names))
        else:
            found += _computed((statement,), filled, names)
    return tuple(s for s in found if not (isinstance(s, loops.Row) and s.name in filled))


def _filled(statement: loops.Statement) -> str:
    """The row that a loop fills, one element an iteration; "" for other statements."""
    if not isinstance(statement, loops.For) or statement.lower != 0:
        return ""
    *before, last = statement.body
    fills = isinstance(last, loops.Store) and last.indices == (statement.variable,) and all(map(pure, before))
    return last.target if fills and isinstance(last, loops.Store) else ""


def _computed(body: Body, filled: dict[str, loops.For], names: Names) -> Body:
    """Statements with the elements that they load from filled rows computed in place."""
    found: list[loops.Statement] = []
    for statement in body:
        match statement:
            case loops.For():
                found.append(replace(statement, body=_computed(statement.body, filled, names)))
            case loops.Load(buffer=row, indices=(str() as index,)) if row in filled:
                found += _element(filled[row], index, statement.result, names)
            case _:
                found.append(statement)
    return tuple(found)


def _element(loop: loops.For, index: str, result: str, names: Names) -> Body:
    """What computes one element of a row."""
    *before, last = loop.body
    assert isinstance(last, loops.Store)
    changes = {loop.variable: index}
    changes |= {name: names.new(name) for s in before if (name := loops.result_of(s)) is not None}
    renamed = [rename(statement, changes) for statement in before]
    operands = tuple(
        changes.get(operand, operand) if isinstance(operand, str) else operand for operand in last.operands
    )
    value = loops.Compute(result=result, function=last.function, operands=operands, origin=last.origin)
    return *renamed, value
