"""Operators along dimensions: sums and their like, norms, softmax, normalisations; and products of matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, prod
from typing import Any

from explorer.runtime.trace.operators.context import Context, Entry, binary, function
from explorer.runtime.trace.operators.numbers import chosen, power
from explorer.runtime.trace.operators.shapes import selected, side_by_side
from explorer.runtime.trace.values.elementwise import realized
from explorer.runtime.trace.values.expressions import Node
from explorer.runtime.trace.values.products import batched_product, multiplied
from explorer.runtime.trace.values.tensors import REPEATED, SET, Dimension, Unsayable, Value, splat

TINY = 1e-37
"""A number whose roots have a gradient that 32 bits hold."""
LOWEST = -3.4028234663852886e38
"""The least number of 32 bits that is not infinity."""


def along(context: Context, name: str, value: Value, dims: Sequence[int] | None, keep: bool, more: str = "") -> Value:
    """A function of the language that takes dimensions to one number: `sum`, `mean`, `max`, `min`, `prod`, `norm`."""
    places = {value.place(dim) for dim in dims} if dims else set(range(len(value.dims)))
    atoms = [atom for place in places for atom in value.dims[place]]
    if any(atom.axis == SET for atom in atoms):
        value = context.over_set(name, value)
        atoms = [atom for place in places for atom in value.dims[place] if atom.axis != SET]
    repeated = prod(atom.size for atom in atoms if atom.axis == REPEATED)
    node = value.node
    for axis in sorted((atom.axis for atom in atoms if atom.axis >= 0), reverse=True):
        node = _reduced(context, name, node, axis, more)
    lost = sorted(atom.axis for atom in atoms if atom.axis >= 0)
    kept: list[Dimension] = []
    for place, dim in enumerate(value.dims):
        if place in places:
            kept += [()] if keep else []
        else:
            kept.append(tuple(replace(a, axis=a.axis - sum(axis < a.axis for axis in lost)) for a in dim))
    made = Value(node, tuple(kept))
    if repeated == 1 or name in ("mean", "max", "min"):
        return made
    if name != "sum":
        raise Unsayable(f"{name} goes along a dimension that only repeats")
    return multiplied(context.nodes, context.value(float(repeated)), made)


def _reduced(context: Context, name: str, node: Node, axis: int, more: str) -> Node:
    shape = (*node.shape[:axis], *node.shape[axis + 1 :])
    which = "" if axis == len(node.shape) - 1 else f"axis={axis}"
    said = ", ".join(part for part in (more, which) if part)
    return context.nodes.call(name, node, shape=shape, more=said)


def _along(name: str, one: bool = False) -> Entry:
    """An operator with its dimensions, and whether to keep them, behind the tensor; `one` returns places too."""

    def entry(context: Context, call: Any) -> Any:
        dims = call.argument(1, "dim")
        dims = [dims] if isinstance(dims, int) else dims
        made = along(context, name, context.value(call.arguments[0]), dims, bool(call.argument(2, "keepdim", False)))
        return (made, None) if one else made

    return entry


def _whole(name: str) -> Entry:
    return lambda context, call: along(context, name, context.value(call.arguments[0]), None, False)


def normed(context: Context, value: Value, order: float, dims: Sequence[int] | None, keep: bool) -> Value:
    """A p-norm."""
    places = [value.place(dim) for dim in dims] if dims else list(range(len(value.dims)))
    axes = [atom for place in places for atom in value.dims[place]]
    if order in (1, 2) and len(axes) == 1 and axes[0].axis >= 0:
        return along(context, "norm", value, dims, keep, str(int(order)))
    size = function(context, "abs", [value])
    if order in (inf, -inf):
        return along(context, "max" if order > 0 else "min", size, dims, keep)
    if order < 1:
        raise Unsayable(f"a norm is of order {order}, which is below 1")
    summed = along(
        context, "sum", size if order == 1 else power(context, value if order == 2 else size, order), dims, keep
    )
    return summed if order == 1 else root(context, summed, order)


def root(context: Context, value: Value, order: float) -> Value:
    """The root of a sum that is not negative, whose gradient at 0 is 0, as that of PyTorch's norms is."""
    zero = context.value(0.0)
    kept = function(context, "max", [value, context.value(TINY)])
    return chosen(context, binary(context, ">", value, zero), power(context, kept, 1 / order), zero)


def _norm(context: Context, call: Any) -> Value:
    order = call.argument(1, "ord", 2)
    dims = call.argument(2, "dim")
    dims = [dims] if isinstance(dims, int) else dims
    return normed(
        context,
        context.value(call.arguments[0]),
        float(2 if order is None else order),
        dims,
        bool(call.argument(3, "keepdim", False)),
    )


def _last(context: Context, value: Value, dim: int) -> tuple[Value, str]:
    """A value whose dimension is one axis, and how the language says which."""
    value = realized(context.nodes, value)
    atoms = value.dims[value.place(dim)]
    if len(atoms) != 1 or atoms[0].axis == SET:
        raise Unsayable("a softmax goes over the rows of the batch or graph")
    return value, "" if atoms[0].axis == len(value.node.shape) - 1 else f"axis={atoms[0].axis}"


def softened(context: Context, value: Value, dim: int) -> Value:
    """`softmax` along a dimension; of one element it is 1."""
    if value.shape[value.place(dim)] == 1:
        return splat(context.nodes.number(1), value.shape)
    value, which = _last(context, value, dim)
    return Value(context.nodes.call("softmax", value.node, shape=value.node.shape, more=which), value.dims)


def _softmax(context: Context, call: Any) -> Value:
    return softened(context, context.value(call.arguments[0]), call.arguments[1])


def _safe_softmax(context: Context, call: Any) -> Value:
    """A softmax that is 0 where everything along its dimension is minus infinity, with no gradient there."""
    value, dim = context.value(call.arguments[0]), call.arguments[1]
    if not _may_be_infinite(value.node):
        return softened(context, value, dim)
    most = along(context, "max", value, [dim], True)
    some, zero = binary(context, ">=", most, context.value(LOWEST)), context.value(0.0)
    return chosen(context, some, softened(context, chosen(context, some, value, zero), dim), zero)


def _may_be_infinite(node: Node) -> bool:
    """Whether an expression is what was brought, as a mask of infinities is, or a sum or choice of it."""
    if node.operator in ("tensor", "gather"):
        return True
    moved = node.operator == "call" and node.data[0] in ("where", "reshape", "repeat")
    passes = moved or node.operator in ("+", "-", "neg", "T", "permute", "stack", "concat", "slice", "item")
    return passes and any(map(_may_be_infinite, node.operands))


def _log_softmax(context: Context, call: Any) -> Value:
    value, dim = context.value(call.arguments[0]), call.arguments[1]
    return binary(context, "-", value, along(context, "logsumexp", value, [dim], True))


def _log_sum_exp(context: Context, call: Any) -> Value:
    dims = call.arguments[1]
    return along(context, "logsumexp", context.value(call.arguments[0]), dims, bool(call.argument(2, "keepdim", False)))


def _centred(context: Context, value: Value, dims: Sequence[int]) -> tuple[Value, Value]:
    """What is left of a value without its mean, and the mean of its square."""
    left = binary(context, "-", value, along(context, "mean", value, dims, True))
    return left, along(context, "mean", power(context, left, 2), dims, True)


def _layer_norm(context: Context, call: Any) -> Any:
    value, sizes, weight, bias, small = call.arguments
    value = context.value(value)
    left, variance = _centred(context, value, [-1 - at for at in range(len(sizes))])
    made = _scaled_and_shifted(context, left, variance, small, weight, bias)
    return made, None, None


def _scaled_and_shifted(context: Context, left: Value, variance: Value, small: float, weight: Any, bias: Any) -> Value:
    made = binary(context, "/", left, power(context, binary(context, "+", variance, context.value(small)), 0.5))
    if weight is not None:
        made = multiplied(context.nodes, made, context.value(weight))
    return made if bias is None else binary(context, "+", made, context.value(bias))


def _batch_norm(context: Context, call: Any) -> Any:
    value, weight, bias, mean, variance = call.arguments[:5]
    small, training = call.arguments[-1], len(call.arguments) > 7 and call.arguments[5]
    if training:
        raise Unsayable("a batch norm in training mixes the rows of the batch: trace in module.eval()")
    value = context.value(value)

    def channels(each: Any) -> Value:
        part = context.value(each)
        return replace(part, dims=(*part.dims, *((),) * (len(value.dims) - 2)))

    left = binary(context, "-", value, channels(mean))
    made = binary(
        context, "/", left, power(context, binary(context, "+", channels(variance), context.value(small)), 0.5)
    )
    if weight is not None:
        made = multiplied(context.nodes, made, channels(weight))
    return (made if bias is None else binary(context, "+", made, channels(bias))), None, None


def _variance(context: Context, call: Any) -> Value:
    value, dims = context.value(call.arguments[0]), call.argument(1, "dim")
    places = list(range(len(value.dims))) if dims is None else [value.place(dim) for dim in dims]
    correction = call.named.get("correction", 1)
    count = prod(value.shape[place] for place in places)
    if correction and any(atom.axis == SET for place in places for atom in value.dims[place]):
        raise Unsayable(
            "a variance goes over the rows of the batch or graph, of one less than there are: with correction=0 it is "
            "a mean"
        )
    _, variance = _centred(context, value, places)
    if not call.named.get("keepdim", False):
        variance = replace(variance, dims=tuple(d for at, d in enumerate(variance.dims) if at not in places))
    if count <= correction:
        raise Unsayable(f"a variance of {count} elements is divided by none")
    factor = count / (count - correction)
    return variance if factor == 1 else multiplied(context.nodes, context.value(factor), variance)


def _deviation(context: Context, call: Any) -> Value:
    return root(context, _variance(context, call), 2)


def _batched(context: Context, call: Any) -> Value:
    a, b = (context.value(each) for each in call.arguments[:2])
    if a.shape[1] == b.shape[2] == 1 and max(len(a.dims[2]), len(b.dims[1])) > 1:  # an inner product of matrices
        product = multiplied(context.nodes, a, replace(b, dims=(b.dims[0], b.dims[2], b.dims[1])))
        return along(context, "sum", product, [2], True)
    return _summed_product(context, a, b)


def _summed_product(context: Context, a: Value, b: Value) -> Value:
    """`bmm`, where what is summed may be all rows: of `[b, n, k]` and `[b, k, m]`."""
    zero = context.value(0.0).node
    if zero in (a.node, b.node):  # as the first state of a recurrent cell
        return splat(zero, (max(a.shape[0], b.shape[0]), a.shape[1], b.shape[2]))
    if all(atom.axis != SET for dim in (a.dims[2], b.dims[1]) for atom in dim):
        return batched_product(context.nodes, a, b)
    if len(a.dims[0]) == len(b.dims[0]) == 1 and a.dims[0][0].axis >= 0:  # each of the batch is a product of its own
        parts = [[selected(context, value, 0, at) for value in (a, b)] for at in range(a.shape[0])]
        return side_by_side(context, [_matrices(context, *part) for part in parts], 0)
    left = replace(a, dims=(a.dims[0], a.dims[1], (), a.dims[2]))
    right = replace(b, dims=(b.dims[0], (), b.dims[2], b.dims[1]))
    return along(context, "sum", multiplied(context.nodes, left, right), [3], False)


def _matrices(context: Context, a: Value, b: Value) -> Value:
    made = _summed_product(context, replace(a, dims=((), *a.dims)), replace(b, dims=((), *b.dims)))
    return replace(made, dims=made.dims[1:])


def _product(context: Context, call: Any) -> Value:
    return _matrices(context, *(context.value(each) for each in call.arguments[:2]))


def _with_vector(context: Context, call: Any) -> Value:
    a, b = (context.value(each) for each in call.arguments[:2])
    made = _matrices(context, a, replace(b, dims=(*b.dims, ())))
    return replace(made, dims=made.dims[:1])


def _inner(context: Context, call: Any) -> Value:
    a, b = (context.value(each) for each in call.arguments[:2])
    made = _matrices(context, replace(a, dims=((), *a.dims)), replace(b, dims=(*b.dims, ())))
    return replace(made, dims=())


def _of_three(context: Context, call: Any) -> Value:
    """`_trilinear`, as nn.Bilinear has it: a product of three tensors with new dimensions, summed over some."""
    tensors, expanded, dims = call.arguments[:3], call.arguments[3:6], set(call.arguments[6])
    one, matrix, other = (
        _with_dims(context.value(each), places) for each, places in zip(tensors, expanded, strict=True)
    )
    alone = [dim for dim in dims if one.shape[dim] == 1]
    second = multiplied(context.nodes, matrix, other)
    second = along(context, "sum", second, alone, True) if alone else second
    return along(context, "sum", multiplied(context.nodes, one, second), sorted(dims), False)


def _with_dims(value: Value, places: Sequence[int]) -> Value:
    """A value with new dimensions of one."""
    dims = list(value.dims)
    for place in sorted(places):
        dims.insert(place, ())
    return replace(value, dims=tuple(dims))


def _distances(context: Context, call: Any) -> Value:
    """`cdist`: the norm of each row of one matrix less each of another."""
    a, b = (context.value(each) for each in call.arguments[:2])
    left = replace(a, dims=(*a.dims[:-1], (), a.dims[-1]))
    right = replace(b, dims=(*b.dims[:-2], (), *b.dims[-2:]))
    return normed(context, binary(context, "-", left, right), float(call.argument(2, "p", 2)), [-1], False)


def _added_product(product: Entry) -> Entry:
    """A bias and a product: `beta * bias + alpha * product`."""

    def entry(context: Context, call: Any) -> Value:
        bias = context.value(call.arguments[0])
        made = product(context, replace(call, arguments=call.arguments[1:]))
        beta, alpha = call.named.get("beta", 1), call.named.get("alpha", 1)
        made = made if alpha == 1 else multiplied(context.nodes, context.value(alpha), made)
        bias = bias if beta == 1 else multiplied(context.nodes, context.value(beta), bias)
        return binary(context, "+", made, bias)

    return entry


TABLE: Mapping[str, Entry] = {
    "sum.dim_IntList": _along("sum"),
    "sum": _whole("sum"),
    "mean.dim": _along("mean"),
    "mean": _whole("mean"),
    "amax": _along("max"),
    "amin": _along("min"),
    "max": _whole("max"),
    "min": _whole("min"),
    "max.dim": _along("max", one=True),
    "min.dim": _along("min", one=True),
    "prod.dim_int": _along("prod"),
    "prod": _whole("prod"),
    "logsumexp": _log_sum_exp,
    "linalg_vector_norm": _norm,
    **dict.fromkeys(("_cdist_forward", "_euclidean_dist"), _distances),
    "_trilinear": _of_three,
    **dict.fromkeys(("norm.ScalarOpt_dim", "norm.Scalar"), _norm),
    "_softmax": _softmax,
    "_safe_softmax": _safe_softmax,
    "_log_softmax": _log_softmax,
    "native_layer_norm": _layer_norm,
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit_no_training"), _batch_norm),
    "var.correction": _variance,
    "std.correction": _deviation,
    "bmm": _batched,
    "mm": _product,
    "mv": _with_vector,
    "dot": _inner,
    "addmm": _added_product(_product),
    "baddbmm": _added_product(_batched),
    "addmv": _added_product(_with_vector),
}
"""By the operator's name, how it is said."""
