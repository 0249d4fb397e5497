"""Operators along maps of ids: rows that are gathered, and sums of the rows that lead to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import torch

from explorer.runtime.trace.operators.context import Context, Entry, binary, function
from explorer.runtime.trace.operators.numbers import chosen, put_number
from explorer.runtime.trace.operators.shapes import selected, side_by_side, sliced
from explorer.runtime.trace.tapes.tape import PADDING
from explorer.runtime.trace.values.elementwise import realized
from explorer.runtime.trace.values.tensors import (
    REPEATED,
    SET,
    Atom,
    Dimension,
    Unsayable,
    Value,
    expanded,
    of_node,
    splat,
    viewed,
)


def gathered(context: Context, value: Value, dim: int, ids: Any) -> Value:
    """The rows of a dimension that ids name."""
    dim = value.place(dim)
    places = context.constant(ids, inner=dim > 0)
    if places is not None and all(atom.axis != SET for atom in value.dims[dim]):
        found = _picked(context, value, (dim,), [places])
        if ids.dim() == 1:
            return found
        return viewed(context.nodes, found, (*found.shape[:dim], *ids.shape, *found.shape[dim + 1 :]))
    if value.shape[dim] == 1 and ids.dim() == 1:  # whose only row is every id's
        return replace(value, dims=(*value.dims[:dim], *splat(value.node, ids.shape).dims, *value.dims[dim + 1 :]))
    name, of, at = context.map_of(ids)
    atoms = value.dims[dim]
    inner = _dims_of(ids, at)
    if len(atoms) == 1 and atoms[0].axis == REPEATED:
        return replace(value, dims=(*value.dims[:dim], *inner, *value.dims[dim + 1 :]))
    if len(atoms) != 1 or atoms[0].axis != SET:
        context.index_by(value, dim)
    node = context.gathered(value.node, name, of)
    return Value(node, (*value.dims[:dim], *inner, *value.dims[dim + 1 :]))


def _picked(context: Context, value: Value, dims: Sequence[int], places: Sequence[list[int]]) -> Value:
    """The elements at places that are the same in every call, along dimensions that follow one another: where there are
    several, along all at once."""
    places = [[place % value.shape[dim] for place in each] for dim, each in zip(dims, places, strict=True)]
    (dim, *_), (first, *_) = dims, places
    if len(dims) == 1 and first == list(range(first[0], first[0] + len(first))):
        return sliced(context, value, dim, first[0], first[0] + len(first))

    def at(each: tuple[int, ...]) -> Value:
        one = value
        for along, place in reversed(list(zip(dims, each, strict=True))):
            one = selected(context, one, along, place)
        return one

    return side_by_side(context, [at(each) for each in zip(*places, strict=True)], dim)


def _dims_of(ids: Any, at: int) -> tuple[Dimension, ...]:
    return tuple((Atom(size, SET),) if place == at else () for place, size in enumerate(ids.shape))


def _embedding(context: Context, call: Any) -> Value:
    if call.argument(3, "scale_grad_by_freq", False) or call.argument(4, "sparse", False):
        raise Unsayable("an embedding has scale_grad_by_freq or sparse, whose gradient is another one: leave it out")
    rows = gathered(context, context.value(call.arguments[0]), 0, call.arguments[1])
    if PADDING not in call.named:
        return rows
    padding = context.value(call.named[PADDING])
    each = replace(padding, dims=(*padding.dims, *((),) * (len(rows.dims) - len(padding.dims))))
    return chosen(context, each, function(context, "stop_gradient", [rows]), rows)


def _index_select(context: Context, call: Any) -> Value:
    value, dim, ids = call.arguments
    return gathered(context, context.value(value), dim, ids)


def _index(context: Context, call: Any) -> Value:
    value, indices = context.value(call.arguments[0]), call.arguments[1]
    given = [at for at, each in enumerate(indices) if each is not None]
    places = [context.constant(indices[at]) for at in given]
    if len(given) > 1 and given == list(range(given[0], given[0] + len(given))):
        known = [each for at, each in zip(given, places, strict=True) if each is not None and indices[at].dim() == 1]
        if len(known) == len(given) and len({len(each) for each in known}) == 1:
            return _picked(context, value, given, known)
    if len(given) != 1:
        raise Unsayable("a tensor is indexed by several tensors at once")
    ids = indices[given[0]]
    if ids.dtype == torch.bool:
        raise Unsayable("rows are picked by a mask, which is another set of rows")
    return gathered(context, value, given[0], ids)


def _scattered(name: str, at: int) -> Entry:
    """A sum, or its like, of a source's rows by the rows that ids name; `at` is where the source stands."""

    def entry(context: Context, call: Any) -> Value:
        base, dim, ids = context.value(call.arguments[0]), call.arguments[1], call.arguments[2]
        source, dim = context.value(call.arguments[at]), base.place(dim)
        if call.named.get("alpha", 1) != 1:
            raise Unsayable("a sum along ids is scaled by alpha")
        return _along_ids(context, base, dim, ids, source, name)

    return entry


def _along_ids(context: Context, base: Value, dim: int, ids: Any, source: Value, name: str) -> Value:
    if base.shape[dim] == 1 and source.node.set and any(atom.axis == SET for atom in source.dims[dim]):
        return _into_one(context, base, dim, source, name)  # where all ids lead
    along, of, _ = context.map_of(ids, dim if ids.dim() > 1 else 0)
    home = context.set_of_size(base.shape[dim], along)
    context.map_of(ids, dim if ids.dim() > 1 else 0, home)
    atoms = source.dims[dim]
    if not home:
        raise Unsayable(
            f"ids lead to {base.shape[dim]} rows, and nothing that comes in has as many, as for a batch's graphs or "
            "for hyperedges: hand their number in as an argument of forward, or leave the readout to the module behind "
            "this one"
        )
    if len(atoms) != 1 or atoms[0].axis >= 0 or source.node.set not in ("", of):
        raise Unsayable("ids scatter elements that are no rows of the batch or graph")
    if source.shape[:dim] + source.shape[dim + 1 :] != base.shape[:dim] + base.shape[dim + 1 :]:
        raise Unsayable("a part of a tensor is scattered")
    made = context.nodes.make("reduce", (source.node,), source.node.shape, home, (name, along))
    summed = Value(made, (*source.dims[:dim], (Atom(base.shape[dim], SET),), *source.dims[dim + 1 :]))
    if base.node.operator == "number" and base.node.data == (1.0 if name == "prod" else 0.0,):
        return summed
    if name != "sum":
        raise Unsayable(f"a {name} along ids begins with something")
    return binary(context, "+", base, summed)


def _into_one(context: Context, base: Value, dim: int, source: Value, name: str) -> Value:
    total = context.over_set(name, source)
    if base.node.operator == "number" and base.node.data == (1.0 if name == "prod" else 0.0,):
        return total
    if name != "sum":
        raise Unsayable(f"a {name} along ids begins with something")
    return binary(context, "+", base, total)


def _reduced(context: Context, call: Any) -> Value:
    base, dim, ids, source, name = call.arguments[:5]
    said = {"sum": "sum", "amax": "max", "amin": "min", "mean": "mean", "prod": "prod"}[name]
    value = context.value(base)
    included = call.argument(5, "include_self", True)
    if included and said not in ("sum", "prod"):
        return _with_base(context, value, value.place(dim), ids, context.value(source), said)
    if not included and (value.node.operator != "number" or value.node.data not in ((0.0,), (1.0,))):
        raise Unsayable(f"a {said} along ids leaves what was there before where no id leads: begin with zeros")
    return _along_ids(context, value, value.place(dim), ids, context.value(source), said)


def _with_base(context: Context, base: Value, dim: int, ids: Any, source: Value, name: str) -> Value:
    """A maximum, its like or a mean that includes what was there before, which is all where no id leads."""
    zero, one = (splat(context.nodes.number(number), base.shape) for number in (0.0, 1.0))
    ones = replace(source, node=context.nodes.number(1), dims=splat(one.node, source.shape).dims)
    count = _along_ids(context, zero, dim, ids, ones, "sum")
    if name == "mean":
        total = binary(context, "+", base, _along_ids(context, zero, dim, ids, source, "sum"))
        return binary(context, "/", total, binary(context, "+", count, one))
    found = _along_ids(context, zero, dim, ids, source, name)
    if base.node.operator == "number" and base.node.data == (-inf if name == "max" else inf,):
        along, _, _ = context.map_of(ids, dim if ids.dim() > 1 else 0)
        node = context.nodes.make("some", (found.node,), found.node.shape, found.node.set, (along,))
        return replace(found, node=node)  # which is infinity elsewhere
    return chosen(context, binary(context, ">", count, zero), function(context, name, [base, found]), base)


def _placed(context: Context, base: Value, ids: Any, rows: Value) -> Value:
    """A value whose rows that ids name, each once, are others."""
    name, _, _ = context.map_of(ids)
    home = context.placed_in(name, base.shape[0])
    if base.node.operator not in ("number", "empty"):
        base = realized(context.nodes, base)
    rows = expanded(rows, (ids.shape[0], *base.shape[1:]))
    if any(atom.axis != SET for atom in rows.dims[0]):
        raise Unsayable("one row is put in the place of several")
    rows = realized(context.nodes, rows)
    made = context.nodes.make("place", (base.node, rows.node), rows.node.shape, home, (name,))
    return of_node(made, base.shape, 0)


def _index_copy(context: Context, call: Any) -> Value:
    base, dim, ids, rows = call.arguments
    value = context.value(base)
    if value.place(dim) != 0:
        raise Unsayable("rows are copied to other places than rows")
    return _placed(context, value, ids, context.value(rows))


def _put(context: Context, call: Any) -> Value:
    """`x[mask] = rows` and `x[mask] = number`: of ids, or of floats that say which elements."""
    indices, added = call.arguments[1], call.argument(3, "accumulate", False)
    ids = len(indices) == 1 and not context.is_floating(indices[0]) and indices[0].dim() == 1
    if not ids:
        return put_number(context, call)
    if added:
        base, rows = (context.value(call.arguments[at]) for at in (0, 2))
        rows = expanded(rows, (indices[0].shape[0], *base.shape[1:]))
        return _along_ids(context, base, 0, indices[0], rows, "sum")
    return _placed(context, context.value(call.arguments[0]), indices[0], context.value(call.arguments[2]))


TABLE: Mapping[str, Entry] = {
    "index_copy": _index_copy,
    "index_put": _put,
    "embedding": _embedding,
    "index_select": _index_select,
    "index.Tensor": _index,
    "index_add": _scattered("sum", 3),
    "scatter_add": _scattered("sum", 3),
    **dict.fromkeys(("scatter_reduce.two", "index_reduce"), _reduced),
}
"""By the operator's name, how it is said."""
