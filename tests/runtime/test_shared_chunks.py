"""A run of a score says what chunks of its edges share, as counted from the ids that it drew."""

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
