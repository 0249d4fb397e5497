"""Expressions in the text of scheduled kernels: what stands where it is read, and has no line of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeGuard

from explorer.compiler.frozen import replace
from explorer.compiler.ir.loops import COMPARISONS, INFIX_INDEX, Index, Load, element
from explorer.compiler.ir.node import AnyNode, Atom, Node

IN_PLACE = "$"
"""What the names of indices and loads begin with that stand where they are read: `out[b * 4 + w]`, of
`index $1 = b * 4` and `index $2 = $1 + w`. One statement reads each, and there is nothing between them but others."""
COMPARED, SUM, PRODUCT, CALL = range(4)
"""How tightly index arithmetic binds."""
BINDS = {"+": SUM, "-": SUM, "*": PRODUCT, "//": PRODUCT, "%": PRODUCT}
SIGNS_OF_INDEX = {**INFIX_INDEX, **COMPARISONS}
Text = tuple[str, int]
"""An expression as it is written, and how tightly it binds."""
PLACES = ("lower", "upper", "extent", "left", "right", "value", "kept", "indices", "buffer_indices", "operands")
"""The fields of statements where an expression may stand."""


def is_in_place(statement: Node) -> TypeGuard[Index | Load]:
    """Whether a statement has no line of its own: it stands where it is read."""
    return isinstance(statement, (Index, Load)) and statement.result.startswith(IN_PLACE)


def note_in_place(statement: Index | Load, known: dict[str, Text]) -> None:
    """Notes what stands in the place of a name."""
    if isinstance(statement, Index):
        known[statement.result] = print_index(statement.function, statement.operands, known)
    else:
        texts = (known[index][0] if index in known else index for index in statement.indices)
        known[statement.result] = element(statement.buffer, tuple(texts)), CALL


def print_index(function: str, operands: tuple[Atom, ...], known: Mapping[str, Text]) -> Text:
    """The text of index arithmetic with what is known in the place of names, and how tightly that binds."""
    texts = [known.get(str(operand), (str(operand), CALL)) for operand in operands]
    sign = SIGNS_OF_INDEX.get(function)
    if sign is None:
        return f"{function}({', '.join(text for text, _ in texts)})", CALL
    binds = BINDS.get(sign, COMPARED)
    (left, of_left), (right, of_right) = texts
    left = left if of_left >= max(binds, SUM) else f"({left})"
    right = right if of_right > binds else f"({right})"
    return f"{left} {sign} {right}", binds


def _places_of(of_class: type[Node]) -> tuple[str, ...]:
    """The fields of a class where an expression may stand."""
    if of_class not in _PLACES:
        own = {member.name for member in fields(of_class)}
        _PLACES[of_class] = tuple(name for name in PLACES if name in own)
    return _PLACES[of_class]


_PLACES: dict[type, tuple[str, ...]] = {}


def with_atoms(statement: AnyNode, names: Mapping[str, str]) -> AnyNode:
    """A statement with names exchanged where expressions may stand."""

    def of(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(names.get(atom, atom) if isinstance(atom, str) else atom for atom in value)
        return names.get(value, value) if isinstance(value, str) else value

    before = [(name, getattr(statement, name)) for name in _places_of(type(statement))] if names else []
    changes = {name: changed for name, value in before if (changed := of(value)) != value}
    return replace(statement, **changes) if changes else statement
