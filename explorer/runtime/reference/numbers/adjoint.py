"""Gradients by reverse-mode differentiation of the reference's own evaluation, whatever it computes with.

Every primitive that is given something learnt is written down with what it was given. Backwards, the slopes of each are
themselves computed with the primitives: over values with bounds, gradients have bounds of their rounding errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.numbers import choices
from explorer.runtime.reference.numbers import primitives as plain
from explorer.runtime.reference.numbers.primitives import FUNCTIONS, Array, Carrier, Index, Numbers, reshaped, widened

Thunk = Callable[[], Array]
Scattered = tuple[Numbers, Array]


class Traced(Carrier):
    """A value that depends on something learnt: `payload`, and the primitive that made it; none made what is learnt."""

    level = 2

    def __init__(self, payload: Array, name: str = "", arguments: tuple[Any, ...] = (), order: int = 0) -> None:
        self.payload = payload
        self.name = name
        self.arguments = arguments
        self.order = order
        self.gradient: Array | None = None
        self.rows: list[Scattered] = []

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.payload.shape)

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return int(self.payload.nbytes)

    def copy(self) -> Traced:
        """Itself: no function changes what is traced."""
        return self

    def call(self, name: str, arguments: tuple[Any, ...]) -> Array:
        payloads = tuple(payload_of(argument) for argument in arguments)
        if name in ("put", "accumulate"):
            payloads = (payloads[0].copy(), *payloads[1:])
        found = FUNCTIONS[name](*payloads)
        if name in FLAT:
            return found
        order = 1 + max(argument.order for argument in arguments if isinstance(argument, Traced))
        return Traced(found, name, arguments, order)

    def given(self) -> Array | None:
        """The gradient that has been collected: what was added whole, and all rows in one sum."""
        found = self.gradient
        if self.rows:
            ids = np.concatenate([ids for ids, _ in self.rows])
            parts = [reshaped(part, (len(part), math.prod(part.shape[1:]))) for _, part in self.rows]
            order = np.argsort(ids, kind="stable")
            terms = plain.pick(plain.joined(0, *parts), (order,))
            count = math.prod(self.shape) // max(1, terms.shape[1])
            summed = reshaped(plain.segment_sum(terms, ids[order], count), self.shape)
            found = summed if found is None else found + summed
        return found


JUMPING = frozenset({"greater", "at_least", "equal", "floor"})
DETACHED = frozenset({"stopped", "detached"})
FLAT = frozenset({"blank", "sign", "step", "leaky_step", "above", "shares", "segment_shares"}) | DETACHED | JUMPING
"""Functions whose result does not change with their arguments, but for jumps."""


def payload_of(argument: Any) -> Any:
    return argument.payload if isinstance(argument, Traced) else argument


def backward(
    results: Sequence[Array], upstreams: Sequence[Array], learnt: Mapping[str, Traced]
) -> dict[str, Array | None]:
    """The gradient of the sum of all sum(upstream * result) by everything learnt; None by what no result depends on."""
    begun = [(node, given) for node, given in zip(results, upstreams, strict=True) if isinstance(node, Traced)]
    for result, upstream in begun:
        result.gradient = upstream if result.gradient is None else result.gradient + upstream
    for node in _made_last_first([result for result, _ in begun]):
        if node.name and (gradient := node.given()) is not None:
            _pass_on(node, gradient)
            node.gradient, node.rows, node.payload = None, [], None
    return {name: leaf.given() for name, leaf in learnt.items()}


def _made_last_first(results: Sequence[Traced]) -> Sequence[Traced]:
    """All nodes that the results were made of, each before those that it was made of itself."""
    found: dict[int, Traced] = {}
    pending = list(results)
    while pending:
        node = pending.pop()
        if id(node) not in found:
            found[id(node)] = node
            pending += [argument for argument in node.arguments if isinstance(argument, Traced)]
    return sorted(found.values(), key=lambda node: -node.order)


def _pass_on(node: Traced, gradient: Array) -> None:
    """Adds what a node passes on to each of its arguments' gradients."""
    payloads = [payload_of(argument) for argument in node.arguments]
    if node.name == "pick":
        operand, ids = node.arguments
        operand.rows.append(_flat_rows(operand.shape, ids, gradient))
        return
    slopes = SLOPES[node.name](gradient, node.payload, *payloads)
    for argument, slope in zip(node.arguments, slopes, strict=False):
        if isinstance(argument, Traced):
            found = collapsed(slope(), argument.shape)
            argument.gradient = found if argument.gradient is None else argument.gradient + found


def _flat_rows(shape: tuple[int, ...], ids: Index, gradient: Array) -> Scattered:
    """Where rows that were picked come from, numbered through, and a row of the gradient for each."""
    arrays = np.broadcast_arrays(*(np.asarray(part, dtype=np.int64) for part in ids))
    flat = np.ravel_multi_index(tuple(arrays), shape[: len(ids)]).reshape(-1)
    return flat, reshaped(gradient, (len(flat), *shape[len(ids) :]))


def collapsed(gradient: Array, shape: tuple[int, ...]) -> Array:
    """The gradient of what was repeated along the axes where `shape` has 1: the sum over them."""
    if tuple(gradient.shape) == shape:
        return gradient
    extents = (1,) * (gradient.ndim - len(shape)) + shape
    axes = [axis for axis, extent in enumerate(extents) if extent == 1 and gradient.shape[axis] != 1]
    if axes:
        kept = [axis for axis in range(gradient.ndim) if axis not in axes]
        turned = plain.transposed(gradient, (*kept, *axes))
        gradient = plain.total(reshaped(turned, (*turned.shape[: len(kept)], math.prod(turned.shape[len(kept) :]))))
    elif tuple(gradient.shape) != extents:  # the gradient of one row, for all
        return plain.spread(gradient, shape)
    return reshaped(gradient, shape)


def _product_for(x: Array, y: Array, shape: tuple[int, ...]) -> Array:
    """`x @ y`, summed over the leading axes that `shape` has 1 of, in one sum with those of the product."""
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    folded = [axis for axis, extent in enumerate(lead) if extent != 1 and shape[axis] == 1]
    if not folded or len(shape) != len(lead) + 2:
        return plain.matmul(x, y)
    kept = [axis for axis in range(len(lead)) if axis not in folded]
    row, column = len(lead), len(lead) + 1
    x, y = (part if part.shape[:-2] == lead else plain.spread(part, (*lead, *part.shape[-2:])) for part in (x, y))
    sizes, depth = [lead[axis] for axis in kept], math.prod([lead[axis] for axis in folded]) * x.shape[-1]
    x = reshaped(plain.transposed(x, (*kept, row, *folded, column)), (*sizes, x.shape[-2], depth))
    y = reshaped(plain.transposed(y, (*kept, *folded, row, column)), (*sizes, depth, y.shape[-1]))
    product = plain.matmul(x, y)
    return reshaped(product, (*(1 if axis in folded else lead[axis] for axis in range(len(lead))), *product.shape[-2:]))


def _of_matmul(g: Array, z: Array, x: Array, y: Array) -> tuple[Thunk, ...]:
    return (
        lambda: _product_for(g, plain.swapped(y), tuple(x.shape)),
        lambda: _product_for(plain.swapped(x), g, tuple(y.shape)),
    )


def _of_grouped_matmul(g: Array, z: Array, x: Array, y: Array, starts: Numbers) -> tuple[Thunk, ...]:
    def by_matrices() -> Array:
        ends = [*starts[1:], x.shape[-2]]
        parts = [(..., slice(int(start), int(end)), slice(None)) for start, end in zip(starts, ends, strict=True)]
        products = [plain.matmul(plain.swapped(plain.part(x, part)), plain.part(g, part)) for part in parts]
        return plain.joined(0, *(reshaped(product, (1, *product.shape)) for product in products))

    return (lambda: plain.grouped_matmul(g, plain.swapped(y), starts), by_matrices)


def _of_joined(g: Array, z: Array, axis: int, *parts: Array) -> tuple[Thunk, ...]:
    starts = np.cumsum([0, *(part.shape[axis] for part in parts)])
    before = (slice(None),) * (axis % g.ndim)

    def part(index: int) -> Thunk:
        return lambda: plain.part(g, (*before, slice(int(starts[index]), int(starts[index + 1]))))

    return (lambda: None, *(part(index) for index in range(len(parts))))


def _rows_set_to_zero(g: Array, ids: npt.NDArray[np.integer]) -> Array:
    kept = np.ones((g.shape[0],) + (1,) * (g.ndim - 1))
    kept[ids] = 0
    return g * kept.astype(np.float32)


def _rows_of(g: Array, ids: npt.NDArray[np.integer], values: Array) -> Array:
    """What rows that were put at these places pass on; a single one may have stood for all."""
    return reshaped(plain.pick(g, (ids,)), (len(ids), *g.shape[1:]))


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(axis) for axis in np.argsort(axes))


SLOPES: dict[str, Callable[..., tuple[Thunk, ...]]] = {
    "add": lambda g, z, x, y: (lambda: g, lambda: g),
    "subtract": lambda g, z, x, y: (lambda: g, lambda: -g),
    "multiply": lambda g, z, x, y: (lambda: g * y, lambda: g * x),
    "divide": lambda g, z, x, y: (lambda: g / y, lambda: -(g * z / y)),
    "negative": lambda g, z, x: (lambda: -g,),
    "maximum": lambda g, z, x, y: (lambda: g * plain.above(x, y), lambda: g * plain.above(y, x)),
    "minimum": lambda g, z, x, y: (lambda: g * plain.above(y, x), lambda: g * plain.above(x, y)),
    "masked": lambda g, z, x, y: (lambda: choices.masked(x, g) * 0, lambda: choices.masked(x, g)),
    "power": lambda g, z, x, exponent: (lambda: g * (exponent * choices.power(x, exponent - 1)),),
    "exp": lambda g, z, x: (lambda: g * z,),
    "log": lambda g, z, x: (lambda: g / x,),
    "log1p": lambda g, z, x: (lambda: g / (1 + x),),
    "softplus": lambda g, z, x: (lambda: g * plain.sigmoid(x),),
    "sqrt": lambda g, z, x: (lambda: plain.divide_or_zero(g * 0.5, z),),
    "absolute": lambda g, z, x: (lambda: g * plain.sign(x),),
    "relu": lambda g, z, x: (lambda: g * plain.step(x),),
    "leaky_relu": lambda g, z, x, slope: (lambda: g * plain.leaky_step(x, slope),),
    "sigmoid": lambda g, z, x: (lambda: g * (z * (1 - z)),),
    "tanh": lambda g, z, x: (lambda: g * (1 - z * z),),
    "gelu": lambda g, z, x: (lambda: g * plain.gelu_slope(x),),
    "sin": lambda g, z, x: (lambda: g * plain.cos(x),),
    "cos": lambda g, z, x: (lambda: -(g * plain.sin(x)),),
    "atan2": lambda g, z, x, y: (
        lambda: plain.divide_or_zero(g * y, x * x + y * y),
        lambda: -plain.divide_or_zero(g * x, x * x + y * y),
    ),
    "total": lambda g, z, x: (lambda: plain.spread(widened(g, g.ndim + 1), tuple(x.shape)),),
    "norm": lambda g, z, x: (lambda: widened(g, g.ndim + 1) * plain.divide_or_zero(x, widened(z, z.ndim + 1)),),
    "largest": lambda g, z, x: (lambda: widened(g, g.ndim + 1) * plain.shares(x),),
    "matmul": _of_matmul,
    "grouped_matmul": _of_grouped_matmul,
    "segment_sum": lambda g, z, x, places, count: (lambda: plain.pick(g, (places,)),),
    "segment_max": lambda g, z, x, places, count: (
        lambda: plain.pick(g, (places,)) * plain.segment_shares(x, places, count),
    ),
    "reshaped": lambda g, z, x, shape: (lambda: reshaped(g, tuple(x.shape)),),
    "transposed": lambda g, z, x, axes: (lambda: plain.transposed(g, _inverse(axes)),),
    "spread": lambda g, z, x, shape: (lambda: g,),
    "part": lambda g, z, x, index: (lambda: plain.placed(g, tuple(x.shape), index),),
    "joined": _of_joined,
    "put": lambda g, z, array, ids, values: (
        lambda: _rows_set_to_zero(g, ids),
        lambda: None,
        lambda: _rows_of(g, ids, values),
    ),
    "accumulate": lambda g, z, array, ids, values: (lambda: g, lambda: None, lambda: _rows_of(g, ids, values)),
}
"""What each of the primitives passes on of its result's gradient g, given its result z and its arguments: a function
for each argument, called for those that are learnt or made of it. What broadcast is summed by `collapsed`."""
