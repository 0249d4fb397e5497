"""A run of a score says what chunks of its edges share, as counted from the ids that it drew, and what each setting of
the inspector asks memory for."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.runtime.data.triples import load_triples
from explorer.runtime.run import RunRequest, compile_request, execute
from explorer.runtime.runs import console
from explorer.runtime.runs.score import prepare

TEXT = """
dim D = 4

score Any(a: entity, b: relation, c: entity):
    param E[entity, D]
    param R[relation, D]
    return dot(E[a] * R[b], E[c])
"""


def ran(options: dict[str, str | int | bool]) -> dict[str, Any]:
    request = RunRequest(text=TEXT, on="dae", data="WN18", batch=70, options={"opt": 3, **options})
    return dict(list(execute(request))[-1])


def test_it_is_of_the_batch_and_of_the_options_sizes() -> None:
    result = ran({"inspect_edges": 8, "inspect_group": 4})
    request = RunRequest(text=TEXT, on="dae", data="WN18", batch=70)
    steps = prepare(request, compile_request(request))
    try:
        while True:
            next(steps)
    except StopIteration as done:
        ids = done.value.tensors
    triples = load_triples("WN18")
    assert set(ids["b"].tolist()) <= set(triples.r.tolist())
    chunks = [slice(at, at + 8) for at in range(0, 70, 8)]
    found = result["chunks"]
    assert (found["edges"], found["group"]) == (8, 4)
    assert found["relations"] == sum(len(set(ids["b"][part].tolist())) for part in chunks)
    assert found["entities"] == sum(len({*ids["a"][part].tolist(), *ids["c"][part].tolist()}) for part in chunks)
    assert found["relations_sorted"] < found["relations"]
    line = next(line for line in console.summary(result).splitlines() if line.startswith("  shared"))
    assert f"{found['relations']:,} relations, each once a chunk" in line
    assert "4 chunks are sorted together (counted)" in line


@pytest.mark.parametrize("negatives", ["tail:3", "head:2"])
def test_of_negatives_nothing_is_said(negatives: str) -> None:
    result = ran({"negatives": negatives})
    assert result["matches_reference"]
    assert "chunks" not in result
    assert "shared" not in console.summary(result)


FLOAT, IDS = 4, 3


def rows_of(triples: int, dim: int) -> int:
    """What TEXT asks for where nothing is shared: three ids and three rows of each triple, and its score."""
    return triples * FLOAT * (IDS + 3 * dim + 1)


def test_settings_of_the_inspector_stand_beside_a_run() -> None:
    """Nothing is multiplied by a matrix: only chunks share rows, and read ids to find out."""
    result = ran({})
    found = result["inspected"]
    assert (found["triples"], set(found["bytes"])) == (70, {"false", "true", "chunks"})
    assert found["bytes"]["false"] == found["bytes"]["true"] == rows_of(70, 4)
    rows = {"entities": result["chunks"]["entities_sorted"], "relations": result["chunks"]["relations_sorted"]}
    least = FLOAT * (70 * (IDS + 1) + 4 * sum(rows.values()))
    assert least <= found["bytes"]["chunks"] != rows_of(70, 4)
    line = next(line for line in console.summary(result).splitlines() if line.startswith("  traffic"))
    assert f"of 70 triples on a GPU, before any cache: inspect=false {rows_of(70, 4):,}, inspect=true" in line


def test_of_a_large_batch_the_first_triples_are_counted() -> None:
    request = RunRequest(text=TEXT, on="cpu", data="WN18", batch=5_000, repeat=1, options={"negatives": "tail:8"})
    result = dict(list(execute(request))[-1])
    found = result["inspected"]
    assert found["triples"] == 2_048 // 8
    each = 256 * FLOAT * (2 * (1 + 4) + 8 * (1 + 4 + 1))  # a head and a relation for all of a triple's tails
    assert found["bytes"]["false"] == each


def test_a_setting_has_the_kernels_of_the_text_whatever_a_run_has() -> None:
    """Not those of the schedule that the run takes, nor of its own setting; the sizes of chunks are the run's."""
    plain = ran({"inspect_edges": 4})["inspected"]
    request = RunRequest(
        text=TEXT,
        on="cpu",
        data="WN18",
        batch=70,
        repeat=1,
        options={"inspect": "chunks", "inspect_edges": 4},
        schedule={"Any.strategy": "warps"},
    )
    assert dict(list(execute(request))[-1])["inspected"] == plain
    assert ran({"inspect_edges": 64})["inspected"]["bytes"]["chunks"] != plain["bytes"]["chunks"]


def test_of_gradients_no_setting_is_counted() -> None:
    assert "inspected" not in ran({"grad": True, "opt": 0})
