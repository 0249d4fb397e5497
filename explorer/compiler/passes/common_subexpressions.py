"""Merges values that compute the same: `E[h]` written twice is gathered once."""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir.graph import Graph, Operator, Value, rename_operands
from explorer.compiler.ir.node import merge
from explorer.compiler.passes.report import Report


def common_subexpressions(graph: Graph, report: Report) -> Graph:
    """The graph with one value for each distinct operator on the same operands; origins are united."""
    kept: dict[tuple[Operator, tuple[object, ...]], Value] = {}
    names: dict[str, str] = {}
    for value in graph.values:
        operator = rename_operands(value.operator, names)
        key = (operator, value.shape)
        if key in kept:
            first = kept[key]
            kept[key] = replace(first, origin=merge(first.origin, value.origin))
            names[value.name] = first.name
            report.did(f"{value.name} is {first.name}")
        else:
            kept[key] = replace(value, operator=operator)
    return replace(graph, values=tuple(kept.values()), result=names.get(graph.result, graph.result))
