"""Merges values that compute the same: `E[h]` written twice is gathered once."""

from __future__ import annotations

from explorer.compiler.frozen import replace
from explorer.compiler.ir.graph import Graph, Operator, Shape, Value, rename_operands, with_outputs_renamed
from explorer.compiler.ir.node import Origin, merge
from explorer.compiler.report import Report


def common_subexpressions(graph: Graph, report: Report) -> Graph:
    """The graph with one value for each distinct operator on the same operands; origins are united."""
    kept: dict[tuple[Operator, Shape, str], Value] = {}
    origins: dict[str, list[Origin]] = {}
    names: dict[str, str] = {}
    for value in graph.values:
        operator = rename_operands(value.operator, names)
        key = (operator, value.shape, value.index_set)
        first = kept.setdefault(key, replace(value, operator=operator))
        origins.setdefault(first.name, []).append(value.origin)
        if first.name != value.name:
            names[value.name] = first.name
            report.did(f"{value.name} is {first.name}")
    values = tuple(replace(value, origin=merge(*origins[value.name])) for value in kept.values())
    return with_outputs_renamed(graph, values, names)
