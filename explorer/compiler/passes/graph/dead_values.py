"""Drops values that neither a result nor a gradient needs, and maps that lead nowhere any more."""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir.graph import Graph, IndexMap, Value, operands
from explorer.compiler.report import Report


def dead_values(graph: Graph, report: Report) -> Graph:
    """The graph with only what the results depend on."""
    needed = set(graph.outputs)
    for value in reversed(graph.values):
        if value.name in needed:
            needed.update(operands(value.operator))
    for value in graph.values:
        if value.name not in needed:
            report.did(f"{value.name} is not needed")
    values = tuple(value for value in graph.values if value.name in needed)
    return replace(graph, values=values, maps=tuple(entry for entry in graph.maps if _leads(entry, values)))


def _leads(entry: IndexMap, values: tuple[Value, ...]) -> bool:
    """Whether a map is one of the definition's own, or of a derived set that still has values."""
    derived = {"src_pair", "dst_pair"} & {entry.domain, entry.codomain}
    return not derived or any(value.index_set in derived for value in values)
