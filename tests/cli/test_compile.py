"""`explorer compile` and `explorer space`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.calling import LAYERS, STAGES, TRANSE, called, explorer


def test_compile_prints_the_stage_asked_for(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = called(capsys, "compile", model, "--stage", "cuda", "--set", "D=33")
    assert (status, err) == (0, "")
    assert "__global__" in out


def test_compile_all_prints_every_stage(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = called(capsys, "compile", model, "--all")
    assert status == 0
    titles = [line.strip("= ") for line in out.splitlines() if line.startswith("==== ")]
    assert titles == STAGES


def test_compile_json_gives_every_computing_line_an_origin(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = called(capsys, "compile", model, "--json", "--negatives", "tail:8")
    answer = json.loads(out)
    assert status == 0
    assert answer["ok"]
    assert answer["options"]["negatives"] == "tail:8"
    assert [stage["name"] for stage in answer["stages"]] == STAGES
    for stage in answer["stages"]:
        origins = [stage["origins"][line["origin"]] for line in stage["lines"]]
        assert any(origin["spans"] and origin["operations"] for origin in origins), stage["name"]


def test_compile_json_tells_what_each_kernel_takes_of_a_gpu(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = called(capsys, "compile", model, "--json", "--stage", "loops", "--stage", "ptx", "--stage", "sass")
    assert status == 0
    loops, ptx, sass = json.loads(out)["stages"]
    assert loops["resources"] == []
    assert sass["resources"] == ptx["resources"]
    (kernel,) = ptx["resources"]
    assert 16 <= kernel["registers"] <= 64
    assert (kernel["arch"], kernel["block_threads"], kernel["most_warps"]) == ("sm_90", 128, 64)
    assert (kernel["shared_bytes"], kernel["stack_bytes"], kernel["spill_store_bytes"]) == (0, 0, 0)
    assert kernel["occupancy_warps"] == 4 * kernel["occupancy_blocks"]
    assert kernel["text"].split(";")[0] in sass["text"]


def test_space_lists_what_may_be_chosen_and_compile_takes_a_choice(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = called(capsys, "space", model, "--json")
    assert status == 0
    found = json.loads(out)
    (nest,) = found["nests"]
    assert found["points"] == nest["points"] > 100
    warps = next(each for each in nest["decisions"] if each["name"] == "warps")
    assert warps["value"] in warps["values"]
    assert warps["why"]
    assert warps["source"]
    chosen, usual = tmp_path / "chosen", tmp_path / "usual.json"
    chosen.write_text("TransE: strategy = warps, warps = 2\n", encoding="utf-8")
    usual.write_text(json.dumps(found), encoding="utf-8")
    plain, two, same = (
        called(capsys, "compile", model, "--stage", "kernels", *more)[1]
        for more in ((), ("--schedule", chosen), ("--schedule", usual))
    )
    assert "warps = 2" in two
    assert "threads 64" in two
    assert same == plain != two
    chosen.write_text("warps = 2\n", encoding="utf-8")
    status, _, error = called(capsys, "compile", model, "--schedule", chosen)
    assert status == 2
    assert "KERNEL: DECISION = VALUE" in error


def test_compile_reads_standard_input() -> None:
    shown = explorer("compile", "-", "--stage", "loops", input=TRANSE)
    assert shown.returncode == 0
    assert shown.stdout.strip()


def test_compile_grad_shows_the_backward_pass(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = called(capsys, "compile", LAYERS / "gcn.emb", "--grad", "--stage", "graph")
    assert status == 0
    assert "gradient W = " in out


def test_help_and_compile_import_nothing_heavy(model: Path) -> None:
    script = (
        "import sys; from explorer.cli import main; main(['compile', sys.argv[1], '--stage', 'loops']);"
        "print({'numba', 'fastapi', 'uvicorn', 'torch'} & set(sys.modules))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script, str(model)],
        capture_output=True,
        text=True,
        timeout=250,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert shown.stdout.splitlines()[-1] == "set()"


def test_a_score_is_compiled_for_a_batch(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = called(capsys, "compile", model, "--stage", "kernels", "--negatives", "tail:8", "--batch", "3")
    many = called(capsys, "compile", model, "--stage", "kernels", "--negatives", "tail:8", "--batch", "100000")
    any_number = called(capsys, "compile", model, "--stage", "kernels", "--negatives", "tail:8")
    assert few[0] == many[0] == any_number[0] == 0
    assert "run = 1" in few[1]
    assert many[1] == any_number[1]


def test_only_a_score_has_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = called(capsys, "compile", LAYERS / "gcn.emb", "--batch", "3")
    assert status != 0
    assert "only a score has a batch" in err
