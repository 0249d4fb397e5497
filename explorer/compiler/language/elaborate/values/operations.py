"""Operations on values: shapes are checked and a value of the graph is made, or the mistake is explained."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from operator import add, floordiv, mod, mul, sub, truediv

from explorer.compiler.ir import graph as ir
from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Collector, Fix, slice_text
from explorer.compiler.language.elaborate.builder import GraphBuilder
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.elaborate.values.mismatch import (
    Operand,
    explain_ambiguous,
    explain_elementwise,
    explain_product,
)
from explorer.compiler.language.names.dependency import Dependency
from explorer.compiler.language.names.entities import Constant, Index, Row, Table
from explorer.compiler.language.names.shapes import Product, Shapes
from explorer.compiler.language.parsing import syntax

LARGEST_F32 = 3.4028234663852886e38

INFIX = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
COMPARISONS = {
    ">": ("greater", operator.gt), "<": ("greater", operator.lt),
    ">=": ("at_least", operator.ge), "<=": ("at_least", operator.le),
    "==": ("equal", operator.eq), "!=": ("not_equal", operator.ne),
}  # fmt: skip
"""The table's functions, with the operands exchanged for < and <=, and what they are of two numbers."""
MOST_FACTORS = 16
"""Whole exponents up to this one are products, which are known where x is negative, and exact to the last digits."""
LARGEST_EXPONENT = 128
"""Of a power of two numbers: no f32 is larger than 2 ** 128."""
ARITHMETIC: dict[str, Callable[[int | float, int | float], int | float]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": truediv,
    "//": floordiv,
    "%": mod,
}

Nodes = tuple[syntax.Expression, syntax.Expression]


class Operations:
    """Makes the values of one definition. What returns None has reported why."""

    def __init__(self, text: str, sizes: Mapping[str, int], builder: GraphBuilder, collector: Collector) -> None:
        self.text = text
        self.shapes = Shapes(sizes)
        self.builder = builder
        self.collector = collector

    def number(self, value: int | float, span: Span, label: str, dim: str | None = None) -> Constant | None:
        """A number, if a 32-bit float can hold it."""
        try:
            fits = abs(float(value)) <= LARGEST_F32
        except OverflowError:
            fits = False
        if not fits:
            self.collector.report("this number is too large for a 32-bit float (3.4e38 is the largest)", span)
            return None
        return Constant(value, span, label, dim)

    def gather(self, site: OperationSite, table: Table, indices: tuple[Index, ...]) -> Row:
        """`E[h]`: the rows of a tensor, or all of it where it has no index sets."""
        names = tuple(index.name for index in indices)
        operator = ir.Gather(origin=(site.span,), tensor=table.tensor.name, indices=names)
        line = table.declaration.extent.line
        depends = frozenset(index.dependency for index in indices)
        return self.builder.emit(site, operator, table.tensor.dims, depends, (line,), table)

    def gather_value(self, site: OperationSite, row: Row, index: Index) -> Row:
        """A node's value on the edges of which the node is one end, a row's on its nonzeros; a value that is the same
        for all is left as it is."""
        if self.builder.index_set(row.depends) != index.index_set:
            return row
        operator = ir.Gather(origin=(site.span,), tensor=row.name, indices=(index.name,))
        return self.builder.emit(site, operator, row.shape, frozenset([index.dependency]), row.lines)

    def segment(self, site: OperationSite, function: str, row: Row, end: str, group: str) -> Row:
        """A reduction over the members that a map leads to the same group, or without one of all: an empty one is 0."""
        operator = ir.Segment(origin=(site.span,), function=function, operand=row.name, map=end)
        depends = frozenset([Dependency(group, group)] if group else [])
        return self.builder.emit(site, operator, row.shape, depends, row.lines)

    def spread(self, site: OperationSite, row: Row, onto: Dependency) -> Row:
        """A value as one of each element of a set that belongs to its own: a fact's on its negatives."""
        operator = ir.Elementwise(origin=(site.span,), function="copy", operands=(row.name,))
        return self.builder.emit(site, operator, row.shape, row.depends | {onto}, row.lines)

    def structure(self, site: OperationSite, name: str, index: Index) -> Row:
        """A number that the structure brings for each element of a set: `norm[edge]`, `in_degree[node]`."""
        operator = ir.Gather(origin=(site.span,), tensor=name, indices=(index.name,))
        return self.builder.emit(site, operator, (), frozenset([index.dependency]))

    def binary(self, node: syntax.Binary, left: Row | Constant, right: Row | Constant) -> Row | Constant | None:
        """`left + right` and the like; on two numbers it is done now."""
        if isinstance(left, Constant) and isinstance(right, Constant):
            return self._fold(node, left, right)
        site = OperationSite(node.operator, node.span, node.extent)
        if node.operator in ("//", "%"):
            detail = "Rounded down, a quotient of values is floor(x / y)."
            message = f"'{node.operator}' divides sizes and indices, and values divide by '/'"
            self.collector.report(message, node.span, detail)
            return None
        if node.operator == "@" or (node.operator == "*" and self._weighs_features(left, right)):
            return self.matrix_product(site, (node.left, node.right), left, right)
        nodes = (node.left, node.right)
        if node.operator == "**":
            return self.power(site, node.right, left, right)
        if node.operator in COMPARISONS:
            function, _ = COMPARISONS[node.operator]
            return self.elementwise(site, function, nodes, left, right, exchanged=node.operator.startswith("<"))
        return self.elementwise(site, INFIX[node.operator], nodes, left, right)

    def power(
        self, site: OperationSite, place: syntax.Expression, base: Row | Constant, exponent: Row | Constant
    ) -> Row | Constant | None:
        """`x ** y`: of a whole y a product, which is known where x is negative."""
        if isinstance(exponent, Row):
            message = "an exponent is a number, known before the run"
            self.collector.report(message, place.extent, "Of positive x it is exp(y * log(x)).")
            return None
        if isinstance(base, Constant):
            return self._power_of_numbers(site, base, exponent)
        number = exponent.value
        if number == 0:  # 1, also of 0, and without a slope, which 0 * 0 ** -1 is not
            return self.apply(site, "equal", base, base)
        if number == int(number) and 1 <= abs(number) <= MOST_FACTORS:
            product = base
            for _ in range(int(abs(number)) - 1):
                product = self.apply(site, "mul", product, base)
            return (
                product
                if number > 0
                else self.apply(site, "div", self.builder.row(Constant(1, site.span, "1")), product)
            )
        if number == 0.5:
            return self.apply(site, "sqrt", base)
        return self.apply(site, "pow", base, parameter=float(number))

    def _power_of_numbers(self, site: OperationSite, base: Constant, exponent: Constant) -> Constant | None:
        """Of two numbers a number, now."""
        self.builder.count_operation(site.span)
        a, b = base.value, exponent.value
        try:
            exact = isinstance(a, int) and isinstance(b, int) and 0 <= b <= LARGEST_EXPONENT
            return self.number(a**b if exact else math.pow(a, b), site.span, site.label)
        except (ValueError, OverflowError, ZeroDivisionError):
            self.collector.report(f"{a} ** {b} is no number that a 32-bit float can hold", site.extent)
            return None

    def apply(self, site: OperationSite, function: str, *rows: Row, parameter: float | None = None) -> Row:
        """A function of values whose shapes fit: each is the beginning of the longest."""
        longest = max(rows, key=lambda row: len(row.shape))
        names = tuple(row.name for row in rows)
        operator = ir.Elementwise(origin=(site.span,), function=function, operands=names, parameter=parameter)
        depends = frozenset[Dependency]().union(*(row.depends for row in rows))
        return self.builder.emit(site, operator, longest.shape, depends, longest.lines)

    def _weighs_features(self, left: Row | Constant, right: Row | Constant) -> bool:
        """Whether `*` is Hector's product of an element's features and its type's weight matrix (Hector, Listing 1).

        Only for `e.src.feature * W[e.etype]` itself, features given and weights learnt, read at this very place: all
        other `*` work element by element."""
        if isinstance(left, Constant) or isinstance(right, Constant) or not (left.table and right.table):
            return False
        features, weights = left.table.tensor, right.table.tensor
        given = features.kind == "input" and set(features.sets) == {"node"}
        learnt = weights.kind == "param" and bool(weights.sets) and set(weights.sets) <= {"etype", "ntype"}
        return given and learnt and len(right.shape) > len(left.shape)

    def _fold(self, node: syntax.Binary, left: Constant, right: Constant) -> Constant | None:
        """An operation on two numbers: done now."""
        self.builder.count_operation(node.span)
        a, b = left.value, right.value
        if node.operator == "@":
            self.collector.report(
                "'@' multiplies vectors and matrices: numbers take '*'", node.span, fixes=[Fix("Use *", node.span, "*")]
            )
            return None
        if node.operator in ("/", "//", "%") and b == 0:
            self.collector.report("division by zero", node.span)
            return None
        if node.operator == "**":
            site = OperationSite(node.operator, node.span, node.extent)
            return self._power_of_numbers(site, left, right)
        if node.operator in COMPARISONS:
            return self.number(int(COMPARISONS[node.operator][1](a, b)), node.span, node.operator)
        return self.number(ARITHMETIC[node.operator](a, b), node.span, node.operator)

    def elementwise(
        self,
        site: OperationSite,
        function: str,
        nodes: Nodes,
        left: Row | Constant,
        right: Row | Constant,
        exchanged: bool = False,
    ) -> Row | None:
        """`+ - * /`, comparisons, and `min` and `max` of two: on equal shapes, or where one shape is the beginning or
        the end of the other; `exchanged`: the function takes the right operand first."""
        numeric = isinstance(left, Constant) or isinstance(right, Constant)
        first, second = self.builder.row(left), self.builder.row(right)
        if self.shapes.ends(first.shape, second.shape):
            first, second = self._repeated(site, first, second.shape), self._repeated(site, second, first.shape)
        elif self.shapes.ambiguous(first.shape, second.shape):
            operands = (self.operand(nodes[0], first), self.operand(nodes[1], second))
            explain_ambiguous(self.collector, site, *operands)
            return None
        shape = self.shapes.common(first.shape, second.shape)
        if shape is None:
            operands = (self.operand(nodes[0], first), self.operand(nodes[1], second))
            explain_elementwise(self.collector, self.shapes, site, *operands)
            return None
        lines = first.lines if len(first.shape) >= len(second.shape) else second.lines
        depends = first.depends | second.depends
        if function == "mul" and not numeric and len(first.shape) != len(second.shape):
            shorter, longer = sorted((first, second), key=lambda row: len(row.shape))
            return self.contract(site, self.shapes.scaling(shorter.shape, longer.shape), shorter, longer, lines)
        names = (second.name, first.name) if exchanged else (first.name, second.name)
        operator = ir.Elementwise(origin=(site.span,), function=function, operands=names)
        return self.builder.emit(site, operator, shape, depends, lines)

    def _repeated(self, site: OperationSite, row: Row, shape: ir.Shape) -> Row:
        """A row whose shape is the end of another, side by side until it has that one; else as it is."""
        for extent in reversed(shape[: max(0, len(shape) - len(row.shape))]):
            repeat = ir.Repeat(origin=(site.span,), operand=row.name)
            row = self.builder.emit(site, repeat, (extent, *row.shape), row.depends, row.lines)
        return row

    def matrix_product(
        self,
        site: OperationSite,
        nodes: Nodes,
        left: Row | Constant,
        right: Row | Constant,
    ) -> Row | None:
        """`@`; a matrix by a row is the row by the transposed matrix."""
        first, second = self.builder.row(left), self.builder.row(right)
        product = self.shapes.matrix_product(first.shape, second.shape)
        if product is None:
            operands = (self.operand(nodes[0], first), self.operand(nodes[1], second))
            explain_product(self.collector, self.shapes, site, *operands)
            return None
        if product.matrix_by_row:
            return self.contract(site, product, second, self.transpose(site, first))
        return self.contract(site, product, first, second)

    def contract(
        self, site: OperationSite, product: Product, left: Row, right: Row, lines: tuple[int, ...] = ()
    ) -> Row:
        """A product by its signature."""
        operator = ir.Contract(origin=(site.span,), signature=product.signature, left=left.name, right=right.name)
        return self.builder.emit(site, operator, product.shape, left.depends | right.depends, lines)

    def transpose(self, site: OperationSite, row: Row) -> Row:
        """The last two dimensions exchanged."""
        shape = (*row.shape[:-2], row.shape[-1], row.shape[-2])
        operator = ir.Transpose(origin=(site.span,), operand=row.name)
        return self.builder.emit(site, operator, shape, row.depends, row.lines)

    def operand(self, node: syntax.Expression, row: Row) -> Operand:
        """An operand as error messages describe it."""
        while isinstance(node, syntax.Parentheses):
            node = node.inner
        return Operand(slice_text(self.text, node.extent), node, row, self.text)

    def negative(self, node: syntax.Unary, value: Row | Constant) -> Row | Constant:
        """`-x`."""
        if isinstance(value, Constant):
            self.builder.count_operation(node.span)
            return Constant(-value.value, node.extent, f"-{value.label}")
        site = OperationSite("-", node.span, node.extent)
        operator = ir.Elementwise(origin=(node.span,), function="neg", operands=(value.name,))
        return self.builder.emit(site, operator, value.shape, value.depends, value.lines)
