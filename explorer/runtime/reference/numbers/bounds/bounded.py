"""Numbers with the scales of their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.numbers.bounds.parts import (
    LARGEST,
    NEAR,
    NONE,
    ROUNDOFF,
    Floats,
    Part,
    absent,
    full,
    look_for_overflow,
    plus,
    times,
)
from explorer.runtime.reference.numbers.primitives import Array, Carrier, Foreign, as_array

RAW = frozenset({"segment_sum", "segment_max", "segment_shares", "grouped_matmul", "pick", "put", "accumulate"})
"""Functions whose arguments include ids, which have no bounds."""
RULES: dict[str, Callable[..., Bounded]] = {}
"""How the bounds of each of the primitives follow from those of its operands; `rules` has them."""


@dataclass(frozen=True, eq=False)
class Bounded(Carrier):
    """Values with the two parts of their scale, which need no more than the digits and the range of float32: what it
    cannot hold has no bound, and what it loses is less than what a kernel does. They are 0.0 for exact numbers. A
    result says which device it was `computed_on`, "" for this processor."""

    value: Floats
    own: Part = NONE
    shared: Part = NONE
    computed_on: str = ""

    level = 1

    def __post_init__(self) -> None:
        look_for_overflow(self.value)
        for name, part in (("own", self.own), ("shared", self.shared)):
            if not absent(part) and getattr(part, "dtype", None) != np.float32:
                with np.errstate(over="ignore"):
                    object.__setattr__(self, name, as_array(part).astype(np.float32))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.value.shape

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """The bytes of the values: chunks are those of float64, since each costs what is done a chunk."""
        return self.value.nbytes

    @property
    def scale(self) -> Part:
        """Both parts together."""
        return plus(self.own, self.shared)

    @property
    def error(self) -> Floats:
        """The scale of every value; infinite where there is no bound."""
        scale = np.broadcast_to(np.asarray(self.scale, dtype=np.float64), self.shape)
        return np.where(np.isnan(scale) | (np.abs(self.value) >= LARGEST), np.inf, scale)

    def call(self, name: str, arguments: tuple[Any, ...]) -> Array:
        rule = RULES[name]
        arrays = [bounded(a) if isinstance(a, (np.ndarray, Foreign)) and name not in RAW else a for a in arguments]
        return rule(*arrays)

    def copy(self) -> Bounded:
        """A copy that may be changed."""
        return Bounded(self.value.copy(), full(self.own, self.shape).copy(), full(self.shared, self.shape).copy())

    def repeated(self) -> Bounded:
        """The same, its elements used by several of the result's."""
        return self if absent(self.own) else Bounded(self.value, NONE, self.scale)


def bounded(x: Array) -> Bounded:
    """Exact numbers, or what has bounds already."""
    return x if isinstance(x, Bounded) else Bounded(as_array(x, np.float64))


def rounded(x: npt.NDArray[np.floating]) -> Bounded:
    """Numbers that a kernel has in float32: constants and what is computed of counts."""
    value = np.asarray(x, dtype=np.float64)
    inexact = value != value.astype(np.float32)
    return Bounded(value, NONE, np.where(inexact, np.abs(value), 0.0))


def reach_of(x: Bounded) -> Any:
    """How far an argument may lie from its value, with room to spare; anywhere, where it has no bound."""
    reach = times(x.scale, NEAR * ROUNDOFF)
    return np.where(np.isnan(reach), np.inf, reach) if np.isnan(reach).any() else reach
