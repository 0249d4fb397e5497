"""A trace as a `layer`: loops over the nodes and edges of a graph, whose ends are the maps that rows went along."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from explorer.runtime.trace.joins.joined import Fetched, sources_of
from explorer.runtime.trace.tapes.tape import TraceError, Where
from explorer.runtime.trace.texts.graphs import one_graph
from explorer.runtime.trace.texts.names import fresh, identifier
from explorer.runtime.trace.texts.roles import Roles, roles_of
from explorer.runtime.trace.texts.say import Sayer
from explorer.runtime.trace.texts.written import Result, Written, declarations, used_tensors
from explorer.runtime.trace.translate import Translation
from explorer.runtime.trace.values.expressions import Node, walk

MOST_INLINE = 9
"""Operations of one statement."""


class LayerSayer(Sayer):
    """Says expressions in loops; `stored` are those that are data of an element, by their names."""

    def __init__(self, results: Sequence[Node], names: dict[Node, str], used: set[str], roles: Roles) -> None:
        super().__init__(results, names, used)
        self._roles = roles
        self.stored: dict[Node, str] = {}

    def leaf(self, node: Node) -> str:
        """See `Sayer`."""
        if node.operator == "tensor":
            return f"{node.data[0]}[{self._roles.element(node.set)}]" if node.set else str(node.data[0])
        (operand,) = node.operands
        if node.operator == "gather":
            return self._along(operand, self._roles.leads[str(node.data[0])])
        if node.operator == "total":
            loop = f"{self._roles.element(operand.set)} in {self._roles.loop(operand.set)}"
            return f"{node.data[0]}({self.say(operand)} for {loop})"
        name, along = map(str, node.data)
        if name == "sum" and operand.operator == "number" and operand.data == (1.0,) and self._roles.degree(along):
            return self._roles.degree(along)
        across = along == self._roles.within and operand.operator != "number"
        said = self._along(operand, "e.src") if across else self.say(operand)
        return f"{name}({said} for e in {self._roles.edges(along)})"

    def _along(self, node: Node, lead: str) -> str:
        """An expression of the element that another one leads to."""
        return f"{node.data[0]}[{lead}]" if node.operator == "tensor" else f'{lead}["{self.stored[node]}"]'

    def say(self, node: Node, binds: int = 0) -> str:
        """See `Sayer`."""
        if node in self.stored and node not in self.said:
            name = self.stored[node]
            return f'{self._roles.element(node.set)}["{name}"]' if node.set else name
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
    used = used_tensors(last.operands)
    roles = roles_of(last, graph.maps, translation.homes, graph.why, set(used))
    if any(each.set not in {"", *roles.sets} for each in last.operands):
        raise TraceError("a result is no row for each node or edge.")
    called = {of: roles.called[kind] for of, kind in roles.sets.items()}
    sets = {each: called.get(node.set, "") or _table(node, last, roles) for each, node in used.items() if node.set}
    names = {*used, "g", *roles.names}
    sayer = LayerSayer(last.operands, translation.nodes.names, names, roles)
    stored = _stored(last, roles.within)
    order = [node for node in walk((last,)) if node in stored]
    for node in order:
        sayer.stored[node] = fresh(identifier(translation.nodes.names.get(node, "h" if node.set else "x")), names)
    lines = [f'"Traced from the PyTorch module {name}"', *declarations(used, given, sets), *roles.declared]
    asked = [frozenset[Where]()] * (1 + len(lines))
    for of, nodes in _loops(order):
        lines += [f"for {roles.element(of)} in {roles.loop(of)}:"] if of else []
        asked += [frozenset()] if of else []
        lines += [f"{'    ' if of else ''}{sayer.statement(node)}" for node in nodes]
        asked += [translation.nodes.lines_of(node, stored) for node in nodes]
    body = "".join(f"    {line}\n" for line in [*lines, f"return {', '.join(map(sayer.say, last.operands))}"])
    of_nodes = [each for each, node in used.items() if node.set and roles.sets.get(node.set) == "node"]
    made = {*translation.numbers, *(name for each in graph.typed if isinstance(each, Fetched) for name in each.rows)}
    of_nodes = [each for each in of_nodes if each not in made]
    by_ids = next((each.name for each in graph.read if roles.sets.get(each.domain) == "node"), "")
    counts = {of: f"num_{called[of]}s" for of, kind in roles.sets.items() if kind != "edge"}
    tables = {each: bool(node.set) for each, node in used.items()}
    return Written(
        f"layer {name}({roles.header}):\n{body}",
        "layer",
        roles.ids,
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
        sizes=graph.sizes,
        counts=counts,
    )


def _table(table: Node, result: Node, roles: Roles) -> str:
    """The set of a table: that of the map that its rows are gathered by."""
    for node in walk((result,)):
        if node.operator == "gather" and node.operands[0] is table:
            return roles.tables[str(node.data[0])]
    raise TraceError(f"all rows of {table.data[0]} are used at once, and rows that ids name.")


def _stored(result: Node, within: str) -> set[Node]:
    """What becomes data of elements: the results, what is used twice, what rows are gathered of, or summed of `within`
    groups, and what is long."""
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
        if node.operator == "gather" or (node.operator == "reduce" and node.data[1] == within):
            found |= {operand for operand in node.operands if operand.operator not in ("tensor", "number")}
        if node.operator == "gather":
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
