"""Rows of tables that a second kind of type leads to: fetched at each call, as edges and nodes have one in a text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from explorer.runtime.trace.joins.joined import Fetched
from explorer.runtime.trace.tapes.recorded import Given
from explorer.runtime.trace.texts.names import fresh
from explorer.runtime.trace.values.expressions import Node, Nodes, walk


def fetch(
    nodes: Nodes, result: Node, maps: Iterable[Any], ends: Collection[str], given: Mapping[str, Given]
) -> tuple[Node, Fetched, dict[str, Given]]:
    """The result with a tensor in the place of rows that all types but the first of a set lead to, these tensors, and
    what is given of them. `maps` are those of the result, each with its domain, `ends` the names of those to nodes."""
    kinds = defaultdict(list)
    for each in maps:
        if each.name not in ends:
            kinds[each.domain].append(each.name)
    more = {name for names in kinds.values() for name in names[1:]}
    rows: dict[str, tuple[str, str]] = {}
    new: dict[str, Given] = {}
    used = set(given)
    made: dict[Node, Node] = {}
    for node in walk((result,)):
        operands = tuple(made[operand] for operand in node.operands)
        with nodes.in_place_of(node):
            if node.operator == "gather" and node.data[0] in more and operands[0].operator == "tensor":
                source = str(operands[0].data[0]), str(node.data[0])
                name = next((known for known, of in rows.items() if of == source), None) or fresh(source[0], used)
                rows[name] = source
                new[name] = Given(name, name, given[source[0]].kind, None)
                made[node] = nodes.make("tensor", (), node.shape, node.set, (name,))
            else:
                made[node] = nodes.make(node.operator, operands, node.shape, node.set, node.data)
        if node in nodes.names:
            nodes.names.setdefault(made[node], nodes.names[node])
    return made[result], Fetched(rows), new
