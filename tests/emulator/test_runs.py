"""Scores of few triples with many candidates, cut into runs of these, on the emulator: beside the float64 reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from benchmarks.gpu_check import Setting, error_of, judged, triples
from explorer.checkout import CHECKOUT
from explorer.runtime.encode.batch import draw
from explorer.runtime.encode.layers import upstream_names
from explorer.runtime.encode.scores import graph_of
from explorer.runtime.reference.evaluate import Meaning
from tests.compiler.by_form.own_negatives import OWN_NEGATIVES
from tests.compiler.models import draw_inputs
from tests.compiler.schedule.test_runs import COMPLEX, TRANSE, TRANSH, compiled, runs
from tests.emulator.launch import launch

ROTATE = (CHECKOUT / "tests/zoo/rotate_l1.emb").read_text()
DISTMULT = (CHECKOUT / "examples/kge/distmult.emb").read_text()
TRANSF = (CHECKOUT / "examples/kge/transf.emb").read_text()
TEXTS = {
    "transe": TRANSE,
    "transh": TRANSH,
    "transf": TRANSF,
    "distmult": DISTMULT,
    "complex": COMPLEX,
    "rotate": ROTATE,
}
by_text = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)


def drawn(compilation: explorer.Compilation, batch: int) -> dict[str, Any]:
    """The inputs of the scores alone."""
    inputs: dict[str, Any] = draw_inputs(compilation, batch=batch, entities=40, relations=5)
    return inputs


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [8, 33])
@pytest.mark.parametrize(("batch", "kind"), [(1, "tail:64"), (3, "head:7"), (64, "tail:64"), (1000, "tail:7")])
@by_text
def test_the_scores_of_runs(emulated: Setting, text: str, batch: int, kind: str, size: int) -> None:
    compilation = compiled(text, kind, batch, size)
    assert runs(compilation)
    inputs = drawn(compilation, batch)
    got, _ = launch(compilation, inputs)
    outcome = judged(compilation, [got], Meaning(text, inputs, compilation.sizes, negatives=kind).result())
    assert outcome["agrees"], outcome


@pytest.mark.parametrize("run", [0, 1, 2, 4, 8, 16, 32])
def test_runs_of_any_length(emulated: Setting, run: int) -> None:
    compilation = compiled(TRANSH, "tail:64", 3, 33, schedule={"TransH.run": run})
    assert runs(compilation) == {"TransH.run": run}
    inputs = drawn(compilation, 3)
    outcome = judged(
        compilation,
        [launch(compilation, inputs)[0]],
        Meaning(TRANSH, inputs, compilation.sizes, negatives="tail:64").result(),
    )
    assert outcome["agrees"], outcome


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("batch", "kind"), [(1, "tail:64"), (3, "head:7"), (64, "head:7")])
@by_text
def test_gradients_of_few_triples(emulated: Setting, text: str, batch: int, kind: str) -> None:
    compilation = compiled(text, kind, batch, 20, grad=True)
    inputs = drawn(compiled(text, kind, batch, 20), batch)
    upstream = np.random.default_rng(1).normal(size=(batch, int(kind.partition(":")[2]))).astype(np.float32)
    assert compilation.encode is not None
    arrays, finish = compilation.encode(compilation, inputs, upstream)
    result, gradients = finish(*launch(compilation, arrays))
    meaning = Meaning(text, inputs, compilation.sizes, negatives=kind)
    wanted = meaning.gradients(upstream, list(gradients))
    pairs = [(result, meaning.result()), *((gradients[name], wanted[name]) for name in gradients)]
    assert all(error_of(np.reshape(got, want.value.shape), want) <= 1 for got, want in pairs)


def errors(text: str, kind: str, batch: int | None, grad: bool) -> list[float]:
    """How far a loss of nine facts, and its gradients, are from float64, over what rounding may make."""
    compilation = compiled(text, kind, batch, grad=grad)
    given = draw(compilation, triples(), 9)
    upstream = given.pop(upstream_names(graph_of(compilation))[0]) if grad else None
    assert compilation.encode is not None
    arrays, finish = compilation.encode(compilation, given, upstream)
    result, gradients = finish(*launch(compilation, arrays))
    meaning = Meaning(text, given, compilation.sizes, negatives=kind)
    wanted = meaning.gradients(upstream, list(gradients)) if grad else {}
    return [error_of(result, meaning.result()), *(error_of(gradients[each], wanted[each]) for each in wanted)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("kind", ["own:16", "own:7", "own:6/4"])
@pytest.mark.parametrize("name", OWN_NEGATIVES)
def test_losses_of_few_facts(emulated: Setting, name: str, kind: str, grad: bool) -> None:
    """Right, or off by as much as the kernels of any batch: of one gradient the bound is too small for either."""
    found = errors(OWN_NEGATIVES[name].text, kind, 9, grad)
    assert max(found) <= 1 or found == errors(OWN_NEGATIVES[name].text, kind, None, grad)


def test_most_losses_of_few_facts_are_cut() -> None:
    cut = [name for name, fact in OWN_NEGATIVES.items() if runs(compiled(fact.text, "own:16", 9))]
    assert {"logsumexp of negatives", "a margin of each", "weighted by a softmax", "cross-entropy", "the hardest"} <= {
        *cut
    }
