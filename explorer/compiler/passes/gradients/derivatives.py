"""Partial derivatives of the elementwise functions, as short sequences of elementwise functions."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.compiler.ir.graph import Elementwise


@dataclass(frozen=True)
class Step:
    """One function application. An operand is a value's name, a number, or the place of an earlier step's result."""

    function: str
    operands: tuple[str | float | int, ...]
    parameter: float | None = None


def derivative(operator: Elementwise, position: int, result: str) -> tuple[Step, ...]:
    """How the result changes with one operand; nothing where it changes as the operand does. `result` names it."""
    inputs = operator.operands
    x = inputs[position]
    other = inputs[1 - position] if len(inputs) == 2 else ""
    match operator.function:
        case "add" | "copy":
            return ()
        case "sub":
            return () if position == 0 else (Step("copy", (-1.0,)),)
        case "neg":
            return (Step("copy", (-1.0,)),)
        case "mul":
            return (Step("copy", (other,)),)
        case "div" if position == 0:
            return (Step("div", (1.0, other)),)
        case "div":
            return (Step("div", (result, x)), Step("neg", (0,)))
        case "div_or_zero" if position == 0:
            return (Step("div_or_zero", (1.0, other)),)
        case "div_or_zero":
            return (Step("div_or_zero", (result, x)), Step("neg", (0,)))
        case "min" | "max":  # 1, or a half where both operands are the result
            both = (Step("equal", (x, other)), Step("mul", (0.5, 1)))
            return (Step("equal", (x, result)), *both, Step("sub", (0, 2)))
        case "exp":
            return (Step("copy", (result,)),)
        case "log":
            return (Step("div", (1.0, x)),)
        case "log1p":
            return (Step("add", (1.0, x)), Step("div", (1.0, 0)))
        case "sqrt":
            return (Step("div_or_zero", (0.5, result)),)
        case "abs":
            return (Step("sign", (x,)),)
        case "sign":
            return (Step("mul", (0.0, x)),)
        case "relu":
            return (Step("step", (x,)),)
        case "leaky_relu":
            slope = operator.parameter or 0.0
            return (Step("step", (x,)), Step("mul", (1.0 - slope, 0)), Step("add", (slope, 1)))
        case "sigmoid":
            return (Step("sub", (1.0, result)), Step("mul", (result, 0)))
        case "tanh":
            return (Step("mul", (result, result)), Step("sub", (1.0, 0)))
        case "gelu":
            return (Step("gelu_slope", (x,)),)
        case "sin":
            return (Step("cos", (x,)),)
        case "cos":
            return (Step("sin", (x,)), Step("neg", (0,)))
    raise KeyError(operator.function)
