"""Reshapes move behind products that keep what they put together."""

import numpy as np
import pytest

import explorer
from explorer.compiler.ir.node import operations_of
from tests.compiler.models import compiled, draw_inputs

TUCKER = """dim D = 6, K = 5
score TuckER(h: entity, r: relation, t: entity):
    "Balažević et al. 2019, as its authors write it"
    param E[entity, D], R[relation, K]
    param W[K, D, D]
    M = reshape(R[r] @ reshape(W, K, D * D), D, D)
    return E[h] @ M @ E[t]
"""
CONTRACTED = """dim D = 6, K = 5
score Contracted(h: entity, r: relation, t: entity):
    "the dimension that a reshape puts together is summed over"
    param E[entity, D], R[relation, 12]
    param W[3, 4, D]
    return dot(R[r] @ reshape(W, 12, D), E[t]) + sum(E[h])
"""
CUT = """dim D = 6
score Cut(h: entity, r: relation, t: entity):
    "a reshape that divides a dimension"
    param E[entity, D], R[relation, 36]
    return dot(E[h] @ reshape(R[r], D, D), E[t])
"""
AGAIN = """dim D = 6, K = 5
score Again(h: entity, r: relation, t: entity):
    "the product's shape, cut in other places"
    param E[entity, D], R[relation, K]
    param W[K, 4, 9]
    return E[h] @ reshape(R[r] @ reshape(W, K, 36), D, D) @ E[t]
"""


def operators(text: str, **options: bool) -> str:
    return compiled(text, options=options).stages["graph"].text


def test_products_take_a_tensor_as_it_lies():
    text = operators(TUCKER)
    assert "reshape" not in text
    assert "contract<b,abc->ac>" in text  # E[h] with W as it lies: the relation's combination comes behind it
    assert "reshape" not in operators(TUCKER, grad=True)
    loops = compiled(TUCKER, options={"grad": True}).stages["loops"].text
    assert "//" not in loops
    assert "%" not in loops


def test_a_dimension_that_is_summed_over_stays_together():
    assert "reshape" in operators(CONTRACTED)


def test_a_reshape_that_cuts_stays():
    assert "reshape" in operators(CUT)


def test_of_two_reshapes_one_is_left():
    text = operators(AGAIN)
    assert text.count("reshape") == 1
    assert "contract<a,abc->bc>" in text


@pytest.mark.parametrize("text", [TUCKER, CONTRACTED, CUT, AGAIN])
@pytest.mark.parametrize("on", ["graph", "loops", "dlc", "kernels"])
def test_it_computes_the_same(text: str, on: str):
    """Against NumPy's reshape of the arrays, in float64."""
    compilation = compiled(text)
    given = draw_inputs(compilation, batch=4, entities=5, relations=3)
    wide = {name: value.astype(np.float64) for name, value in given.items() if value.dtype == np.float32}
    h, r, t = (wide["E"][given["h"]], wide["R"][given["r"]], wide["E"][given["t"]])
    if text in (TUCKER, AGAIN):
        want = np.einsum("bk,kij,bi,bj->b", r, wide["W"].reshape(5, 6, 6), h, t)
    elif text is CUT:
        want = np.einsum("bij,bi,bj->b", r.reshape(-1, 6, 6), h, t)
    else:
        want = np.einsum("bk,ki,bi->b", r, wide["W"].reshape(12, 6), t) + h.sum(1)
    np.testing.assert_allclose(compilation.run(given, on=on), want, rtol=1e-4, atol=1e-5)


def test_every_operation_keeps_a_line():
    """What is a reshape of nothing any more is where the product is."""
    compilation = explorer.compile(TUCKER, on_demand=True)
    lit = operations_of(*(line.origin for line in compilation.stages["graph"].lines))
    assert {each.span for each in compilation.operations} <= lit
