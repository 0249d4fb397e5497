"""How the reference's result changes along a direction of what is learnt: forward differentiation of its evaluation.

It needs no more memory than the evaluation itself, which goes through large data in chunks, and tells all gradients
together: <gradient, direction> is the sum of upstream * change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.runtime.reference.numbers import primitives as plain
from explorer.runtime.reference.numbers.adjoint import FLAT, SLOPES
from explorer.runtime.reference.numbers.primitives import FUNCTIONS, Array, Carrier


class Moved(Carrier):
    """A value, and how it changes along the direction; both are changed in place together."""

    level = 2

    def __init__(self, payload: Array, change: Array) -> None:
        self.payload = payload
        self.change = change

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.payload.shape)

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return int(self.payload.nbytes + self.change.nbytes)

    def copy(self) -> Moved:
        """A copy that may be changed."""
        return Moved(self.payload.copy(), self.change.copy())

    def call(self, name: str, arguments: tuple[Any, ...]) -> Array:
        payloads = [argument.payload if isinstance(argument, Moved) else argument for argument in arguments]
        changes = [argument.change if isinstance(argument, Moved) else None for argument in arguments]
        if name in WHOLE:
            changes = [
                _still(each) if change is None and _is_value(each) else each if change is None else change
                for each, change in zip(payloads, changes, strict=True)
            ]
            return Moved(FUNCTIONS[name](*payloads), FUNCTIONS[name](*changes))
        found = FUNCTIONS[name](*payloads)
        if name in FLAT:
            return found
        moved = [index for index, change in enumerate(changes) if change is not None]
        terms = [_change(name, index, changes[index], found, payloads) for index in moved]
        change = terms[0] if len(terms) == 1 else terms[0] + terms[1]
        return Moved(found, change if change.shape == found.shape else plain.spread(change, tuple(found.shape)))


WHOLE = frozenset({"put", "accumulate", "joined"})
"""Functions that move several values at once, each as it is."""
LINEAR = frozenset({"negative", "total", "segment_sum", "reshaped", "transposed", "spread", "part", "placed", "pick"})
"""Functions that do with a change what they do with the value."""
PRODUCTS = frozenset({"matmul", "grouped_matmul"})
"""Functions of two values that do with a change of either what they do with that value."""
REDUCED: dict[str, Callable[..., Array]] = {
    "norm": lambda change, z, x: plain.divide_or_zero(plain.total(change * x), z),
    "largest": lambda change, z, x: plain.total(change * plain.shares(x)),
    "segment_max": lambda change, z, x, places, count: plain.segment_sum(
        change * plain.segment_shares(x, places, count), places, count
    ),
}


def _is_value(argument: Any) -> bool:
    """Whether an argument is a value, not an axis or ids."""
    return isinstance(argument, Carrier) or getattr(getattr(argument, "dtype", None), "kind", "") == "f"


def _still(value: Array) -> Array:
    """The change of what does not change."""
    return plain.blank(value, len(value))


def _change(name: str, index: int, change: Array, found: Array, payloads: list[Any]) -> Array:
    """What the change of one argument makes of the result."""
    if name in LINEAR:
        return FUNCTIONS[name](change, *payloads[1:])
    if name in REDUCED:
        return REDUCED[name](change, found, *payloads)
    if name in PRODUCTS:
        factors = [change, payloads[1]] if index == 0 else [payloads[0], change]
        return FUNCTIONS[name](*factors, *payloads[2:])
    return SLOPES[name](change, found, *payloads)[index]()
