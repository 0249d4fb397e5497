"""How much coarser than float32 a program's products are on purpose."""

from __future__ import annotations

from typing import Any

from explorer.compiler.ir.kernels import Multiply, Precision
from explorer.compiler.ir.node import walk

COARSER: dict[Precision, float] = {"tf32x3": 2.0**3, "tf32": 2.0**13}
"""How many times the unit roundoff of float32, 2^-24, that of a product's factors is: a TF32 number of 11 bits has
2^-11; the sum of two of them, less the product of both their rests, keeps 21."""


def coarser_of(program: Any) -> float:
    """The coarsest of a program's products; 1 for those of float32, and where there is no program."""
    if program is None:
        return 1.0
    found = {node.precision for node in walk(program) if isinstance(node, Multiply)}
    return max((COARSER[precision] for precision in found), default=1.0)
