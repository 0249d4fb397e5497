"""The types of rows that are put one block behind another, while they are found: a table for each parameter that
differs from block to block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest

from explorer.runtime.trace.joins.alike import NotAlike
from explorer.runtime.trace.joins.rows import Row
from explorer.runtime.trace.joins.typing import common
from explorer.runtime.trace.tapes.recorded import Given
from explorer.runtime.trace.texts.names import fresh, identifier
from explorer.runtime.trace.values.expressions import Node, Nodes


class Types:
    """The `Tables` of `Alike`: the types of a set's rows, one for each of its `blocks`, while they are found. `stacks`
    are tables, `rows` tensors with rows for all blocks, `own` those that tell a block's, which are called `mark`.
    `brought` are the tensors that have rows of their own."""

    def __init__(
        self,
        nodes: Nodes,
        of: str,
        blocks: tuple[str, ...],
        given: Mapping[str, Given],
        used: set[str],
        brought: list[Node],
        mark: str,
    ) -> None:
        self.of, self.blocks, self.types = of, blocks, f"types of {of}"
        self.given: dict[str, Given] = {}
        self.stacks: dict[str, tuple[Row, ...]] = {}
        self.rows: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self.own: dict[str, tuple[tuple[str, ...], int]] = {}
        self._nodes, self._own, self._used, self._mark = nodes, given, used, mark
        self._likely = list(_beside(brought, blocks))

    def map_of(self, names: tuple[str, ...]) -> str:
        """See `Tables`."""
        raise NotAlike("rows of each kind lead to others along maps of their own")

    def count(self, name: str) -> Node:
        """See `Tables`."""
        raise NotAlike("edges of each kind are counted")

    def table(self, tensor: Node, numbers: tuple[int | tuple[int, ...], ...]) -> Node:
        """See `Tables`; of several numbers a block, the rows at all of them."""
        name = str(tensor.data[0])
        inner = (len(numbers[0]), *tensor.shape[1:]) if isinstance(numbers[0], tuple) else tensor.shape[1:]
        return self._typed(tuple(Row(name, at) for at in numbers), inner)

    def stack(self, tensors: tuple[Node, ...]) -> Node:
        """See `Tables`."""
        return self._typed(tuple(Row(str(each.data[0])) for each in tensors), tensors[0].shape)

    def _typed(self, rows: tuple[Row, ...], shape: tuple[int, ...]) -> Node:
        if any(self._own[row.name].kind == "input" for row in rows):
            raise NotAlike("the tensors of kinds or relations are inputs")
        known = next((name for name, each in self.stacks.items() if each == rows), None)
        if known is None:
            known = fresh(identifier(common(tuple(row.name for row in rows))), self._used)
            self.stacks[known] = rows
            self.given[known] = Given(known, known, "param", None)
        table = self._nodes.make("tensor", (), shape, f"rows of {known}", (known,))
        return self._nodes.make("gather", (table,), shape, self.of, (self.types,))

    def with_rows(self, tensors: tuple[Node, ...]) -> Node:
        """A tensor with the rows of all blocks, of which each has a tensor's, if they are its own."""
        sources = tuple(
            str(each.data[0]) if each.set == block else "" for each, block in zip(tensors, self.blocks, strict=True)
        )
        sources = next((each for each in self._likely if _has(each, sources)), sources)
        known = next((name for name, (_, each) in self.rows.items() if each == sources), None)
        if known is None:
            named = [each for each in sources if each]
            known = fresh(identifier(common(tuple(named), "x") if len(named) > 1 else f"{named[0]}_"), self._used)
            self.rows[known] = self.blocks, sources
            self.given[known] = Given(known, known, "input", None)
        return self._nodes.make("tensor", (), tensors[0].shape, self.of, (known,))

    def is_own(self, block: int) -> Node:
        """1 for rows of a block, 0 for others."""
        known = next((name for name, (_, at) in self.own.items() if at == block), None)
        if known is None:
            known = fresh(f"{self._mark}{block + 1}", self._used)
            self.own[known] = self.blocks, block
            self.given[known] = Given(known, known, "buffer", None)
        return self._nodes.make("tensor", (), (), self.of, (known,))


def _beside(brought: list[Node], blocks: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Tensors, one a block and of one shape, that may be one with rows for all blocks: the first of each, and so on."""
    for shape in dict.fromkeys(each.shape for each in brought):
        alike = [each for each in brought if each.shape == shape]
        by_block = [[str(each.data[0]) for each in alike if each.set == block] for block in blocks]
        yield from zip_longest(*by_block, fillvalue="")


def _has(whole: tuple[str, ...], sources: tuple[str, ...]) -> bool:
    """Whether tensors are those of all blocks that are not none."""
    return all(each in ("", known) for each, known in zip(sources, whole, strict=True))
