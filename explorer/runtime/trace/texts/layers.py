"""A trace as a `layer`: loops over the nodes and edges of a graph, whose ends are the maps that rows went along."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.runtime.trace.joins.joined import Fetched, sources_of
from explorer.runtime.trace.tapes.examples import set_dim
from explorer.runtime.trace.tapes.tape import TraceError, Where
from explorer.runtime.trace.texts.graphs import leads_to_nodes, one_graph
from explorer.runtime.trace.texts.names import fresh, identifier
from explorer.runtime.trace.texts.say import Sayer
from explorer.runtime.trace.texts.written import Result, Written, declarations, used_tensors
from explorer.runtime.trace.translate import Map, Translation
from explorer.runtime.trace.values.expressions import Node, walk

MOST_INLINE = 9
"""Operations of one statement."""
_LEADS = {"src": "e.src", "dst": "e.dst", "etype": "e.etype", "ntype": "n.ntype"}
_ELEMENTS = {"node": "n", "edge": "e"}


@dataclass(frozen=True)
class Roles:
    """What a trace's sets and maps are of a graph: by set, its name in the text; by map, src, dst, etype or ntype."""

    sets: dict[str, str]
    maps: dict[str, str]


class LayerSayer(Sayer):
    """Says expressions in loops; `stored` are those that are data of an element, by their names."""

    def __init__(self, results: Sequence[Node], names: dict[Node, str], used: set[str], roles: Roles) -> None:
        super().__init__(results, names, used)
        self._roles = roles
        self.stored: dict[Node, str] = {}

    def leaf(self, node: Node) -> str:
        """See `Sayer`."""
        if node.operator == "tensor":
            return f"{node.data[0]}[{_ELEMENTS[self._roles.sets[node.set]]}]" if node.set else str(node.data[0])
        (operand,) = node.operands
        if node.operator == "gather":
            lead = _LEADS[self._roles.maps[str(node.data[0])]]
            return f"{operand.data[0]}[{lead}]" if operand.operator == "tensor" else f'{lead}["{self.stored[operand]}"]'
        if node.operator == "total":
            element, loop = ("n", "g.nodes()") if self._roles.sets[operand.set] == "node" else ("e", "g.edges()")
            return f"{node.data[0]}({self.say(operand)} for {element} in {loop})"
        way = "incoming" if self._roles.maps[str(node.data[1])] == "dst" else "outgoing"
        if way == "incoming" and node.data[0] == "sum" and operand.operator == "number" and operand.data == (1.0,):
            return "n.in_degree"
        return f"{node.data[0]}({self.say(operand)} for e in n.{way}_edges())"

    def say(self, node: Node, binds: int = 0) -> str:
        """See `Sayer`."""
        if node in self.stored and node not in self.said:
            name = self.stored[node]
            return f'{_ELEMENTS[self._roles.sets[node.set]]}["{name}"]' if node.set else name
        if node not in self.said:
            self.said[node] = self._text(node)
        return self.said[node] if self.strength(node) >= binds else f"({self.said[node]})"

    def statement(self, node: Node) -> str:
        """What stores an expression."""
        text = self._text(node)
        return f"{self.say(node)} = {text}"


def write_layer(name: str, translation: Translation, mixed: bool) -> Written:
    """The text of a layer; `mixed` says whether sets of edges may be one that are not alike. Raises TraceError."""
    results = translation.settled()
    graph = one_graph(translation, translation.nodes.together([each.node for each in results]), mixed)
    last, given = graph.result, graph.given
    roles = _roles(last, graph.maps, translation.homes, graph.why)
    if any(each.set not in {"", *roles.sets} for each in last.operands):
        raise TraceError("a result is no row for each node or edge.")
    used = used_tensors(last.operands)
    sets = {each: roles.sets.get(node.set, "") or _table(node, last, roles) for each, node in used.items() if node.set}
    names = set(used) | {"g"}
    sayer = LayerSayer(last.operands, translation.nodes.names, names, roles)
    stored = _stored(last)
    order = [node for node in walk((last,)) if node in stored]
    for node in order:
        sayer.stored[node] = fresh(identifier(translation.nodes.names.get(node, "h" if node.set else "x")), names)
    lines = [f'"Traced from the PyTorch module {name}"', *declarations(used, given, sets)]
    asked = [frozenset[Where]()] * (1 + len(lines))
    for of, nodes in _loops(order):
        loop = roles.sets[of] if of else ""
        lines += [f"for {_ELEMENTS[loop]} in g.{loop}s():"] if of else []
        asked += [frozenset()] if of else []
        lines += [f"{'    ' if of else ''}{sayer.statement(node)}" for node in nodes]
        asked += [translation.nodes.lines_of(node, stored) for node in nodes]
    body = "".join(f"    {line}\n" for line in [*lines, f"return {', '.join(map(sayer.say, last.operands))}"])
    of_nodes = [each for each, node in used.items() if node.set and roles.sets.get(node.set) == "node"]
    made = {*translation.numbers, *(name for each in graph.typed if isinstance(each, Fetched) for name in each.rows)}
    of_nodes = [each for each in of_nodes if each not in made]
    by_ids = next((each.name for each in graph.read if roles.sets.get(each.domain) == "node"), "")
    sizes = graph.sizes if of_nodes or by_ids else _by_inputs(translation, roles)
    if not of_nodes and not by_ids and not sizes:
        raise TraceError("no input has a row for each node, so how many there are is not told.")
    ids = {role: of for of, role in roles.maps.items()}
    ids.setdefault("src", ids.get("dst", ""))
    ids.setdefault("dst", ids["src"])
    tables = {each: bool(node.set) for each, node in used.items()}
    return Written(
        f"layer {name}(g: graph):\n{body}",
        "layer",
        ids,
        tables,
        tuple(Result(each.shape, each.set_dim) for each in results),
        of_nodes[0] if of_nodes else "",
        graph.typed,
        roles.sets,
        lines=(*asked, frozenset()),
        counted_ids=by_ids,
        numbers=translation.number_dims(
            {*used, *(source for each in graph.typed for sources in sources_of(each).values() for source in sources)}
        ),
        sizes=sizes,
        counted_set="" if of_nodes or by_ids else next(iter(sizes)),
    )


def _by_inputs(translation: Translation, roles: Roles) -> Mapping[str, tuple[tuple[str, int], ...]]:
    """The set of nodes, with the inputs that have one in each place of a dimension, as where bags begin; nothing where
    there are none."""
    (node,) = (of for of, role in roles.sets.items() if role == "node")
    inputs = [(each, set_dim(each.tensor)) for each in translation.given.values() if each.kind == "input"]
    places = tuple(
        (each.place, dim)
        for each, dim in inputs
        if dim is not None and translation.set_of_size(each.tensor.shape[dim]) == node
    )
    return {node: places} if places else {}


def _roles(result: Node, maps: list[Map], homes: set[str], why: str) -> Roles:
    """Which sets are nodes and edges, and which maps their ends and types. `why` says what sets were not joined for.
    Raises TraceError."""
    ends = [each for each in maps if leads_to_nodes(each, homes)]
    edges = {each.domain for each in ends}
    nodes = {of for each in ends for of in each.codomains if of in homes or not of.startswith("rows of ")}
    if len(edges) > 1 and len(nodes) < 2:
        raise TraceError(
            f"rows go along {len(edges)} sets of edges, with loops and without, or one for each relation, "
            "and a layer has one. For relations, gather a weight for each edge by its type."
            + (f" They are no sum over typed edges: {why}." if why else "")
        )
    if len(nodes) != 1 or len(ends) > 2:
        raise TraceError(
            "edges lead to no nodes, or to several sets of them, as nodes and graphs of a batch: a layer has one "
            "graph, whose edges have two ends. Leave what goes over a batch to the module behind this one."
        )
    (edge,), (node,) = edges, nodes
    reduced = [each.data[1] for each in walk((result,)) if each.operator == "reduce"]
    names = [each.name for each in ends]
    last = reduced[0] if reduced else names[-1] if len(names) > 1 else ""
    found = {each: "dst" if each == last else "src" for each in names}
    for kind, domain in (("etype", edge), ("ntype", node)):
        of_kind = [each.name for each in maps if each.domain == domain and each not in ends]
        if len(of_kind) > 1:
            what = "edges" if domain == edge else "nodes"
            raise TraceError(f"the {what} have two kinds of types: a layer's {what} have one.")
        found |= dict.fromkeys(of_kind, kind)
    return Roles({edge: "edge", node: "node"}, found)


def _table(table: Node, result: Node, roles: Roles) -> str:
    """The set of a table: that of the map that its rows are gathered by."""
    for node in walk((result,)):
        if node.operator == "gather" and node.operands[0] is table:
            return roles.maps[str(node.data[0])]
    raise TraceError(f"all rows of {table.data[0]} are used at once, and rows that ids name.")


def _stored(result: Node) -> set[Node]:
    """What becomes data of elements: the results, what is used twice, what rows are gathered of, and what is long."""
    uses: Counter[Node] = Counter()
    found = set(result.operands)
    sizes: dict[Node, int] = {}
    for node in walk((result,)):
        for operand in set(node.operands):
            uses[operand] += 1
    for node in walk((result,)):
        if node.operator in ("tensor", "number"):
            sizes[node] = 0
            continue
        if node.operator == "gather":
            found |= {operand for operand in node.operands if operand.operator != "tensor"}
            sizes[node] = 0
            continue
        sizes[node] = 1 + sum(sizes[operand] for operand in node.operands if operand not in found)
        moved = node.operator in ("T", "item", "neg") and sizes[node] == 1
        degree = node.operator == "reduce" and node.operands[0].operator == "number"
        if (uses[node] > 1 and not moved and not degree) or sizes[node] > MOST_INLINE or node.operator == "total":
            found.add(node)
    return found


def _loops(order: list[Node]) -> list[tuple[str, list[Node]]]:
    """Stored expressions by loops: each of one set, behind all that rows were gathered or summed of for it."""
    known = set(order)
    left, done, loops = list(order), set[Node](), list[tuple[str, list[Node]]]()
    while left:
        of = next(node.set for node in left if _needs(node, known)[1] <= done and _needs(node, known)[0] <= done)
        taken: list[Node] = []
        for node in left:
            here, before = _needs(node, known)
            if node.set == of and before <= done and here <= done | set(taken):
                taken.append(node)
        loops.append((of, taken))
        done |= set(taken)
        left = [node for node in left if node not in done]
    return loops


def _needs(node: Node, known: set[Node]) -> tuple[set[Node], set[Node]]:
    """The stored expressions that one reads: of its own element, and along maps, which earlier loops must have made."""
    here: set[Node] = set()
    before: set[Node] = set()
    stack = [(operand, node.operator in ("gather", "reduce", "total")) for operand in node.operands]
    while stack:
        each, along = stack.pop()
        if each in known:
            (before if along else here).add(each)
        else:
            stack += [(operand, along or each.operator in ("gather", "reduce", "total")) for operand in each.operands]
    return here, before
