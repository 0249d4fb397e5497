"""The table of elementwise functions: every layer has each of them, and derivatives are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.compiler.codegen.cpu import program as cpu
from explorer.compiler.codegen.cuda import words as cuda
from explorer.compiler.interpret.functions import FUNCTIONS as INTERPRETED
from explorer.compiler.ir.functions import FUNCTIONS, TABLE, Function
from explorer.compiler.ir.graph import Elementwise
from explorer.compiler.language.names.builtins import BUILTINS
from explorer.compiler.passes.gradients.derivatives import derivative
from explorer.machine.assembly.opcodes import VALUE_FUNCTIONS
from explorer.runtime.reference import functions as reference
from tests.functions import EXACT, OPERANDS, SLOPE

OFFSET = 1e-6
"""How far a difference goes to either side, in float64."""
GIVEN = np.array([-2.7, -0.9, -0.3, 0.2, 1.1, 3.4])
"""Numbers at which no function has a corner."""


def test_every_layer_has_each_function_of_the_table() -> None:
    assert len(FUNCTIONS) == len(TABLE)
    for known in (INTERPRETED, cpu.FUNCTIONS, cuda.FUNCTIONS, VALUE_FUNCTIONS, EXACT):
        assert FUNCTIONS.keys() <= known.keys()
    called = {known.name for known in TABLE if known.about}
    assert called <= BUILTINS.keys()
    assert called <= {*reference.ELEMENTWISE, *reference.PAIRWISE, "leaky_relu", "pow"}
    assert all(len(known.derivative) == known.arity and known.torch for known in TABLE if known.about or known.sign)
    assert all(known.operand_count <= 2 for known in TABLE)


def slope_of(function: Function, position: int, operands: tuple[Any, ...]) -> Any:
    """The derivative by an operand, by the steps that the backward pass takes."""
    names = ("x", "y")[: function.arity]
    parameter = SLOPE if function.parameter else None
    operator = Elementwise(function=function.name, operands=names, parameter=parameter, origin=())
    steps = derivative(operator, position, "result")
    known = dict(zip(names, operands, strict=True)) | {"result": value_of(function, operands)}
    results: list[Any] = []
    for step in steps:
        items = [known[item] if isinstance(item, str) else item for item in step.operands]
        numbers = [results[item] if isinstance(item, int) else np.float64(item) for item in items]
        behind = () if step.parameter is None else (step.parameter,)
        results.append(INTERPRETED[step.function](*numbers, *behind))
    return results[-1] if steps else np.float64(1)


def value_of(function: Function, operands: tuple[Any, ...]) -> Any:
    return EXACT[function.name](*operands, *([SLOPE] if function.parameter else []))


@pytest.mark.parametrize(
    "function",
    [known for known in TABLE if known.derivative and known.name != "stop_gradient"],
    ids=lambda known: known.name,
)
def test_derivatives_are_differences(function: Function) -> None:
    x, y = (grid.ravel() for grid in np.meshgrid(GIVEN, GIVEN + 0.05))
    inside = eval(function.domain or "x == x", {"x": x, "y": y})
    operands = (x[inside], y[inside])[: function.arity]
    for position in range(function.arity):
        ahead, behind = (
            value_of(function, tuple(o + by * (place == position) for place, o in enumerate(operands)))
            for by in (OFFSET, -OFFSET)
        )
        want = np.broadcast_to((ahead - behind) / (2 * OFFSET), operands[0].shape)
        got = np.broadcast_to(slope_of(function, position, operands), operands[0].shape)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("function", [known for known in TABLE if known.corner], ids=lambda known: known.name)
def test_slopes_at_corners(function: Function) -> None:
    """At 0 of one operand, where both are equal of two."""
    operands = (np.array([0.0]),) if function.arity == 1 else (GIVEN, GIVEN)
    for position in range(function.arity):
        want = eval(function.corner, {"slope": SLOPE})
        np.testing.assert_array_equal(slope_of(function, position, operands), np.full(len(operands[0]), want))


@pytest.mark.parametrize("name", [known.name for known in TABLE if known.numpy.startswith("lambda")])
def test_numpys_texts_keep_their_type_and_mean_what_they_say(name: str) -> None:
    x, y = (grid.ravel() for grid in np.meshgrid(np.append(GIVEN, 0), np.append(GIVEN, 0)))
    second = (SLOPE,) if FUNCTIONS[name].parameter else (y,)
    operands = (x, *second)[: OPERANDS[name]]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(INTERPRETED[name](*operands), EXACT[name](*operands), rtol=1e-12, atol=1e-15)
    single = INTERPRETED[name](*(np.float32(operand) if np.ndim(operand) else operand for operand in operands))
    assert single.dtype == np.float32
