"""Random ops over random lists: every stage and both targets compute what the text means, and so do the gradients;
every stage's text parses back. Kernels of a GPU are made of the latter alone, as of random layers.

The meaning is `explorer.runtime.reference.evaluate`, an evaluator in float64 that shares no code with the compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from explorer.runtime.reference import evaluate as reference
from tests.compiler.ir.test_stages_parse_back import assert_parses_back
from tests.compiler.models import compiled
from tests.compiler.ops import INTERPRETED
from tests.compiler.random_ops import list_arrays, op_inputs, op_texts

TOLERANCE = 3e-4
"""Relative to 1 or the value, whichever is more: intermediate values go up to some hundreds in float32."""
SEEDS = st.integers(0, 1000)
FOUND = {
    "adds to the number 0": """
dim D = 1, F = 2

op Model(b: bag of row):
    param T[D, F]
    b["y"] = sum(-T for j in b)
    return -b["y"]
""",
    "lanes of loops of unlike lengths": """
dim D = 1

op Model(b: bag of row):
    param z[D]
    param P[row, D]
    for j, w in b:
        b["y"] += tanh(concat(reshape(z, D), z, (z - P[j])))
    return b["y"]
""",
    "a number computed beside a row": """
dim D = 1

op Model(b: bag of row):
    param T[row, D]
    for j, w in b:
        u = sqrt(abs(T[j]) + 0.5)
        b["y"] += tanh(inner_prod(u, u) / (abs(T[j]) + 1))
    return b["y"]
""",
}
"""What random ops have found."""
LISTS = (([0, 0, 1, 3], [0, 2, 1, 1], 4), ([], [], 2))


def assert_close(got: Any, want: Any, what: str) -> None:
    np.testing.assert_allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def assert_agrees(text: str, lists: Any, seed: int, places: list[str]) -> None:
    """Every place gives what the reference says."""
    compilation = compiled(text, on_demand=True)
    inputs = op_inputs(compilation.stages["graph"].program, lists, seed)
    want = reference.op(text, inputs, {})
    for place in places:
        got = compilation.run(inputs, on=place)
        assert got.dtype == np.float32
        assert got.shape == want.shape
        assert_close(got, want, place)


few_and_many = pytest.mark.parametrize(
    "times", [1, pytest.param(6, marks=pytest.mark.sweep), pytest.param(16, marks=pytest.mark.exhaustive)]
)
"""How many times as many ops are drawn in the sweep, and beyond it."""


@few_and_many
def test_every_stage_of_a_random_op_gives_its_numbers(times: int) -> None:
    @settings(max_examples=30 * times, derandomize=True, deadline=None)
    @given(op_texts(), list_arrays(), SEEDS)
    def agrees(text: str, lists: Any, seed: int) -> None:
        note(text)
        assert_agrees(text, lists, seed, INTERPRETED)

    agrees()


@few_and_many
def test_both_targets_run_a_random_op(times: int) -> None:
    @settings(max_examples=4 * times, derandomize=True, deadline=None)
    @given(op_texts(depth=2), list_arrays(), SEEDS)
    def agrees(text: str, lists: Any, seed: int) -> None:
        note(text)
        assert_agrees(text, lists, seed, ["cpu", "dae"])

    agrees()


@few_and_many
def test_the_gradients_of_a_random_op_are_its_slopes(times: int) -> None:
    @settings(max_examples=15 * times, derandomize=True, deadline=None)
    @given(op_texts(), list_arrays(), SEEDS)
    def agrees(text: str, lists: Any, seed: int) -> None:
        note(text)
        assert_slopes(text, lists, seed)

    agrees()


def assert_slopes(text: str, lists: Any, seed: int) -> None:
    """The gradients of every stage are the slopes of the reference along a random direction."""
    compilation = compiled(text, options={"grad": True}, on_demand=True)
    graph = compilation.stages["graph"].program
    inputs = op_inputs(graph, lists, seed)
    want = reference.op(text, inputs, {})
    upstream = np.random.default_rng(seed + 1).uniform(-1, 1, want.shape).astype(np.float32)
    names = [name for name, _ in graph.gradients]
    slopes = reference.directional_difference(text, inputs, {}, upstream, names)
    for stage in INTERPRETED:
        got, gradients = compilation.run(inputs, on=stage, grad=upstream)
        assert_close(got, want, stage)
        assert list(gradients) == names
        for slope in slopes:
            terms = gradients[slope.tensor] * slope.direction
            assert terms.shape == inputs[slope.tensor].shape
            # What cancels in the sum leaves an error of the size of its terms.
            error = abs(float(terms.sum()) - slope.value)
            assert error <= TOLERANCE * (1 + np.abs(terms).sum()), (stage, slope.tensor, slope.value)


@few_and_many
def test_every_stage_of_a_random_op_parses_back(times: int) -> None:
    @settings(max_examples=5 * times, derandomize=True, deadline=None)
    @given(op_texts(depth=2), st.booleans())
    def parses_back(text: str, grad: bool) -> None:
        note(text)
        assert_parses_back(compiled(text, options={"grad": grad}), passes=False)

    parses_back()


@pytest.mark.parametrize("case", FOUND)
def test_what_random_ops_found(case: str) -> None:
    for seed, lists in enumerate(LISTS):
        assert_agrees(FOUND[case], lists, seed, INTERPRETED)
        assert_slopes(FOUND[case], lists, seed)
    for grad in (False, True):
        assert_parses_back(compiled(FOUND[case], options={"grad": grad}), passes=False)
