"""`Q[i // M]` and `R[i % M]`: ids that are computed of ids, as maps of their own, made once before the run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.compiler import frozen
from explorer.compiler.ir.graph import IndexMap, plural
from explorer.compiler.ir.node import Origin
from explorer.compiler.language.diagnostics import slice_text
from explorer.compiler.language.elaborate.headers.lists import OWN_SETS
from explorer.compiler.language.names.dependency import Dependency
from explorer.compiler.language.names.entities import Index
from explorer.compiler.language.names.structures import Structure
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator

DIVISIONS = ("//", "%")
WORDS = {"//": "div", "%": "mod"}
LARGEST_DIVISOR = 2**31 - 1
"""Ids are of 32 bits."""
MOST_DIVISIONS = 8
"""Of one id: their map is named by all of them."""


def with_divisions(structure: Structure, definition: syntax.Definition, sizes: Collection[str]) -> Structure:
    """The structure with the sets that divided ids lead to: a tensor over one makes it a set, where that name is no
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
                    if known and isinstance(extent, syntax.Name) and _is_division(index):
                        found[extent.text] = None
    return replace(structure, sets=(*structure.sets, *found), made=(*structure.made, *found))


def _is_division(node: syntax.Expression) -> bool:
    while isinstance(node, syntax.Parentheses):
        node = node.inner
    return isinstance(node, syntax.Binary) and node.operator in DIVISIONS


def divided(elaborator: Elaborator, node: syntax.Binary, index: Index) -> Index | None:
    """An index with its number divided once more."""
    text = slice_text(elaborator.text, node.left.extent)
    number = elaborator.whole(node.right, "what an id is divided by")
    if number is None:
        return None
    if not 1 <= number <= LARGEST_DIVISOR:
        limit = f" to {LARGEST_DIVISOR:,}" if number > LARGEST_DIVISOR else ""
        message = f"an id is divided by a number from 1{limit}, not by {number}"
        elaborator.collector.report(message, node.right.extent)
        return None
    if len(index.divided) == MOST_DIVISIONS:
        elaborator.collector.report(f"an id is divided {MOST_DIVISIONS} times at most", node.extent)
        return None
    member = index.index_set
    if index.identity and member in elaborator.structure.members:
        message = f"'{text}' is not divided: {plural(member)} are sorted before a run, and have no number of their own"
        detail = f"What belongs to each of them is given as a map: map part: {member} -> bucket."
        elaborator.collector.report(message, node.extent, detail)
        return None
    shown = slice_text(elaborator.text, node.extent)
    return replace(index, index_set="", shown=shown, member=False, divided=(*index.divided, (node.operator, number)))


def leading(elaborator: Elaborator, index: Index, index_set: str) -> Index | None:
    """A divided index as one of the set that what it indexes is over; None where that is a set with ids of its own."""
    if index_set not in elaborator.structure.made:
        return None
    name = "_".join([index.name.replace(".", "_"), *(f"{WORDS[by]}_{number}" for by, number in index.divided)])
    made, structure = elaborator.divisions, elaborator.structure
    taken = {*elaborator.scope, *structure.maps, *structure.all_sets}
    while name in taken or elaborator.is_size(name) or (name in made and made[name].codomain != index_set):
        name += "_"
    if name not in made:
        made[name] = IndexMap(
            name=name,
            domain=index.domain,
            codomain=index_set,
            paths=(index.name,),
            divided=index.divided,
            origin=(),
        )
        elaborator.operations.builder.depend(Dependency(name, index.domain))
    return Index(name, index_set, index.domain, index.shown)


def made_maps(elaborator: Elaborator, origin: Origin) -> tuple[IndexMap, ...]:
    """The maps that a definition computes of ids."""
    return tuple(frozen.replace(entry, origin=origin) for entry in elaborator.divisions.values())
