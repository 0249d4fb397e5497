"""Messages about shapes that do not fit: what the operation needs, what stands on each side, and likely fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.compiler.ir.graph import Shape
from explorer.compiler.language.diagnostics import Collector, Fix, slice_text
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.names.entities import Row
from explorer.compiler.language.names.shapes import Shapes, show
from explorer.compiler.language.parsing import syntax


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of an operation: its text without parentheses, its expression and its value."""

    text: str
    node: syntax.Expression
    row: Row
    source: str

    def describe(self, side: str) -> str:
        """`The left is E[h] - E[t], [D] from line 5.`"""
        shape = show(self.row.shape) if self.row.shape else "a number"
        lines = ", ".join(str(line) for line in self.row.lines)
        return f"The {side} is {self.text}, {shape}{f' from line {lines}' if lines and self.row.shape else ''}."


def explain_elementwise(
    collector: Collector, shapes: Shapes, site: OperationSite, left: Operand, right: Operand
) -> None:
    """`+ - * /`, `min` and `max` of shapes of which neither is the beginning or the end of the other."""
    numbers = _numbers(shapes, site.label, left, right)
    message = f"'{site.label}' needs equal shapes, or one that is the beginning or the end of the other: {numbers}"
    collector.report(message, site.extent, _detail(left, right))


def explain_ambiguous(collector: Collector, site: OperationSite, left: Operand, right: Operand) -> None:
    """A shape that is the end of the other by its names, and in these sizes its beginning as well."""
    shorter, longer = sorted((left, right), key=lambda operand: len(operand.row.shape))
    missing = longer.row.shape[: len(longer.row.shape) - len(shorter.row.shape)]
    repeated = shorter.text
    for extent in reversed(missing):
        repeated = f"repeat({repeated}, {extent})"
    shapes = f"{show(left.row.shape)} and {show(right.row.shape)}"
    message = f"'{site.label}' of {shapes} may go along either end: the sizes are equal"
    detail = f"{_detail(left, right)} Along the last dimensions it is {repeated}."
    collector.report(message, site.extent, detail, [Fix(f"Use {repeated}", shorter.node.extent, repeated)])


def explain_product(collector: Collector, shapes: Shapes, site: OperationSite, left: Operand, right: Operand) -> None:
    """`@` of shapes that no reading fits."""
    if not left.row.shape or not right.row.shape:
        side = "left" if not left.row.shape else "right"
        fixes = [Fix("Use *", site.span, "*")] if site.label == "@" else []
        message = f"'{site.label}' multiplies vectors and matrices, but the {side} is a number"
        collector.report(message, site.extent, _detail(left, right), fixes)
        return
    numbers = _numbers(shapes, site.label, left, right)
    need = _need(shapes, left.row.shape, right.row.shape)
    fixes = _transposing_fixes(shapes, left, right)
    collector.report(f"'{site.label}' needs {need}: {numbers}", site.extent, _detail(left, right), fixes)


def explain_pair(collector: Collector, shapes: Shapes, site: OperationSite, left: Operand, right: Operand) -> None:
    """`dot` and `outer`, which work on the last dimensions."""
    for side, operand in (("first", left), ("second", right)):
        if not operand.row.shape:
            collector.report(f"'{site.label}' needs vectors, but the {side} argument is a number", site.extent)
            return
    numbers = f"{list(shapes.numbers(left.row.shape))} and {list(shapes.numbers(right.row.shape))}"
    lasts = shapes.size(left.row.shape[-1]) == shapes.size(right.row.shape[-1])
    which = "dimensions before the last" if lasts or site.label == "outer" else "last dimensions"
    collector.report(
        f"'{site.label}' needs equal {which}: {numbers}", site.extent, _detail(left, right, ("first", "second"))
    )


def _need(shapes: Shapes, left: Shape, right: Shape) -> str:
    """What `@` needs of these shapes."""
    last = left[-1] if isinstance(left[-1], str) else "the last dimension"
    if len(left) == len(right) == 1:
        return f"{last} of the left to equal the length of the right"
    if len(right) == 1:
        return f"{last} of the left to equal the dimension of the right"
    if shapes.size(left[-1]) == shapes.size(right[-2]):
        return "the dimensions before those that it multiplies to be equal"
    place = "first" if len(right) == 2 else "second to last"
    return f"{last} of the left to equal the {place} dimension of the right"


def _transposing_fixes(shapes: Shapes, left: Operand, right: Operand) -> list[Fix]:
    """Where the right would fit transposed: to transpose it, or to declare it so."""
    shape = right.row.shape
    if len(shape) < 2:
        return []
    if shapes.matrix_product(left.row.shape, (*shape[:-2], shape[-1], shape[-2])) is None:
        return []
    simple = isinstance(right.node, (syntax.Index, syntax.Name, syntax.Call, syntax.Attribute, syntax.Slice))
    transposed = f"{right.text}.T" if simple else f"({right.text}).T"
    if isinstance(right.node, syntax.Attribute) and right.node.name.text == "T":
        transposed = slice_text(right.source, right.node.base.extent)
    fixes = [Fix(f"Use {transposed}", right.node.extent, transposed)]
    if right.row.table is not None:
        declaration = right.row.table.declaration
        extents = [slice_text(right.source, extent.extent) for extent in declaration.extents]
        extents[-2:] = [extents[-1], extents[-2]]
        declared = f"{declaration.name.text}[{', '.join(extents)}]"
        fixes.append(Fix(f"Declare {declared}", declaration.extent, declared))
    return fixes


def _detail(left: Operand, right: Operand, sides: Sequence[str] = ("left", "right")) -> str:
    return f"{left.describe(sides[0])} {right.describe(sides[1])}"


def _numbers(shapes: Shapes, operator: str, left: Operand, right: Operand) -> str:
    """`[64] @ [32, 64]`."""
    joined = f" {operator} " if not operator.isalpha() else " and "
    return joined.join(show(shapes.numbers(operand.row.shape)) for operand in (left, right))
