"""What a loop goes over: from the iterator behind `in` to the elements that the loop's variables stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from explorer.compiler.language.diagnostics import slice_text, suggestion
from explorer.compiler.language.elaborate.elements import ITERATORS
from explorer.compiler.language.names.entities import Entity, Given, Index, StructureArgument
from explorer.compiler.language.names.structures import GRAPH, Structure
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator

GRAPH_ITERATORS = {"edges": "edge", "nodes": "node", "src_nodes": "node", "dst_nodes": "node"}
ELSEWHERE = {"in_edges": "incoming_edges", "out_edges": "outgoing_edges"}
"""What DGL calls them."""
OF_PYTHON = {
    "range": "A loop over numbers is: for k in 0..K, or range with one number to three that are known before the run.",
    "enumerate": "An element has no number of its own. What stands at each place is given as a row of each entry, edge"
    " or nonzero: input P[entry, D], and P[i] beside T[i].",
    "zip": "A loop goes over one thing: tensors over the same set are read side by side, X[i] and Y[i].",
    "reversed": "A loop over elements has no order; one over numbers is range(K - 1, -1, -1).",
}
"""What Python's iterators are here."""
MATRIX_ITERATORS = ("rows", "row", "nonzeros")


@dataclass(frozen=True, slots=True)
class Level:
    """Where a statement stands: outside of loops ("unit"), in one over groups (nodes), or over members (edges).

    `end` is the map from the members to the group of the loop around; `line` is the loop's."""

    index_set: str = "unit"
    end: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Entered:
    """The level of a loop, and what its variables stand for."""

    level: Level
    variables: Mapping[str, Entity]


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
            case StructureArgument(structure=structure) if structure is GRAPH:
                return self.of_graph()
            case StructureArgument(structure=structure):
                return self.of_matrix(structure)
            case Index(index_set="node") if self.elaborator.structure is GRAPH:
                return self.of_node(base)
            case Index() if base.index_set == self.elaborator.structure.each:
                return self.of_group(base, self.elaborator.structure)
        self.report(f"'{self.text}' is no {self.elaborator.structure.noun}: a loop has nothing to go over")
        return None

    def report(self, message: str, detail: str = "") -> None:
        """An error at what stands behind `in`, without its method."""
        self.elaborator.collector.report(message, self.iterator.base.extent, detail)

    def of_graph(self) -> Entered | None:
        """`g.edges()`, `g.nodes()`."""
        if not self.has_method("A graph has", GRAPH_ITERATORS):
            return None
        if self.level.index_set != "unit":
            detail = "In a loop over nodes stand loops over n.incoming_edges() and n.outgoing_edges()."
            self.elaborator.collector.report(
                "a loop over the graph stands in no other loop", self.iterator.extent, detail
            )
            return None
        return self.one(Level(GRAPH_ITERATORS[self.method], line=self.line))

    def of_node(self, base: Index) -> Entered | None:
        """`n.incoming_edges()`."""
        if not self.has_method("A node has", ITERATORS):
            return None
        if base.name != "node":
            detail = 'Write a loop over the nodes before, which leaves what it finds as data: n["x"].'
            message = "in a loop over edges there are no further edges to go over"
            self.elaborator.collector.report(message, self.iterator.extent, detail)
            return None
        return self.one(Level("edge", ITERATORS[self.method], self.line))

    def of_group(self, base: Index, structure: Structure) -> Entered | None:
        """`for i in b`, `for i, w in b`."""
        if self.iterator.method is not None:
            message = f"a loop over the entries of '{self.text}' is: for i in {self.text}"
            self.elaborator.collector.report(message, self.iterator.extent)
            return None
        if not base.identity:
            message = f"the entries of '{self.text}' are gone over already in the loop around"
            self.elaborator.collector.report(message, self.iterator.extent)
            return None
        return self.members(structure)

    def of_matrix(self, structure: Structure) -> Entered | None:
        """`A.rows()`, `A.row(i)`, `A.nonzeros()`."""
        if not self.has_method("A matrix has", MATRIX_ITERATORS):
            return None
        if self.method == "row":
            return self.members(structure) if self.is_own_row(structure) else None
        if self.level.index_set != "unit":
            detail = f"In a loop over rows, 'for i in {self.text}.rows()', stand loops over {self.text}.row(i)."
            self.elaborator.collector.report(
                f"a loop over {self.text}.{self.method}() stands in no other loop", self.iterator.extent, detail
            )
            return None
        return self.one(Level(structure.group if self.method == "rows" else structure.member, line=self.line))

    def is_own_row(self, structure: Structure) -> bool:
        """Whether the argument of `A.row(i)` is the row of the loop around."""
        argument = self.iterator.arguments[0] if self.iterator.arguments else None
        index = self.elaborator.expression(argument) if argument is not None else None
        if argument is not None and index is None:
            return False
        own = isinstance(index, Index) and index.identity and index.index_set == structure.group
        if not own or self.level.index_set != structure.group:
            message = f"{self.text}.row(i) goes over the nonzeros of a row i, in a loop: for i in {self.text}.rows()"
            self.elaborator.collector.report(message, self.iterator.extent)
            return False
        return True

    @property
    def method(self) -> str:
        """The word before the brackets."""
        return self.iterator.method.text if self.iterator.method else ""

    def has_method(self, owner: str, known: Iterable[str]) -> bool:
        """Whether the method is one of those known, with the argument that it takes."""
        method, takes = self.iterator.method, ("i" if self.method == "row" else "")
        names = [f"{self.text}.{name}({'i' if name == 'row' else ''})" for name in known]
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
        if len(self.iterator.arguments) != len(takes):
            message = f"it is {self.text}.{self.method}({takes})"
            wrong = "lacks its row" if takes else "takes nothing in its brackets"
            self.elaborator.collector.report(f"'{self.text}.{self.method}' {wrong}: {message}", self.iterator.extent)
            return False
        return True

    def one(self, level: Level) -> Entered | None:
        """A loop with one variable, which stands for the element itself."""
        if len(self.variables) > 1:
            extent = self.variables[1].extent
            self.elaborator.collector.report(f"a loop over {self.shown} has one variable", extent)
            return None
        name, index_set = self.variables[0].text, level.index_set
        return Entered(level, {name: Index(index_set, index_set, index_set, name)})

    def members(self, structure: Structure) -> Entered | None:
        """A loop over the members of a group: the first variable picks a row, the second is the member's number."""
        member = structure.member
        if len(self.variables) > (2 if structure.gives else 1):
            extent = self.variables[-1].extent
            count = "one variable, or two" if structure.gives else "one variable"
            self.elaborator.collector.report(f"a loop over {self.shown} has {count}", extent)
            return None
        first = self.variables[0].text
        picked = structure.maps[structure.picks][1]
        found: dict[str, Entity] = {first: Index(structure.picks, picked, member, first, member=True)}
        for second in self.variables[1:]:
            found[second.text] = Given(structure.gives, Index(member, member, member, second.text))
        return Entered(Level(member, structure.home, self.line), found)

    @property
    def shown(self) -> str:
        """The iterator as it is written."""
        return slice_text(self.elaborator.text, self.iterator.extent)
