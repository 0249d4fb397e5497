"""A sum's terms, as sums over edges: what is linear in a sum is brought into it, edge by edge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from explorer.runtime.trace.values.expressions import Node, Nodes, set_of, walk

COUNT = "count"
"""An expression of edges: how many of its set lead where an edge does, along the map that it names."""
_LINEAR_IN_ONE = {"neg", "T", "permute", "item", "slice"}
_LINEAR_IN_EACH = {"*", "@"}
_LINEAR_CALLS = {"reshape": 1, "sum": 1, "mean": 1, "dot": 2, "outer": 2}
"""Functions, and how many operands they are linear in, one at a time."""


@dataclass(frozen=True)
class Term:
    """A term that is a sum of `message` over the edges of a set, along the map `along`, to the set `home`."""

    message: Node
    along: str
    home: str


def terms_of(node: Node) -> Iterator[Node]:
    """What an expression is the sum of: of a chain of `+`, and of the sum of a stack over what was stacked."""
    stack = [node]
    while stack:
        each = stack.pop()
        inner = added(each)
        if inner:
            stack += reversed(inner)
        else:
            yield each


def added(node: Node) -> tuple[Node, ...]:
    """The terms of a sum; none of any other expression."""
    if node.operator == "+" and all(operand.shape == node.shape for operand in node.operands):
        return node.operands
    if node.operator == "+" and any(_is_zero(operand) for operand in node.operands):
        return node.operands
    if node.operator == "call" and node.data[0] == "sum" and node.operands[0].operator == "stack":
        stacked = node.operands[0]
        last = len(stacked.shape) - 1
        axis = last if node.data[1] == "" else int(str(node.data[1]).removeprefix("axis="))
        if axis == stacked.data[0]:
            return stacked.operands
    return ()


def _is_zero(node: Node) -> bool:
    return node.operator == "number" and node.data == (0.0,)


def edge_term(nodes: Nodes, node: Node, domains: Mapping[str, str]) -> Term | None:
    """A term as a sum over edges; None for one that is none. `domains` are the sets that maps lead from."""
    with nodes.in_place_of(node):
        return _edge_term(nodes, node, domains)


def _edge_term(nodes: Nodes, node: Node, domains: Mapping[str, str]) -> Term | None:
    if node.operator == "reduce":
        name, along = str(node.data[0]), str(node.data[1])
        message = node.operands[0]
        if along not in domains:  # of a set that was joined
            return None
        if name == "mean":
            counted = nodes.make(COUNT, (), (), domains[along], (along,))
            message = nodes.make("/", (message, counted), message.shape, domains[along])
        return Term(message, along, node.set) if name in ("sum", "mean") else None
    for place in range(_linear_in(node)):
        inner = edge_term(nodes, node.operands[place], domains)
        if inner is None or (node.operator == "/" and _may_be_zero(node.operands[1])):
            continue
        of = domains[inner.along]
        operands = [brought(nodes, each, inner.along, of, domains) for each in node.operands]
        operands[place] = inner.message
        made = nodes.make(node.operator, tuple(operands), node.shape, of, node.data)
        return Term(made, inner.along, inner.home)
    return None


def _may_be_zero(divisor: Node) -> bool:
    """Whether a sum over edges divides, which is 0 for a node without any, and not kept above a number."""
    if all(each.operator != "reduce" for each in walk((divisor,))):
        return False
    above = [float(str(each.data[0])) for each in divisor.operands if each.operator == "number"]
    return divisor.operator != "call" or divisor.data[0] != "max" or max(above, default=0.0) <= 0


def _linear_in(node: Node) -> int:
    """The number of operands, from the first, that an expression is linear in, each by itself."""
    if node.operator in _LINEAR_IN_ONE or node.operator == "/":
        return 1
    if node.operator == "call":
        return _LINEAR_CALLS.get(str(node.data[0]), 0)
    return 2 if node.operator in _LINEAR_IN_EACH else 0


def brought(nodes: Nodes, node: Node, along: str, of: str, domains: Mapping[str, str]) -> Node:
    """The expression of where an edge of the set `of` leads along a map."""
    if not node.set:
        return node
    counts = node.operator == "reduce" and node.data == ("sum", along) and node.operands[0] is nodes.number(1)
    if counts and domains[along] == of:
        with nodes.in_place_of(node):
            return nodes.make(COUNT, (), (), of, (along,))
    return nodes.make("gather", (node,), node.shape, of, (along,))


def summed(nodes: Nodes, terms: list[Node]) -> Node:
    """The sum of terms, of which zeros are left out where there are others."""
    kept = [term for term in terms if not _is_zero(term)] or terms[:1]
    total = kept[0]
    for each in kept[1:]:
        shape = max(total.shape, each.shape, key=len)
        total = nodes.make("+", (total, each), shape, set_of((total, each)))
    return total
