"""PIGEON's floats a launch: the table's formula on our tiles, beside what kernels ask for, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.paper import launches
from explorer.runtime.data.graphs import RelationalGraph
from explorer.runtime.encode.graph import encode

ROWS, TYPES = 64, 3


def use(monkeypatch: pytest.MonkeyPatch, of_each: int) -> None:
    """Counts on a graph of so many edges of each type."""
    random = np.random.default_rng(0)
    src, dst = random.integers(0, 50, (2, of_each * TYPES)).astype(np.int32)
    etype = np.repeat(np.arange(TYPES, dtype=np.int32), of_each)
    encodings = encode(RelationalGraph("made", "made", 50, TYPES, 1, src, dst, etype, np.zeros(50, np.int32)))
    monkeypatch.setattr(launches, "GRAPHS", ("made",))
    monkeypatch.setattr(launches, "encoded", lambda data: encodings)


def test_full_tiles_read_what_the_table_says_and_the_indices_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, 2 * ROWS)
    *linear, inner = launches.table().rows
    for row, columns in zip(linear, launches.COLUMNS, strict=True):
        assert row.label == f"linear layer, {ROWS} rows by {columns} columns"
        once = launches.WIDTH * launches.WIDTH * (1 / ROWS + 1 / columns)  # each row and each column, of each tile
        assert row.ours["by the table"] == pytest.approx(once)
        blocks = launches.WIDTH // columns
        more = row.ours["counted, made"] - once
        assert 0 < more <= 12 * blocks, "an edge's place and source, for each lane that loads of it"
    assert inner.ours == {"by the table": 2 * launches.WIDTH, "counted, made": pytest.approx(2 * launches.WIDTH, abs=2)}


def test_an_edge_that_is_the_only_one_of_its_type_reads_its_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, 1)
    *linear, _ = launches.table().rows
    assert all(row.ours["counted, made"] >= launches.WIDTH * (launches.WIDTH + 1) for row in linear)
