"""Operators that compute element by element."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, log, pi, sqrt
from typing import Any

import torch

from explorer.runtime.trace.operators.context import Context, Entry, binary, function, negative
from explorer.runtime.trace.values.elementwise import elementwise
from explorer.runtime.trace.values.expressions import Node
from explorer.runtime.trace.values.products import multiplied
from explorer.runtime.trace.values.tensors import Unsayable, Value


def unary(name: str) -> Entry:
    """A function of one number."""
    return lambda context, call: function(context, name, [context.value(call.arguments[0])])


def between(operator: str) -> Entry:
    """A comparison."""

    def entry(context: Context, call: Any) -> Value:
        a, b = (context.value(each) for each in call.arguments[:2])
        root = a.node
        if b.node.operator == "number" and b.node.data == (inf,):
            where = _infinite_where(root)
            if operator != "==" or where is None:
                raise Unsayable("infinity has no name in the model language")
            return binary(context, "==", Value(where, a.dims), context.value(0.0))
        return binary(context, operator, a, b)

    return entry


def _infinite_where(node: Node) -> Node | None:
    """What is 0 where an expression is infinite: x of 1 / x, and of x to a power below 0."""
    if node.operator == "call" and node.data[0] == "pow" and float(str(node.data[1])) < 0:
        return node.operands[0]
    over_one = node.operator == "/" and node.operands[0].operator == "number"
    return node.operands[1] if over_one and node.operands[1].shape == node.shape else None


def _added(context: Context, call: Any) -> Value:
    if call.returned.dtype == torch.bool:
        raise Unsayable("truths are added, which makes a truth: write a | b as torch.maximum of numbers")
    a, b = context.value(call.arguments[0]), _scaled(context, call.arguments[1], call.argument(2, "alpha", 1))
    if b.node.operator == "neg":
        return binary(context, "-", a, Value(b.node.operands[0], b.dims))
    return binary(context, "+", a, b)


def _subtracted(context: Context, call: Any) -> Value:
    a, b = context.value(call.arguments[0]), _scaled(context, call.arguments[1], call.argument(2, "alpha", 1))
    return binary(context, "-", a, b)


def _subtracted_from(context: Context, call: Any) -> Value:
    a, b = _scaled(context, call.arguments[0], call.argument(2, "alpha", 1)), context.value(call.arguments[1])
    return binary(context, "-", b, a)


def _scaled(context: Context, each: Any, factor: Any) -> Value:
    value = context.value(each)
    return value if factor == 1 else multiplied(context.nodes, context.value(factor), value)


def _times(context: Context, call: Any) -> Value:
    a, b = (context.value(each) for each in call.arguments[:2])
    return multiplied(context.nodes, a, b)


def _divided(context: Context, call: Any) -> Value:
    if call.named.get("rounding_mode") is not None:
        raise Unsayable("a quotient is rounded")
    a, b = (context.value(each) for each in call.arguments[:2])
    return binary(context, "/", a, b)


def power(context: Context, value: Value, exponent: float) -> Value:
    """`x ** p`."""
    if exponent == 0.5:
        return function(context, "sqrt", [value])
    if exponent == int(exponent) and 0 < exponent <= 16:
        return binary(context, "**", value, context.value(int(exponent)))
    if exponent == -1:
        return binary(context, "/", context.value(1), value)
    return function(context, "pow", [value], more=repr(exponent))


def _power(context: Context, call: Any) -> Value:
    if not isinstance(call.arguments[1], int | float):
        raise Unsayable("the exponent is a tensor; one that is known before the run can be said")
    return power(context, context.value(call.arguments[0]), float(call.arguments[1]))


def _exponential(context: Context, call: Any) -> Value:
    base = float(call.arguments[0])
    if base <= 0:
        raise Unsayable("the base of a power is not positive")
    exponent = multiplied(context.nodes, context.value(log(base)), context.value(call.arguments[1]))
    return function(context, "exp", [exponent])


def _reciprocal_root(context: Context, call: Any) -> Value:
    return binary(context, "/", context.value(1), function(context, "sqrt", [context.value(call.arguments[0])]))


def _leaky(context: Context, call: Any) -> Value:
    slope = call.argument(1, "negative_slope", 0.01)
    return function(context, "leaky_relu", [context.value(call.arguments[0])], more=repr(float(slope)))


def clamped(context: Context, value: Value, low: Any, high: Any) -> Value:
    """The value kept between two bounds, of which one may be missing."""
    if low is not None:
        value = function(context, "max", [value, context.value(low)])
    return value if high is None else function(context, "min", [value, context.value(high)])


def _clamp(context: Context, call: Any) -> Value:
    return clamped(context, context.value(call.arguments[0]), call.argument(1, "min"), call.argument(2, "max"))


def chosen(context: Context, condition: Value, one: Value, other: Value) -> Value:
    """`where`."""

    def make(operands: list[Node], shape: tuple[int, ...]) -> Node:
        return context.nodes.call("where", *operands, shape=shape)

    return elementwise(context.nodes, make, [condition, one, other])


def _where(context: Context, call: Any) -> Value:
    condition, one, other = (context.value(each) for each in call.arguments)
    return chosen(context, condition, one, other)


def _masked_fill(context: Context, call: Any) -> Value:
    value, mask, filled = (context.value(each) for each in call.arguments)
    return chosen(context, mask, filled, value)


def put_number(context: Context, call: Any) -> Value:
    """`x[mask] = number`, the mask being of floats."""
    base, indices, put = call.arguments[:3]
    value, number = context.value(base), context.value(put)
    mask = context.value(indices[0]) if len(indices) == 1 else None
    if mask is None or mask.shape != value.shape or number.shape != () or call.argument(3, "accumulate", False):
        raise Unsayable("elements are put into the places that ids name")
    return chosen(context, mask, number, value)


def _elu(context: Context, call: Any) -> Value:
    value = context.value(call.arguments[0])
    alpha, scale, inner = (call.argument(at, name, 1) for at, name in ((1, "alpha"), (2, "scale"), (3, "input_scale")))
    scaled = value if inner == 1 else multiplied(context.nodes, context.value(inner), value)
    # Of numbers above 0 nothing: infinity times 0 would be the other's gradient. At 0 the slope is the lower side's.
    scaled = binary(context, "-", scaled, function(context, "relu", [scaled]))
    low = binary(context, "-", function(context, "exp", [scaled]), context.value(1))
    low = low if alpha == 1 else multiplied(context.nodes, context.value(alpha), low)
    made = chosen(context, binary(context, ">", value, context.value(0)), value, low)
    return made if scale == 1 else multiplied(context.nodes, context.value(scale), made)


def _softplus(context: Context, call: Any) -> Value:
    if call.argument(1, "beta", 1) != 1 or call.argument(2, "threshold", 20) < 20:
        raise Unsayable("softplus has a beta other than 1 or a low threshold")
    return function(context, "softplus", [context.value(call.arguments[0])])


def _gelu(context: Context, call: Any) -> Value:
    value = context.value(call.arguments[0])
    if call.named.get("approximate", "none") == "none":
        return function(context, "gelu", [value])
    cubed = multiplied(context.nodes, context.value(0.044715), power(context, value, 3))
    inner = multiplied(context.nodes, context.value(sqrt(2 / pi)), binary(context, "+", value, cubed))
    share = binary(context, "+", context.value(1), function(context, "tanh", [inner]))
    return multiplied(context.nodes, context.value(0.5), multiplied(context.nodes, value, share))


def _true(call: Any) -> None:
    """Raises Unsayable for an operator of truths that is called with other numbers."""
    if any(each.dtype != torch.bool for each in call.arguments[:2]):
        raise Unsayable("it takes numbers for truths: compare them with 0")


def _and(context: Context, call: Any) -> Value:
    _true(call)
    return _times(context, call)


def _not(context: Context, call: Any) -> Value:
    _true(call)
    return binary(context, "-", context.value(1), context.value(call.arguments[0]))


def _added_product(context: Context, call: Any) -> Value:
    base, a, b = (context.value(each) for each in call.arguments[:3])
    product = multiplied(context.nodes, a, b)
    factor = call.argument(3, "value", 1)
    product = product if factor == 1 else multiplied(context.nodes, context.value(factor), product)
    return binary(context, "+", base, product)


def _hardtanh(context: Context, call: Any) -> Value:
    low, high = call.argument(1, "min_val", -1), call.argument(2, "max_val", 1)
    return clamped(context, context.value(call.arguments[0]), low, high)


def _mish(context: Context, call: Any) -> Value:
    value = context.value(call.arguments[0])
    return multiplied(context.nodes, value, function(context, "tanh", [function(context, "softplus", [value])]))


def _of_elements(call: Any, at: int) -> None:
    """Raises Unsayable for a loss that is a mean or a sum; `at` is where the reduction stands."""
    if call.argument(at, "reduction", 1) != 0:
        raise Unsayable(
            "a loss goes over the batch: leave it to the caller of the module, or say reduction='none' for one of each "
            "row"
        )


def _squared_error(context: Context, call: Any) -> Value:
    _of_elements(call, 2)
    a, b = (context.value(each) for each in call.arguments[:2])
    return power(context, binary(context, "-", a, b), 2)


def _cross_entropy(context: Context, call: Any) -> Value:
    """`binary_cross_entropy_with_logits`: softplus(x) - y * x, where what is true weighs the same."""
    weight, true_weight = call.argument(2, "weight"), call.argument(3, "pos_weight")
    _of_elements(call, 4)
    if true_weight is not None:
        raise Unsayable("a loss has a pos_weight")
    x, y = (context.value(each) for each in call.arguments[:2])
    loss = binary(context, "-", function(context, "softplus", [x]), multiplied(context.nodes, y, x))
    return loss if weight is None else multiplied(context.nodes, context.value(weight), loss)


def _minus_one(context: Context, call: Any) -> Value:
    return binary(context, "-", function(context, "exp", [context.value(call.arguments[0])]), context.value(1))


def pair(name: str) -> Entry:
    """A function of two numbers."""
    return lambda context, call: function(context, name, [context.value(each) for each in call.arguments[:2]])


_UNARY = {
    "exp": "exp", "log": "log", "log1p": "log1p", "sqrt": "sqrt", "abs": "abs", "sign": "sign", "sgn": "sign",
    "relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "silu": "silu", "sin": "sin", "cos": "cos", "floor": "floor",
}  # fmt: skip
_COMPARED = {"gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!="}

TABLE: Mapping[str, Entry] = {
    **{name: unary(said) for name, said in _UNARY.items()},
    **{f"{name}.{kind}": between(said) for name, said in _COMPARED.items() for kind in ("Scalar", "Tensor")},
    **{f"add.{kind}": _added for kind in ("Tensor", "Scalar")},
    **{f"sub.{kind}": _subtracted for kind in ("Tensor", "Scalar")},
    **{f"rsub.{kind}": _subtracted_from for kind in ("Tensor", "Scalar")},
    **{f"mul.{kind}": _times for kind in ("Tensor", "Scalar")},
    **{f"div.{kind}": _divided for kind in ("Tensor", "Scalar", "Tensor_mode", "Scalar_mode")},
    "neg": lambda context, call: negative(context, context.value(call.arguments[0])),
    "pow.Tensor_Scalar": _power,
    "reciprocal": lambda context, call: power(context, context.value(call.arguments[0]), -1),
    "rsqrt": _reciprocal_root,
    "square": lambda context, call: power(context, context.value(call.arguments[0]), 2),
    "leaky_relu": _leaky,
    "clamp": _clamp,
    "clamp.Tensor": _clamp,
    "clamp_min.Tensor": pair("max"),
    "clamp_max.Tensor": pair("min"),
    "pow.Scalar": _exponential,
    "clamp_min": lambda context, call: clamped(context, context.value(call.arguments[0]), call.arguments[1], None),
    "clamp_max": lambda context, call: clamped(context, context.value(call.arguments[0]), None, call.arguments[1]),
    "hardtanh": _hardtanh,
    "maximum": pair("max"),
    "atan2": pair("atan2"),
    "minimum": pair("min"),
    "where.self": _where,
    "where.ScalarSelf": _where,
    "where.ScalarOther": _where,
    "masked_fill.Scalar": _masked_fill,
    "masked_fill.Tensor": _masked_fill,
    "elu": _elu,
    "softplus": _softplus,
    "gelu": _gelu,
    "mish": _mish,
    "mse_loss": _squared_error,
    "binary_cross_entropy_with_logits": _cross_entropy,
    "expm1": _minus_one,
    "log_sigmoid_forward": lambda context, call: (
        function(context, "logsigmoid", [context.value(call.arguments[0])]),
        None,
    ),
    "logical_not": _not,
    "bitwise_not": _not,
    "logical_and": _and,
    "bitwise_and.Tensor": _and,
    "addcmul": _added_product,
}
"""By the operator's name, how it is said."""
