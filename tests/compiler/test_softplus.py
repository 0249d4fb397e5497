"""softplus and logsigmoid, and log1p under them: the last digits and the slopes everywhere, at every stage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.compiler.ir.graph import Constant
from tests.compiler.models import compiled

STAGES = ("graph", "loops", "slc", "slc.opt1", "slc.opt2", "slc.opt3", "dlc", "kernels", "cpu", "dae")
SIZES = (1e-30, 1e-7, 0.3, 1.0, 7.5, 16.0, 17.0, 40.0, 80.0, 1e3, 3e38)
VALUES = np.array([0.0, *SIZES, *(-size for size in SIZES)], dtype=np.float32)
"""Where 1 + exp(-x) is 1, where exp overflows and where it vanishes, and the corner of the maximum in it."""
EXACT = VALUES.astype(np.float64)
SIGMOID = np.exp(-np.logaddexp(0, -EXACT))
SLOPES: dict[str, Any] = {
    "softplus": (VALUES, np.logaddexp(0, EXACT), SIGMOID),
    "logsigmoid": (VALUES, -np.logaddexp(0, -EXACT), np.exp(-np.logaddexp(0, EXACT))),
    "log1p": (VALUES[EXACT > -1], np.log1p(EXACT[EXACT > -1]), 1 / (1 + EXACT[EXACT > -1])),
}
"""By function: arguments, values and slopes in float64; those of softplus are its definition's, not its form's."""
TEXT = "score S(h: entity, r: relation, t: entity):\n    param E[entity]\n    return {}(E[h])\n"


@pytest.mark.parametrize("on", STAGES)
@pytest.mark.parametrize("function", SLOPES)
def test_values_and_slopes_have_the_digits_of_float32(function: str, on: str) -> None:
    values, want, slopes = SLOPES[function]
    rows = np.arange(len(values), dtype=np.int32)
    inputs = {"E": values, "h": rows, "r": np.zeros_like(rows), "t": rows}
    got, gradients = compiled(TEXT.format(function), options={"grad": True}).run(inputs, on, grad=np.ones_like(values))
    np.testing.assert_allclose(got, want, rtol=5e-7, atol=1e-44)
    np.testing.assert_allclose(gradients["E"], slopes, rtol=5e-7, atol=3e-38)


def test_a_definition_of_the_text_goes_before_the_preludes() -> None:
    text = "def softplus(x):\n    return x * 2\n" + TEXT.format("softplus")
    inputs = {"E": VALUES[:3], **{name: np.zeros(1, dtype=np.int32) for name in "hrt"}}
    np.testing.assert_array_equal(compiled(text).run(inputs, "graph"), VALUES[:1] * 2)


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("layer L(g: graph):", 'input x[node, 3]\nfor n in g.nodes():\n    n["h"] = softplus(x[n])\nreturn n["h"]'),
        ("op O(b: bag of row):", "param T[row, 3]\nreturn sum(softplus(T[i]) for i in b)"),
    ],
)
def test_layers_and_ops_have_it_too(header: str, body: str) -> None:
    text = "".join(f"{line}\n" for line in (header, *(f"    {line}" for line in body.split("\n"))))
    assert "log1p" in compiled(text).stages["cuda"].text


def test_of_a_number_it_is_a_number_at_the_place_of_its_call() -> None:
    text = TEXT.format("softplus(1.5) * softplus")
    values = compiled(text).stages["graph"].program.values
    (number,) = (value for value in values if isinstance(value.operator, Constant) and value.operator.value > 1)
    assert number.operator.value == pytest.approx(np.logaddexp(0, 1.5))
    (place,) = number.origin
    assert text.split("\n")[place.line - 1][place.column - 1 : place.end_column - 1] == "softplus(1.5)"
