"""What the elements of a structure have: where maps lead from them, numbers given with it, data and tensors by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.compiler.ir.graph import plural
from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Fix, slice_text, suggestion, with_article
from explorer.compiler.language.elaborate.headers.maps import declared_maps
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.names.entities import Constant, Entity, Index, Row, StructureArgument, Table
from explorer.compiler.language.names.structures import FACTS, GRAPH, GRAPH_KIND, Structure
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator

ITERATORS = {"incoming_edges": "dst", "outgoing_edges": "src"}
"""The edges of a node of a graph, and the end at which it stands."""
TYPES = {"incoming_etypes": "dst", "outgoing_etypes": "src"}
"""The types of these edges, each once."""

ELSEWHERE = {"source": "src", "u": "src", "destination": "dst", "dest": "dst", "target": "dst", "v": "dst"}
"""What else the ends of an edge are called."""

WHOLE = "unit"
"""Whose data is that of the graph or the matrix itself: one row."""
OTHERS = "others"
"""In place of a loop's end: read of members of another group."""
MOST_IN_REACH = 100
"""Indices beyond which no further ones are looked for."""

Key = tuple[str, str]
"""An index set and the name of data on its elements."""


class Elements:
    """The data of one definition: what is written on its elements so far, and what can be read of one."""

    def __init__(self, elaborator: Elaborator, structure: Structure, statements: Iterable[syntax.Statement]) -> None:
        self._elaborator = elaborator
        self._structure = structure
        self.data: dict[Key, Row | Constant | None] = {}
        self.tables: dict[str, Table] = {}
        self.summing: dict[Key, int] = {}
        """Data of a group that the running loop over its members sums, with the line: its value stands behind the loop.
        """
        self._before_sum: set[Key] = set()
        """Data of the loop's own group that a loop over its members has read."""
        self.fresh: dict[Key, str] = {}
        """What the loop now running has written so far; for members, with the end at which the loop's group stands."""
        self.variables: dict[str, int] = {}
        """The variables of all loops, with the first's line."""
        self.elsewhere = False
        """Whether what runs is a reduction over the members of a group that is not the running loop's."""
        self._others: dict[Key, set[str]] = {}
        """What the loop now running has read of groups other than its own, or of members, with the loops' ends."""
        self._lines: dict[str, int] = {}
        self._forgotten: set[str] = set()
        self._complete = True
        for statement in statements:
            if isinstance(statement, syntax.Broken) and not statement.names:
                self._complete = False
            if isinstance(statement, syntax.Loop):
                for variable in statement.variables:
                    self.variables.setdefault(variable.text, statement.header.line)
            if isinstance(statement, syntax.Assignment) and isinstance(statement.target, syntax.Data):
                self._lines.setdefault(statement.target.name.text, statement.extent.line)

    def owner(self, index: Index) -> str:
        """The set on which data named on an index stands."""
        return index.domain if index.member else index.index_set

    def attribute(self, index: Index, node: syntax.Attribute) -> Entity | None:
        """`e.src`, `e.etype`, `e.norm`, or the element's row of a tensor of that name."""
        name = node.name.text
        shown = f"{index.text}.{name}"
        if index.member and name in self._structure.parts.get(index.index_set, ()):  # of what a member picks
            index = replace(index, member=False)
        if self.owner(index) in self._structure.members:
            name = self._structure.by_set.get(name, name)
        if name in self._structure.parts.get(self.owner(index), ()):
            return self._part(index, name, OperationSite(shown, node.extent, node.extent))
        if name in ITERATORS and index.index_set in self._structure.groups and self._structure.kind == GRAPH_KIND:
            message = f"'{shown}' is what a loop goes over: for e in {shown}():"
            self._elaborator.collector.report(message, node.extent)
            return None
        table = self._table(index, name)
        if table is not None:
            return self._elaborator.operations.gather(OperationSite(shown, node.extent, node.extent), table, (index,))
        key = (self.owner(index), name)
        if self.data.get(key) is not None:
            self._report_form(f"'{name}' is data", f'{index.text}["{name}"]', node.extent)
        elif key not in self.data:
            self._report_unknown(index, name, node.name.extent)
        return None

    def _part(self, index: Index, name: str, site: OperationSite) -> Entity | None:
        """What the structure has for an element: where a map leads from it, or a number."""
        member = index.domain
        index = Index(member, member, member, index.text) if index.member else index
        if self._structure.map_of(index.index_set, name) in self._structure.maps:
            return self._step(index, name, site.label)
        if name == "id":
            return replace(index, shown=site.label)
        if name == "in_degree":
            return self._degree(site, self.graph_here(), index)
        return self._elaborator.operations.structure(site, name, index)

    def graph_here(self) -> Structure:
        """The graph whose edges a node has where none is named: the first, in a helper of those that it is given."""
        given = (each for each in self._elaborator.scope.values() if isinstance(each, StructureArgument))
        first = next(iter(self._structure.several.values()), self._structure)
        return next((each.structure for each in given), first)

    def in_degree(self, node: syntax.InDegree, graph: Entity | None) -> Row | Constant | None:
        """`q.in_degree(n)`: of the first graph what every node has, of another a sum over its edges."""
        elaborator = self._elaborator
        index = elaborator.expression(node.node)
        if graph is None or index is None:
            return None
        shown = slice_text(elaborator.text, node.extent)
        if not isinstance(graph, StructureArgument) or graph.structure.kind != GRAPH_KIND:
            text = slice_text(elaborator.text, node.base.extent)
            elaborator.collector.report(f"'{text}' is no graph, whose edges {shown} would count", node.base.extent)
            return None
        site = OperationSite(shown, node.extent, node.extent)
        if not isinstance(index, Index) or index.computed:
            self._report_no_end(site, graph.structure, slice_text(elaborator.text, node.node.extent))
            return None
        return self._degree(site, graph.structure, index)

    def _degree(self, site: OperationSite, graph: Structure, index: Index) -> Row | Constant | None:
        operations, end, edges = self._elaborator.operations, graph.led_to("dst"), graph.member
        if index.index_set != end:
            self._report_no_end(site, graph, index.text)
            return None
        if edges == self._structure.member:
            return operations.structure(site, "in_degree", index)
        one = operations.builder.row(Constant(1, site.span, "1"))
        return self.at(operations.segment(site, "sum", one, self._structure.map_of(edges, "dst"), end), index, site)

    def _report_no_end(self, site: OperationSite, graph: Structure, text: str) -> None:
        """About the degree of what no edge of a graph leads to."""
        message = (
            f"{site.label} counts the edges that lead to {with_article(graph.led_to('dst'))}, and '{text}' is none"
        )
        self._elaborator.collector.report(message, site.extent)

    def _step(self, index: Index, name: str, shown: str) -> Index:
        """Where a map, by the name of an element's part, leads from an index's element."""
        name = self._structure.map_of(index.index_set, name)
        path = name if index.identity else f"{index.name}.{name}"
        return Index(path, self._structure.maps[name][1], index.domain, shown)

    def _table(self, index: Index, name: str) -> Table | None:
        """The declared tensor of that name with a row for each element of the index's set."""
        table = self.tables.get(name)
        return table if table is not None and table.tensor.sets == (index.index_set,) else None

    def _report_form(self, what: str, form: str, place: Span) -> None:
        """About data read as a tensor is, or the other way round: what stands there shows which of them it is."""
        fix = Fix(f"Use {form}", place, form)
        self._elaborator.collector.report(f"{what} and is read as {form}", place, fixes=[fix])

    def write(self, key: Key, value: Row | Constant | None, place: Span, fixes: Sequence[Fix] = ()) -> None:
        """Data on the elements of the loop that runs, which may not have read it of others: their order would count,
        which `fixes` mend."""
        index_set, name = key
        others = self._others.get(key, set())
        if others - {self._end} if index_set in self._structure.members else others:
            message = f"'{name}' of other {plural(index_set)} is read in this same loop: the order would count"
            detail = "Give what is written another name, or read in a loop of its own, before."
            self._elaborator.collector.report(message, place, detail, fixes)
            value = None
        self.data[key] = value
        self.fresh[key] = self._end

    def forget(self, name: str) -> None:
        """After an error: what would have written data of that name is reported already."""
        self._forgotten.add(name)
        for index_set in (*self._structure.groups, *self._structure.members, *self._structure.sets, WHOLE):
            self.data.setdefault((index_set, name), None)
        for graph in self._structure.several:
            self.data.setdefault((WHOLE, f"{graph}.{name}"), None)

    def begin_sum(self, key: Key, place: Span) -> None:
        """After the first `+=` of a loop over a group's members, which may not have read the data before."""
        self.summing[key] = place.line
        if key in self._before_sum:
            message = f"'{key[1]}' is read in this loop, which sums it: its value is known behind the loop"
            self._elaborator.collector.report(message, place)

    def end_loop(self, outermost: bool) -> None:
        """After a loop; within one over the types of a node's edges the node's sums go on."""
        if not self._elaborator.loops.level.around.keys() & {*self._structure.groups}:
            self.summing = {key: line for key, line in self.summing.items() if key[0] == WHOLE}
            self._before_sum = {key for key in self._before_sum if key[0] == WHOLE}
        if outermost:
            self.summing.clear()
            self._before_sum.clear()
            self.fresh.clear()
            self._others.clear()

    @property
    def _end(self) -> str:
        """The map from the loop's members to their group: edges of one type into a node are among those into it."""
        around = self._elaborator.loops.level.around
        return next((around[group] for group in self._structure.groups if group in around), "")

    def _is_own(self, key: Key, index: Index) -> bool:
        """Whether data is read of an element that the running loop cannot write at the same time for another."""
        member = key[0] in self._structure.members
        if self.elsewhere:  # of the members of another group, or of its own: not all of them are written yet
            self._others.setdefault(key, set()).add(OTHERS)
            return key not in self.fresh
        around = self._elaborator.loops.level.around
        own = index.identity or index.name == around.get(index.index_set)
        if member and not index.identity and not index.member:
            self._others.setdefault(key, set()).add(index.name)
            return key not in self.fresh
        if member:
            own = self.fresh.get(key, self._end) == self._end
        if not own or member:
            self._others.setdefault(key, set()).add(self._end)
        return own or key not in self.fresh

    def read(self, index: Index, name: str, extent: Span, place: Span) -> Row | Constant | None:
        """The data of that name on an element."""
        key = (self.owner(index), name)
        if index.member and key not in self.data:  # in a square matrix, a column is a row too
            key = (index.index_set, name)
        site = OperationSite(slice_text(self._elaborator.text, extent), extent, extent)
        if key in self.summing:
            message = f"'{name}' is summed in this loop: its value is known behind the loop"
            self._elaborator.collector.report(message, extent, f"Line {self.summing[key]} sums it.")
            return None
        if not self._is_own(key, index):
            message = f"'{name}' of {index.text} is written in this same loop: read it in a loop of its own, behind"
            self._elaborator.collector.report(message, extent)
            return None
        if key in self.data:
            if index.name == self._elaborator.loops.level.around.get(index.index_set):
                self._before_sum.add(key)
            own = key[0] in self._structure.members and (index.member or index.identity)
            return self.data[key] if own else self.at(self.data[key], index, site)
        if self._table(index, name) is not None:
            self._report_form(f"'{name}' is declared", f"{index.text}.{name}", extent)
        else:
            self._report_unknown(index, name, place)
        return None

    def whole(self, argument: StructureArgument, name: str) -> Key:
        """The data of a graph or a matrix itself: of several graphs each has its own."""
        further = argument.structure.member != self._structure.member
        return WHOLE, f"{argument.name}.{name}" if further else name

    def read_whole(
        self, argument: StructureArgument, name: str, shown: str, node: syntax.Data
    ) -> Row | Constant | None:
        """`g["h"]`, which a loop over the graph sums."""
        key, extent = self.whole(argument, name), node.extent
        if key in self.summing:
            message = f"'{name}' is summed in this loop: its value is known behind the loop"
            self._elaborator.collector.report(message, extent, f"Line {self.summing[key]} sums it.")
            return None
        if key not in self.data:
            if self._complete and not self._elaborator.is_broken(name):
                detail = f"""What is summed over all elements is data of it: {shown}["{name}"] += ..., in a loop."""
                several = self._structure.several
                owner = f"the graph '{argument.name}'" if several else self._structure.owner
                message = f"unknown data '{name}' of {owner}"
                self._elaborator.collector.report(message, node.name.extent, detail)
            return None
        if self._elaborator.loops.level != self._elaborator.loops.base:
            self._before_sum.add(key)
        return self.data[key]

    def at(self, value: Row | Constant | None, index: Index, site: OperationSite) -> Row | Constant | None:
        """A value of an element's set as seen from where the text stands: a node's value at an edge's end."""
        if isinstance(value, Row) and not index.identity:
            return self._elaborator.operations.gather_value(site, value, index)
        return value

    def _report_unknown(self, index: Index, name: str, place: Span) -> None:
        """Says what is wrong with data that an element does not have, where no line that did not parse may have it."""
        if not self._complete or self._elaborator.is_broken(name):
            return
        report = self._elaborator.collector.report
        shown, index_set = index.text, self.owner(index)
        standing = (*self._structure.groups, *self._structure.members)
        if self._structure.kind == FACTS:
            self._report_no_map(index, name, place)
            return
        if index_set not in standing:
            kind = self._structure.called(index_set)
            report(f"'{shown}' is {kind} and has no '{name}': data stands on {self._structure.words}", place)
            return
        if self._structure.others and name in (*GRAPH.parts["node"], *GRAPH.parts["edge"]) and index_set != "edge":
            self._report_two_sets(index, name, place)
            return
        other = next((each for each in standing if each != index_set and (each, name) in self.data), "")
        if other:
            called = self._structure.called
            report(f"'{name}' is data of {called(other)}, but {shown} is {called(index_set)}", place)
            return
        table = self.tables.get(name)
        if table is not None:
            sets = " and ".join(table.tensor.sets) or "nothing"
            report(f"'{name}' is indexed by {sets}, but {shown} is {self._structure.called(index_set)}", place)
            return
        if name in self._lines:
            report(f"'{name}' is read before it is written: line {self._lines[name]} writes it", place)
            return
        known = [entry for owner, entry in self.data if owner == index_set and entry not in self._forgotten]
        known += [entry for entry, table in self.tables.items() if table.tensor.sets == (index_set,)]
        given = self._structure.parts.get(index_set, ())
        quoted = slice_text(self._elaborator.text, place).startswith('"')
        every = self._structure.maps
        maps = [] if quoted else [part for part in given if self._structure.map_of(index_set, part) in every]
        hint, fixes = suggestion(ELSEWHERE.get(name, name) if maps else name, place, [*known, *maps])
        several = plural(index_set)
        written = f": {several} have {', '.join(known)}" if known else f": nothing is written on {several}"
        if quoted:
            fixes = tuple(Fix(fix.label, fix.span, f'"{fix.replacement}"') for fix in fixes)
        if not quoted and not hint and self._structure.maps:
            fixes = tuple(self._elaborator.declaring_map(name, index_set))
        parts = [f"{shown}.{part}" for part in given]
        detail = f"{self._structure.owner.capitalize()} gives {', '.join(parts)}." if parts else ""
        further = next((each for each, graph in self._structure.several.items() if graph.member == index_set), "")
        if name == "norm" and self._structure.kind == GRAPH_KIND and further:
            detail = (
                f"The first graph alone has it; where all have one type it is 1 / {further}.in_degree({shown}.dst)."
            )
        report(f"unknown data '{name}' of {self._structure.called(index_set)}{hint or written}", place, detail, fixes)

    def _report_two_sets(self, index: Index, name: str, place: Span) -> None:
        """About what elements have where a graph has one set of nodes, or edges, read of one of two sets."""
        several = plural(index.index_set)
        message = f"'{index.text}' is {with_article(index.index_set)}, and {several} have no '{name}'"
        detail = (
            f"The graph gives {', '.join(f'{index.text}.{part}' for part in self._structure.parts[index.index_set])}."
        )
        if name == "ntype":
            detail = f"A type of each is a map: map kind: {index.index_set} -> kind, read as {index.text}.kind."
        elif name == "in_degree":
            detail = "How many edges lead away is a sum of them: sum(1 for e in u.outgoing_edges())."
        self._elaborator.collector.report(message, place, detail)

    def _report_no_map(self, index: Index, name: str, place: Span) -> None:
        """About an id of a score, from which no map of that name leads, and which has no data."""
        declared = {each.name.text for each in declared_maps(self._elaborator.definition)}
        if name in declared - self._structure.maps.keys():  # which is refused, and told
            return
        known = self._structure.parts.get(index.index_set, ())
        hint, fixes = suggestion(name, place, known)
        fixes = fixes or tuple(self._elaborator.declaring_map(name, index.index_set))
        message = f"'{index.text}' is {with_article(index.index_set)}, and no map '{name}' leads from it{hint}"
        detail = f"Where its elements lead is a map, declared beside the tensors: map {name}: {index.index_set} -> ..."
        self._elaborator.collector.report(message, place, detail, fixes)

    def available(self, indices: Iterable[Index]) -> list[Index]:
        """The indices in reach, the shortest first: of an edge also its ends and type, of a node its type, and where
        declared maps lead. No path comes to a set twice, which ends those of a map from edges to edges."""
        found: list[tuple[Index, tuple[str, ...]]] = [(index, (index.index_set,)) for index in indices]
        for index, behind in found:  # which grows meanwhile
            for name in self._structure.parts.get(index.index_set, ()) if len(found) < MOST_IN_REACH else ():
                _, codomain = self._structure.maps.get(self._structure.map_of(index.index_set, name), ("", ""))
                if codomain and codomain not in behind:
                    found.append((self._step(index, name, f"{index.text}.{name}"), (*behind, codomain)))
        return [index for index, _ in found]
