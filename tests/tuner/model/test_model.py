"""The model on spaces that are made up: launches drawn at random, times a known function of them. None was measured."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from explorer.tuner.features.launches import NAMES
from explorer.tuner.model.inputs import WIDTH, inputs_of, recorded_inputs
from explorer.tuner.model.network import Network, logarithms
from explorer.tuner.model.quality import first_choice, pearson, recall
from explorer.tuner.points import Gene, Points
from explorer.tuner.recorded import Recorded, Trial
from tests.tuner.model.counting import calls

AT = {name: place for place, name in enumerate(NAMES)}
DATA = {"ptr.lists": 10.0, "ptr.mean": 4.0, "ptr.longest": 9.0, "ptr.spread": 1.0, "rows": 10.0}


def made_up(seed: int, points: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and times of a made-up space: work over occupancy, a price for spills, and noise of a hundredth."""
    random = np.random.default_rng(seed)
    launches = np.zeros((points, 1, len(NAMES)), np.float32)
    launches[:, 0, AT["warps"]] = work = random.choice([1e3, 4e3, 1.6e4], points) * random.uniform(0.5, 2)
    launches[:, 0, AT["inner_cycles"]] = cycles = random.integers(20, 400, points)
    launches[:, 0, AT["occupancy"]] = busy = random.choice([0.25, 0.5, 0.75, 1.0], points)
    launches[:, 0, AT["spill_loads"]] = spills = random.choice([0, 0, 0, 64, 256], points)
    times = 1e-6 * work * cycles / np.sqrt(busy) * (1 + spills / 128) * np.exp(random.normal(0, 0.01, points))
    return inputs_of(list(launches), DATA), times


def test_inputs_are_of_one_width_whatever_launches_there_are() -> None:
    one, two = np.ones((1, len(NAMES)), np.float32), np.ones((2, len(NAMES)), np.float32)
    one[:, 0] = two[:, 0] = 0
    found = inputs_of([one, two], DATA)
    assert found.shape == (2, WIDTH)
    assert found[:, 2 * len(NAMES)].tolist() == [1, 2]
    assert found[0, 2 * len(NAMES) + 1 :][:4].tolist() == [10, 4, 9, 1]
    assert (found[:, -5:] == 0).all(), "no array is picked from"


def test_recorded_spaces_have_inputs_where_features_are_the_same() -> None:
    points = Points((Gene("K.wide", (1, 2)),), np.array([[0], [1]], np.int16), 0)
    trials = (Trial("correct", (1.0, 1.0, 1.0, 1.0), (0,)), Trial("runtime"))
    features = np.arange(len(NAMES), dtype=np.float32)[None, :]
    found = recorded_inputs(Recorded("made up", {}, points, trials, NAMES, features, DATA))
    assert found[0, 1] == 1
    assert (found[1, : 2 * len(NAMES)] == 0).all(), "a point without launches"
    with pytest.raises(ValueError, match="record it again"):
        recorded_inputs(Recorded("made up", {}, points, trials, ("blocks",), features[:, :1], DATA))


def drawn_network(hidden: int = 16) -> Network:
    random = np.random.default_rng(0)
    sizes = (WIDTH, hidden, hidden, 1)
    layers = [
        (random.normal(0, 0.1, pair).astype(np.float32), random.normal(0, 0.1, pair[1]).astype(np.float32))
        for pair in pairwise(sizes)
    ]
    scale = random.uniform(0.5, 2, WIDTH).astype(np.float32)
    return Network("logarithm", np.ones(WIDTH, np.float32), scale, tuple(layers))


def test_a_network_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    network, (inputs, _) = drawn_network(), made_up(0)
    network.save(tmp_path / "weights.npz")
    assert (tmp_path / "weights.npz").stat().st_size < 100_000
    again = Network.load(tmp_path / "weights.npz")
    assert again.target == network.target
    assert (again.predict(inputs) == network.predict(inputs)).all()


def test_a_point_is_predicted_by_a_product_a_layer_and_all_points_together() -> None:
    """In 2 us a point, of the 50 that it may take. What is counted is the same on every host, however busy it is."""
    network, (inputs, _) = drawn_network(128), made_up(0, 4_000)
    assert sum(weights.size for weights, _ in network.layers) < 50_000, "multiply-adds a point"
    assert calls(network.predict, inputs) == calls(network.predict, inputs[:1]), "none a point"


@pytest.mark.parametrize("kind", ["ours", "G-Sparse"])
def test_what_is_learnt_of_some_spaces_holds_for_another(kind: str) -> None:
    torch = pytest.importorskip("torch", reason="training is PyTorch's, which this machine does without")
    from explorer.tuner.model.training import G_SPARSE, OURS, train

    network = train([made_up(seed) for seed in range(6)], {"ours": OURS, "G-Sparse": G_SPARSE}[kind])
    inputs, times = made_up(99)
    predicted = network.predict(inputs)
    assert pearson(predicted, times) > (0.95 if kind == "ours" else 0.7)
    assert recall(predicted, times, 40) > 0.5
    assert first_choice(predicted, times) < 1.3
    with torch.no_grad():  # NumPy gives what PyTorch does
        plain = torch.from_numpy((logarithms(inputs) - network.shift) * network.scale)
        for number, (weights, biases) in enumerate(network.layers):
            plain = plain @ torch.from_numpy(weights) + torch.from_numpy(biases)
            plain = plain.relu() if number < len(network.layers) - 1 else plain
    last = np.log(predicted) if kind == "ours" else 1.0 / predicted
    assert last == pytest.approx(np.maximum(plain[:, 0].numpy(), -np.inf if kind == "ours" else 1e-3), abs=1e-4)


def test_training_is_the_same_twice() -> None:
    pytest.importorskip("torch", reason="training is PyTorch's, which this machine does without")
    from explorer.tuner.model.training import Training, train

    (inputs, times), few = made_up(1), Training(epochs=2)
    times = np.where(np.arange(len(times)) == 3, np.inf, times)
    one, other = train([(inputs, times)], few), train([(inputs, times)], few)
    assert (one.predict(inputs) == other.predict(inputs)).all()
    assert np.isfinite(one.predict(inputs)).all()


TIMES = np.array([4.0, 1.0, 2.0, np.inf, 8.0])


def test_a_prediction_that_follows_the_times_has_an_r_of_1() -> None:
    assert pearson(TIMES**2, TIMES) == pytest.approx(1.0)
    assert pearson(1 / TIMES, TIMES) == pytest.approx(-1.0)
    assert pearson(np.ones(5), TIMES) == 0.0


def test_the_best_are_recalled_or_not() -> None:
    predicted = np.array([1.0, 2.0, 9.0, 0.5, 3.0])
    assert recall(predicted, TIMES, 2) == 0.5
    assert recall(TIMES, TIMES, 3) == 1.0
    assert first_choice(predicted, TIMES) == 4.0
    assert recall(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 1.0]), 1) == 1.0, "any of those that are as fast"
