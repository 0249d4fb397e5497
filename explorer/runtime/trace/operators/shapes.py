"""Operators that move elements and compute nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from explorer.runtime.trace.operators.context import Context, Entry, binary
from explorer.runtime.trace.operators.unions import picked, put_behind, taken_apart
from explorer.runtime.trace.values.elementwise import realized, same_sets
from explorer.runtime.trace.values.expressions import Node, set_of
from explorer.runtime.trace.values.tensors import (
    REPEATED,
    SET,
    Atom,
    Unsayable,
    Value,
    expanded,
    permuted,
    splat,
    viewed,
)


def _same(context: Context, call: Any) -> Value:
    return context.value(call.arguments[0])


def _view(context: Context, call: Any) -> Value:
    value, shape = context.value(call.arguments[0]), call.arguments[1]
    return viewed(context.nodes, taken_apart(context, value, shape), shape)


def _transposed(context: Context, call: Any) -> Value:
    value = context.value(call.arguments[0])
    one, other = (value.place(dim) for dim in (call.arguments[1:3] or (0, len(value.dims) - 1)))
    order = list(range(len(value.dims)))
    order[one], order[other] = order[other], order[one]
    return permuted(value, order)


def _permuted(context: Context, call: Any) -> Value:
    return permuted(context.value(call.arguments[0]), call.arguments[1])


def _unsqueezed(context: Context, call: Any) -> Value:
    value, dim = context.value(call.arguments[0]), call.arguments[1]
    at = dim + len(value.dims) + 1 if dim < 0 else dim
    return replace(value, dims=(*value.dims[:at], (), *value.dims[at:]))


def _squeezed(context: Context, call: Any) -> Value:
    value = context.value(call.arguments[0])
    asked = call.argument(1, "dim", range(len(value.dims)))
    places = {value.place(dim) for dim in ([asked] if isinstance(asked, int) else asked)}
    kept = tuple(dim for at, dim in enumerate(value.dims) if at not in places or value.shape[at] != 1)
    return replace(value, dims=kept)


def _expanded(context: Context, call: Any) -> Value:
    return expanded(context.value(call.arguments[0]), call.arguments[1])


def _tiled(context: Context, call: Any) -> Value:
    value, counts = context.value(call.arguments[0]), list(call.arguments[1])
    shape = (1,) * (len(counts) - len(value.dims)) + value.shape
    if any(count > 1 and size > 1 for count, size in zip(counts, shape, strict=True)):
        raise Unsayable("a dimension with elements of its own is repeated one after another")
    return expanded(value, [size * count for size, count in zip(shape, counts, strict=True)])


def _row_axis(value: Value, dim: int) -> int | None:
    """The axis of the expression that a dimension is; None where it has none: of size one, or repeated."""
    atoms = value.dims[dim]
    if any(atom.axis == SET for atom in atoms):
        raise Unsayable(
            "rows of the batch or graph are picked by their place, which another call has others at: pick them by ids, "
            "or those of a kind by a mask, x[kind == i]"
        )
    if len(atoms) > 1:
        raise Unsayable("a part is taken of a dimension that is two in one")
    return atoms[0].axis if atoms and atoms[0].axis != REPEATED else None


def _without(value: Value, node: Node, dim: int, axis: int) -> Value:
    """A value whose expression has lost an axis, which was this dimension."""
    dims = tuple(
        tuple(replace(atom, axis=atom.axis - (atom.axis > axis)) for atom in each)
        for at, each in enumerate(value.dims)
        if at != dim
    )
    return Value(node, dims)


def selected(context: Context, value: Value, dim: int, index: int) -> Value:
    """`x[index]` of a dimension."""
    dim = value.place(dim)
    axis = _row_axis(value, dim)
    if axis is None:
        return replace(value, dims=value.dims[:dim] + value.dims[dim + 1 :])
    rank = len(value.node.shape)
    if 0 < axis >= rank - 2 and rank > 2:
        turned = value.node if axis == rank - 1 else context.nodes.transposed(value.node)
        one = (*turned.shape[:-1], 1)
        index %= turned.shape[-1]
        part = context.nodes.make("slice", (turned,), one, turned.set, (index, index + 1, 1))
        return _without(value, context.nodes.reshaped(part, one[:-1]), dim, axis)
    node = context.nodes.permuted(value.node, [axis, *(each for each in range(rank) if each != axis)])
    shape = node.shape[1:]
    made = context.nodes.make("item", (node,), shape, node.set, (index,))
    return _without(value, made, dim, axis)


def sliced(context: Context, value: Value, dim: int, start: int, stop: int, step: int = 1) -> Value:
    """`x[start:stop:step]` of a dimension."""
    dim = value.place(dim)
    size = value.shape[dim]
    start, stop, step = slice(start, stop, step).indices(size)
    count = len(range(start, stop, step))
    if count == size:
        return value
    rows = _rows(context, value, dim, start, stop) if value.dims[dim] and step == 1 else None
    if rows is not None:
        return rows
    context.hold_cut(value, dim, start, stop)
    axis = _row_axis(value, dim)
    if axis is None:
        return replace(value, dims=(*value.dims[:dim], (Atom(count, REPEATED),), *value.dims[dim + 1 :]))
    if count == 1:
        picked = selected(context, value, dim, start)
        return replace(picked, dims=(*picked.dims[:dim], (), *picked.dims[dim:]))
    rank = len(value.node.shape)
    node = context.nodes.permuted(value.node, [*(each for each in range(rank) if each != axis), axis])
    node = context.nodes.make("slice", (node,), (*node.shape[:-1], count), node.set, (start, stop, step))
    node = context.nodes.permuted(node, [*range(axis), rank - 1, *range(axis, rank - 1)])
    dims = (*value.dims[:dim], (Atom(count, axis),), *value.dims[dim + 1 :])
    return Value(node, dims)


def _rows(context: Context, value: Value, dim: int, start: int, stop: int) -> Value | None:
    """The rows between two places of a dimension that rows are a part of: those of a block, or all, of one number of
    what is before them there. None where they are not."""
    *outer, rows = value.dims[dim]
    if rows.axis != SET or any(atom.axis == REPEATED for atom in outer):
        return None
    number, first = divmod(start, rows.size)
    last = stop - number * rows.size
    if outer:
        sizes = [*value.shape[:dim], value.shape[dim] // rows.size, rows.size, *value.shape[dim + 1 :]]
        value = selected(context, viewed(context.nodes, value, sizes), dim, number)
    return value if (first, last) == (0, rows.size) else picked(context, value, dim, first, last)


def _slice(context: Context, call: Any) -> Value:
    value = context.value(call.arguments[0])
    dim, start, stop, step = (call.argument(at, name) for at, name in enumerate(("dim", "start", "end", "step"), 1))
    return sliced(context, value, dim or 0, start or 0, value.shape[dim or 0] if stop is None else stop, step or 1)


def _split(context: Context, call: Any) -> list[Value]:
    value, dim = context.value(call.arguments[0]), call.argument(2, "dim", 0)
    size, sizes = value.shape[value.place(dim)], call.arguments[1]
    if isinstance(sizes, int):
        sizes = [min(sizes, size - start) for start in range(0, size, sizes)]
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    return [sliced(context, value, dim, end - count, end) for end, count in zip(ends, sizes, strict=True)]


def _unbound(context: Context, call: Any) -> list[Value]:
    value, dim = context.value(call.arguments[0]), call.argument(1, "dim", 0)
    return [selected(context, value, dim, index) for index in range(value.shape[value.place(dim)])]


def _filled(context: Context, values: Sequence[Value]) -> list[Value]:
    """Values to join along a dimension, with all their other dimensions in their order, and numbers repeated."""
    same_sets(values)
    over = [next((at for at, dim in enumerate(v.dims) if any(a.axis == SET for a in dim)), None) for v in values]
    whole = {at for at in over if at is not None}
    if len(whole) > 1:
        raise Unsayable("the rows of the batch or graph meet a dimension of an element")
    made = []
    for value in values:
        dims = list(value.dims)
        for at in whole:
            dims[at] = tuple(replace(a, axis=SET) if a.axis == REPEATED else a for a in dims[at])
        whole_value = realized(context.nodes, replace(value, dims=tuple(dims)))
        made.append(viewed(context.nodes, whole_value, whole_value.shape))
    return made


def _joined(context: Context, call: Any) -> Value:
    values = [context.value(each) for each in call.arguments[0]]
    values = [value for value in values if value.shape != (0,)]
    if len(values) == 1:
        return values[0]
    dim = values[0].place(call.argument(1, "dim", 0))
    return joined(context, values, dim)


def _are_rows(context: Context, values: Sequence[Value], dim: int) -> bool:
    """Whether what is joined is the same for all rows of sets, each of them one behind another."""
    same = all(len(value.dims[dim]) == 1 and value.dims[dim][0].axis == REPEATED for value in values)
    return same and bool(context.unions.of([value.shape[dim] for value in values]))


def joined(context: Context, values: Sequence[Value], dim: int) -> Value:
    """`concat` along a dimension."""
    if any(atom.axis == SET for value in values for atom in value.dims[dim]) or _are_rows(context, values, dim):
        return put_behind(context, values, dim)
    values = _filled(context, values)
    shape = list(values[0].shape)
    shape[dim] = sum(value.shape[dim] for value in values)
    before = sum(bool(d) and d[0].axis != SET for d in values[0].dims[:dim])
    if all(value.shape[dim] == 1 for value in values):
        return side_by_side(context, [replace(v, dims=v.dims[:dim] + v.dims[dim + 1 :]) for v in values], dim)
    nodes = []
    for value in values:
        size = value.shape[dim]
        node = value.node
        nodes.append(
            node if size != 1 else context.nodes.reshaped(node, (*node.shape[:before], 1, *node.shape[before:]))
        )
    first = next(value for value in values if value.shape[dim] != 1)
    shape_of = (*first.node.shape[:before], shape[dim], *first.node.shape[before + 1 :])
    made = context.nodes.make("concat", tuple(nodes), shape_of, set_of(tuple(nodes)), (before - len(shape_of),))
    axis = first.dims[dim][0].axis
    return Value(made, (*first.dims[:dim], (Atom(shape[dim], axis),), *first.dims[dim + 1 :]))


def _stacked(context: Context, call: Any) -> Value:
    values = [context.value(each) for each in call.arguments[0]]
    dim = call.argument(1, "dim", 0)
    return side_by_side(context, values, dim + len(values[0].dims) + 1 if dim < 0 else dim)


def side_by_side(context: Context, values: Sequence[Value], dim: int) -> Value:
    """`stack` along a new dimension."""
    values = _filled(context, values)
    first = next((value for value in values if value.node.set), values[0])
    if len(values) == 1:
        return replace(first, dims=(*first.dims[:dim], (), *first.dims[dim:]))
    at = sum(len([a for a in d if a.axis != SET]) for d in first.dims[:dim])
    nodes = tuple(value.node for value in values)
    shape = (*first.node.shape[:at], len(nodes), *first.node.shape[at:])
    made = context.nodes.make("stack", nodes, shape, set_of(nodes), (at,))
    moved = tuple(tuple(replace(a, axis=a.axis + (a.axis >= at)) for a in d) for d in first.dims)
    return Value(made, (*moved[:dim], (Atom(len(nodes), at),), *moved[dim:]))


def _rolled(context: Context, call: Any) -> Value:
    value, shifts, dims = context.value(call.arguments[0]), call.arguments[1], call.argument(2, "dims", ())
    if len(shifts) != 1 or len(dims) != 1:
        raise Unsayable("several dimensions are rolled at once")
    axis = _row_axis(value, value.place(dims[0]))
    if axis is None:
        return value
    if axis != len(value.node.shape) - 1:
        raise Unsayable("a dimension is rolled that is not the last")
    return Value(context.nodes.call("roll", value.node, shape=value.node.shape, more=str(shifts[0])), value.dims)


def _flipped(context: Context, call: Any) -> Value:
    value, dims = context.value(call.arguments[0]), call.arguments[1]
    axes = [_row_axis(value, value.place(dim)) for dim in dims]
    if axes != [len(value.node.shape) - 1]:
        raise Unsayable("a dimension is turned around that is not the last")
    node = context.nodes.make("slice", (value.node,), value.node.shape, value.node.set, (None, None, -1))
    return Value(node, value.dims)


def _constant(number: float | None) -> Entry:
    """A new tensor of one number, of a shape that is given or another tensor's."""

    def entry(context: Context, call: Any) -> Value:
        value = call.argument(2 if call.operator.startswith("new_") else 1, "fill_value") if number is None else number
        return splat(context.nodes.number(float(value)), tuple(call.returned.shape))

    return entry


def _empty(context: Context, call: Any) -> Value:
    """A new tensor that holds anything, until rows are put into it."""
    return splat(context.nodes.make("empty", (), (), ""), tuple(call.returned.shape))


def _converted(context: Context, call: Any) -> Value:
    value, before, after = context.value(call.arguments[0]), call.arguments[0].dtype, call.returned.dtype
    if after not in (torch.float32, torch.bool, before):
        raise Unsayable(f"{before} becomes {after}: the language computes in 32-bit floats, and no gradient passes")
    return binary(context, "!=", value, context.value(0.0)) if after == torch.bool != before else value


def _copied(context: Context, call: Any) -> Value:
    if call.arguments[0].dtype != call.arguments[1].dtype:
        raise Unsayable("a tensor is copied into one of another type")
    return expanded(context.value(call.arguments[1]), tuple(call.arguments[0].shape))


TABLE: Mapping[str, Entry] = {
    **dict.fromkeys(("alias", "clone", "contiguous", "detach", "lift_fresh", "lift_fresh_copy", "view_as"), _same),
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "_reshape_alias"), _view),
    **dict.fromkeys(("t", "transpose.int", "numpy_T"), _transposed),
    "permute": _permuted,
    "unsqueeze": _unsqueezed,
    **dict.fromkeys(("squeeze", "squeeze.dim", "squeeze.dims"), _squeezed),
    "expand": _expanded,
    "repeat": _tiled,
    "select.int": lambda context, call: selected(context, context.value(call.arguments[0]), *call.arguments[1:3]),
    "slice.Tensor": _slice,
    **dict.fromkeys(("split.Tensor", "split_with_sizes", "unsafe_split.Tensor", "unsafe_split_with_sizes"), _split),
    "unbind.int": _unbound,
    "cat": _joined,
    "stack": _stacked,
    "roll": _rolled,
    "flip": _flipped,
    "_to_copy": _converted,
    "copy": _copied,
    "scalar_tensor": lambda context, call: splat(context.nodes.number(float(call.arguments[0])), ()),
    "zero": _constant(0.0),
    **dict.fromkeys(("new_empty", "empty_like", "empty.memory_format"), _empty),
    "fill.Scalar": _constant(None),
    "full": lambda context, call: splat(context.nodes.number(float(call.arguments[1])), tuple(call.returned.shape)),
    **{name: _constant(number) for name, number in (("zeros", 0.0), ("ones", 1.0))},
    **{f"{name}_like": _constant(number) for name, number in (("zeros", 0.0), ("ones", 1.0), ("full", None))},
    **{f"new_{name}": _constant(number) for name, number in (("zeros", 0.0), ("ones", 1.0), ("full", None))},
}
"""By the operator's name, how it is said."""
