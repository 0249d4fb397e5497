"""What the reference computes in: how given numbers become values, for the primitives to work on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference_adjoint import Traced
from explorer.runtime.reference_bounds import bounded, rounded
from explorer.runtime.reference_primitives import Array, Carrier, OneByOne

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Arithmetic:
    """How exact numbers become values, and how numbers do that a kernel has rounded to float32.

    With `traced`, every tensor of these names is kept there as what gradients are by; all else is constant."""

    exact: Callable[[Floats], Array]
    rounded: Callable[[Floats], Array]
    learnt: frozenset[str] = frozenset()
    traced: dict[str, Traced] = field(default_factory=dict)

    def of(self, values: Array) -> Array:
        """Values of this arithmetic, from numbers or from such values."""
        return values if isinstance(values, Carrier) else self.exact(values)

    def table(self, name: str, data: Floats) -> Array:
        """What stands for a tensor, whose rows become values as they are picked."""
        if name not in self.learnt:
            return data
        self.traced[name] = Traced(self.exact(data))
        return self.traced[name]

    def differentiated(self, learnt: frozenset[str]) -> Arithmetic:
        """The same, with what gradients by these tensors need."""
        return Arithmetic(self.exact, self.rounded, learnt)


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
