"""Scores that only gather rows, of sizes that vectors and lanes divide and that they do not: several vectors a lane."""

from __future__ import annotations

import pytest

import explorer
from benchmarks.cases.checked import Case
from benchmarks.gpu_check import Setting, check, check_gradients, compiled, draw, judged, meaning, triples
from explorer.checkout import CHECKOUT

SIZES = (1, 3, 7, 41, 48, 602)
MODELS = ("transe_l2", "transh", "distmult")
HALVES = """dim D = 8
score Halves(h: entity, r: relation, t: entity):
    param E[entity, D]: f16, R[relation, D]
    return norm(E[h] + R[r] - E[t], 1)
"""


def text_of(model: str) -> str:
    """An example's text, or the one of above."""
    return HALVES if model == "halves" else (CHECKOUT / "examples" / "kge" / f"{model}.emb").read_text()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("batch", [1, 75])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("options", [{}, {"negatives": "tail:5"}], ids=["alone", "negatives"])
@pytest.mark.parametrize("model", [*MODELS, "halves"])
def test_a_score(emulated: Setting, model: str, options: dict[str, str], size: int, batch: int) -> None:
    outcome = check(emulated, Case(text_of(model), size, batch, options))
    assert outcome["agrees"], outcome


@pytest.mark.sampled(4)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("options", [{}, {"negatives": "tail:5"}], ids=["alone", "negatives"])
@pytest.mark.parametrize("model", [*MODELS, "halves"])
def test_gradients(emulated: Setting, model: str, options: dict[str, str], size: int) -> None:
    outcome = check_gradients(emulated, Case(text_of(model), size, 75, {"grad": "true", **options}))
    assert outcome["agrees"], outcome


@pytest.mark.sampled(4)
@pytest.mark.parametrize("rounds", [1, 32])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("size", [7, 41, 602])
@pytest.mark.parametrize("model", ["transe_l2", "transh"])
def test_lanes_that_nobody_chose(emulated: Setting, model: str, size: int, lanes: int, rounds: int) -> None:
    case = Case(text_of(model), size, 75, {})
    usual = compiled(case)
    asked = {f"{usual.name}.lanes": lanes, f"{usual.name}.rounds": rounds}
    compilation = explorer.compile(case.text, sizes={"D": size}, schedule=asked, on_demand=True)
    inputs = draw(compilation, triples(), case.batch)
    result, _ = emulated.launch(compilation, inputs)
    found = judged(compilation, [result], meaning(case, compilation, inputs).result())
    assert found["agrees"], found
