"""Multiplies a row with each of some matrices before these are combined: `x @ sum_k b[k] W[k] = sum_k b[k] (x @ W[k])`.

    %3 = contract<a,abc->bc> %1, %2 : edge [F, G]         %5 = contract<a,bac->bc> %4, %2 : edge [K, G]
    %6 = bmv %4, %3                 : edge [G]       =>   %6 = contract<a,ab->b> %1, %5   : edge [G]

Matrices that are combined for each edge are each used for one row: neither a tile nor a cache helps. The rows are those
of few nodes, and all of them share the matrices that are combined. Splines (SplineConv), networks of an edge (NNConv)
and relations (TuckER) combine matrices like this, with a bias that is one more matrix.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from explorer.compiler.counts import Counts
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.graph import Contract, Elementwise, Graph, Reshape, Shape, Value, operands
from explorer.compiler.ir.node import Origin, merge
from explorer.compiler.passes.graph.dead_values import dead_values
from explorer.compiler.passes.graph.writer import ValueWriter
from explorer.compiler.report import Report


@dataclass(frozen=True)
class _Combined:
    """Matrices `matrices[.., k, ..]` combined with the factors of a row, as a matrix of a shape; of no row, a matrix
    by itself."""

    row: Value | None
    matrices: Value
    signature: str
    shape: Shape
    reshaped: bool


def combine_last(graph: Graph, report: Report) -> Graph:
    """The graph with such products regrouped where that is less work."""
    if any(entry.domain == "negative" for entry in graph.maps):
        return graph
    needed = dead_values(graph, Report(report.options, report.counts)).values  # late reshapes leave what nobody reads
    uses = Counter(name for value in needed for name in operands(value.operator))
    writer = ValueWriter(graph)
    for value in graph.values:
        writer.keep(_regrouped(graph, writer, value, uses, report))
    return replace(graph, values=tuple(writer.written))


def _regrouped(graph: Graph, writer: ValueWriter, value: Value, uses: Counter[str], report: Report) -> Value:
    """A product of a row and combined matrices as a combination of products; other values as they are."""
    operator = value.operator
    if not isinstance(operator, Contract) or operator.signature not in ("a,ab->b", "ab,b->a"):
        return value
    first = operator.signature == "a,ab->b"
    row, matrix = (writer.values[name] for name in (operator.left, operator.right)[:: 1 if first else -1])
    terms = _terms(graph, writer, matrix, matrix.shape, uses, False)
    if matrix.index_set == "unit" or uses[matrix.name] > 1 or not any(term.row for term in terms):
        return value
    summed, kept = (0, 1) if first else (1, 0)
    sizes = [graph.size(matrix.shape[at]) for at in (summed, kept)]
    if not all(_gains(graph, row, matrix, term, sizes, report.counts) for term in terms if term.row):
        return value
    origin = merge(value.origin, matrix.origin)
    parts = [_part(graph, writer, value, row, term, summed, origin) for term in terms]
    report.did(f"{value.name} multiplies {row.name} before it combines what {matrix.name} is made of")
    while len(parts) > 2:
        both = Elementwise(function="add", operands=(parts[0], parts[1]), origin=origin)
        total = writer.add(both, value.index_set, value.shape, value.depends, origin)
        parts = [total.name, *parts[2:]]
    if len(parts) == 1:
        last = writer.written.pop()
        return replace(value, operator=last.operator, origin=origin)
    return replace(value, operator=Elementwise(function="add", operands=tuple(parts), origin=origin), origin=origin)


def _terms(
    graph: Graph, writer: ValueWriter, value: Value, shape: Shape, uses: Counter[str], reshaped: bool
) -> list[_Combined]:
    """What a matrix is the sum of."""
    match value.operator:
        case Reshape(operand=name) if uses[name] == 1:
            return _terms(graph, writer, writer.values[name], shape, uses, True)
        case Elementwise(function="add", operands=(left, right)) if uses[left] == uses[right] == 1:
            both = writer.values[left], writer.values[right]
            if both[0].shape == both[1].shape == value.shape:
                return [term for each in both for term in _terms(graph, writer, each, shape, uses, reshaped)]
        case Contract(left=left, right=right, signature=signature):
            row, matrices = writer.values[left], writer.values[right]
            plain = signature == "a,ab->b" if reshaped else len(matrices.shape) == 3
            if len(row.shape) == 1 and matrices.index_set == "unit" != row.index_set and plain and shape:
                return [_Combined(row, matrices, "a,abc->bc" if reshaped else signature, shape, reshaped)]
    return [_Combined(None, value, "", shape, reshaped)]


def _gains(graph: Graph, row: Value, matrix: Value, term: _Combined, sizes: list[int], counts: Counts) -> bool:
    """Whether rows times matrices are less work than combined matrices, on sets of these sizes."""
    assert term.row is not None
    (depth, columns), many = sizes, graph.size(term.row.shape[0])
    if graph.family != "layer":
        return many < depth
    combined = counts[matrix.index_set]
    ends = {entry.codomain for entry in graph.maps if entry.name in row.depends}
    rows = counts[next(iter(ends))] if len(ends) == 1 == len(row.depends) else counts[row.index_set]
    before = combined * (many * depth * columns + depth * columns)
    return rows * many * depth * columns + combined * many * columns < before


def _part(
    graph: Graph, writer: ValueWriter, value: Value, row: Value, term: _Combined, summed: int, origin: Origin
) -> str:
    """A row times the matrices of a term, combined."""
    matrices = term.matrices
    if term.reshaped:
        shape = (*((matrices.shape[0],) if term.row else ()), *term.shape)
        reshape = Reshape(operand=matrices.name, origin=origin)
        matrices = writer.add(reshape, matrices.index_set, shape, matrices.depends, origin)
    if term.row is None:
        signature = "a,ab->b" if summed == 0 else "a,ba->b"
        product = Contract(signature=signature, left=row.name, right=matrices.name, origin=origin)
        place, depends = (row.index_set, row.depends) if not matrices.depends else (value.index_set, value.depends)
        return writer.add(product, place, value.shape, depends, origin).name
    letters, _, out = term.signature.partition("->")
    one, _, three = letters.partition(",")
    inner = Contract(
        signature=f"{out[summed]},{three}->{one}{out[1 - summed]}", left=row.name, right=matrices.name, origin=origin
    )
    shape = (term.row.shape[0], *value.shape)
    rows = writer.add(inner, row.index_set, shape, row.depends, origin)
    combined = Contract(signature="a,ab->b", left=term.row.name, right=rows.name, origin=origin)
    return writer.add(combined, value.index_set, value.shape, value.depends, origin).name
