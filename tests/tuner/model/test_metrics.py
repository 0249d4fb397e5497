"""G-Sparse's features of launches that are made up, and of the recorded spaces."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.tuner import shipped
from explorer.tuner.features.launches import NAMES
from explorer.tuner.model.metrics import RAW, nine, six
from explorer.tuner.points import Gene, Points
from explorer.tuner.recorded import Recorded, Trial

MADE_UP = {
    **{"blocks": 264.0, "threads": 128.0, "warps": 1_056.0, "registers": 40.0, "shared_bytes": 1_024.0},
    **{"spill_stores": 3.0, "spill_loads": 5.0, "occupancy": 0.5, "load_bytes": 24.0, "global_loads": 3.0},
    **{"multiply_adds": 8.0, "inner_global_loads": 2.0, "inner_load_bytes": 8.0, "inner_copies": 1.0},
    **{"inner_copied_bytes": 16.0, "inner_multiply_adds": 6.0},
}


def made_up(launches: int, data: dict[str, float]) -> Recorded:
    """A space of one point with so many launches that are the same."""
    features = np.array([[MADE_UP.get(name, 0.0) for name in NAMES]], np.float32)
    points = Points((Gene("K.wide", (1,)),), np.zeros((1, 1), np.int16), 0)
    trial = Trial("correct", (1.0,) * 4, (0,) * launches)
    return Recorded("made up", {"sizes": {"D": 8, "K": 32}}, points, (trial,), NAMES, features, data)


def test_metrics_are_made_of_what_launches_take() -> None:
    lists = {"ptr.lists": 10.0, "ptr.mean": 4.0, "ptr.longest": 9.0, "ptr.spread": 1.0}
    found = nine(made_up(1, lists))[0].tolist()
    assert found[:6] == pytest.approx([24 / 48, 1_056 / (132 * 64), 3 * 0.5, 6 / 24, 8.0, 128.0])
    assert found[6:] == [10.0, 40.0, 32.0], "the lists, their entries, the widest row"
    assert six(made_up(1, lists))[0].tolist() == [264.0, 128.0, 40.0, 1_024.0, 3.0, 8.0]


def test_of_two_launches_blocks_are_added_and_their_sizes_are_not() -> None:
    found = dict(zip(RAW, six(made_up(2, {}))[0].tolist(), strict=True))
    assert (found["blocks"], found["multiply_adds"]) == (528.0, 16.0)
    assert (found["threads"], found["registers"]) == (128.0, 40.0)


def test_recorded_spaces_have_them() -> None:
    for name in ("kglookup/16384", "rgat/bgs-32"):
        space = shipped.load(name).without_repeats()
        for found in (nine(space), six(space)):
            assert np.isfinite(found).all()
            assert (found >= 0).all()
            assert (found[:, :6].std(0) > 0).any()
