"""What the elements of a graph have: their ends and types, what the graph brings, data and tensors by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from explorer.compiler.ir.node import Span
from explorer.compiler.language import syntax
from explorer.compiler.language.check import OperationSite
from explorer.compiler.language.diagnostics import Fix, slice_text, suggestion, with_article
from explorer.compiler.language.entities import Constant, Entity, Index, Row, Table

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate import Elaborator

ENDS = ("src", "dst")
STRUCTURE = {"norm": "edge", "in_degree": "node"}
"""What the graph brings for each element: `e.norm`, 1 over the in-edges of `e.dst` that have `e`'s type, and
`n.in_degree`."""

PARTS = {"edge": ("src", "dst", "etype", "id", "norm"), "node": ("ntype", "id", "in_degree"), "etype": ("id",)}
"""The attributes that an element of each set has; other names are data or tensors."""

ITERATORS = {"incoming_edges": "dst", "outgoing_edges": "src"}
"""The edges of a node, and the end at which it stands."""

Key = tuple[str, str]
"""An index set and the name of data on its elements."""


class Elements:
    """The data of one layer: what is written on nodes and edges so far, and what can be read of an element."""

    def __init__(self, elaborator: Elaborator, statements: Iterable[syntax.Statement]) -> None:
        self._elaborator = elaborator
        self.data: dict[Key, Row | Constant | None] = {}
        self.tables: dict[str, Table] = {}
        self.summing: dict[Key, int] = {}
        """Node data that the running loop over a node's edges sums, with the line: its value stands behind the loop."""
        self._before_sum: set[Key] = set()
        """Data of the loop's own node that a loop over its edges has read."""
        self.fresh: dict[Key, str] = {}
        """What the loop now running has written so far; for edges, with the end at which the loop's node stands."""
        self.variables: dict[str, int] = {}
        """The variables of all loops, with the first's line."""
        self._others: dict[Key, set[str]] = {}
        """What the loop now running has read of nodes other than its own, or of edges, with the loops' ends."""
        self._lines: dict[str, int] = {}
        self._complete = True
        for statement in statements:
            if isinstance(statement, syntax.Broken) and not statement.names:
                self._complete = False
            if isinstance(statement, syntax.Loop):
                self.variables.setdefault(statement.variable.text, statement.header.line)
            if isinstance(statement, syntax.Assignment) and isinstance(statement.target, syntax.Data):
                self._lines.setdefault(statement.target.name.text, statement.extent.line)

    def attribute(self, index: Index, node: syntax.Attribute) -> Entity | None:
        """`e.src`, `e.etype`, `e.norm`, or the element's row of a tensor of that name."""
        name = node.name.text
        shown = f"{index.text}.{name}"
        if name in PARTS.get(index.index_set, ()):
            if name == "id":
                return Index(index.name, index.index_set, shown)
            if name in ENDS:
                return Index(name, "node", shown)
            if name == "etype":
                return Index("etype", "etype", shown)
            if name == "ntype":
                return Index("ntype" if index.name == "node" else f"{index.name}.ntype", "ntype", shown)
            return self._elaborator.operations.structure(OperationSite(shown, node.extent, node.extent), name, index)
        if name in ITERATORS and index.index_set == "node":
            message = f"'{shown}' is what a loop goes over: for e in {shown}():"
            self._elaborator.collector.report(message, node.extent)
            return None
        table = self._table(index, name)
        if table is not None:
            return self._elaborator.operations.gather(OperationSite(shown, node.extent, node.extent), table, (index,))
        key = (index.index_set, name)
        if self.data.get(key) is not None:
            self._report_form(f"'{name}' is data", f'{index.text}["{name}"]', node.extent)
        elif key not in self.data:
            self._report_unknown(index, name, node.name.extent)
        return None

    def _table(self, index: Index, name: str) -> Table | None:
        """The declared tensor of that name with a row for each element of the index's set."""
        table = self.tables.get(name)
        return table if table is not None and table.tensor.sets == (index.index_set,) else None

    def _report_form(self, what: str, form: str, place: Span) -> None:
        """About data read as a tensor is, or the other way round: what stands there shows which of them it is."""
        fix = Fix(f"Use {form}", place, form)
        self._elaborator.collector.report(f"{what} and is read as {form}", place, fixes=[fix])

    def write(self, key: Key, value: Row | Constant | None, place: Span) -> None:
        """Data on the elements of the loop that runs, which may not have read it of others: their order would count."""
        index_set, name = key
        others = self._others.get(key, set())
        if others if index_set == "node" else others - {self._end}:
            message = f"'{name}' of other {index_set}s is read in this same loop: the order would count"
            detail = "Give what is written another name, or read in a loop of its own, before."
            self._elaborator.collector.report(message, place, detail)
            value = None
        self.data[key] = value
        self.fresh[key] = self._end

    def forget(self, name: str) -> None:
        """After an error: what would have written data of that name is reported already."""
        for index_set in ("node", "edge"):
            self.data.setdefault((index_set, name), None)

    def begin_sum(self, key: Key, place: Span) -> None:
        """After the first `+=` of a loop over a node's edges, which may not have read the data before."""
        self.summing[key] = place.line
        if key in self._before_sum:
            message = f"'{key[1]}' is read in this loop, which sums it: its value is known behind the loop"
            self._elaborator.collector.report(message, place)

    def end_loop(self, outermost: bool) -> None:
        """After a loop."""
        self.summing.clear()
        self._before_sum.clear()
        if outermost:
            self.fresh.clear()
            self._others.clear()

    @property
    def _end(self) -> str:
        return self._elaborator.loops.level.end

    def _is_own(self, key: Key, index: Index) -> bool:
        """Whether data is read of an element that the running loop cannot write at the same time for another."""
        own = index.name in ("node", self._end) if key[0] == "node" else self.fresh.get(key, self._end) == self._end
        if not own or key[0] == "edge":
            self._others.setdefault(key, set()).add(self._end)
        return own or key not in self.fresh

    def read(self, index: Index, name: str, extent: Span, place: Span) -> Row | Constant | None:
        """The data of that name on an element."""
        key = (index.index_set, name)
        site = OperationSite(slice_text(self._elaborator.text, extent), extent, extent)
        if key in self.summing and index.index_set == "node":
            message = f"'{name}' is summed in this loop: its value is known behind the loop"
            self._elaborator.collector.report(message, extent, f"Line {self.summing[key]} sums it.")
            return None
        if not self._is_own(key, index):
            message = f"'{name}' of {index.text} is written in this same loop: read it in a loop of its own, behind"
            self._elaborator.collector.report(message, extent)
            return None
        if key in self.data:
            if self._end and index.name == self._end:
                self._before_sum.add(key)
            return self.at(self.data[key], index, site)
        if self._table(index, name) is not None:
            self._report_form(f"'{name}' is declared", f"{index.text}.{name}", extent)
        else:
            self._report_unknown(index, name, place)
        return None

    def at(self, value: Row | Constant | None, index: Index, site: OperationSite) -> Row | Constant | None:
        """A value of an element's set as seen from where the text stands: a node's value at an edge's end."""
        if isinstance(value, Row) and index.name in ENDS:
            return self._elaborator.operations.gather_value(site, value, index.name)
        return value

    def _report_unknown(self, index: Index, name: str, place: Span) -> None:
        """Says what is wrong with data that an element does not have, where no line that did not parse may have it."""
        if not self._complete or self._elaborator.is_broken(name):
            return
        report = self._elaborator.collector.report
        shown, index_set = index.text, index.index_set
        if index_set not in ("node", "edge"):
            kind = with_article(index_set)
            report(f"'{shown}' is {kind} and has no '{name}': data stands on nodes and edges", place)
            return
        other = "edge" if index_set == "node" else "node"
        if (other, name) in self.data:
            report(f"'{name}' is data of {with_article(other)}, but {shown} is {with_article(index_set)}", place)
            return
        table = self.tables.get(name)
        if table is not None:
            sets = " and ".join(table.tensor.sets) or "nothing"
            report(f"'{name}' is indexed by {sets}, but {shown} is {with_article(index_set)}", place)
            return
        if name in self._lines:
            report(f"'{name}' is read before it is written: line {self._lines[name]} writes it", place)
            return
        known = [entry for (owner, entry), value in self.data.items() if owner == index_set and value is not None]
        known += [entry for entry, table in self.tables.items() if table.tensor.sets == (index_set,)]
        hint, fixes = suggestion(name, place, known)
        written = f": {index_set}s have {', '.join(known)}" if known else f": nothing is written on {index_set}s"
        if slice_text(self._elaborator.text, place).startswith('"'):
            fixes = tuple(Fix(fix.label, fix.span, f'"{fix.replacement}"') for fix in fixes)
        report(f"unknown data '{name}' of {with_article(index_set)}{hint or written}", place, fixes=fixes)

    def available(self, indices: Iterable[Index]) -> Iterator[Index]:
        """The indices in reach: of an edge also its ends and type, of a node its type."""
        for index in indices:
            yield index
            if index.index_set == "edge":
                yield Index("etype", "etype", f"{index.text}.etype")
                for end in ENDS:
                    yield Index(end, "node", f"{index.text}.{end}")
                    yield Index(f"{end}.ntype", "ntype", f"{index.text}.{end}.ntype")
            elif index.index_set == "node":
                path = "ntype" if index.name == "node" else f"{index.name}.ntype"
                yield Index(path, "ntype", f"{index.text}.ntype")
