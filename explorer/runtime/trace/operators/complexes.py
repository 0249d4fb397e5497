"""Operators of complex numbers, said in real ones: a pair of expressions, for the real and the imaginary parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from explorer.runtime.trace.operators.context import Context, Entry, binary, function, negative
from explorer.runtime.trace.operators.maps import TABLE as MAPS
from explorer.runtime.trace.operators.numbers import power
from explorer.runtime.trace.operators.shapes import TABLE as SHAPES
from explorer.runtime.trace.operators.shapes import selected, side_by_side
from explorer.runtime.trace.operators.sums import TABLE as SUMS
from explorer.runtime.trace.operators.sums import normed, root
from explorer.runtime.trace.values.products import multiplied
from explorer.runtime.trace.values.tensors import Pair, Unsayable, Value


class _Part:
    """A context in which a complex tensor is one of its parts."""

    def __init__(self, context: Context, part: str) -> None:
        self._context, self._part = context, part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def value(self, each: Any) -> Value:
        """See `Context`."""
        part: Value = getattr(self._context.pair(each), self._part)
        return part


def _each(entry: Entry) -> Entry:
    """An operator that moves or adds numbers, which it does to both parts."""

    def made(context: Context, call: Any) -> Any:
        real, imaginary = (entry(_Part(context, part), call) for part in ("real", "imaginary"))
        if isinstance(real, list):
            return [Pair(*parts) for parts in zip(real, imaginary, strict=True)]
        return Pair(real, imaginary)

    return made


def _from_real(context: Context, call: Any) -> Pair:
    value = context.value(call.arguments[0])
    return Pair(*(selected(context, value, -1, part) for part in (0, 1)))


def _as_real(context: Context, call: Any) -> Value:
    pair = context.pair(call.arguments[0])
    return side_by_side(context, [pair.real, pair.imaginary], len(pair.shape))


def _complex(context: Context, call: Any) -> Pair:
    return Pair(*(context.value(each) for each in call.arguments[:2]))


def _polar(context: Context, call: Any) -> Pair:
    size, angle = (context.value(each) for each in call.arguments[:2])
    return Pair(*(multiplied(context.nodes, size, function(context, name, [angle])) for name in ("cos", "sin")))


def _angle(context: Context, call: Any) -> Value:
    pair = context.pair(call.arguments[0])
    return function(context, "atan2", [pair.imaginary, pair.real])


def _conjugate(context: Context, call: Any) -> Pair:
    pair = context.pair(call.arguments[0])
    return Pair(pair.real, negative(context, pair.imaginary))


def _times(context: Context, call: Any) -> Pair:
    return _multiplied(context, *(context.pair(each) for each in call.arguments[:2]))


def _multiplied(context: Context, a: Pair, b: Pair) -> Pair:
    def times(one: Value, other: Value) -> Value:
        return multiplied(context.nodes, one, other)

    real = binary(context, "-", times(a.real, b.real), times(a.imaginary, b.imaginary))
    return Pair(real, binary(context, "+", times(a.real, b.imaginary), times(a.imaginary, b.real)))


class _Values:
    """A context whose calls have values in the place of tensors."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def value(self, each: Any) -> Value:
        """See `Context`."""
        return each if isinstance(each, Value) else self._context.value(each)


def _product(entry: Entry) -> Entry:
    """A product of matrices, of four real ones."""

    def made(context: Context, call: Any) -> Pair:
        a, b = (context.pair(each) for each in call.arguments[:2])

        def times(one: Value, other: Value) -> Value:
            value: Value = entry(_Values(context), replace(call, arguments=(one, other)))
            return value

        real = binary(context, "-", times(a.real, b.real), times(a.imaginary, b.imaginary))
        return Pair(real, binary(context, "+", times(a.real, b.imaginary), times(a.imaginary, b.real)))

    return made


def _between(operator: str) -> Entry:
    def entry(context: Context, call: Any) -> Pair:
        if call.argument(2, "alpha", 1) != 1:
            raise Unsayable("complex numbers are scaled by alpha")
        a, b = (context.pair(each) for each in call.arguments[:2])
        return Pair(binary(context, operator, a.real, b.real), binary(context, operator, a.imaginary, b.imaginary))

    return entry


def _divided(context: Context, call: Any) -> Pair:
    a, divisor = context.pair(call.arguments[0]), call.arguments[1]
    if not isinstance(divisor, torch.Tensor) or not divisor.is_complex():
        b = context.value(divisor)
        return Pair(binary(context, "/", a.real, b), binary(context, "/", a.imaginary, b))
    c = context.pair(divisor)
    made = _multiplied(context, a, Pair(c.real, negative(context, c.imaginary)))
    square = _square(context, c)
    return Pair(binary(context, "/", made.real, square), binary(context, "/", made.imaginary, square))


def _square(context: Context, pair: Pair) -> Value:
    return binary(context, "+", power(context, pair.real, 2), power(context, pair.imaginary, 2))


def _size(context: Context, call: Any) -> Value:
    return root(context, _square(context, context.pair(call.arguments[0])), 2)


def _norm(context: Context, call: Any) -> Value:
    size = root(context, _square(context, context.pair(call.arguments[0])), 2)
    order, dims = call.argument(1, "ord", 2), call.argument(2, "dim")
    dims = [dims] if isinstance(dims, int) else dims
    return normed(context, size, float(2 if order is None else order), dims, bool(call.argument(3, "keepdim", False)))


_MOVED = ["alias", "clone", "contiguous", "view", "_unsafe_view", "reshape", "unsqueeze", "squeeze.dim", "expand"]
_MOVED += ["select.int", "slice.Tensor", "unbind.int", "split.Tensor", "cat", "transpose.int", "permute"]

COMPLEX: Mapping[str, Entry] = {
    **{name: _each(SHAPES[name]) for name in _MOVED},
    **{name: _each(MAPS[name]) for name in ("index.Tensor", "index_select", "embedding")},
    **{name: _each(SUMS[name]) for name in ("sum.dim_IntList", "sum", "mean.dim", "mean")},
    **dict.fromkeys(("resolve_conj", "resolve_neg", "detach", "lift_fresh"), _each(SHAPES["alias"])),
    **dict.fromkeys(("_conj", "_conj_physical", "conj_physical"), _conjugate),
    "neg": _each(lambda context, call: negative(context, context.value(call.arguments[0]))),
    "view_as_complex": _from_real,
    "view_as_real": _as_real,
    "complex": _complex,
    "polar": _polar,
    "mul.Tensor": _times,
    **{name: _product(SUMS[name]) for name in ("bmm", "mm", "mv", "dot")},
    "add.Tensor": _between("+"),
    "sub.Tensor": _between("-"),
    "div.Tensor": _divided,
    "abs": _size,
    "angle": _angle,
    **dict.fromkeys(("linalg_vector_norm", "norm.ScalarOpt_dim", "norm.Scalar"), _norm),
}
"""By the name of an operator that reads or makes complex numbers, how it is said."""
