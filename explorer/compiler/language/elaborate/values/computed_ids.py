"""`Q[i // M]`, `R[i % M]` and hashes, `T[(A * i + B * j) % M]`: ids that are computed of ids, of one with numbers or of
several, as maps of their own, made once before the run."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING

from explorer.compiler import frozen
from explorer.compiler.ir.graph import IndexMap, plural
from explorer.compiler.ir.index_functions import DIVISIONS, MOST_ROWS, Range, Step, Steps, number_of_steps, reach
from explorer.compiler.ir.node import Origin, Span
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


def of_number(
    elaborator: Elaborator, node: syntax.Binary, index: Index, number: int, operand: syntax.Expression
) -> Index | None:
    """An index with one more number computed with its own, which the operand says."""
    steps = (*index.computed, _step(node.operator, number))
    return _computed(elaborator, node, (index,), steps, operand.extent)


def of_ids(elaborator: Elaborator, node: syntax.Binary, left: Index, right: Index) -> Index | None:
    """An index with what is computed of the numbers of two: `h + t`."""
    if node.operator in DIVISIONS:
        message = f"an id is divided by a number that is known before the run, and '{right.text}' is another id"
        elaborator.collector.report(message, node.right.extent)
        return None
    return _computed(elaborator, node, (left, right), (*left.computed, (node.operator, right.computed)), node.extent)


def _computed(
    elaborator: Elaborator, node: syntax.Binary, indices: tuple[Index, ...], steps: Steps, place: Span
) -> Index | None:
    """An index of what steps compute of others, the last of them just now. `place` is of what is wrong with it."""
    message, detail = _out_of_range(steps), ""
    sets = {index.domain for index in indices}
    for index in indices:
        if not message and index.identity and index.index_set in elaborator.structure.members:
            sorted_first = f"{plural(index.index_set)} are sorted before a run, and have no number of their own"
            message = f"nothing is computed of '{index.text}': {sorted_first}"
            detail = f"What belongs to each of them is given as a map: map part: {index.index_set} -> bucket."
            place = node.extent
    if message:
        elaborator.collector.report(message, place, detail)
        return None
    first, *others = indices
    return replace(
        first,
        domain=elaborator.operations.builder.set_among(sets),
        index_set="",
        shown=slice_text(elaborator.text, node.extent),
        member=False,
        further=(*first.further, *(path for other in others for path in other.paths)),
        computed=steps,
    )


def _step(operator: str, number: int) -> Step:
    """The same with a number that is not negative, for it is part of a name: `i + -1` is `i - 1`."""
    opposite = {"+": "-", "-": "+"}
    return (opposite[operator], -number) if number < 0 and operator in opposite else (operator, number)


def _out_of_range(steps: Steps) -> str:
    """Why the last of these steps cannot be taken of every id; "" where it can."""
    operator, operand = steps[-1]
    number = operand if isinstance(operand, int) else 1
    if operator in DIVISIONS and not 1 <= number <= LARGEST_ID:
        limit = f" to {LARGEST_ID:,}" if number > LARGEST_ID else ""
        return f"an id is divided by a number from 1{limit}, not by {number}"
    if operator == "*" and number < 1:
        return f"an id is multiplied by a number from 1, not by {number}"
    if number_of_steps(steps) > MOST_STEPS:
        with_others = "" if isinstance(operand, int) else " and other ids"
        return f"of an id another is computed with {MOST_STEPS} numbers{with_others} at most"
    if max(abs(end) for end in _ends(steps, LARGEST_ID + 1)) > LARGEST:
        return f"of ids up to {LARGEST_ID:,} this may need more than 64 bits: take a remainder before"
    return ""


def _ends(steps: Steps, count: int) -> Range:
    """The least and the greatest number that may be computed of ids of sets of so many elements."""
    found = reach(repeat(count), steps)
    assert found is not None
    return found


def why_no_row(index: Index) -> tuple[str, str]:
    """Why what is computed of ids cannot be the number of a row, and what helps; "" where it can."""
    if _ends(index.computed, LARGEST_ID + 1)[0] < 0:
        message = f"'{index.text}' may be negative, and rows have numbers from 0 on"
        return message, f"A remainder never is: ({index.text}) % M."
    _, greatest = _ends(index.computed, 2)
    if greatest >= MOST_ROWS:
        message = f"'{index.text}' is {greatest:,} of the ids of two elements already, and ids have 32 bits"
        return message, f"A remainder has fewer rows: ({index.text}) % M."
    return "", ""


def leading(elaborator: Elaborator, index: Index, index_set: str) -> Index | None:
    """A computed index, which may be the number of a row, as one of the set that what it indexes is over; None where
    that is a set with ids of its own."""
    if index_set not in elaborator.structure.made:
        return None
    name = _named(iter(index.paths), index.computed)
    made, structure = elaborator.computed_ids, elaborator.structure
    taken = {*elaborator.scope, *structure.maps, *structure.all_sets}
    wanted = IndexMap(
        name=name, domain=index.domain, codomain=index_set, paths=index.paths, computed=index.computed, origin=()
    )
    while (
        name in taken or elaborator.is_size(name) or (name in made and made[name] != frozen.replace(wanted, name=name))
    ):
        name += "_"
    if name not in made:
        made[name] = frozen.replace(wanted, name=name)
        elaborator.operations.builder.depend(Dependency(name, index.domain))
    return Index(name, index_set, index.domain, index.shown)


def _named(paths: Iterator[str], steps: Steps) -> str:
    """What the map of computed ids is called: `h_times_31_plus_t`."""
    name = next(paths).replace(".", "_")
    for operator, operand in steps:
        name += f"_{WORDS[operator]}_{operand if isinstance(operand, int) else _named(paths, operand)}"
    return name


def made_maps(elaborator: Elaborator, origin: Origin) -> tuple[IndexMap, ...]:
    """The maps that a definition computes of ids."""
    return tuple(frozen.replace(entry, origin=origin) for entry in elaborator.computed_ids.values())
