"""What the sets and maps of a trace are of a layer's graph, and what the text calls them.

Nodes that ids put into groups, as those of a batch of graphs, are a second graph of the text, whose edges lead from
each node to its group: what is summed over a group is over the edges into it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from explorer.runtime.trace.tapes.tape import TraceError
from explorer.runtime.trace.texts.graphs import leads_to_nodes
from explorer.runtime.trace.texts.names import fresh
from explorer.runtime.trace.texts.written import OWN
from explorer.runtime.trace.translate import Map
from explorer.runtime.trace.values.expressions import Node, walk

_LEADS = {"src": "e.src", "dst": "e.dst", "etype": "e.etype", "ntype": "n.ntype"}


@dataclass(frozen=True)
class Roles:
    """`sets` are, by set of the trace, node, edge or group, `ends` by map of the edges' ends src or dst; `within` is
    the map from a node to its group, "" where there are none. The rest is what the text says: `header`; `called`,
    `elements` and `loops` by node, edge and group; `leads`, by map, for where it leads from an element; `tables`, by
    map, for the rows that it leads to; `graph` and `batch` for whose edges a loop goes over; `declared`, the lines of
    maps that no graph has; `names`, all that nothing else may be called. `ids` are the maps by the names that the
    compiled layer takes them by."""

    sets: Mapping[str, str]
    ends: Mapping[str, str]
    leads: Mapping[str, str]
    tables: Mapping[str, str]
    ids: Mapping[str, str]
    header: str = "g: graph"
    within: str = ""
    batch: str = ""
    called: Mapping[str, str] = field(default_factory=lambda: {"node": "node", "edge": "edge"})
    elements: Mapping[str, str] = field(default_factory=lambda: {"node": "n", "edge": "e"})
    declared: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()

    def element(self, of: str) -> str:
        """An element of a set of the trace."""
        return self.elements[self.sets[of]]

    def loop(self, of: str) -> str:
        """All elements of a set of the trace."""
        kind = self.sets[of]
        return f"{self.batch}.dst_nodes()" if kind == "group" else f"g.{kind}s()"

    def edges(self, along: str) -> str:
        """The edges whose end is an element, along a map of the edges' ends, or to a group."""
        if along == self.within:
            return f"{self.batch}.incoming_edges({self.elements['group']})"
        way = "incoming" if self.ends[along] == "dst" else "outgoing"
        return f"g.{way}_edges(n)" if self.within else f"n.{way}_edges()"

    def degree(self, along: str) -> str:
        """How many edges lead to an element; "" where the language has no word for it."""
        if along == self.within:
            return f"{self.elements['group']}.in_degree"
        if self.ends[along] != "dst":
            return ""
        return "g.in_degree(n)" if self.within else "n.in_degree"


def roles_of(result: Node, maps: list[Map], homes: set[str], why: str, used: set[str]) -> Roles:
    """What the sets and maps of a result are. `why` says what sets of edges were not joined for, `used` are names that
    the text has. Raises TraceError."""
    to_nodes = [each for each in maps if leads_to_nodes(each, homes)]
    nodes = {of for each in to_nodes for of in each.codomains if of in homes or not of.startswith("rows of ")}
    within = [each for each in to_nodes if each.domain in nodes]
    groups = {of for each in within for of in each.codomains} - {each.domain for each in to_nodes}
    summed = {str(node.data[1]) for node in walk((result,)) if node.operator == "reduce"}
    grouped = len(within) == len(groups) == 1 and len(nodes) == 2 and within[0].codomains == groups
    ends = [each for each in to_nodes if not grouped or (each not in within and not groups & each.codomains)]
    edges = {each.domain for each in ends}
    nodes -= groups if grouped else set()
    if len(edges) > 1 and len(nodes) < 2:
        raise TraceError(
            f"rows go along {len(edges)} sets of edges, with loops and without, or one for each relation, "
            "and a layer has one. For relations, gather a weight for each edge by its type."
            + (f" They are no sum over typed edges: {why}." if why else "")
        )
    if grouped and summed - {within[0].name, *(each.name for each in ends)}:
        raise TraceError(
            "rows of edges are summed into groups of nodes: sum them into the nodes, and these into groups."
        )
    if len(nodes) != 1 or len(ends) > 2:
        raise TraceError(
            "edges lead to no nodes, or to several sets of them that are not nodes and their groups, as the graphs of "
            "a batch: a layer has one graph, whose edges have two ends, and nodes that are each in one group. Leave "
            "what goes over others to the module behind this one"
            + (
                ", as edges that lead to edges; or trace with a graph that has another number of edges than of nodes."
                if any(each.domain in each.codomains for each in maps)
                else "."
            )
        )
    (edge,), (node,) = edges, nodes
    reduced = [each.data[1] for each in walk((result,)) if each.operator == "reduce" and each.set == node]
    names = [each.name for each in ends]
    last = reduced[0] if reduced else names[-1] if len(names) > 1 else ""
    found = {each: "dst" if each == last else "src" for each in names}
    rest = [each for each in maps if each not in ends]
    if grouped:
        gathered = {node.data[0] for node in walk((result,)) if node.operator == "gather"}
        rest = [each for each in rest if each.name in gathered]
        sets = {edge: "edge", node: "node", next(iter(groups)): "group"}
        return _with_groups(sets, found, rest, within[0], used)
    return _of_one_graph({edge: "edge", node: "node"}, found, rest)


def _of_one_graph(sets: Mapping[str, str], ends: Mapping[str, str], rest: list[Map]) -> Roles:
    """Of nodes and edges, which have one kind of types each."""
    found = dict(ends)
    for of, kind in sets.items():
        types = [each.name for each in rest if each.domain == of]
        if len(types) > 1:
            raise TraceError(f"the {kind}s have two kinds of types: a layer's {kind}s have one.")
        found |= dict.fromkeys(types, f"{kind[0]}type")
    ids = _both({role: of for of, role in found.items()})
    return Roles(sets, ends, {of: _LEADS[role] for of, role in found.items()}, found, ids)


def _with_groups(
    sets: Mapping[str, str], ends: Mapping[str, str], rest: list[Map], within: Map, used: Collection[str]
) -> Roles:
    """Of nodes, edges and groups of nodes: all maps but the ends are declared."""
    taken = {*used, "e", "g", "n"}
    batch, member, group = (fresh(each, taken) for each in ("batch", "member", "group"))
    elements = {"node": "n", "edge": "e", "group": fresh("m", taken)}
    called = {"node": member, "edge": "g_edge", "group": group}
    ids = {f"g_{role}": of for role, of in _both({role: of for of, role in ends.items()}).items()}
    leads = {of: _LEADS[role] for of, role in ends.items()}
    tables, lines = {}, []
    for each in rest:
        to = next((called[sets[of]] for of in each.codomains if of in sets), "")
        name = fresh(f"{to}_of" if to else "kind", taken)
        tables[each.name] = to = to or fresh(f"of_{name}", taken)
        leads[each.name] = f"{elements[sets[each.domain]]}.{name}"
        lines.append(f"map {name}: {called[sets[each.domain]]} -> {to}")
        ids[name] = each.name
    return Roles(
        sets,
        ends,
        leads,
        tables,
        {"src": OWN, "dst": within.name, **ids},
        f"{batch}: graph[{member}, {group}], g: graph[{member}, {member}]",
        within.name,
        batch,
        called,
        elements,
        tuple(lines),
        frozenset(taken),
    )


def _both(ids: dict[str, str]) -> dict[str, str]:
    """Ids of both ends, where a module reads one."""
    ids.setdefault("src", ids.get("dst", ""))
    ids.setdefault("dst", ids["src"])
    return ids
