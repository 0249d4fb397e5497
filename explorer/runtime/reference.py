"""What a model means: its text evaluated in float64 NumPy, against which every run is checked.

It shares no code with the compiler, from the parser on: a mistake would have to be made twice to pass.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.runtime import reference_functions as functions
from explorer.runtime.reference_functions import Array
from explorer.runtime.reference_text import Definition, Model, ReferenceFailure, read_model

CHUNK_BYTES = 4 << 20
"""About how much the float64 values of one chunk of the batch take. TransR's hold a matrix a triple: chunks that stay
in cache take a third of the time of chunks of 128 MiB, measured on 2 cores at batch 4,096 and dimension 256."""

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
}
"""The names of a function's parameters; those that are not here have `x` alone."""

ARITHMETIC: dict[type[ast.operator], Callable[[Array, Array], Array]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
WHOLE: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(frozen=True)
class Table:
    """A declared tensor; its first `sets` axes are index sets."""

    data: npt.NDArray[np.float32]
    sets: int


@dataclass(frozen=True)
class Index:
    """An element of an index set a row: `h`, as ids with the rows' leading axes."""

    ids: npt.NDArray[np.integer]


Binding = Array | Table | Index


def score(
    text: str,
    inputs: Mapping[str, npt.NDArray[np.generic]],
    sizes: Mapping[str, int],
    name: str | None = None,
    negatives: str = "none",
) -> Array:
    """The scores of a batch: [B], or [B, N] with negatives "tail:N" or "head:N".

    `inputs` holds each index map and tensor by its name (the corrupted map as [B, N]), `sizes` the dimensions
    that differ from the text's defaults, and `name` picks a definition where the last is not meant.
    """
    model = read_model(text)
    definition = model.main(name)
    maps = [parameter for parameter, _ in definition.parameters]
    ids = {entry: np.asarray(inputs[entry], dtype=np.int64) for entry in maps}
    lead = 1 if negatives == "none" else 2
    if max((array.ndim for array in ids.values()), default=0) != lead:
        raise ReferenceFailure(f"the shapes of {', '.join(maps)} do not fit negatives {negatives!r}")
    if lead == 2:
        ids = {entry: array.reshape(len(array), -1) for entry, array in ids.items()}
    rows = np.broadcast_shapes(*(array.shape for array in ids.values()))
    run = _Run(model, definition, inputs, sizes, lead)
    result = np.empty(rows, dtype=np.float64)
    with np.errstate(all="ignore"):
        run.evaluate_rows({entry: array[:1] for entry, array in ids.items()})
        step = max(1, CHUNK_BYTES // max(1, run.bytes))
        for start in range(0, rows[0], step):
            chunk = {entry: array[start : start + step] for entry, array in ids.items()}
            result[start : start + step] = run.evaluate_rows(chunk)
    return result


class _Run:
    """Evaluates one definition over chunks of the batch; `bytes` is what the last one's values took."""

    def __init__(
        self,
        model: Model,
        definition: Definition,
        inputs: Mapping[str, npt.NDArray[np.generic]],
        sizes: Mapping[str, int],
        lead: int,
    ) -> None:
        self.model = model
        self.definition = definition
        self.lead = lead
        self.bytes = 0
        self.sizes: dict[str, int] = {}
        for name, default in model.dims:
            self.sizes[name] = sizes[name] if default is None or name in sizes else self.whole(default)
        sets = {entry for _, entry in definition.parameters}
        self.tables = {
            name: Table(np.asarray(inputs[name], dtype=np.float32), sum(extent in sets for extent in extents))
            for name, extents in definition.tensors
            if name in inputs  # those that nothing uses may be left out
        }

    def evaluate_rows(self, ids: Mapping[str, npt.NDArray[np.int64]]) -> Array:
        """The scores of the rows with these ids, with `lead` axes."""
        self.bytes = 0
        scope: dict[str, Binding] = {name: Index(array) for name, array in ids.items()}
        result = self.body(self.definition, {**self.tables, **scope})
        if result.ndim != self.lead:
            raise ReferenceFailure(f"the result is not a number but has shape {list(result.shape[self.lead :])}")
        return result

    def body(self, definition: Definition, scope: dict[str, Binding]) -> Array:
        """Runs a definition's statements up to its `return`."""
        for statement in definition.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    scope[name] = self.binding(value, scope)
                case ast.Return(value=ast.expr() as value):
                    return self.value(value, scope)
                case _:
                    raise ReferenceFailure(f"line {statement.lineno}: not a statement of a score")
        raise ReferenceFailure(f"{definition.name} returns nothing")

    def binding(self, node: ast.expr, scope: dict[str, Binding]) -> Binding:
        """What an argument or a name stands for: a table, an index or a value."""
        if isinstance(node, ast.Name) and node.id in scope:
            return scope[node.id]
        return self.value(node, scope)

    def value(self, node: ast.expr, scope: dict[str, Binding]) -> Array:
        """The value of an expression, leading axes first."""
        # Sums of hundreds of terms nest to the left as deep as they are long: that side is walked in a loop.
        pending: list[ast.BinOp] = []
        while isinstance(node, ast.BinOp):
            pending.append(node)
            node = node.left
        result = self.operand(node, scope)
        for parent in reversed(pending):
            result = self.kept(self.binary(parent.op, result, self.value(parent.right, scope)))
        return result

    def operand(self, node: ast.expr, scope: dict[str, Binding]) -> Array:
        """The value of an expression that is not a binary operation."""
        match node:
            case ast.Constant(value=int() | float() as number):
                return self.number(number)
            case ast.Name(id=name):
                return self.named(name, scope)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self.kept(-self.value(inner, scope))
            case ast.UnaryOp(op=ast.UAdd(), operand=inner):
                return self.value(inner, scope)
            case ast.Attribute(value=inner, attr="T"):
                return np.swapaxes(functions.dense(self.value(inner, scope), self.lead, 2), -1, -2)
            case ast.Subscript(value=inner, slice=ast.Slice(lower=lower, upper=upper, step=None)):
                start, stop = (None if bound is None else self.whole(bound) for bound in (lower, upper))
                return functions.dense(self.value(inner, scope), self.lead, 1)[..., start:stop]
            case ast.Subscript(value=inner, slice=index):
                return self.gather(self.binding(inner, scope), index, scope)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords):
                given = {keyword.arg: keyword.value for keyword in keywords if keyword.arg}
                return self.kept(self.call(name, arguments, given, scope))
        raise ReferenceFailure(f"line {node.lineno}: {ast.unparse(node)[:80]} is not an expression of a score")

    def kept(self, result: Array) -> Array:
        """The result itself, its size added to what the chunk takes."""
        self.bytes += result.nbytes
        return result

    def number(self, number: float) -> Array:
        """A number that all rows share."""
        return np.full((1,) * self.lead, number, dtype=np.float64)

    def named(self, name: str, scope: dict[str, Binding]) -> Array:
        """A local value, a tensor without index sets, or a size."""
        bound = scope.get(name)
        if isinstance(bound, Table) and bound.sets == 0:
            return bound.data[(None,) * self.lead].astype(np.float64)
        if isinstance(bound, np.ndarray):
            return bound
        if bound is None and name in self.sizes:
            return self.number(self.sizes[name])
        raise ReferenceFailure(f"{name} is not a value")

    def gather(self, table: Binding, index: ast.expr, scope: dict[str, Binding]) -> Array:
        """`E[h]`, or `M[h, r]` of a tensor with two index sets: its rows as float64."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        picked = [self.binding(part, scope) for part in parts]
        ids = [entry.ids for entry in picked if isinstance(entry, Index)]
        if not isinstance(table, Table) or not len(ids) == len(picked) == table.sets:
            raise ReferenceFailure(f"line {index.lineno}: not rows of a tensor")
        return self.kept(table.data[tuple(ids)].astype(np.float64))

    def binary(self, kind: ast.operator, left: Array, right: Array) -> Array:
        """`left kind right`."""
        if isinstance(kind, ast.MatMult):
            return functions.product(left, right, self.lead)
        if type(kind) not in ARITHMETIC:
            raise ReferenceFailure(f"there is no operator {type(kind).__name__}")
        return ARITHMETIC[type(kind)](*functions.align_prefix(left, right, self.lead))

    def call(
        self, name: str, arguments: list[ast.expr], keywords: dict[str, ast.expr], scope: dict[str, Binding]
    ) -> Array:
        """A call of a helper of the text or of a built-in function."""
        helper = self.model.definitions.get(name)
        if helper is not None and helper.family == "def":
            return self.helper(helper, arguments, keywords, scope)
        name = ALIASES.get(name, name)
        names = KEYWORDS.get(name, ("x",))
        arguments = [*arguments, *(keywords[key] for key in names[len(arguments) :] if key in keywords)]
        if name == "reshape":
            x = self.value(arguments[0], scope)
            return x.reshape(x.shape[: self.lead] + tuple(self.whole(part) for part in arguments[1:]))
        if name in ("norm", "leaky_relu"):
            operand = self.value(arguments[0], scope)
            setting = [self.real(part) for part in arguments[1:]]
            if name == "leaky_relu":
                return functions.leaky_relu(operand, *setting)
            return functions.norm(functions.dense(operand, self.lead, 1), *setting)
        return self.plain(name, [self.value(argument, scope) for argument in arguments])

    def plain(self, name: str, values: list[Array]) -> Array:
        """A built-in function all of whose arguments are values."""
        match name, values:
            case ("dot", [x, y]):
                return functions.dot(x, y, self.lead)
            case ("outer", [x, y]):
                return functions.outer(x, y, self.lead)
            case ("linear", [x, y]):
                return functions.product(x, y, self.lead)
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
    ) -> Array:
        """A call of a `def` of the text: its body, in a scope of its own beside the declared tensors."""
        names = [name for name, _ in helper.parameters]
        bound: dict[str, Binding] = {}
        for name, default in zip(reversed(names), reversed(helper.defaults), strict=False):
            bound[name] = self.value(default, {})
        bound |= {name: self.binding(argument, scope) for name, argument in zip(names, arguments, strict=False)}
        bound |= {name: self.binding(argument, scope) for name, argument in keywords.items()}
        return self.body(helper, {**self.tables, **bound})

    def whole(self, node: ast.expr) -> int:
        """An expression of sizes and whole numbers, as in the bounds of a slice."""
        match node:
            case ast.Constant(value=int() as number):
                return number
            case ast.Name(id=name) if name in self.sizes:
                return self.sizes[name]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self.whole(inner)
            case ast.BinOp(left=left, op=kind, right=right) if type(kind) in WHOLE:
                return WHOLE[type(kind)](self.whole(left), self.whole(right))
        raise ReferenceFailure(f"line {node.lineno}: {ast.unparse(node)[:80]} is not a whole number")

    def real(self, node: ast.expr) -> float:
        """A number that a function takes as a setting: norm's p, leaky_relu's slope."""
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self.real(inner)
        return self.whole(node)
