"""Finite differences of the reference, beside gradients written by hand: of layers and of a score."""

import numpy as np
import pytest

from explorer.runtime.reference import evaluate as reference
from tests.oracles import kge, rgnn
from tests.runtime.reference.layer_models import GCN, GRAPH, TEXTS, G, draw, oracle, structure


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TEXTS)
def test_gradients_of_the_oracle_are_the_differences_of_the_layer(name):
    """Trap 5: every entry of every tensor, with isolated nodes, parallel edges and an unused relation."""
    tensors = draw(name)
    result, backward = oracle(name, tensors)
    upstream = np.random.default_rng(1).standard_normal(result.shape)
    gradients = backward(upstream)
    inputs = {**structure(GRAPH), **tensors}
    slopes = reference.finite_difference(TEXTS[name], inputs, {}, upstream, list(tensors), 10_000)
    assert len(slopes) == sum(array.size for array in tensors.values())
    want = [gradients[slope.tensor][slope.index] for slope in slopes]
    np.testing.assert_allclose([slope.value for slope in slopes], want, rtol=1e-6, atol=1e-7)


def test_differences_of_a_score_are_its_gradient():
    """TransR, cuKE Table II: the gradient of P[r] is (h - t) outer u / |u|."""
    text = """
dim D = 3, K = 2

score TransR(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, K], P[relation, D, K]
    return norm((E[h] - E[t]) @ P[r] + R[r], 2)
"""
    random = np.random.default_rng(0)
    tables = {
        name: random.standard_normal(shape).astype(np.float32)
        for name, shape in {"E": (4, 3), "R": (2, 2), "P": (2, 3, 2)}.items()
    }
    ids = {"h": np.array([0, 0, 2]), "r": np.array([1, 1, 0]), "t": np.array([1, 1, 3])}
    upstream = np.array([1.0, 2.0, -1.0])
    slopes = reference.finite_difference(text, {**tables, **ids}, {}, upstream, ["P", "R"], 100)
    E, R, P = (tables[name].astype(np.float64) for name in "ERP")
    e = E[ids["h"]] - E[ids["t"]]
    u = np.einsum("bd,bdk->bk", e, P[ids["r"]]) + R[ids["r"]]
    du = (upstream / kge.transr(E[ids["h"]], R[ids["r"]], E[ids["t"]], P[ids["r"]]))[:, None] * u
    want = {"P": rgnn.scatter(e[:, :, None] * du[:, None, :], ids["r"], 2), "R": rgnn.scatter(du, ids["r"], 2)}
    assert len(slopes) == 16
    for slope in slopes:
        assert slope.value == pytest.approx(want[slope.tensor][slope.index], rel=1e-7)


@pytest.mark.parametrize("name", TEXTS)
def test_a_direction_checks_all_entries_at_once(name):
    tensors = draw(name)
    result, backward = oracle(name, tensors)
    upstream = np.random.default_rng(1).standard_normal(result.shape)
    gradients = backward(upstream)
    slopes = reference.directional_difference(
        TEXTS[name], {**structure(GRAPH), **tensors}, {}, upstream, list(tensors), seed=3
    )
    assert [slope.tensor for slope in slopes] == list(tensors)
    for slope in slopes:
        assert slope.value == pytest.approx(np.sum(slope.direction * gradients[slope.tensor]), rel=1e-6)


def test_differences_take_some_entries_of_each_tensor_and_change_nothing():
    inputs = {**structure(GRAPH), **draw("GCN")}
    before = {name: np.array(value) for name, value in inputs.items()}
    upstream = np.ones((GRAPH.num_nodes, G))
    drawn = [reference.finite_difference(GCN, inputs, {}, upstream, ["W", "b"], 3, seed=seed) for seed in (0, 0, 1)]
    assert [slope.tensor for slope in drawn[0]] == ["W"] * 3 + ["b"] * 3
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({(slope.tensor, slope.index) for slope in drawn[0]}) == 6
    for name, value in inputs.items():
        np.testing.assert_array_equal(value, before[name])
