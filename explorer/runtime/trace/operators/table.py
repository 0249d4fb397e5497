"""One table of ATen's operators: by name, how each is said in the language."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.runtime.trace.operators import maps, numbers, shapes, sums
from explorer.runtime.trace.operators.context import Entry

TABLE: Mapping[str, Entry] = {**numbers.TABLE, **shapes.TABLE, **sums.TABLE, **maps.TABLE}
"""Those that are said. One in place, `add_.Tensor`, is said as the one that is not, `add.Tensor`."""
_OTHERWISE = {"pow_.Scalar": "pow.Tensor_Scalar", "pow_.Tensor": "pow.Tensor_Tensor"}
"""Those in place that are called otherwise than the ones that are not."""


def entry_of(operator: str) -> tuple[Entry | None, bool]:
    """The entry of an operator, None where there is none; and whether it writes in place."""
    name, dot, overload = operator.partition(".")
    in_place = name.endswith("_") and not name.endswith("__")
    if in_place:
        operator = _OTHERWISE.get(operator, name.removesuffix("_") + dot + overload)
    return TABLE.get(operator), in_place
