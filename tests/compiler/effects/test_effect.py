"""What a pass changed, in figures: counted on the programs themselves, not read out of sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.compiler.pipeline import STAGES

Pair = tuple[int | None, int]
MADE = [spec.name for spec in STAGES if not spec.on_demand]


def compiled(root: Path, name: str, **options: Any) -> Compilation:
    return explorer.compile((root / "examples" / f"{name}.emb").read_text(), options=options)


def effects(compilation: Compilation) -> dict[str, dict[str, Pair]]:
    """By pass and figure the numbers before and after."""
    stages = compilation.to_json(MADE, snapshots=())["stages"]
    reports = [report for stage in stages for report in stage["passes"]]
    return {
        report["name"]: {entry["what"]: (entry["before"], entry["after"]) for entry in report["effect"]}
        for report in reports
    }


@pytest.mark.parametrize(
    ("name", "options"),
    [("kge/transr", {}), ("rgnn/rgat", {"grad": True}), ("rgnn/hgt", {}), ("embedding/sls", {"opt": 3})],
)
def test_passes_that_changed_something_have_an_effect_and_no_other(
    root: Path, name: str, options: dict[str, Any]
) -> None:
    for stage in compiled(root, name, **options).to_json(MADE, snapshots=())["stages"]:
        for report in stage["passes"]:
            assert bool(report["effect"]) == report["changed"], report["name"]
            assert all(entry["before"] != entry["after"] for entry in report["effect"])


def test_a_graph_is_counted_at_the_rows_it_is_compiled_for(root: Path) -> None:
    found = effects(compiled(root, "rgnn/rgat"))
    before, after = found["reorder"]["FLOP"]
    assert before is not None
    said = next(
        report.summary for report in compiled(root, "rgnn/rgat").stages["graph"].passes if report.name == "reorder"
    )
    assert f"{before / 1e9:.1f} GFLOP" in said  # the cost model of the pass itself counts the same
    assert f"{after / 1e9:.2f} GFLOP" in said


def test_sls_sends_a_token_a_vector_then_one_a_row(root: Path) -> None:
    """Ember Fig. 15: D = 128 elements, 16 lanes."""
    found = effects(compiled(root, "embedding/sls", opt=3))
    assert found["vectorize"]["tokens a row"] == (128, 128 // 16)
    assert found["bufferize"]["tokens a row"] == (8, 1)
    assert found["vectorize"]["loads a row"] == (128 + 3, 8 + 3)
    assert found["dead_values"] == {}


def test_hoisting_saves_what_the_inner_loop_loaded(root: Path) -> None:
    """TransR, K = D = 64: the three loads of an element of a row are once an element, not once an element of P."""
    before, after = effects(compiled(root, "kge/transr"))["hoist"]["loads a row"]
    assert before is not None
    assert before - after == 2 * (64 * 64 - 64)
