"""What operations are predicted to take: all of them together what the whole graph does, to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.compiler.effects.figures import figures, predicted, rows_by_set
from explorer.compiler.heat.heat import heat_json
from explorer.compiler.heat.predicted import predicted_costs, stored_by_kernels, target_of
from explorer.compiler.ir.graph import Graph
from explorer.compiler.story.story import story_json

BAGS = {"bags": 64, "entries": 4096, "rows": 100_000}
CASES: list[tuple[str, dict[str, Any], dict[str, int] | None]] = [
    ("kge/transr", {}, None),
    ("kge/transr", {"negatives": "tail:4"}, None),
    ("rgnn/rgat", {"grad": True}, None),
    ("rgnn/hgt", {"arch": "sm_80"}, {"nodes": 1_000, "edges": 9_000, "etypes": 7, "ntypes": 3}),
    ("embedding/sls", {"opt": 3}, BAGS),
    ("embedding/spmm", {}, {"rows": 70, "cols": 90, "nonzeros": 800}),
]


def compiled(root: Path, name: str, counts: dict[str, int] | None = None, **options: Any) -> Compilation:
    text = (root / "examples" / f"{name}.emb").read_text()
    return explorer.compile(text, options=options, counts=counts, on_demand=True)


@pytest.mark.parametrize(("name", "options", "counts"), CASES)
def test_operations_add_up_to_the_whole(
    root: Path, name: str, options: dict[str, Any], counts: dict[str, int] | None
) -> None:
    compilation = compiled(root, name, counts, **options)
    graph, negatives = compilation.stages["graph"].program, compilation.options.negatives
    assert isinstance(graph, Graph)
    rows = rows_by_set(graph, compilation.rows, negatives.count if negatives else 0)
    costs = predicted_costs(compilation)
    assert rows is not None
    assert costs is not None
    target = target_of(compilation)
    whole = predicted(graph, graph.values, stored_by_kernels(graph, compilation), rows, target)
    parts = [*costs.operations.values(), costs.rest]
    assert sum(each.flop for each in parts) == whole.flop == figures(graph, graph.values, rows).flop > 0
    assert sum(each.bytes for each in parts) == whole.bytes > 0
    memory, arithmetic = whole.bytes / (target.memory_gbs * 1e9), whole.flop / (target.float32_gflops * 1e9)
    assert max(memory, arithmetic) == whole.seconds <= costs.seconds <= memory + arithmetic


@pytest.mark.parametrize(("name", "options", "counts"), CASES)
def test_shares_are_of_one_whole_and_the_story_says_the_same(
    root: Path, name: str, options: dict[str, Any], counts: dict[str, int] | None
) -> None:
    compilation = compiled(root, name, counts, **options)
    heat = heat_json(compilation)
    found = heat["predicted"]
    shares = [each["share"] for each in found["operations"].values()]
    assert sum(shares) + found["rest"]["share"] == pytest.approx(1)
    assert found["operations"].keys() == {str(operation.id) for operation in compilation.operations}
    for operation in compilation.operations:
        told = story_json(compilation, operation.id, [])
        assert told is not None
        figure = found["operations"][str(operation.id)]
        assert {**told["predicted"], "share": figure["share"]} == {**figure, "device": heat["device"]}
        assert told["counted"] == heat["counted"]


def test_the_largest_share_is_where_the_bytes_are(root: Path) -> None:
    compilation = compiled(root, "kge/transr")
    found = heat_json(compilation)["predicted"]["operations"]
    labels = {str(operation.id): operation.label for operation in compilation.operations}
    hottest = max(found, key=lambda number: found[number]["share"])
    assert labels[hottest] == "P[r]"  # a matrix a triple: 16 kB of the 17 that it reads
    assert found[hottest]["share"] > 0.9


def test_rows_of_lists_are_those_of_their_data(root: Path) -> None:
    compilation = compiled(root, "embedding/sls", BAGS)
    found = heat_json(compilation)["predicted"]["operations"]
    width = compilation.sizes["D"]
    assert sum(figure["bytes"] for figure in found.values()) == 4 * width * (4096 + 64)  # each row read, and each sum
    assert sum(figure["flop"] for figure in found.values()) == width * 4096


def test_nobody_predicts_what_has_no_known_rows(root: Path) -> None:
    assert heat_json(compiled(root, "embedding/sls"))["predicted"] is None
