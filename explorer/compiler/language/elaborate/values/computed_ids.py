"""`Q[i // M]`, `R[i % M]` and hashes, `T[(i * A + B) % M]`: ids that are computed of ids with numbers, as maps of their
own, made once before the run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.compiler import frozen
from explorer.compiler.ir.graph import STEPS, IndexMap, plural
from explorer.compiler.ir.node import Origin
from explorer.compiler.language.diagnostics import slice_text
from explorer.compiler.language.elaborate.headers.lists import OWN_SETS
from explorer.compiler.language.names.dependency import Dependency
from explorer.compiler.language.names.entities import Constant, Entity, Index
from explorer.compiler.language.names.structures import Structure
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator

WORDS = {"//": "div", "%": "mod", "*": "times", "+": "plus", "-": "minus"}
"""What is computed of ids, and how their map is called."""
DIVISIONS = ("//", "%")
EITHER_WAY = ("+", "*")
"""Of these the number may come first."""
LARGEST_ID = 2**31 - 1
"""Ids are of 32 bits."""
LARGEST = 2**63 - 1
"""On the way they are of 64."""
MOST_STEPS = 8
"""Of one id: their map is named by all of them."""


def with_computed(structure: Structure, definition: syntax.Definition, sizes: Collection[str]) -> Structure:
    """The structure with the sets that computed ids lead to: a tensor over one makes it a set, where that name is no
    map's, for a path of maps that is called as a set is stays at its elements."""
    found: dict[str, None] = {}
    ids = (parameter.name.text for parameter in definition.parameters)
    taken = {*sizes, *structure.all_sets, *structure.maps, *ids, *OWN_SETS}
    extents = {
        tensor.name.text: tensor.extents
        for statement in definition.statements
        if isinstance(statement, syntax.Declarations)
        for tensor in statement.tensors
    }
    for statement in syntax.walk_statements(definition.statements):
        for node in (part for root in syntax.expressions_of(statement) for part in syntax.walk_expression(root)):
            if isinstance(node, syntax.Index) and isinstance(node.base, syntax.Name):
                over = extents.get(node.base.text, ())
                for extent, index in zip(over, node.indices, strict=False):
                    known = isinstance(extent, syntax.Name) and extent.text not in taken
                    if known and isinstance(extent, syntax.Name) and _is_computed(index):
                        found[extent.text] = None
    return replace(structure, sets=(*structure.sets, *found), made=(*structure.made, *found))


def _is_computed(node: syntax.Expression) -> bool:
    while isinstance(node, syntax.Parentheses):
        node = node.inner
    return isinstance(node, syntax.Binary) and node.operator in WORDS


def whole_of(entity: Entity | None) -> int | None:
    """A whole number that is known before the run."""
    return entity.value if isinstance(entity, Constant) and isinstance(entity.value, int) else None


def computed(
    elaborator: Elaborator, node: syntax.Binary, index: Index, number: int, operand: syntax.Expression
) -> Index | None:
    """An index with one more number computed with its own, which the operand says."""
    steps, member = (*index.computed, _step(node.operator, number)), index.index_set
    message, detail, place = _out_of_range(steps), "", operand.extent
    if not message and index.identity and member in elaborator.structure.members:
        sorted_first = f"{plural(member)} are sorted before a run, and have no number of their own"
        message = f"nothing is computed of '{index.text}': {sorted_first}"
        detail, place = f"What belongs to each of them is given as a map: map part: {member} -> bucket.", node.extent
    if message:
        elaborator.collector.report(message, place, detail)
        return None
    shown = slice_text(elaborator.text, node.extent)
    return replace(index, index_set="", shown=shown, member=False, computed=steps)


def _step(operator: str, number: int) -> tuple[str, int]:
    """The same with a number that is not negative, for it is part of a name: `i + -1` is `i - 1`."""
    opposite = {"+": "-", "-": "+"}
    return (opposite[operator], -number) if number < 0 and operator in opposite else (operator, number)


def _out_of_range(steps: tuple[tuple[str, int], ...]) -> str:
    """Why the last of these steps cannot be taken of every id; "" where it can."""
    operator, number = steps[-1]
    if operator in DIVISIONS and not 1 <= number <= LARGEST_ID:
        limit = f" to {LARGEST_ID:,}" if number > LARGEST_ID else ""
        return f"an id is divided by a number from 1{limit}, not by {number}"
    if operator == "*" and number < 1:
        return f"an id is multiplied by a number from 1, not by {number}"
    if len(steps) > MOST_STEPS:
        return f"of an id another is computed with {MOST_STEPS} numbers at most"
    if max(abs(end) for end in _ends(steps)) > LARGEST:
        return f"of ids up to {LARGEST_ID:,} this may need more than 64 bits: take a remainder before"
    return ""


def _ends(steps: tuple[tuple[str, int], ...]) -> tuple[int, int]:
    """The least and the greatest number that may be computed of an id."""
    low, high = 0, LARGEST_ID
    for operator, number in steps:
        low, high = (
            (0, number - 1) if operator == "%" else (STEPS[operator](low, number), STEPS[operator](high, number))
        )
    return low, high


def may_be_negative(index: Index) -> bool:
    """Whether what is computed of an id may be below 0."""
    return _ends(index.computed)[0] < 0


def leading(elaborator: Elaborator, index: Index, index_set: str) -> Index | None:
    """A computed index as one of the set that what it indexes is over; None where that is a set with ids of its own."""
    if index_set not in elaborator.structure.made or may_be_negative(index):
        return None
    name = "_".join([index.name.replace(".", "_"), *(f"{WORDS[by]}_{number}" for by, number in index.computed)])
    made, structure = elaborator.computed_ids, elaborator.structure
    taken = {*elaborator.scope, *structure.maps, *structure.all_sets}
    leads = (index.name,), index_set
    while (
        name in taken or elaborator.is_size(name) or (name in made and (made[name].paths, made[name].codomain) != leads)
    ):
        name += "_"
    if name not in made:
        made[name] = IndexMap(
            name=name,
            domain=index.domain,
            codomain=index_set,
            paths=(index.name,),
            computed=index.computed,
            origin=(),
        )
        elaborator.operations.builder.depend(Dependency(name, index.domain))
    return Index(name, index_set, index.domain, index.shown)


def made_maps(elaborator: Elaborator, origin: Origin) -> tuple[IndexMap, ...]:
    """The maps that a definition computes of ids."""
    return tuple(frozen.replace(entry, origin=origin) for entry in elaborator.computed_ids.values())
