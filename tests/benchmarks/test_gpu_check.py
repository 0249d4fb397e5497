"""What `benchmarks.gpu_check` checks, and how its parts are chosen. What it finds on a GPU, no test here can tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_check
from benchmarks.cases import checked
from explorer.compiler.interpret import run_program
from explorer.compiler.options import PRECISIONS

STORED = """dim D = 41
score Stored(h: entity, r: relation, t: entity):
    input E[entity, D]: {}
    param R[relation, D]
    return dot(E[h] * R[r], E[t])
"""
ROOTS = """dim D = 4
op Roots(b: bag of row):
    param T[row, D]
    for j in b:
        b["y"] += sqrt(T[j])
    return log(b["y"])
"""


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder of one op and one score."""
    (tmp_path / "roots.emb").write_text(ROOTS)
    (tmp_path / "two_sets.emb").write_text(checked.TWO_SETS)
    return tmp_path


def test_the_gpu_check_covers_odd_sizes_and_both_kinds_of_negatives() -> None:
    cases = list(checked.all_cases(checked.SIZES))
    assert {case.options.get("negatives") for case in cases} >= {"none", "tail:5", "head:9"}
    projections = [checked.sizes_of(case) for case in cases if "TransR" in case.text]
    assert all(sizes["D"] != sizes["K"] for sizes in projections)
    assert {sizes["D"] for sizes in projections} == {1, 33, 64, 128, 1000}


def test_the_gpu_check_covers_chunks_with_negatives_and_gradients() -> None:
    forward = [case.options for case in checked.all_cases((33,)) if case.options.get("inspect") == "chunks"]
    assert {options["negatives"] for options in forward} == set(checked.NEGATIVES)
    backward = [case.options for case in checked.gradient_cases((8,)) if case.options.get("inspect") == "chunks"]
    assert {options["negatives"] for options in backward} == {"none", "tail:5"}
    assert gpu_check.option("inspect=chunks") == ("inspect", "chunks")
    with pytest.raises(ValueError, match="chunks"):
        gpu_check.option("chunks")


def test_the_gpu_check_covers_layers_under_all_settings() -> None:
    cases = list(checked.layer_cases(checked.LAYER_SIZES))
    for path in (checked.CHECKOUT / "examples" / "rgnn").glob("*.emb"):
        for size in checked.LAYER_SIZES:
            settings = [case.options for case in cases if (case.text, case.size) == (path.read_text(), size)]
            assert len({(s["reorder"], s["compact"]) for s in settings if "reorder" in s}) == 4
            assert {"aggregate": "false"} in settings
    assert {case.options.get("precision", "float32") for case in cases} == set(PRECISIONS)


def test_the_quick_gpu_check_has_products_by_four_warps() -> None:
    cases = [case for case in checked.quick_cases() if case.options.get("precision") and "score TransR" in case.text]
    compiled = [gpu_check.compiled(checked.for_architecture("sm_90a", case)) for case in cases]
    assert len(compiled) == 2
    assert all("by 4 warps" in compilation.stages["kernels"].text for compilation in compiled)


def test_the_models_of_a_folder_are_cases_with_gradients_and_negatives(models: Path) -> None:
    cases = [case for check, case in gpu_check.suite(True, models) if check is gpu_check.check_model]
    assert [(case.options["negatives"], case.options["grad"]) for case in cases] == [
        *(("none", grad) for grad in ("false", "true")),
        *((kind, grad) for kind in ("none", "tail:5") for grad in ("false", "true")),
    ]
    assert gpu_check.compiled(cases[0]).sizes == {"D": 4}


def test_the_parts_of_a_suite_are_the_whole(models: Path, fake_cuda: Any, capsys: pytest.CaptureFixture[str]) -> None:
    whole = sum(1 for _ in gpu_check.suite(True, models))
    assert gpu_check.main(["--quick", "--models", str(models), "--shard", f"{whole}/{whole}"]) == 0
    outcome, summary = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (outcome["model"], outcome["negatives"], outcome["grad"]) == ("TwoSets", "tail:5", "true")
    assert (summary["cases"], summary["failed"], summary["shard"]) == (1, 0, f"{whole}/{whole}")
    # In a pool, what lies behind an array is the pool's: memcheck would not see that it is read.
    assert fake_cuda.log[0] == "no pool"


@pytest.mark.parametrize("part", ["0/4", "5/4", "4", "a/b"])
def test_a_part_that_is_none_is_refused(part: str) -> None:
    with pytest.raises(SystemExit):
        gpu_check.main(["--shard", part])


def test_a_wrong_result_and_what_raises_are_failures(
    models: Path, fake_cuda: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = sum(1 for _ in gpu_check.suite(True, models))
    arguments = ["--quick", "--models", str(models), "--shard", f"{whole}/{whole}"]
    fake_cuda.spoils = True
    assert gpu_check.main(arguments) == 1
    monkeypatch.setattr(gpu_check, "launch", lambda *_: 1 / 0)
    assert gpu_check.main(arguments) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["agrees"] is lines[2]["agrees"] is False
    assert lines[2]["raised"].startswith("ZeroDivisionError")


def test_a_model_of_roots_is_given_what_has_roots() -> None:
    """And no empty list, of whose sum there is no logarithm."""
    seen = []

    def launch(compilation: Any, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        seen.append(inputs)
        return run_program(compilation.stages["kernels"].program, inputs)

    setting = gpu_check.Setting(launch, 1, gpu_check.load_graph("tiny"), 7)
    outcome = gpu_check.check_model(setting, checked.Case(ROOTS, 0, 75, {"grad": "false"}))
    assert outcome["agrees"]
    assert outcome["positive"]
    assert (seen[0]["T"] < 0).any()
    assert (seen[-1]["T"] >= 0).all()


@pytest.mark.parametrize("storage", ["f16", "bf16", "i8"])
@pytest.mark.parametrize("grad", ["false", "true"])
def test_a_model_is_held_against_the_numbers_that_are_stored(storage: str, grad: str) -> None:
    """Which are others than those that were drawn, by far more than float32 rounds."""

    def launch(compilation: Any, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return run_program(compilation.stages["kernels"].program, inputs)

    setting = gpu_check.Setting(launch, 1, gpu_check.load_graph("tiny"), 7)
    outcome = gpu_check.check_model(setting, checked.Case(STORED.format(storage), 0, 75, {"grad": grad}))
    assert outcome["agrees"], outcome


def test_the_planted_read_is_of_a_table_without_its_last_element(fake_cuda: Any) -> None:
    assert gpu_check.main(["--planted"]) == 0
    rows, columns = gpu_check.ENTITIES, 33
    assert f"allocate {4 * rows * columns - 4} bytes" in fake_cuda.log
    assert any("twosets" in entry.lower() for entry in fake_cuda.log)
