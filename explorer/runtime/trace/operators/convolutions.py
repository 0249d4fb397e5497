"""Convolutions, as sums over the places of a small kernel: a product of a weight and a part of the input for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from explorer.runtime.trace.operators.context import Context, Entry, binary
from explorer.runtime.trace.operators.shapes import selected, sliced
from explorer.runtime.trace.values.products import multiplied
from explorer.runtime.trace.values.tensors import Unsayable, Value

MOST_PLACES = 64
"""Of a kernel, in all its input's channels: each is a term of the text."""


def _convolution(context: Context, call: Any) -> Value:
    value, weight, bias, stride, padding, dilation, transposed, _, groups = call.arguments
    plain = all(step == 1 for step in (*stride, *dilation, groups)) and not transposed
    if not plain or any(padding):
        raise Unsayable("a convolution has steps, padding, dilation or groups, or is a transposed one")
    sizes = tuple(weight.shape)
    if sizes[1] * len(list(product(*map(range, sizes[2:])))) > MOST_PLACES:
        raise Unsayable(f"a convolution has more than {MOST_PLACES} places: write it as a matrix")
    value, weight = context.value(value), context.value(weight)
    out = tuple(call.returned.shape[2:])
    total: Value | None = None
    for channel in range(sizes[1]):
        picked = selected(context, value, 1, channel)
        weights = selected(context, weight, 1, channel)
        for place in product(*map(range, sizes[2:])):
            part = picked
            for dim, (start, length) in enumerate(zip(place, out, strict=True), 1):
                part = sliced(context, part, dim, start, start + length)
            term = _times(context, weights, place, part)
            total = term if total is None else binary(context, "+", total, term)
    assert total is not None
    return total if bias is None else binary(context, "+", total, _channels(context.value(bias), len(out)))


def _times(context: Context, weights: Value, place: tuple[int, ...], part: Value) -> Value:
    """The weights of one place of the kernel, a channel of the result each, and the part that they meet."""
    for at in reversed(place):
        weights = selected(context, weights, len(weights.dims) - 1, at)
    whole = replace(part, dims=(part.dims[0], (), *part.dims[1:]))
    return multiplied(context.nodes, _channels(weights, len(place)), whole)


def _channels(value: Value, inner: int) -> Value:
    """A vector of channels, with dimensions of one behind it."""
    return replace(value, dims=(*value.dims, *((),) * inner))


TABLE: Mapping[str, Entry] = {"convolution": _convolution}
"""By the operator's name, how it is said."""
