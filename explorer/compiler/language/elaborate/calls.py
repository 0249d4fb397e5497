"""The built-in functions: what each makes of its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable

from explorer.compiler.ir import graph as ir
from explorer.compiler.ir.functions import FUNCTIONS
from explorer.compiler.language.elaborate.mismatch import explain_pair
from explorer.compiler.language.elaborate.operations import Operations
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.names.builtins import ELEMENTWISE, Builtin
from explorer.compiler.language.names.dependency import Dependency
from explorer.compiler.language.names.entities import Constant, Row
from explorer.compiler.language.names.shapes import LARGEST_EXTENT, show
from explorer.compiler.language.parsing import syntax

FOLDED: dict[str, Callable[[float], float]] = {
    "abs": abs,
    **{name: getattr(math, name) for name in ELEMENTWISE if hasattr(math, name)},
}
"""Functions of a number that are computed now, so that `sqrt(D)` costs nothing in a row: those that Python has."""

Nodes = list[syntax.Expression]
Values = list[Row | Constant]


def call_builtin(
    operations: Operations, node: syntax.Call, function: Builtin, nodes: Nodes, values: Values
) -> Row | Constant | None:
    """The value of a call whose arguments are values; None if an error is reported."""
    return _Call(operations, node, function, nodes, values).value()


class _Call:
    """One call: its function, its argument expressions and their values, in the order of the parameters."""

    def __init__(
        self, operations: Operations, node: syntax.Call, function: Builtin, nodes: Nodes, values: Values
    ) -> None:
        self.operations = operations
        self.builder = operations.builder
        self.shapes = operations.shapes
        self.node = node
        self.function = function
        self.nodes = nodes
        self.values = values
        self.site = OperationSite(node.function.text, node.function.extent, node.extent)
        self.origin = (self.site.span,)

    def value(self) -> Row | Constant | None:
        """By the function's kind."""
        match self.function.kind:
            case "elementwise":
                return self.elementwise()
            case "reduce":
                return self.reduce(self.function.name)
            case "reduce_or_pair":
                return self.reduce(self.function.name) if len(self.values) == 1 else self.pair()
            case "norm":
                return self.norm()
            case "linear":
                return self.operations.matrix_product(
                    self.site, (self.nodes[0], self.nodes[1]), self.values[0], self.values[1]
                )
            case "concat":
                return self.concat()
            case "reshape":
                return self.reshape()
            case "repeat":
                return self.repeat()
        return self.product()

    def report(self, message: str, place: syntax.Expression | None = None, detail: str = "") -> None:
        """An error at an argument, or at the whole call."""
        self.operations.collector.report(message, place.extent if place else self.node.extent, detail)

    def elementwise(self) -> Row | Constant | None:
        """A function of each number, or of two; a parameter behind them is a number, known now."""
        function = FUNCTIONS[self.function.name]
        if function.arity == 2:
            return self.pair()
        value = self.values[0]
        if isinstance(value, Constant) and function.name in FOLDED:
            return self.fold(value)
        if function.parameter is None:
            return self.emit_elementwise(self.builder.row(value))
        word, default = function.parameter
        given = self.values[1] if len(self.values) == 2 else None
        if isinstance(given, Row):
            self.report(f"the {word} of {function.name} is a number, known before the run", self.nodes[1])
            return None
        return self.emit_elementwise(self.builder.row(value), default if given is None else float(given.value))

    def fold(self, constant: Constant) -> Constant | None:
        """A function of a number, now."""
        self.builder.count_operation(self.site.span)
        try:
            result = float(FOLDED[self.function.name](constant.value))
        except (ValueError, OverflowError):
            domain = FUNCTIONS[self.function.name].domain
            detail = f"{self.function.name}(x) needs {domain}." if domain else ""
            self.report(f"{self.function.name} of {constant.value} is no number", self.nodes[0], detail)
            return None
        return self.operations.number(result, self.site.span, self.site.label)

    def emit_elementwise(self, row: Row, parameter: float | None = None) -> Row:
        operator = ir.Elementwise(
            origin=self.origin, function=self.function.name, operands=(row.name,), parameter=parameter
        )
        return self.builder.emit(self.site, operator, row.shape, row.depends, row.lines)

    def vector(self, position: int = 0) -> Row | None:
        """An argument that must have a dimension."""
        value = self.values[position]
        if isinstance(value, Constant) or not value.shape:
            self.report(
                f"'{self.site.label}' works along the last dimension, but this is a number",
                self.nodes[position],
            )
            return None
        return value

    def reduce(self, function: str) -> Row | None:
        """One number from the last dimension."""
        row = self.vector()
        if row is None:
            return None
        operator = ir.Reduce(origin=self.origin, function=function, operand=row.name)
        return self.builder.emit(self.site, operator, row.shape[:-1], row.depends, row.lines)

    def pair(self) -> Row | Constant | None:
        """A function of two values; `min` and `max` of two numbers are one now."""
        left, right = self.values
        choose = {"min": min, "max": max}.get(self.function.name)
        if isinstance(left, Constant) and isinstance(right, Constant) and choose is not None:
            self.builder.count_operation(self.site.span)
            value = choose(left.value, right.value)
            return Constant(value, self.site.span, self.site.label)
        nodes = (self.nodes[0], self.nodes[1])
        return self.operations.elementwise(self.site, self.function.name, nodes, left, right)

    def norm(self) -> Row | None:
        """The 1- or 2-norm of the last dimension."""
        p = self.values[1].value if len(self.values) == 2 and isinstance(self.values[1], Constant) else None
        if len(self.values) == 2 and p not in (1, 2):
            self.report("the p of 'norm' is 1 or 2", self.nodes[1])
            return None
        return self.reduce("norm1" if p == 1 else "norm2")

    def product(self) -> Row | None:
        """`dot` and `outer`."""
        left, right = (self.builder.row(value) for value in self.values)
        rule = self.shapes.inner if self.function.kind == "inner" else self.shapes.outer
        product = rule(left.shape, right.shape)
        if product is None:
            operands = (self.operations.operand(self.nodes[0], left), self.operations.operand(self.nodes[1], right))
            explain_pair(self.operations.collector, self.shapes, self.site, *operands)
            return None
        return self.operations.contract(self.site, product, left, right)

    def concat(self) -> Row | None:
        """The arguments one after another along the last dimension."""
        rows = [self.vector(position) for position in range(len(self.values))]
        known = [row for row in rows if row is not None]
        if len(known) < len(rows):
            return None
        for place, row in zip(self.nodes, known, strict=True):
            if not self.shapes.equal(row.shape[:-1], known[0].shape[:-1]):
                self.report(
                    f"'concat' needs equal dimensions before the last: {show(known[0].shape)} and {show(row.shape)}",
                    place,
                )
                return None
        size = sum(self.shapes.size(row.shape[-1]) for row in known)
        operator = ir.Concat(origin=self.origin, operands=tuple(row.name for row in known))
        depends = frozenset[Dependency]().union(*(row.depends for row in known))
        lines = tuple(sorted({line for row in known for line in row.lines}))
        return self.builder.emit(self.site, operator, (*known[0].shape[:-1], size), depends, lines)

    def repeat(self) -> Row | None:
        """So many copies of the argument, along a new first dimension."""
        row, count = self.builder.row(self.values[0]), self.values[1]
        if not isinstance(count, Constant) or not isinstance(count.value, int):
            self.report("the number of copies is a whole number, known before the run", self.nodes[1])
            return None
        if not 1 <= count.value <= LARGEST_EXTENT:
            self.report(f"the number of copies is from 1 to {LARGEST_EXTENT:,}, not {count.value:,}", self.nodes[1])
            return None
        operator = ir.Repeat(origin=self.origin, operand=row.name)
        return self.builder.emit(self.site, operator, (count.dim or count.value, *row.shape), row.depends, row.lines)

    def reshape(self) -> Row | None:
        """The same numbers in row-major order; one extent may be -1, which stands for what is left."""
        row = self.builder.row(self.values[0])
        extents: list[str | int] = []
        for place, value in zip(self.nodes[1:], self.values[1:], strict=True):
            if not isinstance(value, Constant) or not isinstance(value.value, int):
                self.report("an extent of 'reshape' is a whole number, known before the run", place)
                return None
            extents.append(value.dim or value.value)
        count = math.prod(self.shapes.numbers(row.shape))
        numbers = self.shapes.numbers(tuple(extents))
        if numbers.count(-1) == 1:
            rest = -math.prod(numbers)
            extents[numbers.index(-1)] = count // rest if rest > 0 else 0
            numbers = self.shapes.numbers(tuple(extents))
        if any(number < 1 for number in numbers) or math.prod(numbers) != count:
            wanted = show(tuple(extents))
            self.report(
                f"'reshape' keeps the number of elements: {show(row.shape)} has {count:,}, not as many as {wanted}"
            )
            return None
        operator = ir.Reshape(origin=self.origin, operand=row.name)
        return self.builder.emit(self.site, operator, tuple(extents), row.depends, row.lines)
