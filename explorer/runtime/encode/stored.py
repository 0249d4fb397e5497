"""Tables that are stored in less than 32 bits: rounded once, before anything is computed, so that every target and the
reference in float64 start from the same numbers. What that rounding does to the result is told beside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.storage import ROUNDED
from explorer.compiler.returned import each_returned
from explorer.compiler.stored import rounded
from explorer.runtime.reference.evaluate import Meaning
from explorer.runtime.reference.numbers.bounds import Bounded

Tensors = Mapping[str, npt.NDArray[Any]]


def as_stored(graph: Graph, tensors: Tensors) -> dict[str, npt.NDArray[Any]]:
    """The tensors with the numbers that their storage has, float32."""
    narrow = {tensor.name: tensor.storage for tensor in graph.tensors if tensor.storage != "f32"}
    return {name: rounded(array, narrow[name]) if name in narrow else array for name, array in tensors.items()}


def rounding(
    graph: Graph, stored: Bounded | tuple[Bounded, ...], unrounded: Callable[[], Meaning]
) -> dict[str, Any] | None:
    """What storing tables in 16 bits changes of a result, both in float64: the root mean square of the difference as a
    share of that of the result, of several the largest, None where that is no number, and which tensors are stored so.
    None where none is; a table of whole numbers has lost nothing since it was given."""
    tensors = {tensor.name: tensor.storage for tensor in graph.tensors if tensor.storage in ROUNDED}
    if not tensors:
        return None
    with np.errstate(all="ignore"):
        pairs = zip(each_returned(unrounded().result()), each_returned(stored), strict=True)
        shares = [_root(one.value - other.value) / _root(other.value) for one, other in pairs]
        relative = float(np.max(shares))
    return {"tensors": tensors, "root_mean_square": relative if np.isfinite(relative) else None}


def _root(values: npt.NDArray[np.float64]) -> np.float64:
    """The root mean square."""
    return np.float64(np.sqrt(np.mean(np.square(values))))
