"""Walks a definition's syntax tree and evaluates it, row by row at once; for the reference."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference import functions
from explorer.runtime.reference.numbers.arithmetic import FLOAT64, Arithmetic
from explorer.runtime.reference.numbers.primitives import Array, Carrier, negative, part, pick, reshaped, swapped
from explorer.runtime.reference.text import Definition, Model, ReferenceFailure

ALIASES = {
    "inner_prod": "dot",
    "dot_prd": "dot",
    "dot_prod": "dot",
    "outer_prod": "outer",
    "leakyrelu": "leaky_relu",
}
"""Hector's spellings; `linear(x, W)` is `x @ W`."""

KEYWORDS = {
    **dict.fromkeys(("dot", "outer", "concat"), ("a", "b")),
    **dict.fromkeys(("min", "max"), ("x", "y")),
    "linear": ("x", "W"),
    "norm": ("x", "p"),
    "leaky_relu": ("x", "slope"),
    "reshape": ("x", "extent"),
    "repeat": ("x", "count"),
}
"""The names of a function's parameters; those that are not here have `x` alone."""

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(frozen=True)
class Table:
    """A declared tensor; its first `sets` axes are index sets."""

    data: Array
    sets: int


@dataclass(frozen=True)
class Index:
    """An element of an index set a row: `h`, as ids with the rows' leading axes."""

    ids: npt.NDArray[np.integer]


Number = int | float
"""A number known before the run: a literal, a size, and what is computed of these alone."""


class Handle:
    """What an expression stands for that only one family of definitions has, such as a layer's graph."""


Binding = Any
"""What an expression stands for: an array, a Number, a Table, an Index or a Handle; a string is the name of data."""


def _stored(values: npt.NDArray[np.generic]) -> npt.NDArray[np.floating]:
    """A tensor's values, in float32 unless they are given in float64, as for finite differences."""
    return np.asarray(values, dtype=np.float64 if values.dtype == np.float64 else np.float32)


class Evaluator:
    """Evaluates one definition over chunks of rows in an arithmetic; `bytes` is what the last one's values took.

    Every value has `lead` leading axes, which number the rows; see `reference_functions`.
    """

    def __init__(
        self,
        model: Model,
        definition: Definition,
        inputs: Mapping[str, npt.NDArray[np.generic]],
        sizes: Mapping[str, int],
        lead: int,
        sets: frozenset[str],
        arithmetic: Arithmetic = FLOAT64,
    ) -> None:
        self.arithmetic = arithmetic
        self.model = model
        self.definition = definition
        self.lead = lead
        self.bytes = 0
        self.sizes: dict[str, Number] = {}
        for name, default in model.dims:
            self.sizes[name] = sizes[name] if default is None or name in sizes else self.number(default, {})
        self.tables = {
            name: Table(arithmetic.table(name, _stored(inputs[name])), sum(extent in sets for extent in extents))
            for name, extents in definition.tensors
            if name in inputs  # those that nothing uses may be left out
        }

    def body(self, definition: Definition, scope: dict[str, Binding]) -> Binding:
        """Runs a definition's statements up to its `return`."""
        for statement in definition.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    scope[name] = self.expression(value, scope)
                case ast.Return(value=ast.expr() as value):
                    return self.expression(value, scope)
                case _:
                    raise ReferenceFailure(f"line {statement.lineno}: not a statement of the language")
        raise ReferenceFailure(f"{definition.name} returns nothing")

    def expression(self, node: ast.expr, scope: dict[str, Binding]) -> Binding:
        """What an expression stands for."""
        # Sums of hundreds of terms nest to the left as deep as they are long: that side is walked in a loop.
        pending: list[ast.BinOp] = []
        while isinstance(node, ast.BinOp):
            pending.append(node)
            node = node.left
        result = self.operand(node, scope)
        for parent in reversed(pending):
            result = self.binary(parent.op, result, self.expression(parent.right, scope))
        return result

    def operand(self, node: ast.expr, scope: dict[str, Binding]) -> Binding:
        """What an expression stands for that is not a binary operation."""
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name) if name in scope:
                return scope[name]
            case ast.Name(id=name) if name in self.sizes:
                return self.sizes[name]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                value = self.expression(inner, scope)
                return -value if isinstance(value, Number) else self.kept(negative(self.array(value)))
            case ast.UnaryOp(op=ast.UAdd(), operand=inner):
                return self.expression(inner, scope)
            case ast.Attribute(value=inner, attr="T"):
                return swapped(functions.dense(self.value(inner, scope), self.lead, 2))
            case ast.Subscript(value=inner, slice=ast.Slice(lower=lower, upper=upper, step=None)):
                start, stop = (None if bound is None else self.whole(bound, scope) for bound in (lower, upper))
                return part(functions.dense(self.value(inner, scope), self.lead, 1), (..., slice(start, stop)))
            case ast.Subscript(value=inner, slice=index):
                return self.gather(self.expression(inner, scope), index, scope)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords):
                given = {keyword.arg: keyword.value for keyword in keywords if keyword.arg}
                return self.call(name, arguments, given, scope)
        raise ReferenceFailure(f"line {node.lineno}: {ast.unparse(node)[:80]} is not an expression of the language")

    def kept(self, result: Array) -> Array:
        """The result in the type of the evaluation, its size added to what the chunk takes."""
        result = self.arithmetic.of(result)
        self.bytes += result.nbytes
        return result

    def array(self, entry: Binding) -> Array:
        """A value with its leading axes: numbers and tensors without index sets are shared by all rows."""
        match entry:
            case int() | float():
                return self.arithmetic.rounded(np.full((1,) * self.lead, entry, dtype=np.float64))
            case Table(data=data, sets=0):
                return self.arithmetic.of(part(data, (None,) * self.lead))
            case np.ndarray() | Carrier():
                return entry
        raise ReferenceFailure("a tensor or an index, where a value is needed")

    def value(self, node: ast.expr, scope: dict[str, Binding]) -> Array:
        """The value of an expression, with its leading axes."""
        return self.array(self.expression(node, scope))

    def number(self, node: ast.expr, scope: dict[str, Binding]) -> Number:
        """An expression that is a number known before the run: norm's p, leaky_relu's slope."""
        entry = self.expression(node, scope)
        if not isinstance(entry, Number):
            raise ReferenceFailure(f"line {node.lineno}: {ast.unparse(node)[:80]} is not a number")
        return entry

    def whole(self, node: ast.expr, scope: dict[str, Binding]) -> int:
        """A whole number known before the run, as in the bounds of a slice."""
        return operator.index(self.number(node, scope))  # type: ignore[arg-type]

    def gather(self, table: Binding, index: ast.expr, scope: dict[str, Binding]) -> Binding:
        """`E[h]`, or `M[h, r]` of a tensor with two index sets: its rows."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        picked = [self.expression(part, scope) for part in parts]
        ids = [entry.ids for entry in picked if isinstance(entry, Index)]
        if not isinstance(table, Table) or not len(ids) == len(picked) == table.sets:
            raise ReferenceFailure(f"line {index.lineno}: not rows of a tensor")
        return self.kept(pick(table.data, tuple(ids)))

    def binary(self, kind: ast.operator, left: Binding, right: Binding) -> Array | Number:
        """`left kind right`; of two numbers, a number."""
        if isinstance(kind, ast.MatMult):
            return self.kept(functions.product(self.array(left), self.array(right), self.lead))
        function = OPERATORS.get(type(kind))
        if function is None:
            raise ReferenceFailure(f"there is no operator {type(kind).__name__}")
        if isinstance(left, Number) and isinstance(right, Number):
            number: Number = function(left, right)
            return number
        x, y = functions.align_prefix(self.array(left), self.array(right), self.lead)
        return self.kept(function(x, y))

    def call(
        self, name: str, arguments: list[ast.expr], keywords: dict[str, ast.expr], scope: dict[str, Binding]
    ) -> Binding:
        """A call of a helper of the text or of a built-in function."""
        helper = self.model.definitions.get(name)
        if helper is not None and helper.family == "def":
            return self.helper(helper, arguments, keywords, scope)
        name = ALIASES.get(name, name)
        names = KEYWORDS.get(name, ("x",))
        arguments = [*arguments, *(keywords[key] for key in names[len(arguments) :] if key in keywords)]
        if name == "reshape":
            x = self.value(arguments[0], scope)
            extents = tuple(self.whole(part, scope) for part in arguments[1:])
            return reshaped(x, x.shape[: self.lead] + extents)
        if name == "repeat":
            return functions.repeat(self.value(arguments[0], scope), self.whole(arguments[1], scope), self.lead)
        if name in ("norm", "leaky_relu"):
            operand = self.value(arguments[0], scope)
            settings = [self.number(part, scope) for part in arguments[1:]]
            if name == "leaky_relu":
                return self.kept(functions.leaky_relu(operand, *settings))
            return functions.norm(functions.dense(operand, self.lead, 1), *settings)
        values = [self.expression(argument, scope) for argument in arguments]
        if name == "linear":
            return self.binary(ast.MatMult(), *values)
        numbers = [entry for entry in values if isinstance(entry, Number)]
        if values and len(numbers) == len(values):
            return self.of_numbers(name, numbers)
        return self.kept(self.of_values(name, [self.array(entry) for entry in values]))

    def of_numbers(self, name: str, numbers: list[Number]) -> Number:
        """A built-in function of numbers alone, such as `sqrt(D)` or `min(D, K)`."""
        match name, numbers:
            case ("min" | "max", [x, y]):
                return min(x, y) if name == "min" else max(x, y)
            case (_, [x]) if name in functions.ELEMENTWISE:
                return float(functions.ELEMENTWISE[name](np.array(x, dtype=np.float64)))
        raise ReferenceFailure(f"there is no function {name} of {len(numbers)} numbers")

    def of_values(self, name: str, values: list[Array]) -> Array:
        """A built-in function all of whose arguments are values."""
        match name, values:
            case ("dot", [x, y]):
                return functions.dot(x, y, self.lead)
            case ("outer", [x, y]):
                return functions.outer(x, y, self.lead)
            case ("concat", _):
                return functions.concat(values, self.lead)
            case (_, [x]) if name in functions.ELEMENTWISE:
                return functions.ELEMENTWISE[name](x)
            case (_, [x]) if name in functions.REDUCTIONS:
                return functions.REDUCTIONS[name](functions.dense(x, self.lead, 1))
            case (_, [x, y]) if name in functions.PAIRWISE:
                return functions.PAIRWISE[name](*functions.align_prefix(x, y, self.lead))
        raise ReferenceFailure(f"there is no function {name} of {len(values)} such values")

    def helper(
        self,
        helper: Definition,
        arguments: list[ast.expr],
        keywords: dict[str, ast.expr],
        scope: dict[str, Binding],
    ) -> Binding:
        """A call of a `def` of the text: its body, in a scope of its own."""
        return self.body(helper, self.bind(helper, arguments, keywords, scope))

    def bind(
        self,
        helper: Definition,
        arguments: list[ast.expr],
        keywords: dict[str, ast.expr],
        scope: dict[str, Binding],
    ) -> dict[str, Binding]:
        """What a helper's parameters stand for in a call."""
        names = [name for name, _ in helper.parameters]
        bound: dict[str, Binding] = {}
        for name, default in zip(reversed(names), reversed(helper.defaults), strict=False):
            bound[name] = self.expression(default, {})
        bound |= {name: self.expression(argument, scope) for name, argument in zip(names, arguments, strict=False)}
        bound |= {name: self.expression(argument, scope) for name, argument in keywords.items()}
        return bound
