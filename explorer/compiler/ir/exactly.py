"""Whether two programs are the same to the last origin.

Nodes are equal whatever their origins; what was made of one stands for what would be made of another only where these
are equal too."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from typing import Any

from explorer.compiler.ir.node import Made, Span


class Exactly:
    """A key that equals another only where the values are the same to the last origin."""

    def __init__(self, value: Hashable) -> None:
        self._value = value
        self._hash = hash(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exactly) and self._hash == other._hash and exactly_equal(self._value, other._value)


def exactly_equal(one: Any, other: Any) -> bool:
    """Whether two values, or trees of nodes, tuples and values, differ in nothing: of numbers that are equal the types
    and signs are told apart."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple) and not isinstance(one, (Span, Made)):
        return len(one) == len(other) and all(map(exactly_equal, one, other))
    if hasattr(one, "__dataclass_fields__"):
        return all(exactly_equal(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    if isinstance(one, float):
        return repr(one) == repr(other)
    return bool(one == other)
