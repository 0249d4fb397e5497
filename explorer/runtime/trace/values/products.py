"""Products of batches of matrices, as the language's `@`, `dot` and products element by element."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from explorer.runtime.trace.values.elementwise import elementwise, realized, same_sets
from explorer.runtime.trace.values.expressions import Node, Nodes, set_of
from explorer.runtime.trace.values.tensors import (
    ALL_PAIRS,
    REPEATED,
    SET,
    Atom,
    Dimension,
    Unsayable,
    Value,
    common,
    viewed,
)

Labels = list[object]
"""Of an expression's axes: places of batch dimensions, "inner", and "row" and "column" with the place of an atom."""


def multiplied(nodes: Nodes, a: Value, b: Value) -> Value:
    """`a * b`, element by element."""
    return elementwise(nodes, lambda operands, shape: _times(nodes, operands, shape), [a, b], multiplies=True)


def _times(nodes: Nodes, operands: list[Node], shape: tuple[int, ...]) -> Node:
    a, b = operands
    if b.operator == "number":
        a, b = b, a
    if a is nodes.number(1):
        return b
    if len(shape) == 2 and len(a.shape) == len(b.shape) == 1 and shape == a.shape + b.shape:
        return nodes.call("outer", a, b, shape=shape)
    return nodes.make("*", (a, b), shape, set_of((a, b)))


def batched_product(nodes: Nodes, a: Value, b: Value) -> Value:
    """`bmm`: of `[b, n, k]` and `[b, k, m]`."""
    same_sets([a, b])
    if a.shape[2] == 1:  # nothing is summed
        return multiplied(nodes, a, b)
    if {SET, REPEATED} & {atom.axis for dim in (a.dims[2], b.dims[1]) for atom in dim}:
        raise Unsayable("the sum of a product goes over the rows of the batch or graph")
    factors = common([value.dims[0] for value in (a, b) if value.shape[0] != 1])
    a, b = (
        viewed(nodes, value, [*(factors if value.shape[0] != 1 else _ones(factors)), *value.shape[1:]])
        for value in (a, b)
    )
    outer = len(factors)
    a, b = (_joined(nodes, value) if len(dim) > 1 else value for value, dim in ((a, a.dims[-1]), (b, b.dims[-2])))
    if len(a.dims[-1]) > 1 or len(b.dims[-2]) > 1:
        raise Unsayable("the dimensions of a product are taken apart")
    known: dict[object, Atom] = {}
    of_a = _labelled(known, [*enumerate(a.dims[:outer]), *_apart("row", a.dims[-2]), ("inner", a.dims[-1])])
    of_b = _labelled(known, [*enumerate(b.dims[:outer]), ("inner", b.dims[-2]), *_apart("column", b.dims[-1])])
    node, labels = _product(nodes, a.node, of_a, b.node, of_b)
    axes = {label: axis for axis, label in enumerate(labels)}

    def placed(label: object) -> Dimension:
        atom = known.get(label)
        return () if atom is None else (replace(atom, axis=axes.get(label, atom.axis)),)

    def all_of(labels: Iterable[object]) -> Dimension:
        return tuple(part for label in labels for part in placed(label))

    rows, columns = (
        all_of(label for label, _ in _apart(n, d)) for n, d in (("row", a.dims[-2]), ("column", b.dims[-1]))
    )
    return Value(node, (all_of(range(outer)), rows, columns))


def _joined(nodes: Nodes, value: Value) -> Value:
    """A value whose axes are in the order of its dimensions, each of which is one where that can be."""
    made = realized(nodes, value)
    return viewed(nodes, made, made.shape)


def _apart(name: str, dim: Dimension) -> list[tuple[object, Dimension]]:
    """A label for each atom of a dimension."""
    return [((name, place), (atom,)) for place, atom in enumerate(dim)]


def _ones(factors: list[int]) -> list[int]:
    return [1] * len(factors)


def _labelled(known: dict[object, Atom], dims: list[tuple[object, Dimension]]) -> Labels:
    """The labels of an operand's axes, in their order; `known` learns what each dimension of the result is."""
    axes: dict[int, object] = {}
    sets = 0
    for label, dim in dims:
        for atom in dim:
            sets += atom.axis == SET
            if atom.axis >= 0:
                axes[atom.axis] = label
            seen = known.get(label)
            kinds = {SET if each.axis == SET else min(each.axis, 0) for each in (seen, atom) if each is not None}
            if kinds == {SET, 0}:
                raise Unsayable("the rows of the batch or graph meet a dimension of an element")
            if seen is None or seen.axis == REPEATED:
                known[label] = atom
    if sum(atom.axis == SET for label, atom in known.items() if label != "inner") > 1:
        raise Unsayable(ALL_PAIRS)
    return [axes[axis] for axis in range(len(axes))]


def _product(nodes: Nodes, a: Node, of_a: Labels, b: Node, of_b: Labels) -> tuple[Node, Labels]:
    """The product over "inner", and the labels of its axes."""
    of = set_of((a, b))
    shared = [label for label in of_a if label in of_b and label != "inner"]
    a, of_a = _shared_first(nodes, a, of_a, shared)
    b, of_b = _shared_first(nodes, b, of_b, shared)
    free_a, free_b = of_a[len(shared) :], of_b[len(shared) :]
    own_a, own_b = [x for x in free_a if x != "inner"], [x for x in free_b if x != "inner"]
    labels = [*shared, *own_a, *own_b]
    sizes = {**dict(zip(of_a, a.shape, strict=True)), **dict(zip(of_b, b.shape, strict=True))}
    shape = tuple(sizes[label] for label in labels)
    if not own_a and not own_b:
        return nodes.call("dot", a, b, shape=shape), labels
    if own_a and own_b:
        if len(own_b) > 1:
            raise Unsayable("the dimensions of a product are in an order that `@` has not")
        a, b = _inner(nodes, a, free_a, -1), _inner(nodes, b, free_b, -2)
        return nodes.make("@", (a, b), shape, of), labels
    matrix, free, row, own = (b, free_b, a, own_b) if own_b else (a, free_a, b, own_a)
    if free[-1] == "inner" and (not shared or len(own) == 1):  # a matrix and a row, which for each head are a row first
        if shared:
            return nodes.make("@", (row, nodes.transposed(matrix)), shape, of), labels
        return nodes.make("@", (matrix, row), shape, of), labels
    return nodes.make("@", (row, _inner(nodes, matrix, free, -2)), shape, of), labels


def _shared_first(nodes: Nodes, node: Node, labels: Labels, shared: Labels) -> tuple[Node, Labels]:
    """An operand whose batch dimensions are first."""
    if labels[: len(shared)] == shared:
        return node, labels
    turned = [*shared, *(label for label in labels if label not in shared)]
    return nodes.permuted(node, [labels.index(label) for label in turned]), turned


def _inner(nodes: Nodes, node: Node, free: Labels, place: int) -> Node:
    """An operand whose inner dimension is the last, or the last but one."""
    turned = [label for label in free if label != "inner"]
    turned.insert(len(free) + place, "inner")
    before = len(node.shape) - len(free)  # the batch's
    return nodes.permuted(node, [*range(before), *(before + free.index(label) for label in turned)])
