"""A set of edges that has more than two ends as several, where each result of it goes along two at most, as the scores
of an item that was bought and of one that was not: each has the same edges once more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from explorer.runtime.trace.values.expressions import Node, Nodes, walk


@dataclass(frozen=True)
class Split:
    """Results whose edges have two ends. `maps` are, by new map, that which it has the ids of, and its set."""

    result: Node
    maps: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def split(nodes: Nodes, result: Node, maps: Mapping[str, Any], ends: Collection[str]) -> Split:
    """Splits the sets of edges of results. `maps` are by name, each with its domain, of which `ends` lead to nodes."""
    made, found = dict[Node, Node](), dict[str, tuple[str, str]]()
    for of, groups in _groups(result, maps, ends).items():
        for number, group in enumerate(groups[1:], 2):
            part = f"{of}, {number}"
            for each in group:
                made[each] = _moved(nodes, each, of, part, found)
    last = nodes.together([made.get(each, each) for each in result.operands]) if made else result
    return Split(last, found)


def _groups(result: Node, maps: Mapping[str, Any], ends: Collection[str]) -> dict[str, list[list[Node]]]:
    """By set of edges that has more than two ends, its results in groups that have two at most; none where a result has
    more, or where edges are summed."""
    by_set: dict[str, dict[Node, set[str]]] = defaultdict(dict)
    for each in dict.fromkeys(result.operands):
        if each.set:
            by_set[each.set][each] = _ends(each, ends)
    summed = {maps[str(node.data[1])].domain for node in walk((result,)) if node.operator == "reduce"}
    found = {}
    for of, leads in by_set.items():
        wide = any(len(each) > 2 for each in leads.values())
        if of in summed or wide or len(set[str]().union(*leads.values())) <= 2:
            continue
        groups: list[tuple[set[str], list[Node]]] = []
        for each, own in sorted(leads.items(), key=lambda pair: -len(pair[1])):
            group = next((group for group in groups if len(group[0] | own) <= 2), None)
            if group is None:
                groups.append((set(own), [each]))
            else:
                group[0].update(own)
                group[1].append(each)
        found[of] = [each for _, each in groups]
    return found


def _own(node: Node) -> list[Node]:
    """What is computed of an element itself."""
    found, stack = dict[Node, None](), [node]
    while stack:
        each = stack.pop()
        if each in found:
            continue
        found[each] = None
        if each.operator not in ("gather", "reduce", "total"):
            stack += each.operands
    return list(found)


def _ends(node: Node, ends: Collection[str]) -> set[str]:
    gathers = (str(each.data[0]) for each in _own(node) if each.operator == "gather")
    return {along for along in gathers if along in ends}


def _moved(nodes: Nodes, node: Node, of: str, part: str, maps: dict[str, tuple[str, str]]) -> Node:
    """An expression of the same edges in another set, and the maps that are new."""
    made: dict[Node, Node] = {}

    def one(each: Node) -> Node:
        if each.set != of:
            return each
        if each not in made:
            with nodes.in_place_of(each):
                made[each] = moved(each)
            if each in nodes.names:
                nodes.names.setdefault(made[each], nodes.names[each])
        return made[each]

    def moved(each: Node) -> Node:
        if each.operator != "gather":
            return nodes.make(each.operator, tuple(map(one, each.operands)), each.shape, part, each.data)
        name = f"{each.data[0]} of {part}"
        maps[name] = str(each.data[0]), part
        return nodes.make("gather", each.operands, each.shape, part, (name, *each.data[1:]))

    return one(node)
