"""One table of ATen's operators: by name, how each is said in the language."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.runtime.trace.operators import composed, convolutions, maps, numbers, shapes, sums
from explorer.runtime.trace.operators.complexes import COMPLEX
from explorer.runtime.trace.operators.context import Entry

TABLE: Mapping[str, Entry] = {
    name: entry for each in (numbers, shapes, sums, maps, convolutions, composed) for name, entry in each.TABLE.items()
}
"""Those that are said. One in place, `add_.Tensor`, is said as the one that is not, `add.Tensor`."""
_OTHERWISE = {"pow_.Scalar": "pow.Tensor_Scalar", "pow_.Tensor": "pow.Tensor_Tensor"}
"""Those in place that are called otherwise than the ones that are not."""


def entry_of(operator: str, of_complex: bool = False) -> tuple[Entry | None, bool]:
    """The entry of an operator, of complex numbers or of real ones, None where there is none; and whether it writes in
    place."""
    name, dot, overload = operator.partition(".")
    in_place = name.endswith("_") and not name.endswith("__")
    if in_place:
        operator = _OTHERWISE.get(operator, name.removesuffix("_") + dot + overload)
    return (None if in_place else COMPLEX.get(operator)) if of_complex else TABLE.get(operator), in_place
