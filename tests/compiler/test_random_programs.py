"""Random models compile, every stage's text parses back, and every stage computes what the text means.

The meaning is `explorer.runtime.reference`, an evaluator in float64 that shares no code with the compiler.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, note, settings

from explorer.runtime import reference
from tests.compiler.ir.test_stages_parse_back import assert_parses_back
from tests.compiler.models import compiled, draw_inputs
from tests.compiler.random_models import model_texts

INTERPRETED = ("graph", "loops", "slc", "dlc")
TOLERANCE = 2e-4
"""Relative to 1 or the score, whichever is more: intermediate values go up to about 60 in float32."""


def assert_every_stage_agrees(text: str, negatives: str) -> None:
    """Compiles the text, runs all that runs on small random inputs, and compares with the reference."""
    note(text)
    compilation = compiled(text, options={"negatives": negatives})
    assert_parses_back(compilation)
    drawn = draw_inputs(compilation, batch=3, entities=4, relations=2)
    inputs = {name: array if array.dtype == np.int32 else np.clip(array, -1, 1) for name, array in drawn.items()}
    want = reference.score(text, inputs, {}, negatives=negatives)
    for stage in INTERPRETED:
        got = compilation.run(inputs, on=stage)
        assert got.dtype == np.float32
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE, err_msg=stage)


@pytest.mark.parametrize("negatives", ["none", "tail:3", "head:2"])
def test_every_stage_of_a_random_model_gives_its_numbers(negatives: str) -> None:
    @settings(max_examples=60, derandomize=True)
    @given(model_texts())
    def agrees(text: str) -> None:
        assert_every_stage_agrees(text, negatives)

    agrees()
