"""What is told of data is what a cache that keeps what was used last serves of it, and how long lists are."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

from explorer.tuner.features import data
from explorer.tuner.features.data import CAPACITIES, data_features, served_shares


def served(ids: list[int], capacity: int) -> float:
    """What a cache of so many rows serves, which keeps what was used last, gone through pick by pick."""
    cache, hits = OrderedDict[int, None](), 0
    for row in ids:
        hits += row in cache
        cache[row] = None
        cache.move_to_end(row)
        if len(cache) > capacity:
            cache.popitem(last=False)
    return hits / len(ids)


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.2])
def test_caches_serve_about_what_is_told(exponent: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "CAPACITIES", (16, 128, 1_024, 8_192))
    random = np.random.default_rng(0)
    shares = np.arange(1, 4_001) ** -exponent
    ids = random.choice(4_000, 200_000, p=shares / shares.sum())
    told = served_shares(np.unique(ids, return_counts=True)[1])
    for capacity, share in zip((16, 128, 1_024, 8_192), told, strict=True):
        assert share == pytest.approx(served(ids.tolist(), capacity), abs=0.02), capacity


def test_lists_and_picks_are_told_apart() -> None:
    found = data_features(
        {
            "ptr": np.array([0, 2, 2, 8], np.int32),
            "idx": np.array([0, 0, 0, 0, 5, 5, 7, 9], np.int32),
            "weight": np.ones(8, np.float32),
            "rows": 12,
        }
    )
    assert (found["ptr.lists"], found["ptr.longest"], found["rows"]) == (3, 6, 12)
    assert found["ptr.mean"] == pytest.approx(8 / 3)
    assert (found["idx.picks"], found["idx.rows"], found["idx.busiest"]) == (8, 4, 0.5)
    assert found[f"idx.served by {CAPACITIES[-1]}"] == 0.5, "each row is missed once"
    assert not any(name.startswith("weight") for name in found)


def test_lists_that_are_all_empty_are_told() -> None:
    found = data_features({"rowptr": np.zeros(5, np.int32)})
    assert found == {"rowptr.lists": 4, "rowptr.mean": 0, "rowptr.longest": 0, "rowptr.spread": 0}


def test_nothing_is_told_of_what_are_no_rows_and_no_ends() -> None:
    assert data_features({"idx": np.array([0, -1, 3], np.int32), "rowptr": np.array([4, 0, 2], np.uint32)}) == {}


def test_rows_of_any_number_take_no_memory() -> None:
    found = data_features({"idx": np.array([2**40, 2**40, 5], np.uint64)})
    assert (found["idx.picks"], found["idx.rows"], found["idx.busiest"]) == (3, 2, 2 / 3)
