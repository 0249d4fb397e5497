"""What chunks share, against sets counted one edge after another."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.runtime.limits.chunks import distinct_by_chunk, group_order, shared_by_chunks


def slowly(ids: dict[str, list[int]], chunk: int, group: int) -> dict[str, int]:
    """The definition, edge by edge."""
    edges = list(zip(ids["head"], ids["relation"], ids["tail"], strict=True))
    groups = [edges[at : at + chunk * group] for at in range(0, len(edges), chunk * group)]
    orders = {"": edges, "_sorted": [edge for part in groups for edge in sorted(part, key=lambda e: e[1])]}
    found = {}
    for name, order in orders.items():
        chunks = [order[at : at + chunk] for at in range(0, len(order), chunk)]
        found[f"entities{name}"] = sum(len({end for h, _, t in part for end in (h, t)}) for part in chunks)
        found[f"relations{name}"] = sum(len({r for _, r, _ in part}) for part in chunks)
    return found


@pytest.mark.parametrize("edges", [1, 15, 16, 17, 100, 515])
@pytest.mark.parametrize(("chunk", "group"), [(1, 1), (4, 1), (16, 2), (7, 3), (16, 128)])
def test_chunks_share_what_sets_say(edges: int, chunk: int, group: int) -> None:
    random = np.random.default_rng([edges, chunk, group])
    ids = {
        "head": random.integers(0, 40, edges, dtype=np.int32),
        "relation": random.integers(0, 9, edges, dtype=np.int32),
        "tail": random.integers(0, 40, edges, dtype=np.int32),
    }
    found = shared_by_chunks(ids, chunk, group)
    assert found == slowly({name: array.tolist() for name, array in ids.items()}, chunk, group)


def test_ids_as_large_as_they_come() -> None:
    last = np.full(5, 2**31 - 1, np.int32)
    assert distinct_by_chunk({"a": last, "b": np.arange(5, dtype=np.int32)}, 2).tolist() == [3, 3, 2]


def test_sorting_is_of_groups_and_keeps_the_order_of_what_is_alike() -> None:
    key = np.array([3, 1, 3, 1, 0, 0, 2])
    assert group_order(key, 4).tolist() == [1, 3, 0, 2, 4, 5, 6]
    assert group_order(key, 1).tolist() == list(range(7))


def test_more_chunks_a_group_never_load_more_relations_of_a_whole_batch() -> None:
    """By p in powers of two, whose groups hold one another."""
    random = np.random.default_rng(0)
    ids = dict(zip(("head", "tail"), random.integers(0, 999, (2, 4096)), strict=True))
    ids["relation"] = (random.random(4096) ** 3 * 237).astype(np.int64)
    counts = [shared_by_chunks(ids, 16, 2**k)["relations_sorted"] for k in range(9)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] <= 256 + len(np.unique(ids["relation"]))


@pytest.mark.parametrize(("chunk", "group"), [(0, 1), (16, 0), (-1, 4)])
def test_sizes_that_cannot_be_are_refused(chunk: int, group: int) -> None:
    ids = dict.fromkeys(("head", "relation", "tail"), np.zeros(4, np.int32))
    with pytest.raises(ValueError, match="at least"):
        shared_by_chunks(ids, chunk, group)
