"""No strategy but tiles takes a product with a matrix that rows share, wherever it stands in a model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.cases.checked import ZOO
from tests.compiler.schedule.product_models import MODELS
from tests.untiled import large, untiled

COLUMNS, DEPTH = 16, 8
"""A product of fewer is left to warps, a row each: its matrix is in a cache."""
MOST = 200_000_000
"""Multiply-adds of such a product in all: of 620,232 edges at some 300 each."""
BRIEF = ("nnconv", "views", "gru")
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
TEXTS = {path.stem: path.read_text() for path in (*sorted(ZOO.glob("*.emb")), *sorted(EXAMPLES.glob("*/*.emb")))}
NO_OTHER_SIZES = frozenset({"slices"})
"""Models whose text counts on its own sizes."""


def check(text: str, resized: bool = True) -> None:
    """Asks of a model, at its own sizes and at larger ones, what its products are, forward and backward."""
    own = {name: int(size) for line in re.findall(r"^dim .*$", text, re.M) for name, size in SIZE.findall(line)}
    for sizes in (own, large(own))[: 1 + resized]:
        for grad in (False, True):
            left = untiled(text, sizes, grad=grad)
            wide = [p for p in left if p.columns >= COLUMNS and p.depth >= DEPTH and p.rows > 1]
            assert not wide, [str(product) for product in wide]
            assert all(product.work <= MOST for product in left), [str(product) for product in left]


SIZE = re.compile(r"(\w+)\s*=\s*(\d+)")


@pytest.mark.parametrize("name", BRIEF)
def test_products_of_some_models_are_tiles(name: str) -> None:
    check(MODELS[name])


@pytest.mark.swept(3)
@pytest.mark.parametrize("name", [name for name in MODELS if name not in BRIEF])
def test_products_of_models_are_tiles(name: str) -> None:
    check(MODELS[name])


@pytest.mark.swept(4)
@pytest.mark.parametrize("name", TEXTS)
def test_products_of_the_zoo_and_of_examples_are_tiles(name: str) -> None:
    check(TEXTS[name], name not in NO_OTHER_SIZES)


def test_a_product_that_no_tile_does_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests above count is there to be counted."""
    monkeypatch.setattr("explorer.compiler.schedule.program.cut_products", lambda *_: ())
    left = untiled(MODELS["views"])
    assert any(product.columns >= COLUMNS and product.depth >= DEPTH for product in left)
