"""Matrices whose rows try the pieces of nonzeros: long ones that many pieces share, and long runs of empty ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import explorer
from benchmarks.cases.checked import Case
from benchmarks.gpu_check import Setting, check_rows
from explorer.compiler.codegen.text import Code
from explorer.runtime.data.graphs import GraphPreset, generate
from tests.emulator.emulate import emulate

pytestmark = pytest.mark.usefixtures("compiler")

EXAMPLES = Path(explorer.__file__).parents[1] / "examples"
TEXT = (EXAMPLES / "embedding" / "spmm.emb").read_text()
COLUMNS = 9
CHUNK = 32
LONG = 3 * 8 * CHUNK + 7
"""Nonzeros of more pieces than three blocks have, of rows that are as wide as a warp."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [32, 100, 128])
@pytest.mark.parametrize("lengths", [(5, *[0] * 700, LONG, *[0] * 40, *[3] * 20), (LONG, 2, LONG), (0,) * 300 + (1,)])
@pytest.mark.parametrize("popular", [False, True])
def test_pieces_of_rows(lengths: Sequence[int], size: int, popular: bool) -> None:
    assert_sums(lengths, size, {"chunk": CHUNK, "popular": popular})


@pytest.mark.parametrize("popular", [False, True])
@pytest.mark.parametrize(
    "lengths",
    [(5, *[0] * 70, 3 * 4 * 128 + 7, *[0] * 4, *[3] * 9), (31, 64, 65, 0, 128, 96, 1, 191), (0,) * 300 + (1,)],
)
def test_pieces_of_long_rows(lengths: Sequence[int], popular: bool) -> None:
    """A warp has a tile of a row's elements at a time, which it writes while no lane reads it."""
    counts = {"rows": 1_000, "nonzeros": 1_000_000}
    code = assert_sums(lengths, 100, {"chunk": 128, "popular": popular}, counts)
    assert any("value_tile[4][64]" in line.text for line in code.lines)


def assert_sums(
    lengths: Sequence[int],
    size: int,
    options: dict[str, str | int | bool],
    counts: dict[str, int] | None = None,
    schedule: dict[str, int] | None = None,
) -> Code:
    """SpMM on rows of these lengths, compiled for a matrix of such `counts`, has the sums that NumPy has."""
    made = explorer.compile(
        TEXT, sizes={"D": size}, options=options, counts=counts, schedule=schedule or {}, on_demand=True
    )
    code = made.stages["cuda"].program
    assert isinstance(code, Code)
    random = np.random.default_rng(0)
    ends = np.cumsum([0, *lengths]).astype(np.int32)
    nonzeros = int(ends[-1])
    col = random.integers(0, COLUMNS, nonzeros).astype(np.int32)
    value, rows = (random.random(shape, dtype=np.float32) for shape in (nonzeros, (COLUMNS, size)))
    extents: dict[str | int, int] = {
        "rows": len(lengths),
        "row_ends": len(ends),
        "cols": COLUMNS,
        "nonzeros": nonzeros,
        "D": size,
    }
    out = emulate(code, {"row_ptr": ends, "col": col, "value": value, "X": rows}, extents)["out"]
    wide = value[:, None].astype(np.float64) * rows[col]
    want = np.array([wide[begin:end].sum(0) for begin, end in pairwise(ends)])
    assert np.abs(out - want).max() < 1e-5 * want.max()
    return code


@pytest.mark.parametrize("near", [64, 256, 1024])
def test_rows_further_than_a_piece_goes(near: int) -> None:
    """Of 700 empty rows those behind so many are listed, and cleared by groups of their own."""
    code = assert_sums((5, *[0] * 700, LONG, *[0] * 40), 32, {"chunk": CHUNK}, schedule={"SpMM_0.near": near})
    assert any(f"{near} <= " in line.text for line in code.lines)


def test_the_share_of_the_cache_for_popular_rows_can_be_chosen() -> None:
    def kept(share: int) -> int:
        made = explorer.compile(TEXT, options={"popular": True}, schedule={"SpMM_0.share": share})
        (line,) = (line for line in made.stages["kernels"].text.splitlines() if "schedule keep rows of X" in line)
        return int(line.rpartition(" ")[2].replace(",", ""))

    assert kept(50) == 2 * kept(25)


def test_rows_in_the_order_of_their_length() -> None:
    lengths = (5, *[0] * 700, LONG, *[0] * 40, *[3] * 20)
    assert_sums(lengths, 32, {"split": "rows", "balance": True})


@pytest.mark.parametrize(
    ("size", "options"),
    [
        (16, {"preload": 32}),
        (100, {"preload": 64}),
        (128, {"preload": 32, "block_columns": 32}),
        (128, {"preload": 32, "lane_vectors": 2, "balance": True, "block_rows": 1}),
    ],
)
@pytest.mark.parametrize("lengths", [(0, 1, 0), (31, 32, 33, 0, 64, 65, 1), (5, *[0] * 40, LONG, *[3] * 20)])
def test_rows_whose_elements_are_preloaded(
    lengths: Sequence[int], size: int, options: dict[str, str | int | bool]
) -> None:
    """A warp's tile is written while no lane reads it: rounds that are whole, that are not, and none at all."""
    assert_sums(lengths, size, {"split": "rows", **options})


@pytest.mark.parametrize("staged", ["indices", "values"])
@pytest.mark.parametrize("lengths", [(31, 32, 33, 0, 64, 65, 1), (5, *[0] * 40, LONG, *[3] * 20)])
def test_rows_whose_indices_or_values_alone_are_preloaded(lengths: Sequence[int], staged: str) -> None:
    assert_sums(lengths, 100, {"split": "rows", "preload": 32}, schedule={"SpMM_0.staged": staged})


GRAPHS = {
    "hubs": GraphPreset(num_nodes=3, num_edges=1200, num_ntypes=2, num_etypes=2, reach=1.0),
    "few at an end": GraphPreset(num_nodes=300, num_edges=500, num_ntypes=2, num_etypes=2, reach=0.3),
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("split", ["auto", "nonzeros"])
def test_states_of_a_softmax_that_many_pieces_have(emulated: Setting, graph: str, split: str) -> None:
    """By rows that are cut, a warp each, and by pieces of many rows: some of them empty."""
    text = (EXAMPLES / "rgnn" / "rgat.emb").read_text()
    options = {"aggregate": "false", "chunk": str(CHUNK), "split": split}
    kernels = explorer.compile(text, options=options).stages["kernels"].text
    assert (f"cut edges at every {CHUNK}" in kernels) == (split == "auto")
    outcome = check_rows(replace(emulated, graph=generate(graph, GRAPHS[graph])), Case(text, 128, 0, options))
    assert outcome["agrees"], outcome


@pytest.mark.parametrize("options", [{"block_columns": 16}, {"lane_vectors": 1, "lanes": 8, "preload": 32}])
def test_columns_of_a_softmax_that_blocks_share_out(emulated: Setting, options: dict[str, int]) -> None:
    text = (EXAMPLES / "rgnn" / "rgat.emb").read_text()
    wanted: dict[str, str | int | bool] = {"aggregate": "false", "split": "rows", **options}
    assert "bind tile to column" in explorer.compile(text, options=wanted).stages["kernels"].text
    case = Case(text, 128, 0, {name: str(value) for name, value in wanted.items()})
    outcome = check_rows(replace(emulated, graph=generate("hubs", GRAPHS["hubs"])), case)
    assert outcome["agrees"], outcome
