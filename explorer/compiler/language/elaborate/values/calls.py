"""The built-in functions: what each makes of its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable

from explorer.compiler.ir import graph as ir
from explorer.compiler.ir.functions import FUNCTIONS
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.elaborate.values.arrange import LARGEST_MADE, MOST_SLICES, Arranging
from explorer.compiler.language.elaborate.values.mismatch import explain_pair
from explorer.compiler.language.elaborate.values.operations import Operations
from explorer.compiler.language.names.builtins import ELEMENTWISE, Builtin
from explorer.compiler.language.names.entities import Constant, Row
from explorer.compiler.language.names.shapes import LARGEST_EXTENT, show
from explorer.compiler.language.parsing import syntax

FOLDED: dict[str, Callable[[float], float]] = {
    "abs": abs,
    **{name: getattr(math, name) for name in ELEMENTWISE if hasattr(math, name) and FUNCTIONS[name].arity == 1},
}
"""Functions of a number that are computed now, so that `sqrt(D)` costs nothing in a row: those that Python has."""
FOLDED_PAIRS: dict[str, Callable[[float, float], float]] = {"min": min, "max": max, "atan2": math.atan2}
"""The same of two numbers."""

Nodes = list[syntax.Expression]
Values = list[Row | Constant]


def call_builtin(
    operations: Operations, node: syntax.Call, function: Builtin, nodes: Nodes, values: Values, axis: int | None = None
) -> Row | Constant | None:
    """The value of a call whose arguments are values; None if an error is reported. `axis` is the dimension along which
    it works, where the call says it."""
    return _Call(operations, node, function, nodes, values, axis).value()


class _Call:
    """One call: its function, its argument expressions and their values, in the order of the parameters."""

    def __init__(
        self,
        operations: Operations,
        node: syntax.Call,
        function: Builtin,
        nodes: Nodes,
        values: Values,
        axis: int | None,
    ) -> None:
        self.operations = operations
        self.builder = operations.builder
        self.shapes = operations.shapes
        self.node = node
        self.function = function
        self.nodes = nodes
        self.values = values
        self.given_axis = axis
        self.site = OperationSite(node.function.text, node.function.extent, node.extent)
        self.arranging = Arranging(operations, self.site)
        self.origin = (self.site.span,)

    def value(self) -> Row | Constant | None:
        """By the function's kind."""
        nodes, values = self.nodes, self.values
        match self.function.kind:
            case "reduce_or_pair" if len(values) == 2:
                return self.pair()
            case "linear":
                return self.operations.matrix_product(self.site, (nodes[0], nodes[1]), values[0], values[1])
            case "pow":
                return self.operations.power(self.site, nodes[1], values[0], values[1])
            case "reduce" | "reduce_or_pair":
                return self.reduce({"prod": "product"}.get(self.function.name, self.function.name))
            case "inner" | "outer":
                return self.product()
        rules: dict[str, Callable[[], Row | Constant | None]] = {
            **{"elementwise": self.elementwise, "norm": self.norm, "where": self.where},
            **{"softmax": self.softmax, "logsumexp": self.logsumexp, "concat": self.concat, "stack": self.stack},
            **{"reshape": self.reshape, "repeat": self.repeat, "roll": self.roll},
            **{"windows": self.windows, "circulant": self.circulant},
        }
        return rules[self.function.kind]()

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

    def axis(self, count: int, place: syntax.Expression) -> int | None:
        """The dimension that the call says, of so many, from the front; None where there is none, which is reported."""
        axis = self.function.axis if self.given_axis is None else self.given_axis
        assert axis is not None
        if -count <= axis < count:
            return axis % count
        if count == 0:
            self.report(f"'{self.site.label}' works along a dimension, but this is a number", place)
        else:
            self.report(f"there is no axis {axis} of {count}: they are 0 to {count - 1}, or -1 for the last", place)
        return None

    def along(self) -> tuple[Row, int] | None:
        """The first argument with the dimension that is meant as its last one, and where that was."""
        row = self.vector()
        axis = None if row is None else self.axis(len(row.shape), self.nodes[0])
        return None if row is None or axis is None else (self.arranging.last(row, axis), axis)

    def softmax(self) -> Row | None:
        """exp(x - m) over its sum, where m is the largest, so that nothing overflows."""
        found = self.along()
        if found is None:
            return None
        row, axis = found
        powers = self.apply("exp", self.apply("sub", row, self.reduced("max", row)))
        return self.arranging.back(self.apply("div", powers, self.reduced("sum", powers)), axis)

    def logsumexp(self) -> Row | None:
        """m + log(sum(exp(x - m))), where m is the largest."""
        found = self.along()
        if found is None:
            return None
        row, _ = found
        top = self.reduced("max", row)
        total = self.reduced("sum", self.apply("exp", self.apply("sub", row, top)))
        return self.apply("add", top, self.apply("log", total))

    def apply(self, function: str, *rows: Row) -> Row:
        return self.operations.apply(self.site, function, *rows)

    def where(self) -> Row | Constant | None:
        """`where(c, a, b)`: what is not chosen is left out, infinite or not."""
        condition, one, other = self.values
        if isinstance(condition, Constant):
            return one if condition.value else other
        refused = self.operations.elementwise(
            self.site, "equal", (self.nodes[0], self.nodes[0]), condition, Constant(0, self.site.span, "0")
        )
        if refused is None:
            return None
        nodes = (self.nodes[0], self.nodes[1]), (self.nodes[0], self.nodes[2])
        first = self.operations.elementwise(self.site, "masked", nodes[0], condition, one)
        second = self.operations.elementwise(self.site, "masked", nodes[1], refused, other)
        if first is None or second is None:
            return None
        return self.operations.elementwise(self.site, "add", (self.nodes[1], self.nodes[2]), first, second)

    def roll(self) -> Row | None:
        """The last dimension turned by so many places."""
        row, count = self.vector(), self.count(1, "the number of places")
        return None if row is None or count is None else self.arranging.rolled(row, count)

    def windows(self) -> Row | None:
        """All runs of so many neighbours."""
        row, length = self.single(), self.count(1, "the length of a window")
        if row is None or length is None:
            return None
        size = self.shapes.size(row.shape[0])
        if not 1 <= length <= size:
            self.report(f"a window of {show(row.shape)} has from 1 to {size:,} elements, not {length:,}", self.nodes[1])
            return None
        fits = self.fits((size - length + 1) * (length if length <= MOST_SLICES else size + 1))
        return self.arranging.windows(row, length) if fits else None

    def circulant(self) -> Row | None:
        """The vector from each of its elements on."""
        row = self.single()
        if row is None or not self.fits(self.shapes.size(row.shape[0]) ** 2):
            return None
        return self.arranging.circulant(row)

    def single(self) -> Row | None:
        """The first argument, which must be a vector."""
        row = self.vector()
        if row is not None and len(row.shape) > 1:
            self.report(f"'{self.site.label}' is of a vector, but this is {show(row.shape)}", self.nodes[0])
            return None
        return row

    def fits(self, elements: int) -> bool:
        """Whether a row may have so many elements."""
        if elements <= LARGEST_MADE:
            return True
        self.report(f"'{self.site.label}' would make {elements:,} elements of a row: {LARGEST_MADE:,} are the most")
        return False

    def count(self, position: int, what: str) -> int | None:
        """An argument that is a whole number, known before the run."""
        value = self.values[position]
        if isinstance(value, Constant) and isinstance(value.value, int):
            return value.value
        self.report(f"{what} is a whole number, known before the run", self.nodes[position])
        return None

    def reduce(self, function: str) -> Row | None:
        """One number from a dimension."""
        found = self.along()
        return None if found is None else self.reduced(function, found[0])

    def reduced(self, function: str, row: Row) -> Row:
        """One number from the last dimension."""
        operator = ir.Reduce(origin=self.origin, function=function, operand=row.name)
        return self.builder.emit(self.site, operator, row.shape[:-1], row.depends, row.lines)

    def pair(self) -> Row | Constant | None:
        """A function of two values; of two numbers, some are one now."""
        left, right = self.values
        if self.given_axis is not None:
            message = f"'{self.site.label}' of two values goes element by element: an axis is of one value"
            self.report(message, None, f"Along a dimension it is {self.site.label}(x, axis={self.given_axis}).")
            return None
        fold = FOLDED_PAIRS.get(self.function.name)
        if isinstance(left, Constant) and isinstance(right, Constant) and fold is not None:
            self.builder.count_operation(self.site.span)
            value = fold(left.value, right.value)
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
        """The arguments one after another along a dimension."""
        known = self.alike()
        return None if known is None else self.arranging.joined_along(*known)

    def stack(self) -> Row | None:
        """The arguments side by side along a new dimension."""
        known = self.alike()
        return None if known is None else self.arranging.stacked(*known)

    def alike(self) -> tuple[list[Row], int] | None:
        """Arguments that are joined along a dimension, in which alone they may differ, and which it is."""
        new = self.function.kind == "stack"
        rows = [self.builder.row(v) if new else self.vector(place) for place, v in enumerate(self.values)]
        known = [row for row in rows if row is not None]
        if len(known) < len(rows):
            return None
        axis = self.axis(len(known[0].shape) + new, self.nodes[0])
        if axis is None:
            return None
        for place, row in zip(self.nodes, known, strict=True):
            if not self.same_beside(row.shape, known[0].shape, None if new else axis):
                which = "shapes" if new else "dimensions beside the one that it goes along"
                shapes = f"{show(known[0].shape)} and {show(row.shape)}"
                self.report(f"'{self.site.label}' needs equal {which}: {shapes}", place)
                return None
        return known, axis

    def same_beside(self, one: ir.Shape, other: ir.Shape, axis: int | None) -> bool:
        """Whether two shapes are the same but for a dimension."""
        if len(one) != len(other):
            return False
        return all(
            place == axis or self.shapes.size(left) == self.shapes.size(right)
            for place, (left, right) in enumerate(zip(one, other, strict=True))
        )

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
