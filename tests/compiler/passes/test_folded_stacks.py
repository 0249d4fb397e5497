"""Reductions across a stack are taken of what is stacked."""

import numpy as np
import pytest

from tests.compiler.models import compiled, draw_inputs

MEANS = {
    "sum": lambda parts: parts.sum(0),
    "mean": lambda parts: parts.mean(0),
    "max": lambda parts: parts.max(0),
    "min": lambda parts: parts.min(0),
    "prod": lambda parts: parts.prod(0),
    "norm1": lambda parts: np.abs(parts).sum(0),
    "norm2": lambda parts: np.sqrt((parts * parts).sum(0)),
}


def text(function: str, parts: int, after: str = "sum(y)", dims: int = 6) -> str:
    call = f"norm(x, {function[-1]}, axis=0)" if function.startswith("norm") else f"{function}(x, axis=0)"
    rows = ("E[h] * E[t]", "E[h] - E[t]", "E[t]", "2.0 * E[h]")[:parts]
    return f"""dim D = {dims}
score Stacked(h: entity, t: entity):
    param E[entity, D]
    x = stack([{", ".join(rows)}])
    y = {call}
    return {after}
"""


def drawn(made):
    made = made.with_options(grad=False)  # whose tensors are no gradients
    inputs = draw_inputs(made, 3)
    E, h, t = inputs["E"].astype(np.float64), inputs["h"], inputs["t"]
    return inputs, np.stack([E[h] * E[t], E[h] - E[t], E[t], 2 * E[h]])


@pytest.mark.parametrize("function", MEANS)
@pytest.mark.parametrize("parts", [2, 3, 4])
def test_a_reduction_of_a_stack_needs_no_stack(function, parts):
    made = compiled(text(function, parts))
    assert "concat" not in made.stages["graph"].text
    inputs, rows = drawn(made)
    want = MEANS[function](rows[:parts]).sum(-1)
    for stage in ("graph", "loops", "kernels", "slc.opt3"):
        np.testing.assert_allclose(made.run(inputs, stage), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", MEANS)
def test_its_gradients_are_those_of_the_stack(function):
    made = compiled(text(function, 3), options={"grad": True})
    inputs, _ = drawn(made)
    upstream = np.linspace(1, 2, len(inputs["h"]), dtype=np.float32)
    _, found = made.run(inputs, "loops", grad=upstream)

    def loss(E):
        h, t = inputs["h"], inputs["t"]
        return float((MEANS[function](np.stack([E[h] * E[t], E[h] - E[t], E[t]])).sum(-1) * upstream).sum())

    E, step = inputs["E"].astype(np.float64), 1e-6
    want = np.zeros_like(E)
    for at in np.ndindex(*E.shape):
        moved = np.zeros_like(E)
        moved[at] = step
        want[at] = (loss(E + moved) - loss(E - moved)) / (2 * step)
    np.testing.assert_allclose(found["E"], want, rtol=1e-3, atol=1e-3)


def test_a_norm_of_zeros_has_no_slope():
    made = compiled(text("norm2", 2), options={"grad": True})
    inputs, _ = drawn(made)
    inputs["E"][:] = 0
    _, found = made.run(inputs, "loops", grad=np.ones(len(inputs["h"]), np.float32))
    assert not found["E"].any()


def test_a_stack_that_something_else_reads_stays():
    made = compiled(text("norm2", 2, "sum(y) + sum(x)"))
    assert "concat" in made.stages["graph"].text


def test_the_columns_of_a_joined_row_stay():
    """Which is no stack along the dimension that is reduced."""
    stays = """dim D = 6
score Joined(h: entity, t: entity):
    param E[entity, D]
    return sum(norm(reshape(concat([E[h], E[t]]), 3, 4), 2, axis=0))
"""
    made = compiled(stays)
    assert "concat" in made.stages["graph"].text
    inputs = draw_inputs(made, 3)
    rows = np.concatenate([inputs["E"][inputs["h"]], inputs["E"][inputs["t"]]], 1).reshape(-1, 3, 4)
    np.testing.assert_allclose(made.run(inputs, "graph"), np.linalg.norm(rows, axis=1).sum(-1), rtol=1e-5)


def test_the_rows_of_stacked_matrices_stay():
    """Two matrices of two rows are reduced each along its own, not across the stack."""
    made = compiled("""score Matrices(h: entity, t: entity):
    param M[entity, 2, 3]
    x = sum(stack([M[h], M[t]]), axis=1)
    return dot(x[0], x[0]) - dot(x[1], x[0])
""")
    inputs = draw_inputs(made, 3)
    head, tail = (inputs["M"][inputs[name]].astype(np.float64).sum(1) for name in "ht")
    want = (head * head).sum(-1) - (tail * head).sum(-1)
    for stage in ("graph", "loops", "kernels", "slc.opt3"):
        np.testing.assert_allclose(made.run(inputs, stage), want, rtol=1e-5, atol=1e-5)
