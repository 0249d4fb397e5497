"""Takes products of values as they lie in memory, and reshapes behind the products.

    %3 = reshape %2   : unit [K, 40000]         %3 = contract<a,abc->bc> %1, %2 : batch [D, D]
    %4 = bmv %1, %3   : batch [40000]     =>
    %5 = reshape %4   : batch [D, D]

A reshape that puts neighbouring dimensions together changes no order of elements, so that where a product keeps such a
dimension it may as well keep those that it is made of: no index has to be divided to find an element of the matrix, in
the product and in its gradients. Of two reshapes the second is enough, and one to the shape that there is is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from string import ascii_lowercase

from explorer.compiler.frozen import replace
from explorer.compiler.ir.graph import (
    Contract,
    Graph,
    Reshape,
    Shape,
    Value,
    in_order,
    rename_operands,
    with_outputs_renamed,
)
from explorer.compiler.ir.node import Origin, merge
from explorer.compiler.passes.graph.writer import ValueWriter
from explorer.compiler.report import Report


def late_reshapes(graph: Graph, report: Report) -> Graph:
    """The graph with reshapes behind the products that keep what they put together, and without those in vain."""
    if not any(isinstance(value.operator, Reshape) for value in graph.values):
        return graph
    writer, sizes, names = ValueWriter(graph), dict(graph.sizes), dict[str, str]()
    origins: dict[str, list[Origin]] = {}  # of what is no value any more, by the value that stands for it
    for value in graph.values:
        value = replace(value, operator=rename_operands(value.operator, names))
        if isinstance(value.operator, Contract):
            value = _behind(writer, value, value.operator, sizes, report)
        value = _once(writer, value)
        operator = value.operator
        if isinstance(operator, Reshape) and writer.values[operator.operand].shape == value.shape:
            names[value.name] = operator.operand
            origins.setdefault(operator.operand, []).append(value.origin)
            report.did(f"{value.name} is {operator.operand}, in the shape that it has")
            continue
        writer.keep(value)
    values = tuple(replace(each, origin=merge(each.origin, *origins.get(each.name, ()))) for each in writer.written)
    return with_outputs_renamed(graph, values, names)


def _once(writer: ValueWriter, value: Value) -> Value:
    """A reshape of a reshape as one of what that is of."""
    if isinstance(value.operator, Reshape):
        inner = writer.values[value.operator.operand].operator
        if isinstance(inner, Reshape):
            return replace(value, operator=replace(value.operator, operand=inner.operand))
    return value


def _behind(writer: ValueWriter, value: Value, contract: Contract, sizes: dict[str, int], report: Report) -> Value:
    """The product as a reshape of one that takes its operands as they lie; itself where they lie so."""
    names, origin = [contract.left, contract.right], value.origin
    inputs, _, kept = contract.signature.partition("->")
    sides = inputs.split(",")
    split: dict[str, Shape] = {}
    for at, (side, other) in enumerate(zip(sides, reversed(sides), strict=True)):
        operand = writer.values[names[at]]
        if not isinstance(operand.operator, Reshape):
            continue
        lying = writer.values[operand.operator.operand].shape
        parts = dict(zip(side, _parts(lying, operand.shape, sizes), strict=False))
        together = {letter for letter, part in parts.items() if len(part) != 1}
        if len(parts) == len(side) and together and together <= set(kept) - set(other):
            split |= parts
            names[at], origin = operand.operator.operand, merge(origin, operand.origin)
    if not split:
        return value
    fresh = iter(letter for letter in ascii_lowercase if letter not in contract.signature)
    letters = {each: "".join([each, *(next(fresh) for _ in part[1:])]) for each, part in split.items()}
    signature = "".join(letters.get(letter, letter) for letter in contract.signature)
    shape = tuple(
        extent for letter, whole in zip(kept, value.shape, strict=True) for extent in split.get(letter, (whole,))
    )
    product = writer.add(
        replace(contract, signature=in_order(signature), left=names[0], right=names[1]),
        *(value.index_set, shape, value.depends, origin),
    )
    report.did(f"{value.name} is reshaped behind its product")
    return replace(value, operator=Reshape(operand=product.name, origin=contract.origin))


def _parts(lying: Shape, shape: Shape, sizes: dict[str, int]) -> Iterator[Shape]:
    """For each dimension of a shape the neighbouring ones that it puts together; fewer where it cuts one."""
    rest = list(lying)
    for extent in shape:
        part: list[str | int] = []
        while rest and prod(_size(each, sizes) for each in part) < _size(extent, sizes):
            part.append(rest.pop(0))
        if not part and rest and _size(rest[0], sizes) == 1:
            part.append(rest.pop(0))
        if not part or prod(_size(each, sizes) for each in part) != _size(extent, sizes):
            return
        yield tuple(part)


def _size(extent: str | int, sizes: dict[str, int]) -> int:
    return sizes[extent] if isinstance(extent, str) else extent
