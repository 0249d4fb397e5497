"""What a text says, as a graph of expressions: each has an index set, or none, and the dense shape of one element."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, eq=False)
class Node:
    """An expression. `set` is the index set that it has a value for each element of, "" where all share one; `shape` is
    that of one element, without dimensions of one; `data` is what the operator needs beside its operands."""

    operator: str
    operands: tuple[Node, ...]
    shape: tuple[int, ...]
    set: str
    data: tuple[object, ...] = ()


class Nodes:
    """Makes expressions, the same one for the same operator, operands and data."""

    def __init__(self) -> None:
        self._made: dict[object, Node] = {}
        self.names: dict[Node, str] = {}  # that the user's source gives an expression

    def make(
        self, operator: str, operands: tuple[Node, ...], shape: tuple[int, ...], of: str, data: tuple[object, ...] = ()
    ) -> Node:
        """An expression."""
        key = operator, operands, shape, of, data
        return self._made.setdefault(key, Node(operator, operands, shape, of, data))

    def number(self, value: float) -> Node:
        """A number that is written in the text."""
        return self.make("number", (), (), "", (float(value),))

    def call(self, name: str, *operands: Node, shape: tuple[int, ...], more: str = "") -> Node:
        """A function of the language, `more` being what follows its operands."""
        return self.make("call", operands, shape, set_of(operands), (name, more))

    def transposed(self, node: Node) -> Node:
        """`.T`, the last two dimensions exchanged; twice is nothing."""
        if node.operator == "T":
            return node.operands[0]
        return self.make("T", (node,), (*node.shape[:-2], node.shape[-1], node.shape[-2]), node.set)

    def reshaped(self, node: Node, shape: tuple[int, ...]) -> Node:
        """The same elements in another shape."""
        if node.operator == "call" and node.data[0] == "reshape":
            node = node.operands[0]
        if node.shape == shape:
            return node
        assert prod(node.shape) == prod(shape)
        return self.call("reshape", node, shape=shape, more=", ".join(map(str, shape)) if shape else "1")


def set_of(operands: tuple[Node, ...]) -> str:
    """The set that operands are over; raises ValueError where they are over two."""
    sets = {operand.set for operand in operands} - {""}
    if len(sets) > 1:
        raise ValueError(" and ".join(sorted(sets)))
    return next(iter(sets), "")


def walk(roots: tuple[Node, ...]) -> Iterator[Node]:
    """All expressions that these are made of, operands first, each once."""
    seen: set[Node] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, done = stack.pop()
        if done:
            yield node
        elif node not in seen:
            seen.add(node)
            stack += [(node, True), *((operand, False) for operand in reversed(node.operands))]
