"""Which products of rows with a matrix that rows share stand inside loops along a map, and are worth a kernel.

Inside the loop of a node's edges a product is an edge's own, and one warp would walk the matrix for each edge. In a
kernel over all edges the rows of a tile share the matrix. What that costs is to store a row for each edge, and to load
it again where they are added up.
"""

from __future__ import annotations

from math import prod

from explorer.compiler.ir.graph import Contract, Graph, Segment, Value, operands

LEAST_WORK = 32
"""Multiply-adds of a product that are worth to store its columns: one step of a warp."""
TYPES = frozenset({"etype", "ntype", "relation"})
"""Sets of so few elements that many rows choose the same matrix."""
ALONG_NONE = frozenset({"", "gather"})


def inner_products(graph: Graph, places: dict[str, set[tuple[str, str]]]) -> set[str]:
    """The values that are such products, by `places`, the loops in which each value is computed and the maps that
    these go along; a product of a sum is not one of them, since it can wait for its sum."""
    return {
        value.name
        for value in graph.values
        if {along for _, along in places[value.name]} - ALONG_NONE
        and _multiplies(graph, value)
        and not _only_summed(graph, value)
    }


def _only_summed(graph: Graph, value: Value) -> bool:
    """Whether all that is done with a value is to add it up, maybe scaled: the sums' loop is then split at the row."""
    readers = [other for other in graph.values if value.name in operands(other.operator)]
    if len(readers) != 1 or value.name in graph.outputs:
        return False
    match readers[0].operator:
        case Segment(function="sum"):
            return True
        case Contract(signature=",a->a", right=scaled) if scaled == value.name:
            return _only_summed(graph, readers[0])
    return False


def _multiplies(graph: Graph, value: Value) -> bool:
    """Whether a value is a product of a row and a shared matrix that takes more than a step."""
    if not isinstance(value.operator, Contract):
        return False
    letters, _, out = value.operator.signature.partition("->")
    left, _, right = letters.partition(",")
    operands = (graph.value(value.operator.left), left), (graph.value(value.operator.right), right)
    for (row, of_row), (matrix, of_matrix) in (operands, operands[::-1]):
        if not _shared(graph, matrix) or _shared(graph, row) or isinstance(row.operator, Segment):
            continue
        extents = dict(zip(of_matrix, map(graph.size, matrix.shape), strict=True))
        columns = prod(extents[letter] for letter in set(of_matrix) - set(of_row) if letter in out)
        depth = max((extents[letter] for letter in set(of_matrix) & set(of_row) if letter not in out), default=0)
        if columns > 1 and columns * depth >= LEAST_WORK:
            return True
    return False


def _shared(graph: Graph, value: Value) -> bool:
    """Whether a value depends on nothing, or on types alone."""
    codomain = {entry.name: entry.codomain for entry in graph.maps}
    return value.index_set in {"unit", *TYPES} or all(codomain.get(name) in TYPES for name in value.depends)
