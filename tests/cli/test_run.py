"""`explorer run` on the processor and on the machine."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.cli import main
from tests.cli.calling import LAYERS, OPS, SCORES, TRANSE, called, explorer, runs_here


@pytest.mark.parametrize("target", ["cpu", "dae"])
def test_run_prints_one_checked_result(target: str, model: Path) -> None:
    shown = explorer("run", model, "--on", target, "--batch", "100", "--repeat", "3", "--json")
    result = json.loads(shown.stdout)
    assert shown.returncode == 0, shown.stderr
    assert result["matches_reference"] is True
    assert 0 < result["error_over_bound"] < 1
    assert result["rows_checked"] == 100
    assert result["limits"]["compulsory_bytes"] > 0
    if target == "cpu":
        assert result["source"] == "measured"
        assert result["cache"] == "warm"
        assert result["first_ms"] > 0
        assert result["repeat"] == 3
        assert len(result["samples_ms"]) == 3
        assert result["least_ms"] <= result["median_ms"] <= result["p95_ms"]
    else:
        assert result["source"] == "simulated"
        assert "repeat" not in result
        assert result["cycles"] > 0
    assert "compiling the model" in shown.stderr


def test_a_run_on_a_gpu_prints_its_times_and_kernels(
    model: Path, fake_cuda: Any, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root / "tests" / "fake_cuda"), str(root)]))
    assert main(["run", str(model), "--on", "gpu", "--batch", "4", "--repeat", "2", "--no-peers"]) == 0
    out = capsys.readouterr().out
    assert "Pretended GPU" in out
    assert "2 repeats with cold caches" in out
    assert "of what is possible" in out
    assert " threads, " in out


def beside_a_run(capsys: pytest.CaptureFixture[str], model: Path, *peers: str) -> list[str]:
    """What the command line prints of peers."""
    asked = [word for peer in peers for word in ("--peer", peer)]
    run = ("run", model, "--on", "cpu", "--batch", "4", "--repeat", "2", "--timeout", "500")
    _, out, _ = called(capsys, *run, *asked)
    return [line for line in out.splitlines() if line.startswith("  beside")]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_pytorch_is_timed_beside_a_run_on_the_processor(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (eager,) = beside_a_run(capsys, model, "eager")
    assert "eager PyTorch: median" in eager


@pytest.mark.sweep
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_both_forms_of_pytorch_are_timed_beside_a_run(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    eager, compiled = beside_a_run(capsys, model, "eager", "compile")
    assert "eager PyTorch: median" in eager
    if shutil.which("g++"):
        assert " s to compile, not counted" in compiled
    else:
        assert "torch.compile: no time, it needs a C++ compiler" in compiled


def test_pytorch_does_not_take_turns_with_a_simulation(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = called(capsys, "run", model, "--on", "dae", "--peer", "eager")
    assert status == 2
    assert "--peer goes with --on gpu or cpu" in err


@runs_here
@pytest.mark.parametrize("score", ["sum(exp(100 + E[h]))", "norm(E[h] * 1e25)", "norm(E[h] * 1e-25)"])
def test_a_model_beyond_float32_is_not_called_a_fault_of_the_explorer(
    score: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.write_text(TRANSE.replace("norm(E[h] + R[r] - E[t], 1)", score), encoding="utf-8")
    status, out, _ = called(capsys, "run", model, "--on", "cpu", "--batch", "50", "--repeat", "2", "--json")
    result = json.loads(out)
    assert status == 1
    assert result["matches_reference"] is False
    assert result["samples_ms"] is None
    assert result["message"].startswith("float32 cannot hold this model's intermediate values")


@runs_here
def test_run_of_a_file_with_negatives_reads_as_a_summary(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "triples.tsv"
    data.write_text("anna\tknows\tben\nben\tknows\tcleo\n", encoding="utf-8")
    arguments = ("--data", data, "--negatives", "tail:4", "--repeat", "2")
    status, out, err = called(capsys, "run", model, "--on", "cpu", *arguments)
    assert status == 0, err
    assert "matches the float64 reference" in out
    assert "negatives tail:4" in out
    assert "of 2 repeats with warm caches; the first run" in out


@runs_here
@pytest.mark.parametrize("arguments", [["cpu", "--grad"], ["cpu", "--option", "compact=false"], ["dae"]])
def test_a_layer_runs_on_a_file_with_inverse_triples(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "triples.tsv"
    data.write_text("anna\tknows\tben\nben\tknows\tcleo\nanna\tlikes\tcleo\n", encoding="utf-8")
    sizes = ("--set", "F=4", "--set", "G=3")
    status, out, err = called(
        capsys, "run", LAYERS / "rgcn.emb", "--data", data, *sizes, "--repeat", "2", "--on", *arguments
    )
    assert status == 0, err
    assert "matches the float64 reference: 3 rows" in out
    assert "with inverse triples): 3 nodes of 1 type, 6 edges of 4 types" in out
    assert "compaction ratio" in out
    assert ("d W" in out) == ("--grad" in arguments)


@runs_here
@pytest.mark.parametrize("negatives", ["tail:2", "tail:2/3"])
@pytest.mark.parametrize("on", ["cpu", "dae"])
def test_the_gradients_of_a_score_run_and_are_checked(
    on: str, negatives: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--data", "WN18", "--batch", "8", "--grad", "--negatives", negatives, "--set", "D=4", "--json")
    status, out, _ = called(capsys, "run", SCORES / "transe_l2.emb", "--on", on, *arguments)
    assert status == 0
    shown = json.loads(out)
    assert shown["matches_reference"]
    assert shown["negatives"] == negatives
    assert set(shown["gradients"]) == {"E", "R"}
    assert all(check["error_over_bound"] < 1 for check in shown["gradients"].values())
    assert [step["name"] for step in shown["inverses"]["preprocessing"]][:1] == ["batch rows sorted by h"]


@runs_here
def test_an_op_on_the_machine_says_how_much_faster_it_is_than_without_optimisation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("--on", "dae", "--data", "RM3:L0", "--option", "opt=3", "--json")
    status, out, err = called(capsys, "run", OPS / "sls.emb", *arguments)
    assert status == 0, err
    found = json.loads(out)
    assert found["matches_reference"]
    assert found["error_over_bound"] < 1
    assert (found["target"], found["source"]) == ("dae", "simulated")
    assert found["sizes"] == {"D": 128}
    # Ember's artifact has 21.17; the costs are calibrated on it.
    assert found["speedup_over"]["opt0"] == pytest.approx(21.17, rel=0.05)
    assert 0 < found["speedup_over"]["core_alone"]["vectorised"] < found["speedup_over"]["core_alone"]["scalar"]
    assert found["basis"]["core_alone"].startswith("assumed baseline, not comparable with the paper's Figure 7")
    assert found["basis"]["opt0"].startswith("predicted, expected error")
    assert found["reuse"]["within_1000"] == pytest.approx(0.052, abs=0.001)


@runs_here
def test_an_op_in_words(capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = called(capfd, "run", OPS / "sls.emb", "--on", "cpu", "--repeat", "1", "--grad", "--set", "D=16")
    assert status == 0
    assert "RM1:L0 (preset, generated): 8,192 entries in 128 lists" in out
    assert "D = 16, given" in out
    assert "d T" in out
    assert "of what rounding may make" in out


@runs_here
def test_an_own_file_of_lists_runs(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.savez(tmp_path / "matrix.npz", row=[2, 0, 1], col=[0, 1, 1], value=[0.5, 1.0, 2.0])
    status, out, _ = called(
        capfd, "run", OPS / "spmm_coo.emb", "--on", "dae", "--data", tmp_path / "matrix.npz", "--json"
    )
    assert status == 0
    found = json.loads(out)
    assert found["data"]["entries"] == 3
    assert found["data"]["weights"]
    assert any("sort" in step["name"] for step in found["preprocessing"])
