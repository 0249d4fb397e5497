"""Several sets of nodes, the kinds of a graph, as one: all nodes, one kind behind another.

What is computed of each kind by itself is computed of all nodes, and what differs from kind to kind is a table of
types; so it is with the edges that a module puts one relation behind another. What is not alike is computed of all
rows, of which those of other kinds are seen nowhere, and chosen by whose a row is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import Any

import torch

from explorer.runtime.trace.joins.alike import Alike, NotAlike
from explorer.runtime.trace.joins.blocks import Types
from explorer.runtime.trace.joins.kinds import Kinds, Lead
from explorer.runtime.trace.joins.mix import partial
from explorer.runtime.trace.joins.rows import Row
from explorer.runtime.trace.tapes.ids import column
from explorer.runtime.trace.tapes.recorded import Given
from explorer.runtime.trace.tapes.unions import Unions
from explorer.runtime.trace.values.expressions import Node, Nodes, walk

ALL = "nodes of all kinds"
Parts = tuple[Node | None, ...]
"""An expression of each block's rows, None for a block of which nothing is seen."""


@dataclass(frozen=True)
class Uniting:
    """Results whose nodes are of one set. `maps` are by name those that are new, with the set that they lead from and
    those that they lead to, `given` the tensors that the results have and the module has not, `home` the set."""

    result: Node
    kinds: Kinds | None = None
    maps: Mapping[str, tuple[str, frozenset[str]]] = field(default_factory=dict)
    given: Mapping[str, Given] = field(default_factory=dict)
    home: str = ""


def unite(
    nodes: Nodes, result: Node, maps: Mapping[str, Any], given: Mapping[str, Given], homes: set[str], unions: Unions
) -> Uniting:
    """Unites kinds of nodes, where there are several. `maps` are by name: each has a domain, codomains, and the ids of
    an example; `homes` are sets that rows were summed to. Raises NotAlike where they cannot be one set."""
    order = list(walk((result,)))
    behind = any(node.operator in ("union", "part") for node in order)
    ends = {_end(node, homes) for node in order} - {None}
    leads = {of for _, of in filter(None, ends)}
    kinds = _ordered(leads, unions)
    edges = {maps[name].domain for name, _ in filter(None, ends)}
    if not (behind or len(kinds) > 1) or not unions.lengths.keys() >= set(kinds) or edges & {*leads, *kinds}:
        return Uniting(result)
    return _Unite(nodes, maps, given, unions, kinds, order, homes).united(result)


def _end(node: Node, homes: set[str]) -> tuple[str, str] | None:
    """The map to nodes that an expression goes along, and the set of these."""
    if node.operator == "reduce":
        return str(node.data[1]), node.set
    if node.operator == "gather" and (node.operands[0].set in homes or not node.operands[0].set.startswith("rows of ")):
        return str(node.data[0]), node.operands[0].set
    return None


def _ordered(leads: Collection[str], unions: Unions) -> tuple[str, ...]:
    """The kinds of nodes that these sets are made of, in the order in which one of them has all."""
    found = sorted({kind for of in leads for kind in unions.blocks_of(of)}, key=lambda each: (len(each), each))
    whole = (unions.blocks[of] for of in unions.blocks if of in leads and sorted(unions.blocks[of]) == sorted(found))
    return next(whole, tuple(found))


class _Unite:
    """All nodes as one set, and edges that are put one relation behind another as typed ones, while they are made."""

    def __init__(
        self,
        nodes: Nodes,
        maps: Mapping[str, Any],
        given: Mapping[str, Given],
        unions: Unions,
        kinds: tuple[str, ...],
        order: list[Node],
        homes: set[str],
    ) -> None:
        self.nodes, self._maps, self._given, self._unions, self.kinds = nodes, maps, given, unions, kinds
        whole = next((name for name, each in unions.blocks.items() if each == kinds), ALL)
        self.all = whole if len(kinds) > 1 else kinds[0]
        self._used = set(given)
        self._apart = {node.set for node in order if node.set not in kinds and self._has_blocks(node)}
        self._types: dict[str, Types] = {}
        self._leads: dict[str, Lead] = {}
        self._made: dict[Node, Node] = {}
        self._parts: dict[tuple[Node, int], Node] = {}
        self._together: dict[tuple[str, Parts, bool], Node] = {}
        self._behind: dict[str, tuple[str, ...]] = {}
        self._brought = [node for node in order if node.operator == "tensor" and node.set]
        self._ends = [end for end in dict.fromkeys(_end(node, homes) for node in order) if end]
        self.whole: dict[tuple[str, int, Node], list[tuple[tuple[Node, ...], Node]]] = defaultdict(list)

    def _has_blocks(self, node: Node) -> bool:
        """Whether an expression of a union is another for each block."""
        if node.set not in self._unions.blocks:
            return False
        gathers = node.operator == "gather" and not node.operands[0].set.startswith("rows of ")
        whole = set(self._unions.blocks[node.set]) <= set(self.kinds)
        return node.operator == "union" or whole or (gathers and not self._is_all(node.operands[0].set))

    def _is_all(self, of: str) -> bool:
        return self._unions.blocks_of(of) == self.kinds

    def united(self, result: Node) -> Uniting:
        """All of it. Raises NotAlike."""
        last, places = self._results(result.operands)
        found = list(self._types.values())
        together, names = self._named(
            self.nodes.together(last), {n: r for each in found for n, r in each.stacks.items()}
        )
        read = list(walk((together,)))
        along = {str(at) for node in read if node.operator in ("gather", "reduce") for at in node.data}
        tensors = {str(node.data[0]) for node in read if node.operator == "tensor"}
        behind = {name: parts for name, parts in self._behind.items() if name in along}
        along |= {part for parts in behind.values() for part in parts}
        leads = {name: lead for name, lead in self._leads.items() if name in along}
        stacks = {names.get(name, name): rows for each in found for name, rows in each.stacks.items()}
        kinds = Kinds(
            self.kinds,
            leads,
            {each.types: each.blocks for each in found if each.types in along},
            {name: rows for name, rows in stacks.items() if name in tensors},
            {name: rows for each in found for name, rows in each.rows.items() if name in tensors},
            {name: own for each in found for name, own in each.own.items() if name in tensors},
            tuple(places),
            behind,
        )
        maps = {name: (self._maps[lead.map].domain, frozenset({self.all})) for name, lead in leads.items()}
        maps |= {name: (self._union(parts), frozenset({self.all})) for name, parts in behind.items()}
        maps |= {each.types: (each.of, frozenset({f"rows of {each.types}"})) for each in found}
        given = {name: its for each in found for name, its in each.given.items() if name in tensors}
        return Uniting(together, kinds, maps, given, self.all)

    def _named(self, result: Node, stacks: Mapping[str, tuple[Row, ...]]) -> tuple[Node, dict[str, str]]:
        """A result whose tables of the rows of one tensor have its name, where it is not read otherwise; and these."""
        read = {str(node.data[0]) for node in walk((result,)) if node.operator == "tensor"}
        of_one = {rows[0].name: name for name, rows in stacks.items() if len({row.name for row in rows}) == 1}
        names = {table: name for name, table in of_one.items() if name not in read and table in read}
        made: dict[Node, Node] = {}
        for node in walk((result,)):
            data = (names.get(str(node.data[0]), node.data[0]),) if node.operator == "tensor" else node.data
            with self.nodes.in_place_of(node):
                operands = tuple(made[operand] for operand in node.operands)
                made[node] = self.nodes.make(node.operator, operands, node.shape, node.set, data)
            if node in self.nodes.names:
                self.nodes.names.setdefault(made[node], self.nodes.names[node])
        return made[result], names

    def _results(self, results: tuple[Node, ...]) -> tuple[list[Node], list[tuple[int, int | None]]]:
        """The text's results, and for each of the module's which one it is of, and the number of its kind. The first
        ones of all kinds are one where they are alike, and so on."""
        found: dict[Node, tuple[Node, int | None]] = {}
        of_kind: dict[str, list[Node]] = defaultdict(list)
        for each in dict.fromkeys(results):
            if each.set in self.kinds and len(self.kinds) > 1:
                of_kind[each.set].append(each)
            elif (
                each.set in self._apart and each.set != self.all and set(self._unions.blocks[each.set]) <= {*self.kinds}
            ):
                self._hold_once(each.set)
                raise NotAlike("all nodes are returned, one kind behind another in another order than elsewhere")
            else:
                found[each] = self.one(each), None
        for round_ in zip_longest(*(of_kind[kind] for kind in self.kinds)):
            try:
                made = [self.together(self.all, round_, strict=True)] * len(round_)
            except NotAlike:
                made = [each and self.one(each) for each in round_]
            found |= {each: (made[kind], kind) for kind, each in enumerate(round_) if each is not None}
        last = list(dict.fromkeys(found[each][0] for each in results))
        return last, [(last.index(found[each][0]), found[each][1]) for each in results]

    def one(self, node: Node) -> Node:
        """An expression, of all nodes. Raises NotAlike."""
        if node not in self._made:
            with self.nodes.in_place_of(node):
                self._made[node] = self._one(node)
            if node in self.nodes.names:
                self.nodes.names.setdefault(self._made[node], self.nodes.names[node])
        return self._made[node]

    def _one(self, node: Node) -> Node:
        if node.operator == "part":
            return self.one(node.operands[0])
        if node.operator == "reduce":
            self._hold_once(node.set)
            along = self.lead(str(node.data[1]), node.set)
            data = node.data[0], along
            return self.nodes.make("reduce", (self.one(node.operands[0]),), node.shape, self.all, data)
        if node.set in self._apart and node.operator != "tensor":
            return self._of_blocks(node)
        if node.set in self._apart and node.set != self.all and set(self._unions.blocks[node.set]) <= set(self.kinds):
            raise NotAlike("what ids alone decide has rows for all nodes, in another order")
        if node.set in self.kinds and node.set != self.all:
            return self.together(self.all, tuple(node if kind == node.set else None for kind in self.kinds))
        if node.operator == "gather":
            return self._gathered(node)
        if node.operator == "total" and node.operands[0].set in {*self.kinds, *self._apart} - {self.all}:
            return self._total(node)
        return self.nodes.make(node.operator, tuple(map(self.one, node.operands)), node.shape, node.set, node.data)

    def _total(self, node: Node) -> Node:
        """A sum, or its like, of all rows of one kind."""
        (operand,), name = node.operands, str(node.data[0])
        rows = self.one(operand)
        if operand.set not in self.kinds or name not in ("sum", "mean"):
            raise NotAlike(f"a {name} goes over all rows of a kind or relation")
        mark, zero = self._of(self.all).is_own(self.kinds.index(operand.set)), self.nodes.number(0)
        kept = self.nodes.call("where", mark, rows, zero, shape=node.shape) if rows.set else rows
        total, count = (self.nodes.make("total", (each,), each.shape, "", ("sum",)) for each in (kept, mark))
        return total if name == "sum" else self.nodes.make("/", (total, count), node.shape, "")

    def _of_blocks(self, node: Node) -> Node:
        """An expression of a union: of edges, or of nodes, whose kinds it has each once."""
        blocks = self._unions.blocks[node.set]
        if not set(blocks) <= set(self.kinds):
            return self.together(node.set, tuple(self.part(node, at) for at in range(len(blocks))))
        self._hold_once(node.set)
        return self.together(self.all, tuple(self.part(node, blocks.index(kind)) for kind in self.kinds))

    def _hold_once(self, of: str) -> None:
        """Raises NotAlike where a union of nodes has not each kind once."""
        if of in self._unions.blocks and sorted(self._unions.blocks[of]) != sorted(self.kinds):
            raise NotAlike(
                "all rows of a kind are put behind others twice, or not at all, or those of two kinds are as many: "
                "trace with an example whose kinds differ in their numbers"
            )

    def _gathered(self, node: Node) -> Node:
        """Rows that the edges of one set read."""
        (operand,), along = node.operands, str(node.data[0])
        of = operand.set
        if of.startswith("rows of "):
            return node
        if len(self._unions.blocks_of(of)) > 1 and not self._is_all(of):
            operand = self.part(operand, self._places(along, of)[0])
        return self.nodes.make("gather", (self.one(operand),), node.shape, node.set, (self.lead(along, of),))

    def part(self, node: Node, at: int) -> Node:
        """The rows of one block of a union, with what edges read of theirs: `gather` along a map, of a block, to a
        set."""
        if not node.set:
            return node
        if (node, at) not in self._parts:
            with self.nodes.in_place_of(node):
                self._parts[node, at] = self._part(node, at)
        return self._parts[node, at]

    def _part(self, node: Node, at: int) -> Node:
        block = self._unions.blocks[node.set][at]
        if node.operator == "union":
            return node.operands[at]
        if node.operator in ("tensor", "reduce"):
            return self.nodes.make("part", (node,), node.shape, block, (at,))
        if node.operator == "gather":
            (operand,), along = node.operands, str(node.data[0])
            of = operand.set
            if of in self._apart and not self._is_all(of):
                operand = self.part(operand, self._places(along, of)[at])
            data = along, at, of
            return self.nodes.make("gather", (operand,), node.shape, block, data) if operand.set else operand
        operands = tuple(self.part(each, at) for each in node.operands)
        return self.nodes.make(node.operator, operands, node.shape, block, node.data)

    def _places(self, along: str, of: str) -> tuple[int, ...]:
        """The block of a set that each block of edges leads to along a map, in the example. Raises NotAlike."""
        known, ends = self._maps[along], self._unions.starts(of)
        ids = column(known.ids, known.along)
        blocks = self._unions.starts(known.domain) if known.domain in self._unions.lengths else [0, len(ids)]
        found = []
        for start, stop in pairwise(blocks):
            least, most = int(ids[start:stop].min()), int(ids[start:stop].max())
            there = [at for at, (first, end) in enumerate(pairwise(ends)) if first <= least and most < end]
            if not there:
                raise NotAlike("the edges of one relation lead to several kinds of nodes")
            found.append(there[0])
        return tuple(found)

    def lead(self, along: str, of: str) -> str:
        """The map to all nodes, of one that leads to a set of them."""
        if self._is_all(of):
            return along
        edges, nodes = self._unions.blocks_of(self._maps[along].domain), self._unions.blocks_of(of)
        lead = Lead(along, edges, nodes, self._places(along, of))
        name = next((known for known, each in self._leads.items() if each == lead), f"{along} to {of}")
        self._leads[name] = lead
        return name

    def led_behind(self, of: str, ends: tuple[tuple[str, str] | None, ...]) -> str:
        """The map of a union of edges that leads where maps of its blocks do, each to a set; of a block without one,
        where another does. One that is there and leads to the same is taken. Raises NotAlike."""
        found = list[str]()
        for block, end in zip(self._unions.blocks[of], ends, strict=True):
            leads = end or next((each for each in self._ends if self._maps[each[0]].domain == block), None)
            if leads is None:
                raise NotAlike("edges of one relation lead nowhere")
            found.append(self.lead(*leads))
        ids = torch.cat([self._ids(each) for each in found])
        there = (self.lead(*end) for end in self._ends if self._maps[end[0]].domain == of)
        name = next((each for each in there if torch.equal(self._ids(each), ids)), " behind ".join(found))
        self._behind[name] = tuple(found)
        return name

    def _ids(self, name: str) -> Any:
        """The ids of a map to all nodes, in the example."""
        lead = self._leads.get(name)
        known = self._maps[lead.map if lead else name]
        ids = column(known.ids, known.along).long()
        begins = dict(zip(self.kinds, self._unions.starts_of(self.kinds), strict=False))
        return lead.ids(ids, self._unions.lengths, begins) if lead else ids

    def _union(self, parts: tuple[str, ...]) -> str:
        """The set of edges that maps of its blocks lead from."""
        maps = (self._leads[each].map if each in self._leads else each for each in parts)
        blocks = tuple(self._maps[each].domain for each in maps)
        return next(name for name, known in self._unions.blocks.items() if known == blocks)

    def together(self, of: str, parts: Parts, strict: bool = False) -> Node:
        """The expression of all rows that is these of each block's; where they are not alike it is chosen by whose a
        row is, if it is not to be `strict`. Raises NotAlike."""
        key = of, parts, strict
        if key not in self._together:
            with self.nodes.in_place_of(*filter(None, parts)):
                self._together[key] = self._one_of(of, parts, strict)
        return self._together[key]

    def _of(self, of: str) -> Types:
        if of not in self._types:
            blocks, mark = (self.kinds, "kind") if of == self.all else (self._unions.blocks[of], "own")
            self._types[of] = Types(self.nodes, of, blocks, self._given, self._used, self._brought, mark)
        return self._types[of]

    def _one_of(self, of: str, parts: Parts, strict: bool) -> Node:
        types = self._of(of)
        there = list(dict.fromkeys(each for each in parts if each is not None))
        absent = tuple(at for at, each in enumerate(parts) if each is None)
        try:
            return _Blocks(self, of, types, absent).all(tuple(each or there[0] for each in parts))
        except NotAlike:
            if strict or len(there) == 1:
                raise
        return self.chosen(of, parts)

    def chosen(self, of: str, parts: Parts) -> Node:
        """The expression of all rows that is each block's own, by whose a row is. Raises NotAlike."""
        types, (*firsts, last) = self._of(of), dict.fromkeys(each for each in parts if each is not None)
        made = self.together(of, tuple(each if each is last else None for each in parts))
        for part in reversed(firsts):
            own = self.together(of, tuple(each if each is part else None for each in parts))
            for mark in (types.is_own(at) for at, each in enumerate(parts) if each is part):
                made = self.nodes.call("where", mark, own, made, shape=own.shape)
        return made


class _Blocks(Alike):
    """Brings the expressions of all blocks into one; those of the `absent` ones are seen nowhere."""

    def __init__(self, unite: _Unite, of: str, types: Types, absent: tuple[int, ...]) -> None:
        super().__init__(unite.nodes, of, {}, types)
        self._unite, self._types, self._absent = unite, types, absent
        self._whole: tuple[Node, ...] = ()

    def all(self, each: tuple[Node, ...]) -> Node:
        """The expression that all of these are. Raises NotAlike where what they do last is not alike; what is not alike
        within is chosen by whose a row is."""
        self._whole = each
        return self.one(each)

    def one(self, each: tuple[Node, ...]) -> Node:
        """See `Alike`. What is there for all blocks is taken where some are absent."""
        parts = tuple(None if at in self._absent else node for at, node in enumerate(each))
        try:
            return self._alike(each)
        except NotAlike:
            rows = all(node.set for node in each) and len({node.shape for node in each}) == 1
            if each == self._whole or not rows or len(set(parts) - {None}) < 2:
                raise
        self._made[each] = self._unite.chosen(self._of, parts)
        return self._made[each]

    def _alike(self, each: tuple[Node, ...]) -> Node:
        there = [at for at in range(len(each)) if at not in self._absent]
        for known, made in self._unite.whole[self._of, there[0], each[there[0]]]:
            if all(known[at] is each[at] for at in there):
                return made
        made = super().one(each)
        if not self._absent:
            for at, node in enumerate(each):
                self._unite.whole[self._of, at, node].append((each, made))
        return made

    def _one(self, each: tuple[Node, ...]) -> Node:
        first = each[0]
        if not first.set and len(set(each)) == 1:
            return self._unite.one(first)
        taken = [_rows_taken(node) for node in each]
        if len(set(each)) > 1 and None not in taken and len({tensor for tensor, _ in filter(None, taken)}) == 1:
            return self._types.table(first.operands[0].operands[0], tuple(at for _, at in filter(None, taken)))
        made = super()._one(each)
        if not self._absent or not made.set or not partial(made) or made.operator == "gather":
            return made
        at = 1 if made.operator == "/" else 0
        operand = made.operands[at]
        for mark in map(self._types.is_own, self._absent):
            operand = self._nodes.call("where", mark, self._nodes.number(1), operand, shape=operand.shape)
        operands = (*made.operands[:at], operand, *made.operands[at + 1 :])
        return self._nodes.make(made.operator, operands, made.shape, made.set, made.data)

    def _row(self, node: Node, numbers: tuple[int, ...]) -> Node:
        return self._types.table(node, numbers) if node.operator == "tensor" else super()._row(node, numbers)

    def _rows(self, each: tuple[Node, ...]) -> Node:
        first = each[0]
        if first.operator == "tensor":
            return self._types.with_rows(each)
        whole = first.operator == "part" and len({node.operands for node in each}) == 1
        if whole or (first.operator == "reduce" and len(set(each)) == 1):  # not along other maps, as numbers of edges
            return self._unite.one(first)
        raise NotAlike("rows of each kind are what edges of its own are summed to")

    def _gathered(self, each: tuple[Node, ...]) -> Node:
        operands = tuple(node.operands[0] for node in each)
        alike = len(set(operands)) == 1
        if alike and operands[0].set.startswith("rows of ") and len({node.data[0] for node in each}) == 1:
            return self._nodes.make("gather", operands[:1], each[0].shape, self._of, each[0].data[:1])
        if alike:
            return self._led(self._unite.one(operands[0]), each)
        by_kind = {node.set: node for node in operands}
        parts = tuple(map(by_kind.get, self._unite.kinds))
        if any(by_kind[node.set] is not node for node in operands):
            return self._inner(each)
        try:
            return self._led(self._unite.together(self._unite.all, parts, strict=True), each)
        except NotAlike:
            return self._led(self._unite.together(self._unite.all, parts), each)

    def _led(self, node: Node, each: tuple[Node, ...]) -> Node:
        """Rows of all nodes that these lead to, which are those of blocks of one map, or along a map a block."""
        of = {(str(part.data[0]), str(part.data[2])) for part in each if len(part.data) > 2}
        own = [len(part.data) == 1 for part in each]
        if self._of == self._unite.all or len(of) + any(own) != 1 or any(own) != all(own):
            raise NotAlike("rows of each relation or kind lead to others along maps of their own")
        pairs = zip(each, self._types.blocks, strict=True)
        ends = tuple((str(part.data[0]), part.operands[0].set) if part.set == block else None for part, block in pairs)
        along = self._unite.lead(*of.pop()) if of else self._unite.led_behind(self._of, ends)
        return self._nodes.make("gather", (node,), node.shape, self._of, (along,))

    def _inner(self, each: tuple[Node, ...]) -> Node:
        """What is computed of the nodes that edges lead to, and otherwise for two relations, as computed of edges."""
        made = []
        for node in each:
            (operand,) = node.operands
            if operand.operator in ("gather", "reduce", "total", "tensor", "part", "union", "place", "empty"):
                raise NotAlike("rows of one kind are others for two relations, and no table of types can say it")
            parts = tuple(
                self._nodes.make("gather", (part,), part.shape, node.set, node.data) if part.set else part
                for part in operand.operands
            )
            made.append(self._nodes.make(operand.operator, parts, operand.shape, node.set, operand.data))
        return self.one(tuple(made))


def _rows_taken(node: Node) -> tuple[Node, tuple[int, ...]] | None:
    """The tensor that an expression is a stack of rows of, and their numbers."""
    if node.operator != "stack" or node.set or any(each.operator != "item" for each in node.operands):
        return None
    tensors = {each.operands[0] for each in node.operands}
    if len(tensors) > 1 or next(iter(tensors)).operator != "tensor" or node.data != (0,):
        return None
    return next(iter(tensors)), tuple(int(str(each.data[0])) for each in node.operands)
