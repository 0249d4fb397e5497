"""Counts the floating-point operations of a graph's values: one place for all who show or weigh them."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from explorer.compiler.ir.functions import FUNCTIONS
from explorer.compiler.ir.graph import Contract, Elementwise, Gather, Graph, Reduce, Segment, Value, operands


def elements(graph: Graph, value: Value) -> int:
    """How many numbers a row of a value holds."""
    return prod(graph.size(extent) for extent in value.shape)


def row_flop(graph: Graph, value: Value) -> int:
    """Operations for one row of a value, a multiplication and an addition counted as two.

    A function such as exp counts as one; a norm takes two an element, the square or absolute value and the addition.
    A segment's additions belong to the rows that it adds, not to its own."""
    match value.operator:
        case Elementwise(function=function):
            return elements(graph, value) * FUNCTIONS[function].flop
        case Reduce(function=function, operand=operand):
            return elements(graph, graph.value(operand)) * (2 if function.startswith("norm") else 1)
        case Contract(signature=signature, left=left, right=right):
            letters, result = signature.split("->")
            extents = (*graph.value(left).shape, *graph.value(right).shape)
            sizes = {
                letter: graph.size(extent) for letter, extent in zip(letters.replace(",", ""), extents, strict=True)
            }
            return prod(sizes.values()) * (1 if set(sizes) == set(result) else 2)
    return 0


def used_values(graph: Graph) -> list[Value]:
    """The values that the results need, in order."""
    needed = set(graph.results)
    used = []
    for value in reversed(graph.values):
        if value.name in needed:
            needed.update(operands(value.operator))
            used.append(value)
    return used[::-1]


def work_of(graph: Graph, value: Value) -> tuple[str, int]:
    """The index set for each of whose rows a value computes, and its operations a row: a segment adds up its operand's
    rows, everything else computes its own."""
    if isinstance(value.operator, Segment):
        operand = graph.value(value.operator.operand)
        return operand.index_set, elements(graph, operand)
    return value.index_set, row_flop(graph, value)


def work_by_set(graph: Graph, values: Iterable[Value]) -> dict[str, int]:
    """Operations of several values, a row of each index set that they compute for; none for what only moves data."""
    total: dict[str, int] = {}
    for index_set, flop in (work_of(graph, value) for value in values):
        if flop:
            total[index_set] = total.get(index_set, 0) + flop
    return total


def per_lookup(graph: Graph) -> tuple[float, int]:
    """The operations for each element that an embedding operation looks up, and the rows that it looks up, for each of
    its entries (Ember, Table 1). A sum's additions count for the entries that it adds."""
    used = used_values(graph)
    looked_up = [value for value in used if isinstance(value.operator, Gather) and value.shape]
    if not looked_up:
        return 0.0, 0
    entries = looked_up[-1].index_set
    width = max(elements(graph, value) for value in looked_up)
    work = sum(flop for index_set, flop in (work_of(graph, value) for value in used) if index_set == entries)
    return work / width, len(looked_up)
