"""Negatives that chunks of facts share: every target gives what NumPy gives in float64, and its gradients. The batch of
4 is a chunk of 3 facts and one of a single fact, or less than a chunk."""

from __future__ import annotations

import numpy as np
import pytest

import explorer
from explorer.compiler.pipeline import STAGES
from tests.compiler.by_form.facts import FACTS, OWN, Fact, inputs_of
from tests.compiler.by_form.held import assert_module, assert_reference, assert_right
from tests.compiler.by_form.own_negatives import OWN_NEGATIVES
from tests.compiler.models import compiled

CORRUPTED = {name: fact for name, fact in FACTS.items() if len(fact.ids) > 1}
"""Of a single id that negatives replace, nothing tells how many facts there are."""
CASES = [(name, option) for name in CORRUPTED for option in ("tail:5/3", "head:2/3", "tail:2/7", "tail:5/8")]
CASES += [(name, f"own:{OWN}/{sharing}") for name in OWN_NEGATIVES for sharing in (3, 2, 8)]
ALL = {**CORRUPTED, **OWN_NEGATIVES}
cases = pytest.mark.parametrize(("name", "option"), CASES)


@pytest.mark.sampled(8)
@cases
def test_shared_negatives_on_the_interpreters(name: str, option: str) -> None:
    assert_right(ALL[name], option, ("graph", "kernels"))


@pytest.mark.sampled(16)
@cases
def test_shared_negatives_on_every_target(name: str, option: str) -> None:
    assert_right(ALL[name], option, ("loops", "slc.opt3", "dlc", "dae", "cpu"))


@cases
def test_the_reference_of_shared_negatives(name: str, option: str) -> None:
    assert_reference(ALL[name], option)


@pytest.mark.sampled(16)
@cases
def test_shared_negatives_as_a_module_of_pytorch(name: str, option: str) -> None:
    assert_module(ALL[name], option)


@pytest.mark.parametrize("own", ["tail:5", "head:2"])
def test_a_list_for_each_fact_is_what_it_was(own: str) -> None:
    """`tail:5/1` is `tail:5`, and of chunks it is said alone which ids they share."""
    text = FACTS["temporal"].text
    alone, same, shared = (compiled(text, options={"negatives": each}) for each in (own, f"{own}/1", f"{own}/3"))
    assert same.options == alone.options
    for stage in STAGES:
        assert same.stages[stage.name].text == alone.stages[stage.name].text
    for stage in ("graph", "loops"):
        assert shared.stages[stage].text.count(" sharing 3\n") == 1
        assert shared.stages[stage].text.replace(" sharing 3\n", "\n") == alone.stages[stage].text


@pytest.mark.parametrize("grad", [False, True])
def test_lists_of_another_number_of_chunks_are_refused(grad: bool) -> None:
    fact = FACTS["temporal"]
    inputs = inputs_of(fact, "head:2")  # a list for each fact
    compilation = compiled(fact.text, options={"negatives": "head:2/3", "grad": grad})
    with pytest.raises(ValueError, match=r"h has the shape \[4, 2\], but is declared \[chunks = 2, 2\]"):
        compilation.run(inputs, "graph", grad=np.ones((4, 2), np.float32) if grad else None)


def test_a_module_refuses_lists_of_another_number_of_chunks() -> None:
    torch = pytest.importorskip("torch")
    fact = FACTS["temporal"]
    module = compiled(fact.text, options={"negatives": "head:2/3"}).torch(entity=6, relation=3, time=4)
    ids = [torch.from_numpy(inputs_of(fact, "head:2")[name]) for name in fact.ids]
    with pytest.raises(ValueError, match=r"h has the shape \[4, 2\], but is declared \[chunks = 2, negatives = 2\]"):
        module(*ids)


def test_a_modules_second_call_reads_the_lists_of_its_own_chunks() -> None:
    """Of a call like one before, ids alone are looked at again."""
    torch = pytest.importorskip("torch")
    text = "score Dots(h: entity, t: entity):\n    param E[entity, 4]\n    return dot(E[h], E[t])\n"
    module = compiled(text, options={"negatives": "tail:2/3"}).torch(entity=6)
    for seed in range(3):
        random = torch.Generator().manual_seed(seed)
        h, lists = torch.randint(6, (7,), generator=random), torch.randint(6, (3, 2), generator=random)
        tails = module.E[lists.repeat_interleave(3, 0)[:7]]
        torch.testing.assert_close(module(h, lists), (module.E[h][:, None] * tails).sum(-1))


@pytest.mark.parametrize(
    ("fact", "option", "message"),
    [
        (FACTS["one id"], "tail:5/3", "the negatives of 'Fact' replace its only id: nothing tells which facts"),
        (next(iter(OWN_NEGATIVES.values())), "tail:5/3", "how many is negatives=own:5/3"),
        (FACTS["temporal"], "own:5/3", "they replace an id, negatives=tail:5/3 or head:5/3"),
    ],
    ids=["one id", "its own", "none of its own"],
)
def test_what_cannot_be_shared_is_refused_in_words(fact: Fact, option: str, message: str) -> None:
    compilation = explorer.compile(fact.text, options={"negatives": option})
    assert [message in diagnostic.message for diagnostic in compilation.diagnostics] == [True]
