"""Builds the values of a graph, one an operation of the model text, and remembers which operations they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from explorer.compiler.ir import graph as ir
from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Collector
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.names.dependency import Dependency
from explorer.compiler.language.names.entities import Constant, Row, Stopped, Table
from explorer.compiler.language.names.shapes import MOST_DIMENSIONS

LARGEST_OPERATION_COUNT = 1000


class GraphBuilder:
    """Appends values in order; `dependencies` are all that a value may have, in the order in which they are shown."""

    def __init__(self, dependencies: Iterable[Dependency], collector: Collector) -> None:
        self.values: list[ir.Value] = []
        self.sites: dict[Span, OperationSite] = {}
        self.caller: OperationSite | None = None
        """While a helper of the prelude is inlined: its call, which is what the values come from."""
        self._dependencies = tuple(dependencies)
        self._collector = collector
        self._count = 0

    def emit(
        self,
        site: OperationSite,
        operator: ir.Operator,
        shape: ir.Shape,
        depends: frozenset[Dependency],
        lines: tuple[int, ...] = (),
        table: Table | None = None,
    ) -> Row:
        """A new value; raises Stopped when the definition exceeds the limit on operations, or the value that on
        dimensions."""
        if len(shape) > MOST_DIMENSIONS:
            message = f"a row has at most {MOST_DIMENSIONS} dimensions; this one would have {len(shape)}"
            self._collector.report(message, site.extent)
            raise Stopped
        if self.caller is not None:
            site = self.caller
            operator = replace(operator, origin=(site.span,))
        self.count_operation(site.span)
        self.sites.setdefault(site.span, site)
        name = f"%{len(self.values) + 1}"
        order = tuple(dict.fromkeys(entry.name for entry in self._dependencies if entry in depends))
        self.values.append(
            ir.Value(
                origin=(site.span,),
                name=name,
                operator=operator,
                index_set=self.index_set(depends),
                shape=shape,
                depends=order,
            )
        )
        return Row(name, shape, depends, lines, table)

    def depend(self, dependency: Dependency) -> None:
        """One more that a value may have."""
        self._dependencies = (*self._dependencies, dependency)

    def count_operation(self, span: Span) -> None:
        """Counts an operation, also one on numbers, which leaves no value."""
        self._count += 1
        if self._count > LARGEST_OPERATION_COUNT:
            self._collector.report(f"a definition has at most {LARGEST_OPERATION_COUNT:,} operations", span)
            raise Stopped

    def index_set(self, depends: frozenset[Dependency]) -> str:
        """The set whose elements the value differs between."""
        return self.set_among({entry.domain for entry in depends})

    def set_among(self, domains: set[str]) -> str:
        """The one of several sets whose elements tell those of the others: a fact's negatives their fact."""
        return "negative" if "negative" in domains else next(iter(domains), "unit")

    def constant(self, constant: Constant) -> Row:
        """A number as a value of the graph."""
        site = OperationSite(constant.label, constant.span, constant.span)
        operator = ir.Constant(origin=(constant.span,), value=float(constant.value))
        return self.emit(site, operator, (), frozenset())

    def row(self, entity: Row | Constant) -> Row:
        """A value as it is, or a number as a value."""
        return self.constant(entity) if isinstance(entity, Constant) else entity
