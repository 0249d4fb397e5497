"""Scores of ids over any sets: every target gives what NumPy gives in float64, its gradients, and refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from explorer.runtime.data.triples import load_triples
from explorer.runtime.encode import batch
from explorer.runtime.reference import evaluate
from tests.compiler.by_form.facts import BATCH, COUNTS, inputs_of
from tests.compiler.by_form.facts import FACTS as OF_FORMS
from tests.compiler.by_form.held import assert_module, assert_reference, assert_right
from tests.compiler.by_form.paper_facts import PAPER_FACTS
from tests.compiler.models import compiled

FACTS = OF_FORMS | PAPER_FACTS
names = pytest.mark.parametrize("name", FACTS)
any_negatives = pytest.mark.parametrize("negatives", ["none", "tail:3", "head:2"])
STOPPED = """score Detached(h: entity, r: relation, t: entity):
    param E[entity, 5], R[relation, 5]
    return dot(stop_gradient(E[h]) * R[r], E[t])
"""


@pytest.mark.sampled(2)
@names
@any_negatives
def test_a_fact_on_the_interpreters(name: str, negatives: str) -> None:
    assert_right(FACTS[name], negatives, ("graph", "kernels"))


@pytest.mark.sampled(16)
@names
@any_negatives
def test_a_fact_on_every_target(name: str, negatives: str) -> None:
    assert_right(FACTS[name], negatives, ("loops", "slc.opt3", "dlc", "dae", "cpu"))


@names
@any_negatives
def test_the_reference_of_a_fact(name: str, negatives: str) -> None:
    assert_reference(FACTS[name], negatives)


@pytest.mark.sampled(12)
@names
@any_negatives
def test_a_fact_as_a_module_of_pytorch(name: str, negatives: str) -> None:
    assert_module(FACTS[name], negatives)


@names
def test_a_run_draws_what_the_data_does_not_have(name: str) -> None:
    fact, triples = FACTS[name], load_triples("WN18")
    inputs = batch.draw(compiled(fact.text), triples, batch=50)
    counts = {"entity": triples.num_entities, "relation": triples.num_relations}
    made = {"quotient": -(-triples.num_entities // 2), "remainder": 2, "half": batch.DRAWN // 2}
    made |= {"pair": batch.DRAWN // 2, "hash": 4, "shifted": triples.num_entities + 1, "cross": 7, "apart": 5}
    made |= {"either": 2 * triples.num_entities - 1, "couple": 3 * (triples.num_entities - 1) + triples.num_relations}
    made["multiplied"] = (triples.num_entities - 1) * (triples.num_relations - 1) + 1
    made["sorted"] = batch.DRAWN + triples.num_entities - 1
    for each, (domain, codomain) in fact.maps.items():
        assert inputs[each].shape == (counts.get(domain, batch.DRAWN),)
        assert 0 <= inputs[each].min() <= inputs[each].max() < counts.get(codomain, batch.DRAWN)
    for each, index_set in fact.ids.items():
        assert inputs[each].shape == (50,)
        assert 0 <= inputs[each].min() <= inputs[each].max() < counts.get(index_set, batch.DRAWN)
    for tensor, extents in fact.tensors.items():
        sizes = {"batch": 50, **dict.fromkeys(COUNTS, batch.DRAWN), **counts, **made}
        assert inputs[tensor].shape == tuple(sizes.get(each, each) for each in extents)


@pytest.mark.parametrize("target", ["graph", "loops", "kernels", "dlc", "dae", "cpu"])
def test_no_gradient_goes_through_what_stops_it(target: str) -> None:
    inputs = inputs_of(FACTS["labels"])
    upstream = np.ones(BATCH, np.float32)
    _, gradients = compiled(STOPPED, options={"grad": True}, on_demand=True).run(inputs, target, grad=upstream)
    h, r, t, tables = (*(inputs[name] for name in "hrt"), {name: inputs[name].astype(np.float64) for name in "ER"})
    by_entity, by_relation = np.zeros_like(tables["E"]), np.zeros_like(tables["R"])
    np.add.at(by_entity, t, tables["E"][h] * tables["R"][r])
    np.add.at(by_relation, r, tables["E"][h] * tables["E"][t])
    np.testing.assert_allclose(gradients["E"], by_entity, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradients["R"], by_relation, rtol=1e-5, atol=1e-6)
    _, reference = evaluate.gradients(STOPPED, inputs, {}, upstream, ["E"], arithmetic=evaluate.FLOAT64)
    np.testing.assert_allclose(reference["E"], by_entity, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w": np.array([0, 1, 2, 4], np.int32)}, "w[3] is 4, but T has 4 rows, one for each time."),
        ({"w": np.array([0, 1, 2], np.int32)}, "w has the shape [3], but is declared [batch = 4]."),
        ({"T": np.zeros((4, 6), np.float32)}, "T has the shape [4, 6], but is declared [time, 5]."),
    ],
)
def test_ids_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    inputs = inputs_of(FACTS["temporal"])
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        compiled(FACTS["temporal"].text).run({**inputs, **change}, "cpu")


@pytest.mark.parametrize("target", ["graph", "kernels", "dlc", "dae", "cpu"])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": np.array([0, 1, 2, 2, 1, 3], np.int32)}, "kind[5] is 3, but K has 3 rows, one for each type."),
        ({"kind": np.array([0, -1, 2, 2, 1, 0], np.int32)}, "kind[1] is -1, but K has 3 rows, one for each type."),
        ({"kind": np.zeros(5, np.int32)}, "kind has the shape [5], but is declared [entity = 6]."),
        ({"kind": np.zeros((6, 1), np.int32)}, "kind has the shape [6, 1], but is declared [entity = 6]."),
        ({"kind": np.zeros(6, np.float32)}, "kind holds float32 where indices are whole numbers."),
    ],
)
def test_maps_that_do_not_fit_are_refused(change: dict[str, Any], message: str, grad: bool, target: str) -> None:
    inputs = inputs_of(FACTS["types of entities"])
    compilation = compiled(FACTS["types of entities"].text, options={"grad": grad}, on_demand=True)
    given = {"grad": np.ones(BATCH, np.float32)} if grad else {}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        compilation.run({**inputs, **change}, target, **given)


@pytest.mark.parametrize("target", ["graph", "kernels", "cpu"])
def test_an_id_has_a_place_in_the_map_from_its_set(target: str) -> None:
    fact = FACTS["a map from what no tensor is over"]
    inputs = {**inputs_of(fact), "u": np.array([0, 1, 5, 2], np.int32)}
    with pytest.raises(ValueError, match=r"^u\[2\] is 5, but kind has 5 rows, one for each user\.$"):
        compiled(fact.text, on_demand=True).run(inputs, target)


def test_labels_are_as_many_as_facts() -> None:
    inputs = inputs_of(FACTS["labels"])
    with pytest.raises(ValueError, match=r"y has the shape \[3\], but is declared \[batch = 4\]\."):
        compiled(FACTS["labels"].text).run({**inputs, "y": inputs["y"][:3]}, "cpu")
