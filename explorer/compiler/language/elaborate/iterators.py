"""What a loop goes over: from the iterator behind `in` to the elements that the loop's variables stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from explorer.compiler.ir.graph import NODES, plural
from explorer.compiler.ir.set_maps import EDGE, PAIRS
from explorer.compiler.language.diagnostics import Fix, slice_text, suggestion, with_article
from explorer.compiler.language.elaborate.elements import ITERATORS, TYPES
from explorer.compiler.language.names.entities import Entity, Given, Index, Members, StructureArgument
from explorer.compiler.language.names.structures import BATCH, GRAPH_KIND, OF_NEGATIVES, Structure
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator

GRAPH_ITERATORS = ("edges", "nodes", "src_nodes", "dst_nodes", "etypes", "ntypes")
OF_ONE_SET = {"nodes": ("src_nodes", "dst_nodes"), "ntypes": ("etypes",)}
"""Those of a graph that has one set of nodes, and what there is where it leads from one set to another."""
ELSEWHERE = {
    "in_edges": "incoming_edges",
    "out_edges": "outgoing_edges",
    "etypes": "incoming_etypes",
    "in_etypes": "incoming_etypes",
    "out_etypes": "outgoing_etypes",
}
"""What DGL calls them, and what they are called for short."""
OF_PYTHON = {
    "range": "A loop over numbers is: for k in 0..K, or range with one number to three that are known before the run.",
    "enumerate": "An element has no number of its own. What stands at each place is given as a row of each entry, edge"
    " or nonzero: input P[entry, D], and P[i] beside T[i].",
    "zip": "A loop goes over one thing: tensors over the same set are read side by side, X[i] and Y[i].",
    "reversed": "A loop over elements has no order; one over numbers is range(K - 1, -1, -1).",
}
"""What Python's iterators are here."""
MATRIX_ITERATORS = ("rows", "row", "nonzeros", "cols", "col")
OF_ONE = {"row": "rows", "col": "cols"}
"""The methods that take an element of the loop around, and what that goes over."""


@dataclass(frozen=True, slots=True)
class Level:
    """Where a statement stands: outside of loops ("unit"), in one over groups (nodes), or over members (edges).

    `around` are the sets of the loops around, the nearest first, each with the map that leads to its element: of the
    edges of one type into a node `{"dst_pair": "dst_pair", "node": "dst"}`. `line` is the loop's."""

    index_set: str = "unit"
    around: Mapping[str, str] = field(default_factory=dict)
    line: int = 0

    @property
    def end(self) -> str:
        """The map to the element of the loop around, along which this one's elements are reduced; "" in none."""
        return next(iter(self.around.values()), "")

    @property
    def group(self) -> str:
        """The set of the loop around."""
        return next(iter(self.around), "")


@dataclass(frozen=True, slots=True)
class Entered:
    """The level of a loop, and what its variables stand for; `at` is whose members it goes over where that is no
    element of the loops around: what is reduced of them is read there."""

    level: Level
    variables: Mapping[str, Entity]
    at: Index | None = None


def enter(
    elaborator: Elaborator, iterator: syntax.Iterator | syntax.Numbers, variables: tuple[syntax.Name, ...]
) -> Entered | None:
    """What a loop over elements goes over; None where that is wrong, and reported."""
    assert isinstance(iterator, syntax.Iterator)
    return _Iterator(elaborator, iterator, variables).entered()


class _Iterator:
    def __init__(self, elaborator: Elaborator, iterator: syntax.Iterator, variables: tuple[syntax.Name, ...]) -> None:
        self.elaborator = elaborator
        self.iterator = iterator
        self.variables = variables
        self.level = elaborator.loops.level
        self.text = slice_text(elaborator.text, iterator.base.extent)
        self.line = iterator.extent.line
        self.arguments = iterator.arguments
        self.graph: StructureArgument | None = None
        """That whose edges at a node are gone over, where it is named: `q.incoming_edges(n)`, whose `arguments` are
        those behind the node."""

    def entered(self) -> Entered | None:
        """By what stands behind `in`."""
        named = self.iterator.base.text if isinstance(self.iterator.base, syntax.Name) else ""
        if named in OF_PYTHON and named not in self.elaborator.scope:
            self.elaborator.collector.report(f"the language has no '{named}'", self.iterator.extent, OF_PYTHON[named])
            return None
        base = self.elaborator.expression(self.iterator.base)
        match base:
            case None:
                return None
            case Members():
                return self.of_members(base)
            case StructureArgument(structure=structure) if structure.kind == GRAPH_KIND:
                return self.of_named(base) if self.method in (*ITERATORS, *TYPES) else self.of_graph(structure)
            case StructureArgument(structure=structure):
                return self.of_matrix(structure)
            case Index() if self.is_of_graph(base):
                return self.of_node(base, self.elaborator.loops.elements.graph_here())
            case Index() if base.index_set == self.elaborator.structure.each:
                structure = self.elaborator.structure
                return self.of_group(base, structure.several.get(base.bag, structure))
        detail = ""
        if self.elaborator.structure.kind == "facts":
            detail = "A score's reductions go over numbers, 0..K, or over a set of its header, n: negatives of entity."
        self.report(f"'{self.text}' is no {self.elaborator.structure.noun}: a loop has nothing to go over", detail)
        return None

    def report(self, message: str, detail: str = "") -> None:
        """An error at what stands behind `in`, without its method."""
        self.elaborator.collector.report(message, self.iterator.base.extent, detail)

    def is_of_graph(self, base: Index) -> bool:
        """Whether an index is of a graph's nodes, or of one of the two sets that its edges lead between."""
        structure = self.elaborator.structure
        return structure.kind == GRAPH_KIND and base.index_set in structure.groups

    def of_graph(self, structure: Structure) -> Entered | None:
        """`g.edges()`, `g.nodes()`."""
        if structure.others and self.method in OF_ONE_SET:
            self.report_two_sets(structure, OF_ONE_SET[self.method])
            return None
        lacks = OF_ONE_SET if structure.others else () if structure.group == NODES[0] else ("ntypes",)
        known = [name for name in GRAPH_ITERATORS if name not in lacks]
        if not self.has_method("A graph has", known):
            return None
        if self.level.index_set != "unit":
            detail = (
                "In a loop over nodes stand loops over n.incoming_edges() and n.outgoing_edges(), and over"
                " n.incoming_etypes(), the types that n's edges have."
            )
            if structure.member != EDGE:
                detail = f"In a loop over nodes stand loops over {self.text}.incoming_edges(n)."
            fixes = [
                Fix(f"Use {name}.incoming_etypes()", self.iterator.extent, f"{name}.incoming_etypes()")
                for name, entity in self.elaborator.scope.items()
                if isinstance(entity, Index) and entity.identity and entity.index_set == structure.group
                if self.method == "etypes" and self.level.index_set == structure.group
            ]
            self.elaborator.collector.report(
                "a loop over the graph stands in no other loop", self.iterator.extent, detail, fixes
            )
            return None
        ends = {f"{end}_nodes": structure.led_to(end) for end in ("src", "dst")}
        of_edges = {"edges": structure.member, "etypes": structure.led_to("etype")}
        sets = {**ends, **of_edges, "nodes": structure.group, "ntypes": "ntype"}
        return self.one(Level(sets[self.method], line=self.line))

    def of_named(self, graph: StructureArgument) -> Entered | None:
        """`q.incoming_edges(n)`: the edges of a graph that is named, at a node."""
        ends = " or ".join(dict.fromkeys(map(with_article, graph.structure.groups)))
        if not self.arguments:
            message = f"{self.shown} lacks its node: {self.text}.{self.method}(n) goes over edges of '{self.text}' at n"
            self.elaborator.collector.report(message, self.iterator.extent, f"There n is {ends}.")
            return None
        node = self.arguments[0]
        base = self.elaborator.expression(node)
        if base is None:
            return None
        text = slice_text(self.elaborator.text, node.extent)
        if not isinstance(base, Index) or base.computed or base.index_set not in graph.structure.groups:
            message = f"{self.shown} goes over the edges of '{self.text}' at {ends}, and '{text}' is none"
            self.elaborator.collector.report(message, node.extent)
            return None
        self.graph, self.text, self.arguments = graph, text, self.arguments[1:]
        return self.of_node(base, graph.structure)

    def written(self, method: str) -> str:
        """The iterator with another method."""
        graph = [] if self.graph is None else [self.text]
        given = [slice_text(self.elaborator.text, each.extent) for each in self.arguments]
        return f"{self.graph.name if self.graph else self.text}.{method}({', '.join(graph + given)})"

    def report_two_sets(self, structure: Structure, instead: tuple[str, ...]) -> None:
        """About a loop over the nodes of a graph, or their types, which leads from one set to another."""
        source, destination = (plural(structure.led_to(end)) for end in ("src", "dst"))
        lacks = "it has no one set of nodes" if self.method == "nodes" else "nodes of two sets have no types"
        message = f"'{self.text}' leads from {source} to {destination}: {lacks}"
        loops = {"src_nodes": f" over {source}", "dst_nodes": f" over {destination}", "etypes": ""}
        detail = "Write " + ", or ".join(f"{self.text}.{name}(){loops[name]}" for name in instead) + "."
        fixes = [Fix(f"Use {self.text}.{name}()", self.iterator.extent, f"{self.text}.{name}()") for name in instead]
        self.elaborator.collector.report(message, self.iterator.extent, detail, fixes)

    def ends_there(self, base: Index, structure: Structure) -> bool:
        """Whether edges have the end at such an element that the method goes back by: of two sets, one has those that
        lead away, and the other those that lead to it."""
        end = {**ITERATORS, **TYPES}[self.method]
        if structure.led_to(end) == base.index_set:
            return True
        leads = "away from" if end == "dst" else "to"
        way = "outgoing" if end == "dst" else "incoming"
        instead = self.written(f"{way}_{self.method.rpartition('_')[2]}")
        missing = {"dst": "incoming", "src": "outgoing"}[end]
        message = f"edges lead {leads} {plural(base.index_set)}: '{self.text}' has no {missing} edges"
        detail = f"Write {instead}; those the other way are of {plural(structure.led_to(end))}."
        fixes = [Fix(f"Use {instead}", self.iterator.extent, instead)]
        self.elaborator.collector.report(message, self.iterator.extent, detail, fixes)
        return False

    def of_node(self, base: Index, structure: Structure) -> Entered | None:
        """`n.incoming_edges()`, `n.incoming_edges(r)` with the type of edges, `n.incoming_etypes()`."""
        if not self.has_method(f"{with_article(base.index_set).capitalize()} has", (*ITERATORS, *TYPES)):
            return None
        if not self.ends_there(base, structure):
            return None
        if structure.member != EDGE and (self.method in TYPES or self.arguments):
            self.report_types(structure)
            return None
        if self.method in TYPES:
            return self.of_types(base)
        end, index_set = ITERATORS[self.method], base.index_set
        if self.arguments:
            return self.of_type(base, end, self.arguments[0])
        if structure.member == EDGE and self.level.index_set in PAIRS and base.name == self.level.end:
            message = f"in a loop over the types of {self.text}'s edges, those of one type are gone over"
            detail = f"Write {self.written(self.method)[:-1]}{', ' if self.graph else ''}r)."
            self.elaborator.collector.report(message, self.iterator.extent, detail)
            return None
        level = Level(structure.member, {index_set: structure.map_of(structure.member, end)}, self.line)
        return self.one(level, None if base.identity else base)

    def report_types(self, structure: Structure) -> None:
        """About the edges of one type at a node of a further graph, or their types."""
        graphs = self.elaborator.structure.several
        name = next(each for each, known in graphs.items() if known is structure)
        message = (
            f"by their type, the edges of '{next(iter(graphs))}' alone are gone over at a node, not those of '{name}'"
        )
        detail = f"The graph for that stands first in the header; of an edge e of '{name}', e.etype is its type."
        self.elaborator.collector.report(message, self.iterator.extent, detail)

    def of_types(self, base: Index) -> Entered | None:
        """`n.incoming_etypes()`: the pairs of a node and a type that its edges have, by a variable that is the type."""
        if not base.identity:
            message = f"{self.shown} goes over the types of a node's edges, in a loop over nodes"
            self.elaborator.collector.report(message, self.iterator.extent)
            return None
        pair = f"{TYPES[self.method]}_pair"
        entered = self.one(Level(pair, {base.index_set: f"{pair}_node"}, self.line))
        if entered is None:
            return None
        name = self.variables[0].text
        return Entered(entered.level, {name: Index(f"{pair}_etype", "etype", pair, name)})

    def of_type(self, base: Index, end: str, argument: syntax.Expression) -> Entered | None:
        """`n.incoming_edges(r)`: the edges of one type, that of the loop around or of an edge of this node."""
        etype = self.elaborator.expression(argument)
        if etype is None:
            return None
        pair = f"{end}_pair"
        found = (base.name, etype.name) if isinstance(etype, Index) else ("", "")
        if found == (f"{pair}_node", f"{pair}_etype"):
            return self.one(Level("edge", {pair: pair, base.index_set: end}, self.line))
        if found == (end, "etype"):
            return self.one(Level("edge", {pair: pair}, self.line), Index(pair, pair, "edge", self.shown))
        types = next(name for name, of in TYPES.items() if of == end)
        message = f"{self.shown} goes over {self.text}'s edges of a type that some of them have"
        loop = f"for r in {self.text}.{types}()"
        detail = f"In a loop '{loop}' that is r, and of an edge e it is e.{end}.{self.method}(e.etype)."
        self.elaborator.collector.report(message, argument.extent, detail)
        return None

    def of_members(self, base: Members) -> Entered | None:
        """`for k in n`, over a fact's negatives."""
        if self.iterator.method is not None:
            message = f"a reduction over '{self.text}' is: for k in {self.text}"
            self.elaborator.collector.report(message, self.iterator.extent)
            return None
        if self.level.index_set == base.members:
            message = "a fact's negatives are gone over already in the reduction around"
            self.elaborator.collector.report(message, self.iterator.extent)
            return None
        if len(self.variables) > 1:
            extent = self.variables[1].extent
            self.elaborator.collector.report(f"a reduction over {self.shown} has one variable", extent)
            return None
        name = self.variables[0].text
        level = Level(base.members, {BATCH: OF_NEGATIVES}, self.line)
        return Entered(level, {name: Index(base.name, base.index_set, base.members, name)})

    def of_group(self, base: Index, structure: Structure) -> Entered | None:
        """`for i in b`, `for i, w in b`."""
        if self.iterator.method is not None:
            message = f"a loop over the entries of '{self.text}' is: for i in {self.text}"
            self.elaborator.collector.report(message, self.iterator.extent)
            return None
        if not base.identity:
            message = f"the entries of '{self.text}' are gone over already in the loop around"
            detail = ""
            if self.level.index_set != structure.member:
                message = f"a loop over the entries of '{self.text}' stands in no loop over those of another bag"
                detail = "What is reduced of each bag for itself is known in the other's loop, by a name."
            self.elaborator.collector.report(message, self.iterator.extent, detail)
            return None
        return self.members(structure)

    def of_matrix(self, structure: Structure) -> Entered | None:
        """`A.rows()`, `A.row(i)`, `A.cols()`, `A.col(j)`, `A.nonzeros()`."""
        if not self.has_method("A matrix has", MATRIX_ITERATORS):
            return None
        if self.method in OF_ONE:
            return self.members(structure, self.method) if self.is_own(structure.maps[self.method][1]) else None
        if self.level.index_set != "unit":
            detail = (
                f"In a loop over rows, 'for i in {self.text}.rows()', stand loops over {self.text}.row(i), in one over"
                f" columns, 'for j in {self.text}.cols()', those over {self.text}.col(j)."
            )
            self.elaborator.collector.report(
                f"a loop over {self.text}.{self.method}() stands in no other loop", self.iterator.extent, detail
            )
            return None
        sets = {"rows": structure.maps["row"][1], "cols": structure.maps["col"][1], "nonzeros": structure.member}
        return self.one(Level(sets[self.method], line=self.line))

    def is_own(self, index_set: str) -> bool:
        """Whether the argument of `A.row(i)` is the row of the loop around, that of `A.col(j)` its column."""
        argument = self.iterator.arguments[0] if self.iterator.arguments else None
        index = self.elaborator.expression(argument) if argument is not None else None
        if argument is not None and index is None:
            return False
        own = isinstance(index, Index) and index.identity and index.index_set == index_set
        if not own or self.level.index_set != index_set:
            one, letter, word = (self.method, "i", "row") if self.method == "row" else (self.method, "j", "column")
            loop = f"for {letter} in {self.text}.{OF_ONE[one]}()"
            message = f"{self.text}.{one}({letter}) goes over the nonzeros of a {word} {letter}, in a loop: {loop}"
            self.elaborator.collector.report(message, self.iterator.extent)
            return False
        return True

    @property
    def method(self) -> str:
        """The word before the brackets."""
        return self.iterator.method.text if self.iterator.method else ""

    def has_method(self, owner: str, known: Iterable[str]) -> bool:
        """Whether the method is one of those known, with the argument that it takes."""
        argument = {"row": "i", "col": "j"}
        method, takes = self.iterator.method, argument.get(self.method, "")
        may_take = bool(takes) or self.method in ITERATORS
        names = [f"{self.text}.{name}({argument.get(name, '')})" for name in known]
        listed = f"{owner} {', '.join(names[:-1])} and {names[-1]}."
        if method is None:
            message = f"a loop goes over elements, as in {names[0]}: '{self.text}' is not called"
            self.report(message, listed)
            return False
        if self.method not in known:
            meant = ELSEWHERE.get(self.method, self.method)
            hint, fixes = suggestion(meant, method.extent, known)
            message = f"'{self.text}' has no '{self.method}'{hint}"
            self.elaborator.collector.report(message, method.extent, listed, fixes)
            return False
        if not len(takes) <= len(self.arguments) <= may_take:
            message = f"it is {self.text}.{self.method}({takes})"
            wrong = f"lacks its {'row' if takes == 'i' else 'column'}" if takes else "takes nothing in its brackets"
            self.elaborator.collector.report(f"'{self.text}.{self.method}' {wrong}: {message}", self.iterator.extent)
            return False
        return True

    def one(self, level: Level, at: Index | None = None) -> Entered | None:
        """A loop with one variable, which stands for the element itself."""
        if len(self.variables) > 1:
            extent = self.variables[1].extent
            self.elaborator.collector.report(f"a loop over {self.shown} has one variable", extent)
            return None
        name, index_set = self.variables[0].text, level.index_set
        return Entered(level, {name: Index(index_set, index_set, index_set, name)}, at)

    def members(self, structure: Structure, along: str = "") -> Entered | None:
        """A loop over the members of a group: the first variable picks a row, the second is the member's number. Along
        a matrix's columns the first picks the row of each nonzero."""
        member = structure.member
        if len(self.variables) > (2 if structure.gives else 1):
            extent = self.variables[-1].extent
            count = "one variable, or two" if structure.gives else "one variable"
            self.elaborator.collector.report(f"a loop over {self.shown} has {count}", extent)
            return None
        first = self.variables[0].text
        end = along or structure.home
        picks = structure.home if end == structure.picks else structure.picks
        found: dict[str, Entity] = {first: Index(picks, structure.maps[picks][1], member, first, member=True)}
        for second in self.variables[1:]:
            found[second.text] = Given(structure.gives, Index(member, member, member, second.text))
        return Entered(Level(member, {structure.maps[end][1]: end}, self.line), found)

    @property
    def shown(self) -> str:
        """The iterator as it is written."""
        return slice_text(self.elaborator.text, self.iterator.extent)
