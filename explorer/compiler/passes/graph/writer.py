"""Adds values to a graph that is being rewritten."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.compiler.ir.graph import Graph, Operator, Shape, Value
from explorer.compiler.ir.node import Names, Origin


class ValueWriter:
    """The values of a new graph in order; `values` finds them, and those of the old one, by name."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = {value.name: value for value in graph.values}
        self.written: list[Value] = []
        self._names = Names(set(self.values))

    def keep(self, value: Value) -> None:
        """Takes over a value, changed or not."""
        self.values[value.name] = value
        self.written.append(value)

    def add(self, operator: Operator, index_set: str, shape: Shape, depends: Iterable[str], origin: Origin) -> Value:
        """A new value."""
        value = Value(
            name=self._names.new(f"%{len(self.values) + 1}"),
            operator=operator,
            index_set=index_set,
            shape=shape,
            depends=tuple(depends),
            origin=origin,
        )
        self.keep(value)
        return value
