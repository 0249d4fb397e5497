"""Rows that are put one behind another, as those of several kinds of nodes, and taken apart again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from explorer.runtime.trace.operators.context import Context
from explorer.runtime.trace.values.elementwise import realized
from explorer.runtime.trace.values.expressions import Node, Nodes
from explorer.runtime.trace.values.tensors import SET, Atom, Unsayable, Value

_LEAVES = {"tensor", "gather", "reduce", "part"}
"""Expressions whose rows come from elsewhere."""


def put_behind(context: Context, values: Sequence[Value], dim: int) -> Value:
    """Rows of one set behind those of another: rows of both, a union."""
    context.hold_nodes(values, dim)
    found: list[str] = []
    lengths: list[int] = []
    operands: list[Node] = []
    shapes = set[tuple[int, ...]]()
    for value in values:
        if len(value.dims[dim]) != 1 or value.dims[dim][0].axis >= 0:
            raise Unsayable("rows of the batch or graph are put behind others that are no rows")
        rows = (*value.dims[:dim], (replace(value.dims[dim][0], axis=SET),), *value.dims[dim + 1 :])
        whole = realized(context.nodes, replace(value, dims=rows))
        shapes.add((*whole.shape[:dim], *whole.shape[dim + 1 :]))
        blocks = context.unions.blocks_of(value.node.set) if value.node.set else ()
        if len(blocks) > 1:
            found += blocks
            lengths += [context.unions.lengths[each] for each in blocks]
            operands += [part(context.nodes, whole.node, at, each) for at, each in enumerate(blocks)]
        else:
            found.append(value.node.set or context.unions.of_size(value.shape[dim]))
            lengths.append(value.shape[dim])
            operands.append(whole.node)
    of = context.unions.of_blocks(tuple(found))
    if not of or len(shapes) > 1:
        raise Unsayable("rows of the batch or graph are put behind others, which are those of no input")
    last = whole.dims
    made = context.nodes.make("union", tuple(operands), operands[0].shape, of)
    return Value(made, (*last[:dim], (Atom(sum(lengths), SET),), *last[dim + 1 :]))


def part(nodes: Nodes, node: Node, at: int, block: str) -> Node:
    """The rows of one block of a union."""
    made: dict[Node, Node] = {}

    def of(node: Node) -> Node:
        if not node.set:
            return node
        if node not in made:
            with nodes.in_place_of(node):
                made[node] = one(node)
        return made[node]

    def one(node: Node) -> Node:
        if node.operator == "union":
            return node.operands[at]
        if node.operator in _LEAVES:
            return nodes.make("part", (node,), node.shape, block, (at,))
        return nodes.make(node.operator, tuple(map(of, node.operands)), node.shape, block, node.data)

    return of(node)


def picked(context: Context, value: Value, dim: int, start: int, stop: int) -> Value | None:
    """The rows of a union between two places: those of one block; None where they are not. `dim` is the rows alone."""
    of = value.node.set
    starts = context.unions.starts(of) if of in context.unions.blocks else []
    at = next((at for at, pair in enumerate(pairwise(starts)) if pair == (start, stop)), None)
    if at is None:
        return None
    node = part(context.nodes, value.node, at, context.unions.blocks[of][at])
    return Value(node, (*value.dims[:dim], (Atom(stop - start, SET),), *value.dims[dim + 1 :]))


def taken_apart(context: Context, value: Value, shape: Sequence[int]) -> Value:
    """The rows of a union as several rows of as many blocks each, where a view asks for it."""
    node, length = value.node, prod(value.shape[:1])
    blocks = context.unions.blocks.get(node.set, ())
    count = shape[0] if len(shape) > 1 else 1
    whole = bool(value.dims) and len(value.dims[0]) == 1 and value.dims[0][0].axis == SET
    if node.operator != "union" or not whole or not 1 < count < length or len(blocks) % count:
        return value
    each = len(blocks) // count
    inner = blocks[:each]
    if blocks != inner * count:
        return value
    rounds = [node.operands[at::each] for at in range(each)]
    operands = tuple(_side_by_side(context.nodes, one) for one in rounds)
    of = context.unions.of([context.unions.lengths[block] for block in inner])
    made = context.nodes.make("union", operands, operands[0].shape, of) if each > 1 else operands[0]
    rest = (tuple(Atom(a.size, a.axis + (a.axis >= 0)) for a in dim) for dim in value.dims[1:])
    return Value(made, ((Atom(count, 0),), (Atom(length // count, SET),), *rest))


def _side_by_side(nodes: Nodes, operands: tuple[Node, ...]) -> Node:
    """A stack of expressions; of products of an expression's rows by matrices it is one product."""
    shape, of = (len(operands), *operands[0].shape), next((node.set for node in operands if node.set), "")
    if all(node.operator == "@" for node in operands):
        rows, matrices = (_stacked(nodes, each) for each in zip(*(node.operands for node in operands), strict=True))
        if rows.operator != "stack" and len(rows.shape) == 2 and len(matrices.shape) == 3 and not matrices.set:
            return nodes.make("@", (rows, matrices), shape, of)
    return _stacked(nodes, operands)


def _stacked(nodes: Nodes, operands: tuple[Node, ...]) -> Node:
    """A stack of expressions; of all rows of one in their order it is that one."""
    first = operands[0]
    whole = first.operands[0] if first.operator == "item" else first
    in_order = [(each.operator, each.operands, each.data) for each in operands]
    if in_order == [("item", (whole,), (at,)) for at in range(whole.shape[0] if whole.shape else 0)]:
        return whole
    of = next((node.set for node in operands if node.set), "")
    return nodes.make("stack", operands, (len(operands), *first.shape), of, (0,))
