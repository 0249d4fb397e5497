"""The kinds of a set's rows while they are found: a table for each parameter that differs from kind to kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.runtime.trace.joins.alike import NotAlike
from explorer.runtime.trace.joins.rows import Row
from explorer.runtime.trace.tapes.recorded import Given
from explorer.runtime.trace.texts.names import fresh, identifier
from explorer.runtime.trace.values.expressions import Node, Nodes, walk


@dataclass
class Found:
    """What was found so far: each part's number, the maps of the joined set, tables that are stacked, and counts."""

    numbers: tuple[int, ...] | None = None
    maps: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    counts: dict[str, str] = field(default_factory=dict)

    def copy(self) -> Found:
        """One that can be gone on with, and given up."""
        return Found(self.numbers, dict(self.maps), dict(self.stacks), dict(self.counts))


class Typing:
    """The `Tables` of `Alike`: of the set `of`, whose rows the map `types` leads to their kind. `joins` says whether
    its parts are sets of their own, whose maps become one."""

    def __init__(
        self, nodes: Nodes, of: str, types: str, given: Mapping[str, Given], used: set[str], joins: bool
    ) -> None:
        self.of, self.types, self.found = of, types, Found()
        self.given: dict[str, Given] = {}
        self._nodes, self._own, self._used, self._joins = nodes, given, used, joins

    def map_of(self, names: tuple[str, ...]) -> str:
        """See `Tables`."""
        if not self._joins:
            raise NotAlike("a kind's rows gather others than their own")
        name = "joined " + " ".join(names)
        self.found.maps[name] = names
        return name

    def table(self, tensor: Node, numbers: tuple[int, ...]) -> Node:
        """See `Tables`."""
        name = str(tensor.data[0])
        if self._own[name].tensor.shape[:1] != tensor.shape[:1] or len(set(numbers)) < len(numbers):
            raise NotAlike(f"{name} has no row for each relation")
        if self.found.numbers not in (None, numbers):
            raise NotAlike(f"the rows of {name} are numbered otherwise than those of another tensor")
        self.found.numbers = numbers
        return self._typed(name, tensor.shape[1:])

    def stack(self, tensors: tuple[Node, ...]) -> Node:
        """See `Tables`."""
        names = tuple(str(each.data[0]) for each in tensors)
        known = next((name for name, rows in self.found.stacks.items() if rows == names), None)
        if known is None:
            if {self._own[name].kind for name in names} != {"param"}:
                raise NotAlike("the tensors of the relations are inputs or buffers")
            known = fresh(identifier(common(names)), self._used)
            self.found.stacks[known] = names
            self.given[known] = Given(known, known, "param", None)
        return self._typed(known, tensors[0].shape)

    def count(self, name: str) -> Node:
        """See `Tables`."""
        known = next((count for count, along in self.found.counts.items() if along == name), None)
        if known is None:
            known = fresh("count", self._used)
            self.found.counts[known] = name
            self.given[known] = Given(known, known, "buffer", None)
        return self._nodes.make("tensor", (), (), self.of, (known,))

    def _typed(self, name: str, shape: tuple[int, ...]) -> Node:
        table = self._nodes.make("tensor", (), shape, f"rows of {name}", (name,))
        return self._nodes.make("gather", (table,), shape, self.of, (self.types,))

    def numbered(self, parts: int, result: Node) -> tuple[int, ...] | None:
        """The number of each part in a result whose parts were brought together; None where tables do not fit."""
        numbers = self.found.numbers or tuple(range(parts))
        read = [node for node in walk((result,)) if node.operator == "gather" and node.data == (self.types,)]
        names = {str(node.operands[0].data[0]) for node in read}
        rows = {len(self._own[name].tensor) for name in names if name in self._own}
        whole = {str(node.data[0]) for node in walk((result,)) if node.operator == "tensor" and not node.set}
        fits = sorted(numbers) == list(range(parts)) and rows <= {parts}
        if names & whole or len(rows) > 1 or (self.found.stacks and not fits):
            return None
        return numbers

    def stacks(self, numbers: tuple[int, ...]) -> dict[str, tuple[Row, ...]]:
        """The tensors of each stacked table, in the order of the kinds."""
        order = sorted(range(len(numbers)), key=lambda part: numbers[part])
        return {name: tuple(Row(names[part]) for part in order) for name, names in self.found.stacks.items()}


def common(names: tuple[str, ...], otherwise: str = "typed") -> str:
    """What all of these are called: `lins_0_weight` and `lins_1_weight` are `lins_weight`."""
    parts = [name.split("_") for name in names]
    return "_".join(part for part in parts[0] if part and all(part in other for other in parts)) or otherwise
