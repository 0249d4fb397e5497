"""`einsum("hd,hde->he", x, W)`: products of values, by a letter for each dimension, summed over what the result lacks.

Two values at a time, from the left; what no other value and no result has is summed before."""

from __future__ import annotations

import re
from collections.abc import Sequence

from explorer.compiler.ir import graph as ir
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.elaborate.values.arrange import LARGEST_MADE, Arranging
from explorer.compiler.language.elaborate.values.operations import Operations
from explorer.compiler.language.names.entities import Constant, Row, Stopped
from explorer.compiler.language.names.shapes import show
from explorer.compiler.language.parsing import syntax

FORM = re.compile(r"([a-z]*(?:,[a-z]*)*)->([a-z]*)")
EXAMPLE = 'einsum("hd,hde->he", x, W)'
MOST_VALUES = 8


def einsum(operations: Operations, node: syntax.Call, values: Sequence[Row | Constant]) -> Row | None:
    """The value of a call whose first argument is its letters; None where they do not fit, which is reported."""
    place = node.arguments[0].value
    assert isinstance(place, syntax.Text)
    found = FORM.fullmatch(place.text.replace(" ", ""))
    rows = [operations.builder.row(value) for value in values]
    if found is None:
        detail = "There is a letter from a to z for each dimension, and behind '->' those of the result."
        operations.collector.report(f"the letters of einsum are as in {EXAMPLE}", place.extent, detail)
        return None
    letters, result = found[1].split(","), found[2]
    if not _fits(operations, node, letters, result, rows):
        return None
    return _Products(operations, node).of(letters, result, rows)


def _fits(operations: Operations, node: syntax.Call, letters: list[str], result: str, rows: list[Row]) -> bool:
    """Whether the letters are those of the values' dimensions, and the result's among them."""
    report, place = operations.collector.report, node.arguments[0].value.extent
    if len(letters) != len(rows) or len(rows) > MOST_VALUES:
        most = f", and at most {MOST_VALUES}" if len(rows) > MOST_VALUES else ""
        report(f"there are letters for {len(letters)} values, and {len(rows)} values{most}", place)
        return False
    for each in (*letters, result):
        if len(set(each)) < len(each):
            report(f"'{each}' has a letter twice: a diagonal is not taken", place)
            return False
    for letter in result:
        if not any(letter in each for each in letters):
            report(f"no value has the dimension '{letter}' of the result", place)
            return False
    sizes: dict[str, tuple[int, str]] = {}
    for argument, each, row in zip(node.arguments[1:], letters, rows, strict=True):
        if len(each) != len(row.shape):
            report(f"this is {show(row.shape)}, and '{each}' has {len(each)} letters", argument.value.extent)
            return False
        for letter, extent in zip(each, row.shape, strict=True):
            size, shown = sizes.setdefault(letter, (operations.shapes.size(extent), str(extent)))
            if size != operations.shapes.size(extent):
                report(f"'{letter}' is {shown} and {extent}: one letter is one size", argument.value.extent)
                return False
    return True


class _Products:
    """The products of one call."""

    def __init__(self, operations: Operations, node: syntax.Call) -> None:
        self._builder = operations.builder
        self._collector = operations.collector
        self._site = OperationSite(node.function.text, node.function.extent, node.extent)
        self._arranging = Arranging(operations, self._site)

    def of(self, letters: list[str], result: str, rows: list[Row]) -> Row:
        """All values, one product after another."""
        first, row = letters[0], rows[0]
        for at in range(1, len(rows)):
            later = {*result, *"".join(letters[at + 1 :])}
            first, row = self._summed(first, row, {*letters[at], *later})
            second, other = self._summed(letters[at], rows[at], {*first, *later})
            kept = "".join(letter for letter in dict.fromkeys(first + second) if letter in later)
            first, row = self._product(first, row, second, other, result if at == len(rows) - 1 else kept)
        first, row = self._summed(first, row, set(result))
        for letter in result if first != result else "":
            row = self._arranging.last(row, first.index(letter))
            first = first.replace(letter, "") + letter
        return row

    def _summed(self, letters: str, row: Row, kept: set[str]) -> tuple[str, Row]:
        """A value without the dimensions that nothing else has."""
        for letter in [letter for letter in letters if letter not in kept]:
            row = self._arranging.last(row, letters.index(letter))
            operator = ir.Reduce(origin=(self._site.span,), function="sum", operand=row.name)
            row = self._builder.emit(self._site, operator, row.shape[:-1], row.depends, row.lines)
            letters = letters.replace(letter, "")
        return letters, row

    def _product(self, first: str, left: Row, second: str, right: Row, result: str) -> tuple[str, Row]:
        """Two values as one, its letters in the alphabet's order from the first on, as graphs print them."""
        extents = {**dict(zip(second, right.shape, strict=True)), **dict(zip(first, left.shape, strict=True))}
        names = {letter: "abcdefghijklmnopqrstuvwxyz"[at] for at, letter in enumerate(dict.fromkeys(first + second))}
        one, other, out = ("".join(names[letter] for letter in each) for each in (first, second, result))
        operator = ir.Contract(
            origin=(self._site.span,), signature=f"{one},{other}->{out}", left=left.name, right=right.name
        )
        shape = tuple(extents[letter] for letter in result)
        made = self._arranging.size(shape)
        if made > LARGEST_MADE:
            message = f"einsum would make {made:,} elements of a row: {LARGEST_MADE:,} are the most"
            self._collector.report(message, self._site.extent)
            raise Stopped
        lines = tuple(sorted({*left.lines, *right.lines}))
        return result, self._builder.emit(self._site, operator, shape, left.depends | right.depends, lines)
