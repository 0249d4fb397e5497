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


def test_a_kernel_has_its_rows_and_its_work_a_row(root: Path) -> None:
    """Each kernel's figures add up to those of the whole, and a pass that moves loads out of a loop shows where."""
    compilation = compiled(root, "rgnn/rgat", grad=True)
    stages = compilation.to_json(["loops", "slc"], snapshots=())["stages"]
    reports = [report for stage in stages for report in stage["passes"]]
    seen = 0
    for report in reports:
        whole = {entry["what"]: entry["after"] - entry["before"] for entry in report["effect"] if entry["before"]}
        for what in {"computations a row"} & whole.keys() if report["by_kernel"] else ():
            figures = [figure for row in report["by_kernel"] for figure in row["figures"] if figure["what"] == what]
            assert sum((f["after"] or 0) - (f["before"] or 0) for f in figures) == whole[what], report["name"]
            seen += 1
        for row in report["by_kernel"]:
            assert any(figure["before"] != figure["after"] for figure in row["figures"])
    assert seen
    (hoist,) = (report["by_kernel"] for report in reports if report["name"] == "hoist")
    figures = {figure["what"]: (figure["before"], figure["after"]) for figure in hoist[0]["figures"]}
    assert figures["rows"][0] == figures["rows"][1] > 0
    assert figures["bytes a row"][0] > figures["bytes a row"][1] > 0


def test_a_score_is_one_kernel_whose_rows_nobody_knows(root: Path) -> None:
    stages = compiled(root, "kge/transr").to_json(["loops"], snapshots=())["stages"]
    (hoist,) = (report["by_kernel"] for stage in stages for report in stage["passes"] if report["name"] == "hoist")
    (row,) = hoist
    assert row["kernel"] == "TransR"
    moved = {figure["what"]: (figure["before"], figure["after"]) for figure in row["figures"]}
    assert "rows" not in moved
    assert moved["bytes a row"][0] - moved["bytes a row"][1] == 4 * 2 * (64 * 64 - 64)
