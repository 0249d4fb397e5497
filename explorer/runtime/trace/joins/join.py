"""Sums over several sets of edges, a loop over relations for one, as one sum over typed edges; and rows that a loop
over kinds puts into a tensor, as typed ones.

The sum of `sum(f_i(e) for e in edges_i)` over i is `sum(f(e, type of e) for e in edges)`, where the edges are all of
them, one set after the other, and f has what differs in a table of types. It takes no mask, no partition and no name:
any sets will do whose messages are alike. Rows that `out[kind == i] = f_i(x[kind == i])` puts are `f(x, kind)` alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explorer.runtime.trace.joins.alike import Alike, NotAlike
from explorer.runtime.trace.joins.joined import Joined, Placed, Typed
from explorer.runtime.trace.joins.terms import Term, added, edge_term, summed, terms_of
from explorer.runtime.trace.joins.typing import Typing
from explorer.runtime.trace.tapes.recorded import Given
from explorer.runtime.trace.values.expressions import Node, Nodes, walk

SET = "edges of all types"


@dataclass(frozen=True)
class Joining:
    """A result whose sums are of one set, and whose rows of one typed computation. `maps` are by name, of the maps that
    are new, the set that they lead from and those that they lead to; `given` the tensors that it has and the module has
    not; `why` says what was not joined."""

    result: Node
    typed: tuple[Typed, ...]
    maps: Mapping[str, tuple[str, frozenset[str]]]
    given: Mapping[str, Given]
    why: str


def join(nodes: Nodes, result: Node, maps: Mapping[str, Any], given: Mapping[str, Given]) -> Joining:
    """Joins what can be. `maps` are by name: each has a domain and codomains."""
    domains = {name: each.domain for name, each in maps.items()}
    reducing = {domains[str(node.data[1])] for node in walk((result,)) if node.operator == "reduce"}
    if len(reducing) < 2 and all(node.operator != "place" for node in walk((result,))):
        return Joining(result, (), {}, {}, "")
    made = _Join(nodes, domains, given)
    last = made.rewritten(result)
    typed = made.finished(last)
    if not typed:
        return Joining(result, (), {}, {}, made.why)
    new = {
        each.types: (each.of if isinstance(each, Placed) else SET, frozenset({f"rows of {each.types}"}))
        for each in typed
    }
    for name, parts in made.edges.found.maps.items():
        new[name] = SET, frozenset().union(*(maps[part].codomains for part in parts))
    return Joining(last, typed, new, made.given, made.why)


class _Join:
    """The typed sets while they are found: edges that are joined, and rows that are placed, by their set and maps."""

    def __init__(self, nodes: Nodes, domains: Mapping[str, str], given: Mapping[str, Given]) -> None:
        self._nodes, self._domains, self._given = nodes, domains, given
        self._used = set(given)
        self.why = ""
        self.edges = Typing(nodes, SET, "types of edges", given, self._used, joins=True)
        self._parts: tuple[str, ...] | None = None
        self._placed: dict[tuple[str, tuple[str, ...]], Typing] = {}

    @property
    def given(self) -> dict[str, Given]:
        """The tensors that are new."""
        return {name: each for typing in (self.edges, *self._placed.values()) for name, each in typing.given.items()}

    def rewritten(self, result: Node) -> Node:
        """The result with its sums and rows joined, innermost first."""
        order = list(walk((result,)))
        inner = {operand for node in order if added(node) for operand in (*added(node), *node.operands)}
        outer = {operand for node in order if not added(node) for operand in node.operands} | {result}
        under = {node.operands[0] for node in order if node.operator == "place"}
        made: dict[Node, Node] = {}
        for node in order:
            operands = tuple(made[operand] for operand in node.operands)
            with self._nodes.in_place_of(node):
                new = self._nodes.make(node.operator, operands, node.shape, node.set, node.data)
                if added(node) and (node in outer or node not in inner):
                    new = self._joined(new)
                elif node.operator == "place" and node not in under:
                    new = self._typed(new)
            made[node] = new
            if node in self._nodes.names:
                self._nodes.names.setdefault(new, self._nodes.names[node])
        return made[result]

    def _joined(self, node: Node) -> Node:
        terms = list(terms_of(node))
        found = {each: edge_term(self._nodes, each, self._domains) for each in dict.fromkeys(terms)}
        by_part: dict[str, list[Term]] = defaultdict(list)
        for each in terms:
            term = found[each]
            if term is not None:
                by_part[self._domains[term.along]].append(term)
        if len(by_part) < 2:
            return node
        parts = tuple(sorted(by_part, key=lambda name: (len(name), name)))
        lengths = {len(each) for each in by_part.values()}
        if len(lengths) > 1 or (self._parts or parts) != parts:
            self.why = "they are summed in other ways or of other relations in one place and another"
            return node
        others = [each for each in terms if found[each] is None]
        before = self.edges.found.copy()
        try:
            sums = [self._sum(round_) for round_ in zip(*(by_part[part] for part in parts), strict=True)]
        except NotAlike as error:
            self.edges.found, self.why = before, str(error)
            return node
        self._parts = parts
        return summed(self._nodes, [*others, *sums])

    def _sum(self, terms: tuple[Term, ...]) -> Node:
        """One sum of a term a part."""
        homes = {term.home for term in terms}
        if len(homes) > 1 or len({term.message.shape for term in terms}) > 1:
            raise NotAlike("they lead to other rows")
        alike = Alike(self._nodes, SET, self._domains, self.edges)
        message = alike.one(tuple(term.message for term in terms))
        along = self.edges.map_of(tuple(term.along for term in terms))
        return self._nodes.make("reduce", (message,), message.shape, homes.pop(), ("sum", along))

    def _typed(self, node: Node) -> Node:
        """Rows that were put one kind after another, as rows of typed ones. What the last ones are put into is seen
        nowhere, as all rows are put: a call in which one is not is refused."""
        places, rows, base = list[str](), list[Node](), node
        while base.operator == "place":
            places.append(str(base.data[0]))
            rows.append(base.operands[1])
            base = base.operands[0]
        key = node.set, tuple(reversed(places))
        if base.operator not in ("empty", "number") or len(set(places)) < len(places):
            self.why = "rows are put into others that are there"
            return node
        types = f"kinds of {node.set}" + (f", {len(self._placed)}" if self._placed else "")
        typing = self._placed.get(key) or Typing(self._nodes, node.set, types, self._given, self._used, joins=False)
        before = typing.found.copy()
        try:
            made = Alike(self._nodes, node.set, self._domains, typing, key[1]).one(tuple(reversed(rows)))
        except NotAlike as error:
            typing.found, self.why = before, str(error)
            return node
        if made.set != node.set:
            self.why = "rows are put that are the same for all"
            return node
        self._placed[key] = typing
        return made

    def finished(self, result: Node) -> tuple[Joined | Placed, ...]:
        """What was found; nothing where a table does not fit."""
        typed: list[Joined | Placed] = []
        pairs = [(self.edges, self._parts)] if self._parts else []
        for typing, parts in [*pairs, *((each, places) for (_, places), each in self._placed.items())]:
            numbers = typing.numbered(len(parts), result)
            if numbers is None:
                self.why = "a table of types is used whole too, or has rows for other types than another table"
                return ()
            stacks, found = typing.stacks(numbers), typing.found
            typed.append(
                Joined(typing.types, numbers, found.maps, stacks, found.counts)
                if typing is self.edges
                else Placed(typing.types, numbers, typing.of, parts, stacks)
            )
        return tuple(typed)
