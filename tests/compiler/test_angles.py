"""atan2 on every target: angles in all quadrants, on the axes and at the origin, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from tests.compiler.models import compiled
from tests.emulator.conftest import launch

TEXT = """dim D = 6
score Angles(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return sum(atan2(E[h], E[t]) * R[r]) + atan2(sum(R[r]), 2) * atan2(1, 2)
"""
AXES = np.array([[1, 0, -1, 0, 0, 2], [0, 1, 0, 1, 0, -3]], np.float32)
"""Two rows: each of their elements is a point on an axis or the origin, and the last one in the second quadrant."""
STAGES = ("graph", "loops", "slc", "slc.opt1", "slc.opt2", "slc.opt3", "dlc", "kernels", "cpu", "dae", "gpu")


def drawn() -> dict[str, Any]:
    """Ids lead to each pair of rows."""
    random = np.random.default_rng(0)
    ids = np.arange(16, dtype=np.int32)
    tables = {"E": np.concatenate([AXES, random.standard_normal((2, 6))]), "R": random.standard_normal((2, 6))}
    return {
        **{name: table.astype(np.float32) for name, table in tables.items()},
        **{"h": ids % 4, "t": ids // 4, "r": ids % 2},
    }


def in_float64(inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Results, and their sum's gradients, whose slopes are 0 at the origin as PyTorch's are."""
    E, R = (inputs[name].astype(np.float64) for name in "ER")
    h, r, t = (inputs[name] for name in "hrt")
    angle, scale = np.arctan2(E[h], E[t]), np.arctan2(1, 2)
    total = R[r].sum(-1, keepdims=True)
    square = E[h] ** 2 + E[t] ** 2
    over = np.divide(1, square, where=square > 0, out=np.zeros_like(square))
    slopes = {"E": np.zeros_like(E), "R": np.zeros_like(R)}
    np.add.at(slopes["E"], h, R[r] * E[t] * over)
    np.add.at(slopes["E"], t, -R[r] * E[h] * over)
    np.add.at(slopes["R"], r, angle + scale * 2 / (4 + total**2))
    return ((angle * R[r]).sum(-1) + np.arctan2(total[:, 0], 2) * scale), slopes


@pytest.mark.parametrize("stage", STAGES)
def test_angles_and_their_slopes(stage: str) -> None:
    compilation = compiled(TEXT, options={"grad": True})
    targets: Any = compilation.targets
    targets["gpu"] = lambda _, inputs: launch(compilation, inputs)
    inputs = drawn()
    want, slopes = in_float64(inputs)
    got, gradients = compilation.run(inputs, stage, grad=np.ones_like(want, dtype=np.float32))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    for name, slope in slopes.items():
        np.testing.assert_allclose(gradients[name], slope, rtol=1e-5, atol=2e-5, err_msg=name)


def test_angles_of_numbers_are_computed_now() -> None:
    graph = explorer.compile(TEXT).stages["graph"].text
    assert graph.count("atan2") == 2
    assert "0.4636476" in graph
