"""Expressions of several sets of edges as one of typed edges: what they share stays, and what differs is a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from explorer.runtime.trace.joins.terms import COUNT, brought
from explorer.runtime.trace.values.expressions import Node, Nodes, set_of


class NotAlike(ValueError):
    """Why expressions are not one: a sentence's end."""


class Tables(Protocol):
    """Where an edge's type leads, and its ends, as the maps of the joined set."""

    def map_of(self, names: tuple[str, ...]) -> str:
        """The joined map of one map a part."""

    def table(self, tensor: Node, numbers: tuple[int, ...]) -> Node:
        """The row of a tensor that an edge's type leads to, where the parts' own are numbered so. Raises NotAlike."""

    def stack(self, tensors: tuple[Node, ...]) -> Node:
        """The one of these tensors, one a part, that an edge's type leads to."""

    def count(self, name: str) -> Node:
        """How many edges are like an edge, along a joined map."""


class Alike:
    """Brings expressions, one a part, into one of the joined set, whose name is `of`."""

    def __init__(
        self, nodes: Nodes, of: str, domains: Mapping[str, str], tables: Tables, places: tuple[str, ...] = ()
    ) -> None:
        self._nodes, self._of, self._domains, self._tables = nodes, of, domains, tables
        self._places = places  # maps, one a part, that lead from a part's rows to themselves
        self._made: dict[tuple[Node, ...], Node] = {}

    def one(self, each: tuple[Node, ...]) -> Node:
        """The expression that all of these are, each of its own part. Raises NotAlike."""
        if each not in self._made:
            with self._nodes.in_place_of(*each):
                self._made[each] = self._one(each)
        return self._made[each]

    def _one(self, each: tuple[Node, ...]) -> Node:
        first = each[0]
        if all(node is first for node in each) and not first.set:
            return first
        operators = {node.operator for node in each}
        if len(operators) > 1 or len({(node.shape, len(node.operands)) for node in each}) > 1:
            raise NotAlike(f"it computes {' and '.join(sorted(operators))}, or of other shapes, for one and another")
        if first.operator == "gather":
            return self._gathered(each)
        if first.operator == COUNT:
            return self._tables.count(self._tables.map_of(tuple(str(node.data[0]) for node in each)))
        if first.operator in ("reduce", "total", "place", "empty", "part") or (
            first.operator == "tensor" and first.set
        ):
            return self._rows(each)
        if first.operator == "tensor":
            return self._tables.stack(each)
        if first.operator == "item" and not first.set and len({node.operands for node in each}) == 1:
            size = first.operands[0].shape[0]
            return self._row(first.operands[0], tuple(int(str(node.data[0])) % size for node in each))
        if len({node.data for node in each}) > 1:
            raise NotAlike("a number, or a part that is taken, is another for each")
        operands = tuple(self.one(pair) for pair in zip(*(node.operands for node in each), strict=True))
        return self._nodes.make(first.operator, operands, first.shape, set_of(operands), first.data)

    def _rows(self, each: tuple[Node, ...]) -> Node:
        """Rows of the parts' own."""
        raise NotAlike("an edge reads what the edges of its own relation are summed to, or data of its own")

    def _gathered(self, each: tuple[Node, ...]) -> Node:
        """Rows that one map a part leads to. What is computed for a relation of all rows is computed of an edge's."""
        maps = tuple(str(node.data[0]) for node in each)
        operands = tuple(node.operands[0] for node in each)
        if len(set(operands)) == 1:
            if maps == self._places:
                return operands[0]
            name = self._tables.map_of(maps)
            return self._nodes.make("gather", operands[:1], each[0].shape, self._of, (name,))
        if {node.operator for node in operands} & {"gather", "place", "reduce", "total", "tensor"}:
            raise NotAlike("rows are gathered of what is another for each relation, and itself summed along edges")
        inner = []
        for node, along in zip(operands, maps, strict=True):
            of = self._domains[along]
            parts = tuple(brought(self._nodes, part, along, of, self._domains) for part in node.operands)
            inner.append(self._nodes.make(node.operator, parts, node.shape, of, node.data))
        return self.one(tuple(inner))

    def _row(self, node: Node, numbers: tuple[int, ...]) -> Node:
        """The row of an expression without a set that an edge's type leads to."""
        if node.operator == "tensor":
            return self._tables.table(node, numbers)
        if node.operator == "@" and len(node.operands[0].shape) == 2:
            row, matrix = self._row(node.operands[0], numbers), node.operands[1]
            return self._nodes.make("@", (row, matrix), node.shape[1:], self._of)
        if node.operator == "call" and node.data[0] == "reshape" and node.operands[0].shape[:1] == node.shape[:1]:
            return self._nodes.reshaped(self._row(node.operands[0], numbers), node.shape[1:])
        if node.operator in ("+", "-", "*", "/", "neg"):
            rank = len(node.shape)
            operands = tuple(self._row(part, numbers) if len(part.shape) == rank else part for part in node.operands)
            return self._nodes.make(node.operator, operands, node.shape[1:], set_of(operands), node.data)
        raise NotAlike(f"a relation's own part is taken of a {node.operator}, which is no table")
