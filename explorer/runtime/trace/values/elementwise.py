"""Operators that go element by element, on shapes that broadcast: in the language one is a beginning or an end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from explorer.runtime.trace.values.expressions import Node, Nodes
from explorer.runtime.trace.values.tensors import (
    ALL_PAIRS,
    REPEATED,
    SET,
    Atom,
    Dimension,
    Unsayable,
    Value,
    flat,
    grouped,
)

MOST_STACKED = 64
"""Copies of an expression that a text writes side by side where no function repeats it in that place."""

Make = Callable[[list[Node], tuple[int, ...]], Node]
"""Of operands that broadcast as the language does, and the shape of the result."""


def elementwise(nodes: Nodes, make: Make, values: Sequence[Value], multiplies: bool = False) -> Value:
    """The result of an operator of tensors that broadcast."""
    rank = max(len(value.dims) for value in values)
    values = [replace(value, dims=((),) * (rank - len(value.dims)) + value.dims) for value in values]
    same_sets(values)
    pieces, counts = flat(nodes, values)
    atoms = [[value.dims[dim][0] for value in pieces if value.dims[dim]] for dim in range(sum(counts))]
    dims = [_joined(each) for each in atoms]
    if sum(dim[0].axis == SET for dim in dims if dim) > 1:
        raise Unsayable(ALL_PAIRS)
    rows = [place for place, dim in enumerate(dims) if dim and dim[0].axis >= 0]
    sizes = tuple(dims[place][0].size for place in rows)
    fitted = _fitted(nodes, pieces, rows, sizes, multiplies)
    axis = {place: number for number, place in enumerate(rows)}
    placed = [tuple(Atom(a.size, axis.get(place, a.axis)) for a in dim) for place, dim in enumerate(dims)]
    return Value(make(fitted, sizes), grouped(placed, counts))


def same_sets(values: Sequence[Value]) -> None:
    """Refuses values over two index sets."""
    sets = {value.node.set for value in values} - {""}
    if len(sets) > 1:
        raise Unsayable("values of different index sets meet without a map between them")


def _joined(atoms: list[Atom]) -> Dimension:
    """The atom of a result's dimension: the set's where an operand has it, else an axis, else a repetition."""
    if not atoms:
        return ()
    kinds = {SET if atom.axis == SET else REPEATED if atom.axis == REPEATED else 0 for atom in atoms}
    if {SET, 0} <= kinds:
        raise Unsayable("the rows of the batch or graph meet a dimension of an element")
    return (Atom(atoms[0].size, SET if SET in kinds else 0 if 0 in kinds else REPEATED),)


def _fitted(nodes: Nodes, pieces: list[Value], rows: list[int], sizes: tuple[int, ...], multiplies: bool) -> list[Node]:
    """The operands' expressions, transposed and repeated as the language needs it."""
    found = []
    for value in pieces:
        places = {dim[0].axis: place for place, dim in enumerate(value.dims) if dim and dim[0].axis >= 0}
        order = [rows.index(places[axis]) for axis in range(len(value.node.shape))]
        found.append(in_order(nodes, value.node, order))
    whole = list(range(len(sizes)))
    orders = [order for _, order in found]
    if multiplies and orders == [[0], [1]]:
        return [node for node, _ in found]  # which is an outer product
    if whole not in orders:
        widest = max(range(len(found)), key=lambda at: len(found[at][1]))
        found[widest] = _repeated(nodes, *found[widest], sizes), whole
    return [node if _fits(order, sizes) else _repeated(nodes, node, order, sizes) for node, order in found]


def in_order(nodes: Nodes, node: Node, order: list[int]) -> tuple[Node, list[int]]:
    """An expression with its axes in the order of the result's, which they are numbered by."""
    return nodes.permuted(node, sorted(range(len(order)), key=order.__getitem__)), sorted(order)


def _fits(order: list[int], sizes: tuple[int, ...]) -> bool:
    """Whether the language repeats an operand with these axes by itself: it takes a beginning before an end."""
    count, rank = len(order), len(sizes)
    if order == list(range(count)):
        return True
    have = tuple(sizes[place] for place in order)
    return order == list(range(rank - count, rank)) and have != sizes[:count]


def _repeated(nodes: Nodes, node: Node, order: list[int], sizes: tuple[int, ...]) -> Node:
    """An operand with all axes of the result."""
    order = list(order)
    for place, size in enumerate(sizes):
        if place in order:
            continue
        at = sum(other < place for other in order)
        shape = (*node.shape[:at], size, *node.shape[at:])
        if at == 0:
            node = nodes.call("repeat", node, shape=shape, more=str(size))
        elif at == len(node.shape) == 1:
            node = nodes.transposed(nodes.call("repeat", node, shape=shape[::-1], more=str(size)))
        elif size <= MOST_STACKED:
            node = nodes.make("stack", (node,) * size, shape, node.set, (at,))
        else:
            first = nodes.call("repeat", node, shape=(size, *node.shape), more=str(size))
            node = nodes.permuted(first, [*range(1, at + 1), 0, *range(at + 1, len(shape))])
        order = sorted([*order, place])
    return node


def realized(nodes: Nodes, value: Value) -> Value:
    """The value with an expression that has all its dimensions, in their order."""
    dims = [atom for dim in value.dims for atom in dim if atom.axis != SET]
    rows = [atom.axis for atom in dims if atom.axis >= 0]
    if rows == list(range(len(dims))):
        return value
    order = [place for place, atom in enumerate(dims) if atom.axis >= 0]
    axes = [order[rows.index(axis)] for axis in range(len(rows))]
    sizes = tuple(atom.size for atom in dims)
    node, axes = in_order(nodes, value.node, axes)
    node = _repeated(nodes, node, axes, sizes)
    count = iter(range(len(dims)))
    placed = (tuple(Atom(a.size, SET if a.axis == SET else next(count)) for a in dim) for dim in value.dims)
    return Value(node, tuple(placed))
