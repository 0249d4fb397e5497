"""Takes reductions across a stack element by element of what is stacked.

    %5 = concat %3, %4      : batch [256]        %8 = mul %3, %3        : batch [128]
    %6 = reshape %5         : batch [2, 128]     %9 = mul %4, %4        : batch [128]
    %7 = transpose %6       : batch [128, 2]  => %10 = add %8, %9       : batch [128]
    %8 = norm<2> %7         : batch [128]        %11 = sqrt %10         : batch [128]

Moduli of complex numbers are written so, `stack([re, im]).norm(dim=0)`. The parts then need no array of a row, and what
they share is computed once. Slopes are known by then, of the norm as it was: that is flat at 0, where a root is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce

from explorer.compiler.frozen import replace
from explorer.compiler.ir.graph import (
    Concat,
    Constant,
    Elementwise,
    Graph,
    Reduce,
    Reshape,
    Shape,
    Transpose,
    Value,
    operands,
)
from explorer.compiler.ir.node import merge
from explorer.compiler.passes.graph.writer import ValueWriter
from explorer.compiler.report import Report

MOST_PARTS = 8
"""More are a dimension of their own, which a loop goes along."""
EACH = {"norm2": "mul", "norm1": "abs"}
"""What is taken of each part first: of norm2 its product with itself."""
PAIRS = {"sum": "add", "mean": "add", "max": "max", "min": "min", "product": "mul", "norm1": "add", "norm2": "add"}
"""What two parts become one by."""


def folded_stacks(graph: Graph, report: Report) -> Graph:
    """The graph with reductions of its stacks' parts, where nothing else reads the stacks."""
    if not any(isinstance(value.operator, Concat) for value in graph.values):
        return graph
    readers = Counter(name for value in graph.values for name in operands(value.operator))
    readers.update(graph.outputs)
    writer = ValueWriter(graph)
    for value in graph.values:
        stack = _stack(graph, value, readers)
        if stack:
            report.did(f"{value.name} is taken of {', '.join(part.name for part in stack)}, element by element")
            value = _folded(writer, value, stack)
        writer.keep(value)
    return replace(graph, values=tuple(writer.written))


def _stack(graph: Graph, value: Value, readers: Counter[str]) -> list[Value]:
    """What is stacked along the dimension that a value reduces, each of its shape; nothing where that is no stack."""
    operator, read = value.operator, list[str]()
    for kind in (Reduce, Transpose, Reshape):
        if not isinstance(operator, kind):
            return []
        read.append(operator.operand)
        operator = graph.value(operator.operand).operator
    if (
        not isinstance(operator, Concat)
        or len(operator.operands) > MOST_PARTS
        or any(readers[name] > 1 for name in read)
    ):
        return []
    parts = [_before_reshape(graph, graph.value(name), value.shape) for name in operator.operands]
    return parts if all(part.shape == value.shape for part in parts) else []


def _before_reshape(graph: Graph, part: Value, shape: Shape) -> Value:
    """What a part is a reshape of, where that has the shape, and the reshape gives its extents other names alone: the
    rows of a matrix behind one another are no row of it."""
    if not isinstance(part.operator, Reshape) or [*map(graph.size, part.shape)] != [*map(graph.size, shape)]:
        return part
    return graph.value(part.operator.operand)


def _folded(writer: ValueWriter, value: Value, parts: Sequence[Value]) -> Value:
    """The value, of the parts."""
    assert isinstance(value.operator, Reduce)
    function = value.operator.function
    origin = merge(value.origin, *(part.origin for part in parts))

    def made(name: str, *of: Value) -> Elementwise:
        return Elementwise(function=name, operands=tuple(each.name for each in of), origin=value.operator.origin)

    def added(operator: Elementwise, like: Value) -> Value:
        return writer.add(operator, like.index_set, value.shape, like.depends, origin)

    each = EACH.get(function)
    taken = [added(made(each, *[part] * (2 if each == "mul" else 1)), part) if each else part for part in parts]

    def paired(one: Value, other: Value) -> Value:
        return added(made(PAIRS[function], one, other), value)

    *first, last = taken
    if function == "norm2":
        return replace(value, operator=made("sqrt", reduce(paired, taken)))
    if function == "mean":
        count = writer.add(Constant(value=float(len(parts)), origin=value.operator.origin), "unit", (), (), origin)
        return replace(value, operator=made("div", reduce(paired, taken), count))
    return replace(value, operator=made(PAIRS[function], reduce(paired, first), last))
