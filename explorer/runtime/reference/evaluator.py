"""Walks a definition's syntax tree and evaluates it, row by row at once; for the reference."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference import functions
from explorer.runtime.reference.numbers import choices, primitives
from explorer.runtime.reference.numbers.arithmetic import FLOAT64, Arithmetic
from explorer.runtime.reference.numbers.primitives import (
    Array,
    Carrier,
    negative,
    part,
    pick,
    reshaped,
    spread,
    swapped,
)
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
    **dict.fromkeys(("dot", "outer", "concat", "stack"), ("a", "b")),
    **dict.fromkeys(("min", "max", "masked"), ("x", "y")),
    "where": ("c", "a", "b"),
    "pow": ("x", "exponent"),
    "roll": ("x", "count"),
    "windows": ("x", "length"),
    "linear": ("x", "W"),
    "norm": ("x", "p"),
    "leaky_relu": ("x", "slope"),
    "reshape": ("x", "extent"),
    "repeat": ("x", "count"),
}
"""The names of a function's parameters; those that are not here have `x` alone."""

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Gt: choices.greater,
    ast.Lt: lambda x, y: choices.greater(y, x),
    ast.GtE: choices.at_least,
    ast.LtE: lambda x, y: choices.at_least(y, x),
    ast.Eq: choices.equal,
    ast.NotEq: lambda x, y: 1 - choices.equal(x, y),
}
ALONG_AXES = ("sum", "mean", "prod", "max", "min", "norm", "softmax", "logsumexp")
"""Functions of the last dimension, or of the one that `axis` says."""

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
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


def number_last(left: Binding, right: Binding) -> tuple[Binding, Binding]:
    """The operands of what is computed of an id, which may stand behind a number that it is added to."""
    return (right, left) if isinstance(left, int) and isinstance(right, Index) else (left, right)


Number = int | float
"""A number known before the run: a literal, a size, and what is computed of these alone."""


class Handle:
    """What an expression stands for that only one family of definitions has, such as a layer's graph."""


Binding = Any
"""What an expression stands for: an array, a Number, a Table, an Index or a Handle; a string is the name of data, and
what returns several a tuple of these."""
Result = Any
"""What a definition returns: an array, or a tuple of several."""


def of_each(function: Callable[..., Any], result: Result, *others: Any) -> Result:
    """A function of a result, or of each of several, with what else there is of each."""
    if isinstance(result, tuple):
        return tuple(function(*each) for each in zip(result, *others, strict=True))
    return function(result, *others)


def _stored(values: npt.NDArray[np.generic]) -> npt.NDArray[np.floating]:
    """A tensor's values, in float32 unless they are given in float64, as for finite differences."""
    return np.asarray(values, dtype=np.float64 if values.dtype == np.float64 else np.float32)


def is_counted(over: ast.expr) -> bool:
    """Whether a loop goes over numbers: `0..K`, which is read as `0 << K`, or `range(K)`."""
    match over:
        case ast.BinOp(op=ast.LShift()) | ast.Call(func=ast.Name(id="range")):
            return True
    return False


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
            name: Table(self._table(name, extents, inputs[name]), sum(extent in sets for extent in extents))
            for name, extents in definition.tensors
            if name in inputs  # those that nothing uses may be left out
        }

    def _table(self, name: str, extents: tuple[str, ...], values: npt.NDArray[np.generic]) -> Array:
        """A tensor's values; one that is declared without extents is a number, given as an array of one element."""
        table = self.arithmetic.table(name, _stored(values))
        return table if extents else reshaped(table, ())

    def body(self, definition: Definition, scope: dict[str, Binding]) -> Binding:
        """Runs a definition's statements up to its `return`."""
        value = self.statements(definition.body, scope)
        if value is None:
            raise ReferenceFailure(f"{definition.name} returns nothing")
        return value

    def statements(self, body: Sequence[ast.stmt], scope: dict[str, Binding]) -> Binding | None:
        """Runs statements; what a `return` among them gives."""
        for statement in body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    scope[name] = self.expression(value, scope)
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                    given = self.expression(value, scope)
                    names = [target.id for target in targets if isinstance(target, ast.Name)]
                    scope |= zip(names, given, strict=True)
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                    scope[name] = self.binary(op, scope[name], self.expression(value, scope))
                case ast.For(target=ast.Name(id=name), iter=over, body=repeated) if is_counted(over):
                    for number in self.counted(over, scope):
                        scope[name] = number
                        self.statements(repeated, scope)
                    scope.pop(name, None)
                case ast.Return(value=ast.expr() as value):
                    return self.expression(value, self.returning(value, scope))
                case _:
                    self.statement(statement, scope)
        return None

    def returning(self, value: ast.expr, scope: dict[str, Binding]) -> dict[str, Binding]:
        """What names stand for in a result."""
        return scope

    def statement(self, statement: ast.stmt, scope: dict[str, Binding]) -> None:
        """Runs a statement that only some families of definitions have."""
        raise ReferenceFailure(f"line {statement.lineno}: not a statement of the language")

    def counted(self, over: ast.expr, scope: dict[str, Binding]) -> range:
        """The numbers that a loop over `0..K` or `range(K)` goes through."""
        bounds = (
            [over.left, over.right] if isinstance(over, ast.BinOp) else over.args if isinstance(over, ast.Call) else []
        )
        return range(*(self.whole(bound, scope) for bound in bounds))

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
            case ast.Tuple(elts=parts):
                return tuple(self.expression(part, scope) for part in parts)
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
            case ast.Subscript(value=inner, slice=ast.Slice(lower=lower, upper=upper, step=step)):
                bounds = (None if bound is None else self.whole(bound, scope) for bound in (lower, upper, step))
                return part(functions.dense(self.value(inner, scope), self.lead, 1), (..., slice(*bounds)))
            case ast.Subscript(value=inner, slice=index):
                return self.indexed(self.expression(inner, scope), index, scope)
            case ast.Compare(left=left, ops=[comparison], comparators=[right]):
                return self.compared(comparison, self.expression(left, scope), self.expression(right, scope))
            case ast.Call(
                func=ast.Name(id=name),
                args=[
                    ast.GeneratorExp(elt=element, generators=[ast.comprehension(target=ast.Name(id=letter), iter=over)])
                    | ast.ListComp(elt=element, generators=[ast.comprehension(target=ast.Name(id=letter), iter=over)])
                ],
            ) if is_counted(over):
                each = [self.expression(element, {**scope, letter: n}) for n in self.counted(over, scope)]
                return self.combined(ALIASES.get(name, name), each)
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

    def indexed(self, base: Binding, index: ast.expr, scope: dict[str, Binding]) -> Binding:
        """`E[h]`, `W[2]` and `E[h, 2]`: rows of a tensor, and behind them, or of a value, an element by its number."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        sets = base.sets if isinstance(base, Table) else 0
        if sets:
            rows = index if len(parts) == sets else ast.copy_location(ast.Tuple(parts[:sets], ast.Load()), index)
            base = self.gather(base, rows, scope)
        if len(parts) <= sets:
            return base
        numbers = tuple(self.whole(part, scope) for part in parts[sets:])
        return part(self.array(base), (*(slice(None),) * self.lead, *numbers))

    def compared(self, comparison: ast.cmpop, left: Binding, right: Binding) -> Array | Number:
        """1 where `left comparison right` holds, else 0."""
        function = COMPARISONS[type(comparison)]
        if isinstance(left, Number) and isinstance(right, Number):
            return int(function(*np.array([[left], [right]], np.float64))[0])
        return self.kept(function(*functions.align(self.array(left), self.array(right), self.lead)))

    def combined(self, name: str, each: list[Binding]) -> Binding:
        """The values for the numbers of a counted loop, brought together."""
        if name in ("stack", "concat"):
            return self.kept(self.of_values(name, [self.array(entry) for entry in each]))
        if not each:
            return 0
        kind: ast.operator = ast.Mult() if name == "prod" else ast.Add()
        found = each[0]
        for entry in each[1:]:
            if name in ("max", "min"):
                known = [part for part in (found, entry) if isinstance(part, Number)]
                values = [self.array(found), self.array(entry)]
                found = self.of_numbers(name, known) if len(known) == 2 else self.kept(self.of_values(name, values))
            else:
                found = self.binary(kind, found, entry)
        return self.binary(ast.Div(), found, len(each)) if name == "mean" else found

    def gather(self, table: Binding, index: ast.expr, scope: dict[str, Binding]) -> Binding:
        """`E[h]`, or `M[h, r]` of a tensor with two index sets: its rows."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        picked = [self.expression(part, scope) for part in parts]
        ids = [entry.ids for entry in picked if isinstance(entry, Index)]
        if not isinstance(table, Table) or not len(ids) == len(picked) == table.sets:
            raise ReferenceFailure(f"line {index.lineno}: not rows of a tensor")
        return self.kept(pick(table.data, tuple(ids)))

    def binary(self, kind: ast.operator, left: Binding, right: Binding) -> Binding:
        """`left kind right`; of two numbers, a number, of an index and a number, or of two, ids."""
        if isinstance(kind, ast.MatMult):
            return self.kept(functions.product(self.array(left), self.array(right), self.lead))
        if isinstance(kind, ast.Pow) and isinstance(right, Number) and not isinstance(left, Number):
            x = self.array(left)
            return self.kept(functions.power(x, right) if right else spread(self.array(1), x.shape))
        function = OPERATORS.get(type(kind))
        if function is None:
            raise ReferenceFailure(f"there is no operator {type(kind).__name__}")
        if isinstance(left, Number) and isinstance(right, Number):
            number: Number = function(left, right)
            return number
        left, right = number_last(left, right)
        if isinstance(left, Index) and isinstance(right, int | Index):
            other = right if isinstance(right, int) else right.ids.astype(np.int64)
            return Index(function(left.ids.astype(np.int64), other))
        x, y = functions.align(self.array(left), self.array(right), self.lead)
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
        if name in ALONG_AXES and "axis" not in keywords and len(arguments) == 2 and names == ("x",):
            keywords, arguments = {"axis": arguments[1]}, arguments[:1]
        axis = self.whole(keywords["axis"], scope) if "axis" in keywords else None
        if name in ("concat", "stack") and len(arguments) == 1 and isinstance(arguments[0], ast.List):
            arguments = arguments[0].elts
        if name in ALONG_AXES and axis is not None:
            return self.along(name, axis, arguments, scope)
        if name == "einsum":
            return self.einsum(arguments, scope)
        if name == "reshape":
            x = self.value(arguments[0], scope)
            extents = tuple(self.whole(part, scope) for part in arguments[1:])
            return reshaped(x, x.shape[: self.lead] + extents)
        if name == "repeat":
            return functions.repeat(self.value(arguments[0], scope), self.whole(arguments[1], scope), self.lead)
        if name in ("roll", "windows", "pow"):
            base = self.expression(arguments[0], scope)
            if name == "pow":
                return self.binary(ast.Pow(), base, self.number(arguments[1], scope))
            count = self.whole(arguments[1], scope)
            return {"roll": functions.roll, "windows": functions.windows}[name](self.array(base), count)
        if name == "where":
            return self.kept(self.chosen(*(self.value(argument, scope) for argument in arguments)))
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
        return self.kept(self.of_values(name, [self.array(entry) for entry in values], axis))

    def einsum(self, arguments: list[ast.expr], scope: dict[str, Binding]) -> Array:
        """`einsum("hd,hde->he", x, W)`."""
        match arguments:
            case [ast.Constant(value=str(letters)), *others]:
                return self.kept(functions.einsum(letters, [self.value(each, scope) for each in others], self.lead))
        raise ReferenceFailure("einsum without its letters")

    def along(self, name: str, axis: int, arguments: list[ast.expr], scope: dict[str, Binding]) -> Array:
        """A function of the last dimension, of another one."""
        x = functions.along_last(self.value(arguments[0], scope), axis, self.lead)
        if name == "norm":
            return self.kept(functions.norm(x, *(self.number(part, scope) for part in arguments[1:])))
        found = self.of_values(name, [x])
        if name == "softmax" and found.ndim > self.lead + 1:
            found = primitives.moved(found, found.ndim - 1, axis + self.lead if axis >= 0 else axis + found.ndim)
        return self.kept(found)

    def chosen(self, condition: Array, one: Array, other: Array) -> Array:
        """`where(c, a, b)`."""
        refused = choices.equal(condition, self.array(0))
        first = choices.masked(*functions.align(condition, one, self.lead))
        second = choices.masked(*functions.align(refused, other, self.lead))
        return primitives.add(*functions.align(first, second, self.lead))

    def of_numbers(self, name: str, numbers: list[Number]) -> Number:
        """A built-in function of numbers alone, such as `sqrt(D)` or `min(D, K)`."""
        match name, numbers:
            case ("min" | "max", [x, y]):
                return min(x, y) if name == "min" else max(x, y)
            case (_, [x]) if name in functions.ELEMENTWISE:
                return float(functions.ELEMENTWISE[name](np.array(x, dtype=np.float64)))
            case (_, [x, y]) if name in functions.PAIRWISE:
                return float(functions.PAIRWISE[name](np.array(x, dtype=np.float64), np.array(y, dtype=np.float64)))
        raise ReferenceFailure(f"there is no function {name} of {len(numbers)} numbers")

    def of_values(self, name: str, values: list[Array], axis: int | None = None) -> Array:
        """A built-in function all of whose arguments are values."""
        match name, values:
            case ("dot", [x, y]):
                return functions.dot(x, y, self.lead)
            case ("outer", [x, y]):
                return functions.outer(x, y, self.lead)
            case ("concat", _):
                return functions.concat(values, self.lead, -1 if axis is None else axis)
            case ("stack", _):
                return functions.stack(values, self.lead, axis or 0)
            case ("softmax", [x]):
                return functions.softmax(functions.dense(x, self.lead, 1))
            case ("circulant", [x]):
                return functions.circulant(functions.dense(x, self.lead, 1))
            case ("ccorr", [x, y]):
                return functions.product(functions.circulant(functions.dense(y, self.lead, 1)), x, self.lead)
            case (_, [x]) if name in functions.ELEMENTWISE:
                return functions.ELEMENTWISE[name](x)
            case (_, [x]) if name in functions.REDUCTIONS:
                return functions.REDUCTIONS[name](functions.dense(x, self.lead, 1))
            case (_, [x, y]) if name in functions.PAIRWISE:
                return functions.PAIRWISE[name](*functions.align(x, y, self.lead))
        raise ReferenceFailure(f"there is no function {name} of {len(values)} such values")

    def helper(
        self,
        helper: Definition,
        arguments: list[ast.expr],
        keywords: dict[str, ast.expr],
        scope: dict[str, Binding],
    ) -> Binding:
        """A call of a `def` of the text: its body, in a scope of its own."""
        return self.body(*self.called(helper, arguments, keywords, scope))

    def called(
        self,
        helper: Definition,
        arguments: list[ast.expr],
        keywords: dict[str, ast.expr],
        scope: dict[str, Binding],
    ) -> tuple[Definition, dict[str, Binding]]:
        """A helper as a call has it, with functions in the places of the parameters that stand for them, and what its
        other parameters stand for; defaults see sizes and functions alone."""
        names = [name for name, _ in helper.parameters]
        nowhere: dict[str, Binding] = {}
        given = {n: (node, nowhere) for n, node in zip(reversed(names), reversed(helper.defaults), strict=False)}
        given |= {n: (node, scope) for n, node in (*zip(names, arguments, strict=False), *keywords.items())}
        functions = {
            name: node.id
            for name, (node, seen) in given.items()
            if isinstance(node, ast.Name) and node.id not in seen and node.id not in self.sizes
        }
        bound = {name: self.expression(*given[name]) for name in names if name in given and name not in functions}
        return helper.with_functions(functions), bound
