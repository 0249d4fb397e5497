"""Reuse distances against a cache written out, and lists that have the distances asked for."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.runtime.data import locality
from explorer.runtime.data.bags import BAG_PRESETS, LOCALITIES, recommendation
from explorer.runtime.data.locality import FIRST, figure, reuse, reuse_distances, stack_mix, uniform


def least_recently_used_hits(ids: list[int], rows: int) -> int:
    """How often a cache of so many rows hits."""
    held: list[int] = []
    hits = 0
    for row in ids:
        if row in held:
            hits += 1
            held.remove(row)
        held.insert(0, row)
        del held[rows:]
    return hits


@given(st.lists(st.integers(0, 12), max_size=60))
def test_the_distribution_is_what_caches_of_every_size_hit(ids: list[int]) -> None:
    found = reuse(np.array(ids, dtype=np.int32))
    for x, share in zip(found["x"], found["share"], strict=True):
        if 0 < x < 40:
            assert round(share * max(1, len(ids))) == least_recently_used_hits(ids, x)
    assert found["accesses"] == len(ids)
    assert found["distinct"] == len(set(ids))


def test_distances_count_different_rows_between_two_accesses() -> None:
    assert reuse_distances(np.array([7, 7, 3, 9, 3, 3, 7])).tolist() == [FIRST, 0, FIRST, FIRST, 1, 0, 2]


@pytest.mark.parametrize("rows", [1, 3, 70, 700])
@pytest.mark.parametrize("spread", [1, 1_000_003])
def test_distances_of_many_accesses_to_few_rows(rows: int, spread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The places of marks are used up and moved together many times, in pieces that end anywhere."""
    monkeypatch.setattr(locality, "PIECE", 997)
    ids = np.random.default_rng(rows).zipf(1.3, 6_000) % rows * spread
    want, stack = [], list[int]()
    for row in ids.tolist():
        want.append(stack.index(row) if row in stack else FIRST)
        if row in stack:
            stack.remove(row)
        stack.insert(0, row)
    heard = list[int]()
    assert reuse_distances(ids, heard.append).tolist() == want
    assert heard == [*range(997, 6_000, 997), 6_000]


@given(st.integers(1, 400), st.sampled_from([0.0, 0.3, 0.63, 0.99]), st.integers(1, 40), st.integers(0, 9))
def test_a_mix_has_exactly_the_share_asked_for(count: int, share: float, near: int, seed: int) -> None:
    ids = stack_mix(np.random.default_rng(seed), count, 500, share, near)
    distances = reuse_distances(ids)
    within = int(((distances != FIRST) & (distances < near)).sum())
    assert within == min(round(share * count), count - 1)
    assert ids.min() >= 0
    assert ids.max() < 500


def test_rows_that_are_far_come_back_where_all_have_been_accessed() -> None:
    distances = reuse_distances(stack_mix(np.random.default_rng(0), 2_000, 50, 0.5, near=10))
    assert (distances[distances != FIRST] >= 10).sum() > 900


@pytest.mark.parametrize("preset", BAG_PRESETS)
def test_a_core_looks_up_what_table_3_says(preset: str) -> None:
    model, _, locality = preset.partition(":")
    lists = recommendation(model, locality)
    segments, lookups, elements = {"RM1": (64, 64, 32), "RM2": (32, 128, 64), "RM3": (16, 256, 128)}[model]
    assert lists.num_entries == 8_192
    assert lists.num_rows == 2 * segments
    assert set(np.diff(lists.ptr)) == {lookups}
    assert lists.row_shape == (elements,)
    assert lists.num_cols == 2 * 16_384
    first, second = lists.idx[:4_096], lists.idx[4_096:]
    assert first.max() < 16_384 <= second.min()
    assert recommendation(model, locality).idx.tolist() == lists.idx.tolist()
    share = LOCALITIES[locality]
    assert reuse(lists.idx)["within_1000"] == pytest.approx(0.052 if share is None else share, abs=0.002)


def test_uniform_lookups_reach_every_part_of_a_table() -> None:
    ids = uniform(np.random.default_rng(0), 100_000, 10)
    assert np.bincount(ids, minlength=10).min() > 9_000


def test_the_text_figure_has_a_line_for_each_power_of_two() -> None:
    text = figure(reuse(np.array([0, 1, 0, 1])))
    assert "50.0 %" in text
    assert text.count("\n") == 10  # the heading, and 1 to 512


def test_what_serves_and_compiles_comes_up_without_numba() -> None:
    """It takes half as long again with Numba, which counts reuse distances in a process of their own."""
    script = """
import sys
import explorer.web.server
from explorer.runtime.workers.worker import warm_compile
warm_compile()
assert "explorer.runtime.data.locality" in sys.modules
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], timeout=250, check=True)
