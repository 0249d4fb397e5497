"""What an operator's entry works with: the call, the expressions, the values of tensors, and the ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from explorer.runtime.trace.tapes.unions import Unions
from explorer.runtime.trace.values.elementwise import elementwise
from explorer.runtime.trace.values.expressions import Node, Nodes, set_of
from explorer.runtime.trace.values.tensors import Pair, Value


class Context(Protocol):
    """A translation, as the entries of the table see it."""

    nodes: Nodes
    unions: Unions

    def value(self, each: Any) -> Value:
        """A tensor's value, or that of a number. Raises Unsayable for one of integers, which is not a number here."""

    def pair(self, each: Any) -> Pair:
        """A tensor of complex numbers, or a real one or a number as if it were one."""

    def map_of(self, ids: Any, dim: int | None = None, home: str = "") -> tuple[str, str, int]:
        """A tensor of ids, which go along a dimension, the only one unless it is given, to the set `home`, if they are
        reduced: the name of the map, its set, and the dimension."""

    def placed_in(self, name: str, size: int) -> str:
        """The set, of a size, whose rows a map names each once. Raises Unsayable where ids may name one twice."""

    def is_floating(self, tensor: Any) -> bool:
        """Whether a tensor depends on floats."""

    def set_of_size(self, size: int, along: str = "") -> str:
        """The index set with so many elements; "" for a size of an element's. Of several it is the one that a map,
        `along`, leads to."""

    def gathered(self, node: Node, name: str, of: str) -> Node:
        """The expression of a row that a map, of a set, leads to."""

    def constant(self, ids: Any, inner: bool = False) -> list[int] | None:
        """The ids of a tensor that is the same in every call, as a list in the source, and of what is `inner` to a row
        an attribute, one behind another; None of any other."""

    def index_by(self, value: Value, dim: int) -> NoReturn:
        """Has a dimension that ids index become an index set, for the next reading of the tape."""

    def hold_nodes(self, values: Sequence[Value], dim: int) -> None:
        """Has tables whose rows are put one behind another along a dimension be kinds of nodes, for the next reading of
        the tape."""

    def hold_cut(self, value: Value, dim: int, start: int, stop: int) -> None:
        """Has the rows of a table that are taken between two places be a kind of nodes, for the next reading of the
        tape, and the others too."""

    def over_set(self, name: str, value: Value) -> Value:
        """A sum, or its like, over all elements of the value's set. Raises Unsayable where there is none."""


Entry = Callable[[Context, Any], Any]
"""The value, or values, that a call returns."""


def binary(context: Context, operator: str, a: Value, b: Value) -> Value:
    """An operator of two that is written between them."""

    def make(operands: list[Node], shape: tuple[int, ...]) -> Node:
        return context.nodes.make(operator, tuple(operands), shape, set_of(tuple(operands)))

    return elementwise(context.nodes, make, [a, b])


def function(context: Context, name: str, values: Sequence[Value], more: str = "") -> Value:
    """A function of the language, element by element."""

    def make(operands: list[Node], shape: tuple[int, ...]) -> Node:
        return context.nodes.call(name, *operands, shape=shape, more=more)

    return elementwise(context.nodes, make, list(values))


def negative(context: Context, value: Value) -> Value:
    """`-x`."""
    return Value(context.nodes.make("neg", (value.node,), value.node.shape, value.node.set), value.dims)
