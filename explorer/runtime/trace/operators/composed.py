"""Functions that the language has no word for, and that are composed of others."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any

from explorer.runtime.trace.operators.context import Context, Entry, binary, function, negative
from explorer.runtime.trace.operators.numbers import chosen, clamped, power
from explorer.runtime.trace.operators.shapes import selected, side_by_side, sliced
from explorer.runtime.trace.values.products import multiplied
from explorer.runtime.trace.values.tensors import Unsayable, Value


def _scaled(context: Context, factor: float, value: Value) -> Value:
    return multiplied(context.nodes, context.value(factor), value)


def _of_one(made: Any) -> Entry:
    """An operator of one tensor, as a function of its value."""
    return lambda context, call: made(context, context.value(call.arguments[0]))


def _artanh(context: Context, x: Value) -> Value:
    """Half of log1p(x) - log1p(-x)."""
    ends = (function(context, "log1p", [each]) for each in (x, negative(context, x)))
    return _scaled(context, 0.5, binary(context, "-", *ends))


def _arcosh(context: Context, x: Value) -> Value:
    """Of d = x - 1, log1p(d + sqrt(d * (d + 2))), which is exact for small d."""
    d = binary(context, "-", x, context.value(1))
    root = power(context, multiplied(context.nodes, d, binary(context, "+", d, context.value(2))), 0.5)
    return function(context, "log1p", [binary(context, "+", d, root)])


def _arsinh(context: Context, x: Value) -> Value:
    """Of y = abs(x), sign(x) * log1p(y + y ** 2 / (1 + sqrt(y ** 2 + 1))), which is exact for small y."""
    square = power(context, x, 2)
    root = power(context, binary(context, "+", square, context.value(1)), 0.5)
    more = binary(context, "/", square, binary(context, "+", context.value(1), root))

    def half(side: Value) -> Value:
        return function(context, "log1p", [binary(context, "+", side, more)])

    below = negative(context, half(negative(context, x)))  # a sign has no gradient at 0, where this one's is 1
    return chosen(context, binary(context, ">", x, context.value(0)), half(x), below)


def _hyperbolic(sign: str) -> Any:
    def made(context: Context, x: Value) -> Value:
        ends = (function(context, "exp", [each]) for each in (x, negative(context, x)))
        return _scaled(context, 0.5, binary(context, sign, *ends))

    return made


def _tan(context: Context, x: Value) -> Value:
    return binary(context, "/", function(context, "sin", [x]), function(context, "cos", [x]))


def _cofunction(context: Context, x: Value) -> Value:
    """sqrt(1 - x ** 2), which is exact for x near 1."""
    one = context.value(1)
    ends = [binary(context, sign, one, x) for sign in "-+"]
    return power(context, multiplied(context.nodes, *ends), 0.5)


def _arcsin(context: Context, x: Value) -> Value:
    return function(context, "atan2", [x, _cofunction(context, x)])


def _arccos(context: Context, x: Value) -> Value:
    return function(context, "atan2", [_cofunction(context, x), x])


def _arctan(context: Context, x: Value) -> Value:
    return function(context, "atan2", [x, context.value(1)])


def _logarithm(base: float) -> Any:
    return lambda context, x: _scaled(context, 1 / log(base), function(context, "log", [x]))


def _exponential(context: Context, x: Value) -> Value:
    return function(context, "exp", [_scaled(context, log(2), x)])


def _ceil(context: Context, x: Value) -> Value:
    return negative(context, function(context, "floor", [negative(context, x)]))


def _hard_sigmoid(context: Context, x: Value) -> Value:
    return _scaled(context, 1 / 6, clamped(context, binary(context, "+", x, context.value(3)), 0, 6))


def _hard_swish(context: Context, x: Value) -> Value:
    return multiplied(context.nodes, x, _hard_sigmoid(context, x))


def _parametric_relu(context: Context, call: Any) -> Value:
    value, slope = (context.value(each) for each in call.arguments)
    low = multiplied(context.nodes, slope, value)
    return chosen(context, binary(context, ">", value, context.value(0)), value, low)


def _glu(context: Context, call: Any) -> Value:
    value = context.value(call.arguments[0])
    dim = value.place(call.argument(1, "dim", -1))
    half = value.shape[dim] // 2
    first, second = sliced(context, value, dim, 0, half), sliced(context, value, dim, half, 2 * half)
    return multiplied(context.nodes, first, function(context, "sigmoid", [second]))


def _between(context: Context, call: Any) -> Value:
    """`lerp`: from one to the other by a weight."""
    one, other, weight = (context.value(each) for each in call.arguments)
    return binary(context, "+", one, multiplied(context.nodes, weight, binary(context, "-", other, one)))


def _added_quotient(context: Context, call: Any) -> Value:
    base, a, b = (context.value(each) for each in call.arguments[:3])
    quotient = binary(context, "/", a, b)
    factor = call.named.get("value", 1)
    return binary(context, "+", base, quotient if factor == 1 else _scaled(context, factor, quotient))


def _log_of_two(context: Context, call: Any) -> Value:
    """`logaddexp`: the larger one, and softplus of how much smaller the other one is."""
    a, b = (context.value(each) for each in call.arguments)
    return binary(context, "+", a, function(context, "softplus", [binary(context, "-", b, a)]))


def _cross(context: Context, call: Any) -> Value:
    a, b = (context.value(each) for each in call.arguments[:2])
    dim = a.place(call.named.get("dim", -1))
    if a.shape[dim] != 3 or b.shape[dim] != 3:
        raise Unsayable("a cross product is of vectors that are repeated")
    (a0, a1, a2), (b0, b1, b2) = ([selected(context, each, dim, at) for at in range(3)] for each in (a, b))

    def turned(one: Value, other: Value, third: Value, fourth: Value) -> Value:
        both = (multiplied(context.nodes, *pair) for pair in ((one, other), (third, fourth)))
        return binary(context, "-", *both)

    return side_by_side(context, [turned(a1, b2, a2, b1), turned(a2, b0, a0, b2), turned(a0, b1, a1, b0)], dim)


TABLE: Mapping[str, Entry] = {
    "atanh": _of_one(_artanh),
    "acosh": _of_one(_arcosh),
    "asinh": _of_one(_arsinh),
    "sinh": _of_one(_hyperbolic("-")),
    "cosh": _of_one(_hyperbolic("+")),
    "tan": _of_one(_tan),
    "asin": _of_one(_arcsin),
    "acos": _of_one(_arccos),
    "atan": _of_one(_arctan),
    "log2": _of_one(_logarithm(2)),
    "log10": _of_one(_logarithm(10)),
    "exp2": _of_one(_exponential),
    "ceil": _of_one(_ceil),
    "hardsigmoid": _of_one(_hard_sigmoid),
    "hardswish": _of_one(_hard_swish),
    "_prelu_kernel": _parametric_relu,
    "glu": _glu,
    **{f"lerp.{kind}": _between for kind in ("Scalar", "Tensor")},
    "addcdiv": _added_quotient,
    "logaddexp": _log_of_two,
    "linalg_cross": _cross,
}
"""By the operator's name, how it is said."""
