"""What kriging expects, grown point by point, is what solving for all known points at once gives."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.tuner import kriging
from explorer.tuner.kriging import MISSING, NOISE, USUAL, WEIGHT, Kriging
from explorer.tuner.points import Gene, Points

POINTS = Points.of(
    (Gene("K.strategy", ("rows", "warps")), Gene("K.wide", (1, 2, 4, 8)), Gene("K.deep", (0, 1, 2))),
    [{"K.strategy": "rows", "K.wide": wide, "K.deep": deep} for wide in (1, 2, 4, 8) for deep in (0, 1, 2)]
    + [{"K.strategy": "warps", "K.wide": wide} for wide in (1, 2, 4, 8)],
    {"K.strategy": "rows", "K.wide": 1, "K.deep": 0},
)
KNOWN = [0, 5, 14, 9]


def alike(reach: float) -> np.ndarray:
    """By the definition: words are 1 apart; a gene that one has not is MISSING away, and half a gene at most."""
    found = np.zeros((len(POINTS), len(POINTS)))
    for one, own in enumerate(map(POINTS.at, range(len(POINTS)))):
        for two, other in enumerate(map(POINTS.at, range(len(POINTS)))):
            apart = float(own["K.strategy"] != other["K.strategy"])
            apart += ((POINTS.coordinates[one, 1] - POINTS.coordinates[two, 1]) ** 2).item()
            deep = [each.get("K.deep") for each in (own, other)]
            at = [0.5 if value is None else value / 2 for value in deep]
            apart += (at[0] - at[1]) ** 2 + MISSING * ((deep[0] is None) != (deep[1] is None))
            found[one, two] = np.exp(-apart / (2 * reach**2 * 3))
    return found


@pytest.mark.parametrize("reach", [0.3, 0.6, 1.2])
@pytest.mark.parametrize("belief", [0.0, 0.5, 1.0])
def test_it_expects_what_the_whole_system_gives(reach: float, belief: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kriging, "REACHES", (reach,))
    monkeypatch.setattr(kriging, "BELIEFS", (belief,))
    random = np.random.default_rng(0)
    base, logs = random.normal(0, 1, len(POINTS)), random.normal(0, 1, len(KNOWN))
    known = Kriging(POINTS, base)
    for point, log in zip(KNOWN, logs, strict=True):
        known.add(point, float(log))
    mean, deviation = known.expected()
    every = alike(reach)
    own = every[np.ix_(KNOWN, KNOWN)] + NOISE**2 * np.eye(len(KNOWN))
    errors, ones = logs - belief * base[KNOWN], np.ones(len(KNOWN))
    offset = ones @ np.linalg.solve(own, errors) / (ones @ np.linalg.solve(own, ones))
    solved = np.linalg.solve(own, every[KNOWN])
    np.testing.assert_allclose(mean, belief * base + offset + (errors - offset) @ solved, atol=1e-6)
    squares = (errors - offset) @ np.linalg.solve(own, errors - offset)
    variance = (squares + WEIGHT * USUAL**2) / (len(KNOWN) + WEIGHT)
    left = 1.0 - (every[KNOWN] * solved).sum(0)
    np.testing.assert_allclose(deviation, np.sqrt(variance * left), rtol=1e-4)


def test_a_prediction_that_is_right_is_believed_and_one_that_is_wrong_is_not() -> None:
    random = np.random.default_rng(1)
    logs = random.normal(0, 1, len(POINTS))
    for base, error in ((logs + 3.0, 0.05), (-logs, 2.0)):
        known = Kriging(POINTS, base)
        for point in range(0, len(POINTS), 2):
            known.add(point, float(logs[point]))
        left = np.arange(1, len(POINTS), 2)
        assert np.abs(known.expected()[0][left] - logs[left]).mean() < error
