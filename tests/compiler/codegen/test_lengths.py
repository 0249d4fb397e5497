"""What a reader meets: how long the texts of layers are as a GPU run chooses them, and that no line does two things."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import explorer

EXAMPLES = Path(__file__).parents[3] / "examples" / "rgnn"


DECLARED = re.compile(r"(template <.*> )?__device__ .*;$|// Device functions.*|$")
"""What is there because functions stand behind the kernels, and empty lines."""


def cuda(layer: str) -> list[str]:
    """The lines of a layer of 64 features, its products taken before its sums."""
    text = (EXAMPLES / f"{layer}.emb").read_text()
    made = explorer.compile(text, sizes={"F": 64, "G": 64}, options={"aggregate": False})
    return [line for line in made.stages["cuda"].text.splitlines() if not DECLARED.match(line)]


def test_rgat_has_fewer_than_400_lines() -> None:
    lines = cuda("rgat")
    assert len(lines) < 400
    assert (
        len([line for line in lines if "__global__" in line]) == 6
    )  # tiles, product, two logits, sums and their merge


@pytest.mark.parametrize("layer", ["rgat", "rgcn"])
def test_a_line_has_one_statement(layer: str) -> None:
    for line in cuda(layer):
        outside = line
        while (inside := re.sub(r"\([^()]*\)", "", outside)) != outside:
            outside = inside  # of parentheses, as those of a loop
        assert outside.count(";") <= 1, line
