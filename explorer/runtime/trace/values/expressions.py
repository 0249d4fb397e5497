"""What a text says, as a graph of expressions: each has an index set, or none, and the dense shape of one element."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from explorer.runtime.trace.tapes.tape import Where


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
        self._lines: dict[Node, set[Where]] = {}
        self._here: frozenset[Where] = frozenset()

    def make(
        self, operator: str, operands: tuple[Node, ...], shape: tuple[int, ...], of: str, data: tuple[object, ...] = ()
    ) -> Node:
        """An expression."""
        key = operator, operands, shape, of, data
        made = self._made.setdefault(key, Node(operator, operands, shape, of, data))
        self._lines.setdefault(made, set()).update(self._here)
        return made

    @contextmanager
    def asked_by(self, *lines: Where) -> Iterator[None]:
        """What is made meanwhile is what these lines of the user's ask for."""
        before, self._here = self._here, frozenset(lines)
        try:
            yield
        finally:
            self._here = before

    @contextmanager
    def in_place_of(self, *nodes: Node) -> Iterator[None]:
        """What is made meanwhile is what the lines of these expressions ask for."""
        with self.asked_by(*(line for node in nodes for line in self._lines.get(node, ()))):
            yield

    def lines_of(self, statement: Node, apart: Collection[Node]) -> frozenset[Where]:
        """The user's lines that a statement computes, but for the expressions `apart`, which have their own."""
        found, stack, seen = set[Where](), [statement], set[Node]()
        while stack:
            node = stack.pop()
            seen.add(node)
            if node.operator != "number":  # which is one wherever it is written
                found |= self._lines.get(node, set())
            stack += [each for each in node.operands if each not in seen and each not in apart]
        return frozenset(found)

    def number(self, value: float) -> Node:
        """A number that is written in the text."""
        return self.make("number", (), (), "", (float(value),))

    def together(self, results: Sequence[Node]) -> Node:
        """All results of a text, as what is rewritten at once."""
        return self.make("results", tuple(results), (), "")

    def call(self, name: str, *operands: Node, shape: tuple[int, ...], more: str = "") -> Node:
        """A function of the language, `more` being what follows its operands."""
        return self.make("call", operands, shape, set_of(operands), (name, more))

    def transposed(self, node: Node) -> Node:
        """`.T`, the last two dimensions exchanged; twice is nothing."""
        if node.operator == "T":
            return node.operands[0]
        return self.make("T", (node,), (*node.shape[:-2], node.shape[-1], node.shape[-2]), node.set)

    def permuted(self, node: Node, order: Sequence[int]) -> Node:
        """The axes in another order: `order` are, for those of the result, the axes that they were."""
        if node.operator == "permute":
            order, node = [int(str(node.data[axis])) for axis in order], node.operands[0]
        rank = len(node.shape)
        if list(order) == list(range(rank)):
            return node
        if list(order) == [*range(rank - 2), rank - 1, rank - 2]:
            return self.transposed(node)
        return self.make("permute", (node,), tuple(node.shape[axis] for axis in order), node.set, tuple(order))

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
