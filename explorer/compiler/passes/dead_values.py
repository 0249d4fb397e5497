"""Drops values that the result does not need."""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir.graph import Graph, operands
from explorer.compiler.passes.report import Report


def dead_values(graph: Graph, report: Report) -> Graph:
    """The graph with only what the result depends on."""
    needed = {graph.result}
    for value in reversed(graph.values):
        if value.name in needed:
            needed.update(operands(value.operator))
    for value in graph.values:
        if value.name not in needed:
            report.did(f"{value.name} is not needed")
    return replace(graph, values=tuple(value for value in graph.values if value.name in needed))
