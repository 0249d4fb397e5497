"""Lists of indices from presets, graphs and files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.runtime.data.attention import BLOCK_SIZES, attended, big_bird
from explorer.runtime.data.index_arrays import sparse_from
from explorer.runtime.data.index_lists import SparseRows, check_size
from explorer.runtime.data.lists import available_lists, load_lists, preset_names
from explorer.runtime.data.locality import reuse
from explorer.runtime.data.matrices import MATRIX_PRESETS, _active, _ranks, matrix
from explorer.runtime.data.triples import InputError

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def save(name: str = "lists.npz", **arrays: Any) -> Path:
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    return save


def well_formed(lists: SparseRows) -> bool:
    return bool(
        lists.ptr[0] == 0
        and lists.ptr[-1] == lists.num_entries
        and (np.diff(lists.ptr) >= 0).all()
        and lists.idx.min() >= 0
        and lists.idx.max() < lists.num_cols
    )


@pytest.mark.parametrize("name", MATRIX_PRESETS)
def test_a_part_of_a_graph_has_its_mean_degree_and_comes_out_the_same(name: str) -> None:
    lists = matrix(name, 100)
    whole = MATRIX_PRESETS[name]
    assert well_formed(lists)
    assert lists.num_rows == lists.num_cols == whole.vertices // 100
    assert lists.num_entries == pytest.approx(whole.edges / 100, rel=0.01)
    assert (matrix(name, 100).idx == lists.idx).all()
    starts = lists.ptr[:-1][np.diff(lists.ptr) > 0]
    rising = np.diff(lists.idx) >= 0
    rising[starts[1:] - 1] = True
    assert rising.all(), "the columns of a row are in order"


@pytest.mark.parametrize(("name", "scale"), [("arxiv", 20), ("wiki-Talk", 100), ("wiki-Talk", 500)])
def test_a_sample_has_the_degrees_of_the_whole(name: str, scale: int) -> None:
    """By quantiles, by the share of empty rows and by that of the busiest: not those of a small graph of its own."""
    preset = MATRIX_PRESETS[name]
    ranks = _ranks(np.random.default_rng(5), preset.edges, _active(preset), preset.row_skew)
    whole, part = np.bincount(ranks, minlength=preset.vertices), np.diff(matrix(name, scale).ptr)
    at = (0.5, 0.9, 0.94, 0.99)
    np.testing.assert_allclose(np.quantile(part, at), np.quantile(whole, at), rtol=0.05, atol=1)
    assert (part == 0).mean() == pytest.approx((whole == 0).mean(), abs=0.002)
    busiest = [np.sort(degrees)[-len(degrees) // 100 :].sum() / degrees.sum() for degrees in (part, whole)]
    assert busiest[0] == pytest.approx(busiest[1], rel=0.03)


def test_a_sample_keeps_what_is_near_and_what_is_popular() -> None:
    """Columns of other samples: of rows with neighbours of their own, and of columns that few are as popular as."""
    whole, near = matrix("roadNet-CA", 20), matrix("roadNet-CA", 100)
    assert reuse(near.idx)["within_1000"] == pytest.approx(reuse(whole.idx)["within_1000"], abs=0.01)
    busiest = [np.sort(np.bincount(matrix("arxiv", k).idx))[-20:].sum() * k / 1_166_243 for k in (5, 20)]
    assert busiest[1] == pytest.approx(busiest[0], rel=0.1)


def test_a_sample_may_have_more_columns_than_rows() -> None:
    lists = matrix("products", 2000, 32_768)
    assert well_formed(lists)
    assert (lists.num_rows, lists.num_cols) == (2_449_029 // 2000, 32_768)
    assert lists.idx.max() > 30_000


def test_degrees_are_as_their_graphs_have_them() -> None:
    assert np.diff(matrix("roadNet-CA", 50).ptr).max() < 20
    talk = np.diff(matrix("wiki-Talk", 50).ptr)
    assert (talk == 0).mean() > 0.9
    assert talk.max() > 1_000 * talk.mean()
    assert talk.max() > 5_000, "the busiest rows of the whole stay as busy"


@pytest.mark.parametrize("size", BLOCK_SIZES)
def test_a_query_attends_to_eight_different_blocks(size: int) -> None:
    lists = big_bird(size)
    rows = lists.idx.reshape(-1, 8)
    assert len(rows) == 4_096 // size // 8
    assert all(len(set(row)) == 8 for row in rows.tolist())
    assert (rows[:, :2] == [0, 1]).all()
    assert (rows[1:, 2:5] == rows[:-1, 2:5] + 1).all()
    assert lists.row_shape == (size, 512)


def test_no_block_comes_twice_where_the_window_is_on_the_first_ones() -> None:
    rows = attended(12, range(12), np.random.default_rng(0))
    assert rows.shape == (12, 8)
    assert all(len(set(row)) == 8 for row in rows.tolist())
    for query, row in enumerate(rows.tolist()):
        assert {0, 1, (query - 1) % 12, query, (query + 1) % 12} <= set(row)


@pytest.mark.parametrize(
    "name", ["RM3:L0", "rm2:l1", "RM1", "BigBird", "bigbird:2", "com-youtube/1000", "tiny", "small"]
)
def test_presets_are_found_whatever_their_case(name: str) -> None:
    assert well_formed(load_lists(name))


def test_a_graph_is_the_matrix_of_its_in_edges() -> None:
    lists = load_lists("tiny")
    assert lists.num_rows == lists.num_cols == 12
    assert lists.num_entries == 30


def test_triples_are_a_matrix(shared_data: Path) -> None:
    lists = load_lists("wn18.npz", shared_data)
    assert lists.num_entries == 2 * 151_442
    assert well_formed(lists)


BAGS = {"ptr": [0, 2, 2, 3], "idx": [4, 0, 1]}
CSR = {"rowptr": [0, 1, 3], "col": [2, 0, 2]}
COO = {"row": [2, 0, 2, 1], "col": [0, 1, 2, 3]}


def test_files_hold_bags_matrices_and_blocks(save: Save) -> None:
    bags = load_lists(str(save(**BAGS, weight=[0.5, 1, 2], num_rows=9)))
    assert (bags.num_rows, bags.num_cols, bags.source) == (3, 9, "file")
    assert bags.value is not None
    assert bags.value.tolist() == [0.5, 1, 2]
    csr = load_lists(str(save(**CSR)))
    assert (csr.num_rows, csr.num_cols, csr.value) == (2, 3, None)
    blocks = load_lists(str(save(ptr=[0, 1], blocks=[6], num_blocks=7)))
    assert blocks.num_cols == 7


def test_coordinates_are_sorted_by_row_and_put_back(save: Save) -> None:
    coo = load_lists(str(save(**COO, value=[1.0, 2.0, 3.0, 4.0], num_rows=4)))
    assert coo.ptr.tolist() == [0, 1, 2, 4, 4]
    assert coo.idx.tolist() == [1, 3, 0, 2]
    assert coo.value is not None
    assert coo.value.tolist() == [2, 4, 1, 3]
    assert coo.restore(coo.idx).tolist() == COO["col"]
    assert coo.sort(np.array(COO["row"])).tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"ptr": [0, 2], "idx": [0]}, "ptr ends with 2, but idx has 1 entries"),
        ({"ptr": [1, 1], "idx": [0]}, "ptr must begin with 0"),
        ({"ptr": [0, 2, 1], "idx": [0]}, "ptr falls from 2 to 1 at position 2"),
        ({**BAGS, "num_rows": 4}, r"idx\[0\] is 4, but num_rows is 4"),
        ({**BAGS, "idx": [4, -1, 1]}, r"idx\[1\] is -1"),
        ({**BAGS, "weight": [1.0]}, r"weight has the shape \[1\], but there are 3 entries"),
        ({**BAGS, "num_rows": -1}, "num_rows is not a whole number"),
        ({"row": [0, 1], "col": [0]}, "row has 2 entries and col 1"),
        ({**COO, "num_rows": 2}, r"row\[0\] is 2, but num_rows is 2"),
    ],
)
def test_what_is_wrong_with_lists_is_said(save: Save, arrays: dict[str, Any], message: str) -> None:
    path = save(**arrays)
    with pytest.raises(InputError, match=f"{path.name}: {message}"):
        load_lists(str(path))


def test_files_of_other_types_and_shapes_are_refused(save: Save) -> None:
    with pytest.raises(InputError, match="'idx' holds float64, not integers"):
        load_lists(str(save(ptr=[0, 1], idx=[0.5])))
    with pytest.raises(InputError, match=r"'idx' has shape \[1, 1\]"):
        load_lists(str(save(ptr=[0, 1], idx=[[0]])))
    with pytest.raises(InputError, match="there is no array 'train'"):
        load_lists(str(save(a=[1])))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("RM4:L0", "did you mean 'RM"),
        ("com-Youtube/x", "divided by a whole number"),
        ("com-Youtube/10000000", "can be divided by 1 to"),
        ("nowhere.npz", "no such file"),
    ],
)
def test_unknown_sources_are_named(source: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_lists(source)


def test_a_page_may_open_only_what_is_offered(save: Save, tmp_path: Path) -> None:
    save("bags.npz", **BAGS)
    save("broken.npz", ptr=[0, 5], idx=[1])
    offered = {entry["name"]: entry["for"] for entry in available_lists(tmp_path)}
    assert offered["bags.npz"] == "bag"
    assert offered["RM3:L0"] == "bag"
    assert offered["BigBird:8"] == "query"
    assert offered["com-Youtube/500"] == "matrix"
    assert "broken.npz" not in offered
    assert well_formed(load_lists("bags.npz", tmp_path))
    with pytest.raises(InputError, match="there is no data set"):
        load_lists(str(tmp_path / "bags.npz"), tmp_path)


def test_every_offered_preset_loads() -> None:
    for entry in available_lists(None):
        assert load_lists(entry["name"]).num_entries > 0
    assert set(preset_names()) >= {"RM1:L0", "BigBird:8", "wiki-Talk"}


def test_lists_too_large_are_refused_before_they_are_made() -> None:
    with pytest.raises(InputError, match=r"big: .* more than the limit of 0.00 GiB; take less"):
        check_size("big", 10, 1_000_000, "take less", limit=1_000)
    with pytest.raises(InputError, match="there are no lists"):
        sparse_from({"idx": [1]}, "inputs", "given")
