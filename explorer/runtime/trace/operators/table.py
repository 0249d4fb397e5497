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

_ORDERED = (
    "Which of them are the largest, and in which order, is decided by floats, and a text gathers rows by ids that are "
    "known before: find the ids outside, and hand them in as edges, or as columns of ids"
)
_WHY = {
    **dict.fromkeys(("topk", "sort", "argsort", "argmax", "argmin", "kthvalue", "median", "msort"), _ORDERED),
    **dict.fromkeys(("cummax", "cummin", "cumsum", "cumprod"), "An element would be of all before it"),
    **dict.fromkeys(("_fft_r2c", "_fft_c2r", "_fft_c2c"), "It is a sum over all pairs of an element's numbers"),
}
"""By the name of an operator that is not said, why."""


def why_not(operator: str) -> str:
    """Why an operator is not said, and what to do."""
    why = _WHY.get(operator.partition(".")[0].removesuffix("_"))
    return f"{why}." if why else "Write the line with others."


def entry_of(operator: str, of_complex: bool = False) -> tuple[Entry | None, bool]:
    """The entry of an operator, of complex numbers or of real ones, None where there is none; and whether it writes in
    place."""
    name, dot, overload = operator.partition(".")
    in_place = name.endswith("_") and not name.endswith("__")
    if in_place:
        operator = _OTHERWISE.get(operator, name.removesuffix("_") + dot + overload)
    return (None if in_place else COMPLEX.get(operator)) if of_complex else TABLE.get(operator), in_place
