"""Partial derivatives of the elementwise functions, as short sequences of elementwise functions.

sigmoid's formula `result * (1.0 - result)`  ->  #0 = sub(1.0, result); #1 = mul(result, #0)
"""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import field
from functools import cache

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.functions import FLAT, FUNCTIONS
from explorer.compiler.ir.graph import Elementwise

Item = str | float | int
"""An operand: a value's name, a number, or (int) the place of an earlier step's result."""

SIGNS: dict[type[ast.operator], str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}


@dataclass(frozen=True)
class Step:
    """One function application."""

    function: str
    operands: tuple[Item, ...]
    parameter: float | None = None


def changes_with(operator: Elementwise, position: int) -> bool:
    """Whether the result changes with one operand other than in jumps."""
    formulas = FUNCTIONS[operator.function].derivative
    return position >= len(formulas) or formulas[position] != FLAT


def derivative(operator: Elementwise, position: int, result: str) -> tuple[Step, ...]:
    """How the result changes with one operand; nothing where it changes as the operand does. `result` names it."""
    function = FUNCTIONS[operator.function]
    if position >= len(function.derivative):
        raise KeyError(operator.function)
    names: dict[str, Item] = {"result": result, **dict(zip("xy", operator.operands, strict=False))}
    if function.parameter is not None:
        names[function.parameter[0]] = float(operator.parameter or 0.0)
    steps = _Steps(names)
    item = steps.item(_parsed(function.derivative[position]))
    if not steps.taken and item == 1.0:
        return ()
    return tuple(steps.taken) or (Step("copy", (item,)),)


@cache
def _parsed(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


@dataclasses.dataclass
class _Steps:
    """The steps of a formula, operands first; what is known of numbers alone is computed now."""

    names: dict[str, Item]
    taken: list[Step] = field(default_factory=list)

    def item(self, node: ast.expr) -> Item:
        """What stands for a part of the formula."""
        match node:
            case ast.Constant(value=int() | float() as value):
                return float(value)
            case ast.Name(id=name):
                return self.names[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.item(operand)
                return -inner if isinstance(inner, float) else self._take("neg", (inner,))
            case ast.BinOp(left=left, op=sign, right=right):
                return self._of_two(SIGNS[type(sign)], self.item(left), self.item(right))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                items = [self.item(argument) for argument in arguments]
                arity = FUNCTIONS[name].arity
                parameters = [item for item in items[arity:] if isinstance(item, float)]
                return self._take(name, tuple(items[:arity]), *parameters)
        raise ValueError(f"a derivative has {ast.unparse(node)}, which is no function of the table")

    def _of_two(self, function: str, left: Item, right: Item) -> Item:
        if not isinstance(left, float) or not isinstance(right, float):
            return self._take(function, (left, right))
        return {"add": left + right, "sub": left - right, "mul": left * right, "div": left / (right or 1.0)}[function]

    def _take(self, function: str, operands: tuple[Item, ...], parameter: float | None = None) -> int:
        self.taken.append(Step(function, operands, parameter))
        return len(self.taken) - 1
