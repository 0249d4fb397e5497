"""Random model texts: well-typed scores over all built-ins, whose values stay small enough for float32.

An expression is drawn for a shape, from the root down. Each knows a bound of its absolute value; one that may grow
too large is wrapped in a function that holds it, so that float32 and float64 agree but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from hypothesis import strategies as st

LARGEST_BOUND = 60.0
LARGEST_VALUE = 150  # elements
MOST_TENSORS = 6

# The last few are words of the IRs, or of the languages that code is generated in.
SIZE_NAMES = ("D", "K", "H", "B", "N", "For", "Out", "In")
TENSOR_NAMES = ("E", "R", "P", "W", "bias", "out", "b", "acc", "row", "index", "e", "s", "inf", "nan", "j", "float_")
LOCAL_NAMES = ("u", "x", "y", "token", "size", "y1", "n", "ih")

UNARY = {
    "-{}": lambda bound: bound,
    "abs({})": lambda bound: bound,
    "relu({})": lambda bound: bound,
    "leaky_relu({}, 0.2)": lambda bound: bound,
    "leaky_relu({})": lambda bound: bound,
    "leakyrelu({}, slope=0.125)": lambda bound: bound,
    "gelu({})": lambda bound: bound,
    "tanh({})": lambda bound: 1.0,
    "sigmoid({})": lambda bound: 1.0,
    "sin({})": lambda bound: 1.0,
    "cos({})": lambda bound: 1.0,
    "exp(-abs({}))": lambda bound: 1.0,
    "log(abs({}) + 1)": lambda bound: bound,
    "log1p(abs({}))": lambda bound: bound,
    "softplus({})": lambda bound: bound + 1,
    "logsigmoid({})": lambda bound: bound + 1,
    "sqrt(abs({}) + 0.5)": lambda bound: bound + 1,
    "({} * 2)": lambda bound: 2 * bound,
    "({} - 0.25)": lambda bound: bound + 0.25,
    "(1 / (abs({}) + 1))": lambda bound: 1.0,
    "({} / 3)": lambda bound: bound,
}
BINARY = {
    "({} + {})": lambda left, right: left + right,
    "({} - {})": lambda left, right: left + right,
    "{} * {}": lambda left, right: left * right,
    "{} / (abs({}) + 1)": lambda left, right: left,
    "min({}, {})": max,
    "max({}, {})": max,
}
REDUCTIONS = {
    "sum({})": lambda bound, count: bound * count,
    "norm({}, 1)": lambda bound, count: bound * count,
    "norm({})": lambda bound, count: bound * count,
    "norm({}, p=2)": lambda bound, count: bound * count,
    "mean({})": lambda bound, count: bound,
    "max({})": lambda bound, count: bound,
    "min({})": lambda bound, count: bound,
}
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """An expression's text, a bound of its absolute value, and whether it depends on the triple."""

    text: str
    bound: float
    depends: bool


@dataclass
class Model:
    """A text while it is drawn."""

    draw: Callable[[st.SearchStrategy], Any]
    sizes: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, tuple[str, Shape, Value]] = field(default_factory=dict)
    locals: list[tuple[Shape, Value]] = field(default_factory=list)

    def pick(self, choices: Any) -> Any:
        return self.draw(st.sampled_from(tuple(choices)))

    def extent(self) -> int:
        """The length of a new dimension, often that of a declared size."""
        return self.pick((*self.sizes.values(), *self.sizes.values(), *self.sizes.values(), 1, 2, 3))

    def extent_text(self, extent: int) -> str:
        names = [name for name, size in self.sizes.items() if size == extent]
        return self.pick((*names, str(extent))) if names else str(extent)

    def expression(self, shape: Shape, depth: int) -> Value:
        """A value of that shape."""
        if depth == 0 or (depth < 3 and self.draw(st.integers(0, 5)) == 0):
            return self.leaf(shape)
        makers = [
            self.unary,
            self.binary,
            self.binary,
            self.reduced,
            self.product,
            self.product,
            self.viewed,
            self.viewed,
        ]
        value: Value = self.pick(makers)(shape, depth - 1)
        if value.bound > LARGEST_BOUND:
            return Value(f"tanh({value.text})", 1.0, value.depends)
        return value

    def leaf(self, shape: Shape) -> Value:
        """A name that has that shape already, or rows of a new tensor."""
        known = [value for other, value in self.locals if other == shape]
        known += [value for _, dims, value in self.tensors.values() if dims == shape]
        if known and (len(self.tensors) >= MOST_TENSORS or self.draw(st.booleans())):
            return self.pick(known)
        if shape == () and self.draw(st.integers(0, 4)) == 0:
            return Value(self.pick(("0.5", "1e-05", "-2", "3", *self.sizes)), 7.0, False)
        return self.gathered(shape)

    def gathered(self, shape: Shape) -> Value:
        """The rows of a new tensor, or all of one that has no index sets."""
        indices = self.pick((("h",), ("t",), ("r",), ("h", "r"), ("t", "h"), ()) if shape else (("r",), ("h", "r")))
        sets = ["relation" if index == "r" else "entity" for index in indices]
        free = [name for name in TENSOR_NAMES if name not in self.tensors and name not in self.sizes]
        name = self.pick(free or [f"more{len(self.tensors)}"])
        extents = ", ".join([*sets, *map(self.extent_text, shape)])
        value = Value(f"{name}[{', '.join(indices)}]" if indices else name, 1.0, bool(indices))
        self.tensors[name] = (f"{self.pick(('param', 'param', 'input'))} {name}[{extents}]", shape, value)
        if sets == ["entity"] and shape and self.draw(st.booleans()):
            return Value(f"({name}[h] - {name}[t])", 2.0, True)
        if self.draw(st.integers(0, 7)) == 0:
            return Value(f"sign({value.text})", 1.0, value.depends)
        return value

    def unary(self, shape: Shape, depth: int) -> Value:
        operand, form = self.expression(shape, depth), self.pick(UNARY)
        return Value(form.format(operand.text), UNARY[form](operand.bound), operand.depends)

    def binary(self, shape: Shape, depth: int) -> Value:
        """Of equal shapes, or with one operand for the first dimensions alone."""
        form = self.pick(BINARY)
        shorter = shape[: self.draw(st.integers(0, len(shape)))] if self.draw(st.booleans()) else shape
        shapes = (shape, shorter) if self.draw(st.booleans()) else (shorter, shape)
        return self.joined(form, BINARY[form], *shapes, depth)

    def joined(self, form: str, bound: Callable[[float, float], float], one: Shape, two: Shape, depth: int) -> Value:
        left, right = self.expression(one, depth), self.expression(two, depth - (depth > 0))
        if form.startswith("{} *") or form.startswith("{} /") or "@" in form:
            form = f"({form})"
        return Value(form.format(left.text, right.text), bound(left.bound, right.bound), left.depends or right.depends)

    def reduced(self, shape: Shape, depth: int) -> Value:
        count = self.extent()
        if prod(shape) * count > LARGEST_VALUE:
            return self.leaf(shape)
        operand, form = self.expression((*shape, count), depth), self.pick(REDUCTIONS)
        return Value(form.format(operand.text), REDUCTIONS[form](operand.bound, count), operand.depends)

    def product(self, shape: Shape, depth: int) -> Value:
        """A contraction over a new dimension that gives the shape, or an outer product."""
        count = self.extent()
        forms: list[tuple[str, Shape, Shape]] = [("dot({}, {})", (*shape, count), (*shape, count))]
        if shape == ():
            forms += [("{} @ {}", (count,), (count,)), ("inner_prod({}, {})", (count,), (count,))]
        if shape:
            forms += [("{} @ {}", (*shape[:-1], count), (*shape[:-1], count, shape[-1]))]
            forms += [("linear({}, {})", (count,), (count, shape[-1]))] if len(shape) == 1 else []
        if len(shape) == 1:
            forms += [("{} @ {}", (shape[0], count), (count,)), ("dot({}, {})", (count,), (shape[0], count))]
        if len(shape) == 2:
            forms += [("outer({}, {})", shape[:1], shape[1:])] * 2
            if shape[0] != count:  # else it reads as one row by a matrix for each row
                forms += [("{} @ {}", (shape[0], count), (count, shape[1]))]
        form, one, two = self.pick(forms)
        if max(prod(one), prod(two)) > LARGEST_VALUE:
            return self.leaf(shape)
        terms = 1 if form.startswith("outer") else count
        return self.joined(form, lambda left, right: left * right * terms, one, two, depth)

    def viewed(self, shape: Shape, depth: int) -> Value:
        """A slice, a transposition, a concatenation or a reshape."""
        if not shape:
            return self.reduced(shape, depth)
        *before, last = shape
        kinds = (
            ("slice", "concat", "reshape") if len(shape) == 1 else ("slice", "concat", "reshape", "reshape", "reshape")
        )
        kind = self.pick((*kinds, "transpose", "transpose") if len(shape) == 2 else kinds)
        if kind == "transpose":
            operand = self.expression((shape[1], shape[0]), depth)
            return Value(f"({operand.text}).T", operand.bound, operand.depends)
        if kind == "slice":
            start, spare = self.draw(st.integers(0, 2)), self.draw(st.integers(0, 1))
            operand = self.expression((*before, start + last + spare), depth)
            first = str(start) if start or self.draw(st.booleans()) else ""
            end = str(start + last) if spare or self.draw(st.booleans()) else ""
            return Value(f"({operand.text})[{first}:{end}]", operand.bound, operand.depends)
        if kind == "concat" and last > 1:
            return self.concatenated(tuple(before), last, depth)
        count = prod(shape)
        other = self.pick([(count,), (1, count), *((n, count // n) for n in range(2, count) if count % n == 0)])
        operand = self.expression(other, depth)
        extents = ", ".join(map(self.extent_text, shape))
        return Value(f"reshape({operand.text}, {extents})", operand.bound, operand.depends)

    def concatenated(self, before: Shape, last: int, depth: int) -> Value:
        """Two parts or more, whose last dimensions add up."""
        cuts = sorted(self.draw(st.sets(st.integers(1, last - 1), min_size=1, max_size=2)))
        counts = [end - start for start, end in zip([0, *cuts], [*cuts, last], strict=True)]
        parts = [self.expression((*before, count), depth) for count in counts]
        text = f"concat({', '.join(part.text for part in parts)})"
        return Value(text, max(part.bound for part in parts), any(part.depends for part in parts))

    def total(self, shape: Shape, value: Value) -> Value:
        """The value brought down to a number, so that a named one is read once more."""
        for count in reversed(shape):
            form = self.pick(REDUCTIONS)
            value = Value(form.format(value.text), REDUCTIONS[form](value.bound, count), value.depends)
        return value


@st.composite
def model_texts(draw: Callable[[st.SearchStrategy], Any], depth: int = 4) -> str:
    """The text of one score with sizes from 1 to 7, no two alike, and up to three named intermediate values."""
    model = Model(draw)
    names = draw(st.lists(st.sampled_from(SIZE_NAMES), min_size=2, max_size=3, unique=True))
    values = draw(st.lists(st.integers(1, 7), min_size=len(names), max_size=len(names), unique=True))
    model.sizes = dict(zip(names, values, strict=True))
    statements = []
    for name in LOCAL_NAMES[: draw(st.integers(0, 3))]:
        shape = tuple(model.pick(model.sizes.values()) for _ in range(draw(st.integers(0, 2))))
        value = model.expression(shape, depth - 1)
        statements.append(f"{name} = {value.text}")
        model.locals.append((shape, Value(name, value.bound, value.depends)))
    result = model.expression((), depth)
    for shape, value in model.locals:
        if model.draw(st.integers(0, 3)):
            term = model.total(shape, value)
            result = Value(f"{result.text} + {term.text}", result.bound + term.bound, result.depends or term.depends)
    if not result.depends:
        result = Value(f"{result.text} + {model.gathered(()).text}", 1.0, True)
    lines = [f"dim {', '.join(f'{name} = {size}' for name, size in model.sizes.items())}", "", ""]
    lines[-1] = "score Model(h: entity, r: relation, t: entity):"
    lines += [f"    {declaration}" for declaration, _, _ in model.tensors.values()]
    lines += [f"    {statement}" for statement in statements]
    return "\n".join([*lines, f"    return {result.text}", ""])
