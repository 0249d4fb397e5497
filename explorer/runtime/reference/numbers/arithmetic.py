"""What the reference computes in: how given numbers become values, for the primitives to work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.numbers.adjoint import Traced
from explorer.runtime.reference.numbers.bounds import bounded, rounded
from explorer.runtime.reference.numbers.primitives import Array, Carrier, OneByOne
from explorer.runtime.reference.numbers.tangent import Moved

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Arithmetic:
    """How exact numbers become values, and how numbers do that a kernel has rounded to float32.

    `stored` keeps a tensor whose rows become values. `tensors` stands for what is learnt, where that is differentiated;
    with `whole`, nothing is done in chunks. `flushes` says that bounds allow numbers below the normal ones of float32
    to become 0. What is done in chunks is done in so many times larger `chunks`."""

    exact: Callable[[Floats], Array]
    rounded: Callable[[Floats], Array]
    tensors: Mapping[str, Array] = field(default_factory=dict)
    whole: bool = False
    chunks: int = 1
    stored: Callable[[Floats], Array] = lambda data: data
    flushes: bool = True

    def of(self, values: Array) -> Array:
        """Values of this arithmetic, from numbers or from such values."""
        return values if isinstance(values, Carrier) else self.exact(values)

    def table(self, name: str, data: Floats) -> Array:
        """What stands for a tensor, whose rows become values as they are picked."""
        found = self.tensors.get(name)
        return self.stored(data) if found is None else found

    def traced(self, learnt: Mapping[str, Floats]) -> tuple[Arithmetic, dict[str, Traced]]:
        """The same with what gradients by these tensors need, and those tensors."""
        tensors = {name: Traced(self.exact(data)) for name, data in learnt.items()}
        return replace(self, tensors=tensors, whole=True), tensors

    def moved(self, learnt: Mapping[str, Floats], direction: Mapping[str, Floats]) -> Arithmetic:
        """The same where these tensors change along a direction."""
        tensors = {name: Moved(self.exact(data), self.exact(direction[name])) for name, data in learnt.items()}
        return replace(self, tensors=tensors)


def _of_type(dtype: npt.DTypeLike) -> Callable[[Floats], Array]:
    return lambda values: np.asarray(values).astype(dtype, copy=False)


def _one_by_one(values: Floats) -> Array:
    return np.asarray(values, dtype=np.float32).view(OneByOne)


FLOAT64 = Arithmetic(_of_type(np.float64), _of_type(np.float64))
FLOAT32 = Arithmetic(_of_type(np.float32), _of_type(np.float32))
"""What NumPy gives in float32."""
ONE_BY_ONE = Arithmetic(_one_by_one, _one_by_one)
"""float32 with sums of one term after another."""
BOUNDED = Arithmetic(bounded, rounded)
"""float64 beside bounds of what float32 may differ by."""
UNFLUSHED = Arithmetic(bounded, rounded, flushes=False)
"""The same for numbers of any exponent, where none becomes 0."""
