"""Buffer bound inference: which elements of each array a tile of a segment's loop reads (G-Sparse §III-B-a).

Interval analysis of indices knows a loop's variable by its bounds. An element that is loaded, such as where a row
begins, has no bound by itself, and an array that it offsets none either. But where the load is of one place it is one
number, and an array at that number plus something is bounded by what is added: [row_ptr[r] + min z,
row_ptr[r] + max z]. An array at an element that changes with the loop stays unbounded.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, walk


@dataclass(frozen=True)
class Interval:
    """The least and the greatest place, as they are read in a schedule; those of a point are the same text."""

    lower: str
    upper: str

    def __str__(self) -> str:
        return f"[{self.lower}, {self.upper}]"

    @property
    def is_point(self) -> bool:
        """Whether it is one number."""
        return self.lower == self.upper


UNBOUNDED = Interval("-inf", "+inf")
SIGNS = {"add": "+", "sub": "-"}


def tile_bounds(segment: loops.For, places: Interval) -> Mapping[str, Interval]:
    """By array, the places of its first index that one tile of a segment's loop reads, whose variable has `places`; of
    arrays that are read at more than one, the first that is not bounded."""
    known = {segment.variable: places}
    found: dict[str, Interval] = {}
    for node in (child for statement in segment.body for child in walk(statement)):
        match node:
            case loops.Index():
                known[node.result] = _combined(node.function, [_of(atom, known) for atom in node.operands])
            case loops.Load() if node.indices:
                at = _of(node.indices[0], known)
                if found.get(node.buffer) != UNBOUNDED:
                    found[node.buffer] = at
                if not at.is_point:
                    known[node.result] = UNBOUNDED
    return found


def _of(atom: Atom, known: Mapping[str, Interval]) -> Interval:
    """What is not made in the loop is a point."""
    return known.get(str(atom), Interval(str(atom), str(atom)))


def _combined(function: str, operands: list[Interval]) -> Interval:
    """The interval of a sum or difference with a point; what else is of points alone is a point, and the rest is
    unbounded."""
    left, right = operands
    if UNBOUNDED not in operands and (right.is_point or (function == "add" and left.is_point)) and function in SIGNS:
        sign = SIGNS[function]
        return Interval(f"{left.lower} {sign} {right.lower}", f"{left.upper} {sign} {right.upper}")
    if left.is_point and right.is_point:
        text = f"{function}({left.lower}, {right.lower})"
        return Interval(text, text)
    return UNBOUNDED
