"""The language's shape rules. Extents are compared by value and printed by name; letters name them in signatures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.compiler.ir.graph import Shape
from explorer.compiler.ir.node import Extent

LARGEST_EXTENT = 65_536
"""Of a dimension."""

MOST_DIMENSIONS = 8
"""Of a row: a product names those of both its sides by letters, of which there are 26."""

BATCH_LETTERS = "defghijklmnopqrstuvwxyz"
"""Letters of the dimensions before those that a product works on; a, b and c are those it works on."""


@dataclass(frozen=True, slots=True)
class Product:
    """How a product contracts: `swapped` says that the right operand comes first and is transposed left before."""

    signature: str
    shape: Shape
    matrix_by_row: bool = False


@dataclass(frozen=True)
class Shapes:
    """The rules, for given sizes of the dimensions."""

    sizes: Mapping[str, int]

    def size(self, extent: Extent) -> int:
        """The number that an extent stands for."""
        return extent if isinstance(extent, int) else self.sizes[extent]

    def numbers(self, shape: Shape) -> tuple[int, ...]:
        """The shape in numbers."""
        return tuple(self.size(extent) for extent in shape)

    def equal(self, left: Shape, right: Shape) -> bool:
        """Whether two shapes are the same in numbers."""
        return self.numbers(left) == self.numbers(right)

    def common(self, left: Shape, right: Shape) -> Shape | None:
        """The longer of two shapes of which one is a prefix of the other, with names where either has them."""
        shorter = min(len(left), len(right))
        if not self.equal(left[:shorter], right[:shorter]):
            return None
        longer = left if len(left) >= len(right) else right
        return _named(left, right) + longer[shorter:]

    def ends(self, left: Shape, right: Shape) -> bool:
        """Whether the shorter of two shapes is the end of the longer, and not its beginning."""
        shorter, longer = sorted((left, right), key=len)
        start = len(longer) - len(shorter)
        return self.common(left, right) is None and self.equal(shorter, longer[start:])

    def ambiguous(self, left: Shape, right: Shape) -> bool:
        """Whether the shorter of two shapes is the beginning and the end of the longer in these sizes, where its names
        say that the end is meant: in other sizes, it would be."""
        shorter, longer = sorted((left, right), key=len)
        start = len(longer) - len(shorter)
        named = all(isinstance(extent, str) for extent in (*shorter, *longer[: len(shorter)]))
        if not named or not 0 < len(shorter) < len(longer) or self.common(left, right) is None:
            return False
        return shorter == longer[start:] and shorter != longer[: len(shorter)]

    def leading(self, left: Shape, right: Shape) -> Shape | None:
        """The batched dimensions of two shapes that line up from the right; missing ones repeat."""
        shorter = min(len(left), len(right))
        if not self.equal(left[len(left) - shorter :], right[len(right) - shorter :]):
            return None
        longer = left if len(left) >= len(right) else right
        ends = _named(left[len(left) - shorter :], right[len(right) - shorter :])
        return longer[: len(longer) - shorter] + ends

    def scaling(self, prefix: Shape, whole: Shape) -> Product:
        """`[H] * [H, G]`: each number of the first scales a row of the second."""
        letters = _letters(len(whole))
        signature = f"{letters[: len(prefix)]},{letters}->{letters}"
        return Product(signature, _named(prefix, whole) + whole[len(prefix) :])

    def inner(self, left: Shape, right: Shape) -> Product | None:
        """`dot(x, y)`: the sum of products over the last dimension."""
        if not left or not right or self.size(left[-1]) != self.size(right[-1]):
            return None
        batch = self.leading(left[:-1], right[:-1])
        return None if batch is None else _batched("a", "a", "", batch, left[:-1], right[:-1], ())

    def outer(self, left: Shape, right: Shape) -> Product | None:
        """`outer(x, y)`: every product of an element of one and an element of the other."""
        if not left or not right:
            return None
        batch = self.leading(left[:-1], right[:-1])
        tail = (left[-1], right[-1])
        return None if batch is None else _batched("a", "b", "ab", batch, left[:-1], right[:-1], tail)

    def matrix_product(self, left: Shape, right: Shape) -> Product | None:
        """`x @ y`: a row by a matrix, a matrix by a row, or two matrices; where several fit, the first of these."""
        if not left or not right:
            return None
        if len(left) == len(right) == 1:
            return self.inner(left, right)
        by_row = len(right) >= 2 and (len(left) == 1 or self.equal(left[:-1], right[:-2]))
        if by_row and self.size(left[-1]) == self.size(right[-2]):
            return self._row_by_matrix(left, right)
        by_column = len(left) >= 2 and (len(right) == 1 or self.equal(right[:-1], left[:-2]))
        if by_column and self.size(left[-1]) == self.size(right[-1]):
            product = self._row_by_matrix(right, (*left[:-2], left[-1], left[-2]))
            return product and Product(product.signature, product.shape, matrix_by_row=True)
        if len(left) < 2 or len(right) < 2 or self.size(left[-1]) != self.size(right[-2]):
            return None
        batch = self.leading(left[:-2], right[:-2])
        tail = (left[-2], right[-1])
        return None if batch is None else _batched("ab", "bc", "ac", batch, left[:-2], right[:-2], tail)

    def _row_by_matrix(self, row: Shape, matrix: Shape) -> Product | None:
        batch = self.leading(row[:-1], matrix[:-2])
        return None if batch is None else _batched("a", "ab", "b", batch, row[:-1], matrix[:-2], matrix[-1:])


def _batched(left: str, right: str, result: str, batch: Shape, before: Shape, other: Shape, tail: Shape) -> Product:
    """A product of the last dimensions, with letters for the batched ones that each side has."""
    used = set(left + right)
    letters = "".join(letter for letter in "cab" + BATCH_LETTERS if letter not in used)[: len(batch)]
    mine = letters[len(batch) - len(before) :]
    theirs = letters[len(batch) - len(other) :]
    return Product(f"{mine}{left},{theirs}{right}->{letters}{result}", batch + tail)


def _letters(count: int) -> str:
    return ("abc" + BATCH_LETTERS)[:count]


def _named(left: Shape, right: Shape) -> Shape:
    """Equal extents, by name where either side has one."""
    return tuple(other if isinstance(extent, int) else extent for extent, other in zip(left, right, strict=False))


def show(shape: Shape) -> str:
    """A shape as messages print it: `[D, K]`."""
    return f"[{', '.join(str(extent) for extent in shape)}]"
