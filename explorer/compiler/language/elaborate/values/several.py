"""Several values at once: `return a, b`, and `a, b = f(x)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.compiler.language.diagnostics import slice_text
from explorer.compiler.language.names.entities import Entity, Several
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator

NAMES = "abcdefghijklmnopqrstuvwxyz"


def returned(elaborator: Elaborator, statement: syntax.Return, of_helper: bool) -> Entity | Several | None:
    """What a `return` gives; several, where it names several or calls a helper that returns them."""
    if len(statement.values) == 1:
        (value,) = statement.values
        if not of_helper:
            elaborator.loops.bind_letters(value)
        return elaborator.entities(value)
    found: list[Entity | None] = []
    for value in statement.values:
        if not of_helper:
            elaborator.loops.bind_letters(value)
        found.append(elaborator.value(value, elaborator.expression(value)))
    return Several(statement.values, tuple(found))


def unpack(elaborator: Elaborator, statement: syntax.Unpacking) -> None:
    """`a, b = f(x)`, `a, b = x, y`: all values are computed before the first is given a name."""
    targets, values = statement.targets, statement.values
    if len(values) == 1:
        found = elaborator.entities(values[0])
    else:
        found = Several(values, tuple(map(elaborator.expression, values)))
    entities = found.entities if isinstance(found, Several) else (found,)
    fits = len(entities) == len(targets)
    if not fits and found is not None:
        count = "1 value stands" if len(entities) == 1 else f"{len(entities)} values stand"
        elaborator.collector.report(
            f"{len(targets)} names stand left of '=', and {count} right of it", statement.extent
        )
    for place, target in enumerate(targets):
        elaborator.assign(target, entities[place] if fits else None)


def one_of(elaborator: Elaborator, node: syntax.Expression, found: Entity | Several | None) -> Entity | None:
    """What an expression stands for where one value does; only a call gives several."""
    if not isinstance(found, Several) or not isinstance(node, syntax.Call):
        return None if isinstance(found, Several) else found
    count, name = len(found.nodes), node.function.text
    named = f", as in {', '.join(NAMES[:count])} = {slice_text(elaborator.text, node.extent)}" if count <= 4 else ""
    elaborator.collector.report(f"'{name}' returns {count} values: give each a name{named}", node.extent)
    return None
