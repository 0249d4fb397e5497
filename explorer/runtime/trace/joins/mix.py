"""Several sets of edges as one where their sums are no one sum: all of their edges, of which each sum takes its own.

The sum of `f(e)` over one set is the sum over all edges of `where(own[e], f(e), 0)`, where `own` is 1 for those of the
set and 0 for the others. What f does of another set's edges is seen nowhere, so that it only has to be a number: what
may be none, as a quotient, is taken of 1 there, for the sake of gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.runtime.trace.joins.alike import NotAlike
from explorer.runtime.trace.joins.join import SET, Joining
from explorer.runtime.trace.joins.joined import Mixed
from explorer.runtime.trace.tapes.recorded import Given
from explorer.runtime.trace.texts.names import fresh
from explorer.runtime.trace.values.expressions import Node, Nodes, walk

_PARTIAL = {"exp", "log", "log1p", "sqrt", "pow"}
"""Functions that may be no number, or none that 32 bits hold, of what another set's edges bring."""
_SMALLEST = -3e38


def mix(nodes: Nodes, result: Node, maps: Mapping[str, Any], given: Mapping[str, Given], homes: set[str]) -> Joining:
    """Results whose sums are of one set. `maps` are by name, each with its domain and codomains; `homes` sets that rows
    were summed to. Where it cannot be, the results as they are, and why."""
    read = {str(node.data[0]) for node in walk((result,)) if node.operator == "gather"}
    read |= {str(node.data[1]) for node in walk((result,)) if node.operator == "reduce"}
    used = {name: each for name, each in maps.items() if name in read}
    to_nodes = {name: each for name, each in used.items() if any(_is_node(of, homes) for of in each.codomains)}
    ends = {of for each in to_nodes.values() if each.domain not in each.codomains for of in each.codomains}
    leads = {name for name, each in to_nodes.items() if each.domain not in ends}  # and not from nodes to their groups
    parts = tuple(dict.fromkeys(used[name].domain for name in used if name in leads))
    if len(parts) < 2 or any(of in used[name].codomains for name in leads for of in parts):  # nodes that lead on
        return Joining(result, (), {}, {}, "")
    try:
        made = _Mix(nodes, result, parts, used, leads, given)
        last = made.rewritten(result)
    except NotAlike as error:
        return Joining(result, (), {}, {}, str(error))
    new = {
        name: (SET, frozenset().union(*(maps[part].codomains for part in of if part))) for name, of in made.maps.items()
    }
    return Joining(last, (Mixed(made.maps, made.own, made.padded, made.results),), new, made.given, "")


def _is_node(of: str, homes: set[str]) -> bool:
    return of in homes or not of.startswith("rows of ")


class _Mix:
    """One set of all edges while it is made. `own` are the tensors that tell a part's edges, by name, `padded` those
    that have rows for all edges, with the tensor of one part's that they are made of."""

    def __init__(
        self,
        nodes: Nodes,
        result: Node,
        parts: tuple[str, ...],
        maps: Mapping[str, Any],
        leads: set[str],
        given: Mapping[str, Given],
    ) -> None:
        self._nodes, self._parts, self._maps, self._given = nodes, parts, maps, given
        self._used = set(given)
        self.given: dict[str, Given] = {}
        self.own: dict[str, int] = {}
        self.padded: dict[str, tuple[str, int]] = {}
        self.maps: dict[str, tuple[str, ...]] = {}
        self._marks = [self._mark(at) for at in range(len(parts))]
        self._joined = self._joined_maps(result, leads)
        self.results = tuple(parts.index(each.set) if each.set in parts else None for each in result.operands)

    def _mark(self, part: int) -> Node:
        name = fresh(f"own{part + 1}", self._used)
        self.own[name] = part
        self.given[name] = Given(name, name, "buffer", None)
        return self._nodes.make("tensor", (), (), SET, (name,))

    def _joined_maps(self, result: Node, leads: set[str]) -> dict[str, str]:
        """By map of a part, the one of all edges that it becomes."""
        reduced = [str(node.data[1]) for node in walk((result,)) if node.operator == "reduce"]
        ends: list[tuple[str, str]] = []
        types = []
        for part in self._parts:
            own = [name for name, each in self._maps.items() if each.domain == part]
            to = [name for name in own if name in leads]
            kinds = [name for name in own if name not in leads]
            if len(to) > 2 or len(kinds) > 1:
                raise NotAlike("edges have more than two ends, or several types")
            last = next((name for name in reduced if name in to), to[-1])
            ends.append((next((name for name in to if name != last), last), last))
            types.append(kinds[0] if kinds else "")
        found = dict[str, str]()
        for name, of in (("source", [src for src, _ in ends]), ("end", [dst for _, dst in ends]), ("types", types)):
            if any(of):
                self.maps[f"{name} of all edges"] = tuple(of)
                found |= {part: found.get(part, f"{name} of all edges") for part in of if part}
        found |= {dst: "end of all edges" for _, dst in ends}
        return found

    def rewritten(self, result: Node) -> Node:
        """The result, of one set of edges. Raises NotAlike."""
        made: dict[Node, Node] = {}
        for node in walk((result,)):
            operands = tuple(made[operand] for operand in node.operands)
            with self._nodes.in_place_of(node):
                made[node] = self._one(node, operands)
            if node in self._nodes.names:
                self._nodes.names.setdefault(made[node], self._nodes.names[node])
        return made[result]

    def _one(self, node: Node, operands: tuple[Node, ...]) -> Node:
        if node.operator in ("place", "empty"):
            raise NotAlike("rows are put into a tensor")
        if node.operator == "reduce" and str(node.data[1]) in self._joined:
            return self._reduced(node, operands[0])
        if node.operator == "total" and node.operands[0].set in self._parts:
            raise NotAlike("all edges of one of them are taken at once")
        if node.set not in self._parts:
            return self._nodes.make(node.operator, operands, node.shape, node.set, node.data)
        mark = self._marks[self._parts.index(node.set)]
        if node.operator == "tensor":
            return self._brought(node)
        if node.operator == "gather":
            found = self._nodes.make("gather", operands, node.shape, SET, (self._joined[str(node.data[0])],))
            return self._chosen(mark, found, 1.0) if any(map(partial, walk(operands))) else found
        if partial(node):
            at = 1 if node.operator == "/" else 0
            operands = (*operands[:at], self._chosen(mark, operands[at], 1.0), *operands[at + 1 :])
        return self._nodes.make(node.operator, operands, node.shape, SET, node.data)

    def _chosen(self, mark: Node, node: Node, otherwise: float) -> Node:
        if (
            node.operator == "call"
            and node.data[0] == "where"
            and node.operands[::2]
            == (
                mark,
                self._nodes.number(otherwise),
            )
        ):
            return node
        return self._nodes.call("where", mark, node, self._nodes.number(otherwise), shape=node.shape)

    def _brought(self, node: Node) -> Node:
        """A tensor with rows for one part's edges, as one that has rows for all."""
        source, part = str(node.data[0]), self._parts.index(node.set)
        found = next((name for name, of in self.padded.items() if of == (source, part)), None)
        if found is None:
            found = fresh(f"{source}_", self._used)
            self.padded[found] = source, part
            self.given[found] = Given(found, found, self._given[source].kind, None)
        return self._nodes.make("tensor", (), node.shape, SET, (found,))

    def _reduced(self, node: Node, message: Node) -> Node:
        """A sum, or its like, over one part's edges."""
        part = self._parts.index(self._maps[str(node.data[1])].domain)
        mark, along = self._marks[part], self._joined[str(node.data[1])]

        def over(message: Node, name: str) -> Node:
            return self._nodes.make("reduce", (message,), message.shape, node.set, (name, along))

        def after(name: str, *operands: Node) -> Node:
            return self._nodes.call(name, *operands, shape=node.shape)

        name, count = str(node.data[0]), over(mark, "sum")
        if name == "sum":
            return count if message is self._nodes.number(1) else over(self._chosen(mark, message, 0.0), name)
        if name == "prod":
            return over(self._chosen(mark, message, 1.0), name)
        if name == "mean":
            whole, one = over(self._chosen(mark, message, 0.0), "sum"), self._nodes.number(1)
            divisor = self._nodes.call("max", count, one, shape=())
            return self._nodes.make("/", (whole, divisor), node.shape, node.set)
        most = over(self._chosen(mark, message, _SMALLEST if name == "max" else -_SMALLEST), name)
        return after("where", count, most, self._nodes.number(0))


def partial(node: Node) -> bool:
    """Whether an expression may be no number of operands that are."""
    return node.operator in ("/", "**") or (node.operator == "call" and node.data[0] in _PARTIAL)
