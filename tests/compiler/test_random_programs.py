"""Random models compile, every stage's text parses back, and every stage computes what the text means.

The meaning is `explorer.runtime.reference.evaluate`, an evaluator in float64 that shares no code with the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import explorer
from explorer.runtime.reference import evaluate as reference
from tests.compiler.ir.test_stages_parse_back import assert_parses_back
from tests.compiler.levels import LEVEL_OPTIONS, SLC_STAGES
from tests.compiler.models import compiled, draw_inputs
from tests.compiler.random_models import model_texts

pytestmark = pytest.mark.timeout(1800)  # the sweep draws many, and a failure takes minutes to make small

NEGATIVES = ("none", "tail:3", "head:2")
QUICK = ("graph", "loops", *SLC_STAGES, "dlc", "dae")
COMPILED = ("cpu",)
TOLERANCE = 2e-4
"""Relative to 1 or the score, whichever is more: intermediate values go up to about 60 in float32."""


def assert_agrees(
    text: str, negatives: str, targets: tuple[str, ...], options: Mapping[str, int | bool]
) -> explorer.Compilation:
    """Compiles the text, runs it on small random inputs on all targets, and compares with the reference."""
    note(text)
    compilation = compiled(text, options={"negatives": negatives, **options})
    drawn = draw_inputs(compilation, batch=3, entities=4, relations=2)
    inputs = {name: array if array.dtype == np.int32 else np.clip(array, -1, 1) for name, array in drawn.items()}
    want = reference.score(text, inputs, {}, negatives=negatives)
    for target in targets:
        got = compilation.run(inputs, on=target)
        assert got.dtype == np.float32
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE, err_msg=target)
    return compilation


few_and_many = pytest.mark.parametrize(
    "times", [1, pytest.param(6, marks=pytest.mark.sweep), pytest.param(16, marks=pytest.mark.exhaustive)]
)
"""How many times as many models are drawn in the sweep, and beyond it."""


@few_and_many
def test_every_stage_of_a_random_model_parses_back_and_gives_its_numbers(times: int) -> None:
    @settings(max_examples=15 * times)
    @given(model_texts(), st.booleans(), st.sampled_from(NEGATIVES), LEVEL_OPTIONS)
    def agrees(text: str, interchange: bool, negatives: str, level: dict[str, int | bool]) -> None:
        assert_parses_back(assert_agrees(text, negatives, QUICK, level | {"interchange": interchange}))

    agrees()


@few_and_many
def test_machine_code_of_a_random_model_gives_its_numbers(times: int) -> None:
    """Few models, since each takes half a second to compile for the CPU and NVRTC's time besides."""

    @settings(max_examples=3 * times)
    @given(model_texts(), st.booleans(), st.sampled_from(NEGATIVES))
    def agrees(text: str, interchange: bool, negatives: str) -> None:
        compilation = assert_agrees(text, negatives, COMPILED, {"interchange": interchange})
        assert compilation.stages["ptx"].available, compilation.stages["ptx"].reason

    agrees()
