"""What the commands that list and explain print."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from explorer.checkout import CHECKOUT
from explorer.cli import main
from explorer.compiler.language.names.builtins import BUILTINS
from explorer.compiler.language.names.prelude import prelude
from explorer.compiler.options import Options
from tests.cli.calling import STAGES, called, explorer


def help_of(capsys: pytest.CaptureFixture[str], command: str) -> str:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    return capsys.readouterr().out


def test_help_shows_the_commands_and_examples() -> None:
    shown = explorer("--help")
    assert shown.returncode == 0
    for word in ("stages", "compile", "run", "bench", "serve", "explorer run examples/kge/transr.emb --on dae"):
        assert word in shown.stdout


def test_a_folder_of_the_same_name_does_not_hide_the_package(tmp_path: Path) -> None:
    (tmp_path / "explorer").mkdir()  # as that which holds a checkout
    command = [sys.executable, "-c", "import explorer; print(explorer.compile)"]
    assert "function compile" in subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout


def test_the_help_tells_every_option_with_its_usual_value_first(capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of(capsys, "compile")
    for name, usual in Options().to_json().items():
        assert re.search(rf"\b{name}(, \w+)*={str(usual).lower()}\b", shown), name


def test_the_help_of_bench_names_its_suites(capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of(capsys, "bench")
    suites = "calibrate, class, compile, dae, exported, first, gpu, gpu_beside, gpu_check, gpu_exhausted, gpu_inspect"
    others = "gpu_models, kge, memory, page, papers, pykeen, record, rgnn, traced, training, tuned, tuner, workers"
    assert f"one of {suites}, {others}" in " ".join(shown.split())


def test_stages_lists_the_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = called(capsys, "stages")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == STAGES


def test_functions_lists_what_a_text_can_call(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = called(capsys, "functions")
    assert status == 0
    lines = out.splitlines()
    assert [line.partition("(")[0] for line in lines] == sorted({*BUILTINS, *prelude()})
    assert "log(x)                   the natural logarithm (where x > 0)" in lines
    assert "silu(x)                  x * sigmoid(x)." in lines
    assert [entry["call"] for entry in json.loads(called(capsys, "functions", "--json")[1])] == [
        line.partition(")")[0] + ")" for line in lines
    ]


def test_a_terminal_shows_how_many_accesses_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, plain, err = called(capsys, "reuse", "--data", "RM1:L1")
    assert err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    _, out, err = called(capsys, "reuse", "--data", "RM1:L1")
    assert out == plain
    shown = err.split("\r\x1b[K")
    assert any("100% counting accesses" in line for line in shown)
    assert shown[-1] == "", "the line is cleared"


def test_reuse_distances_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = called(capsys, "reuse", "--data", "RM1:L1")
    assert status == 0
    assert "63.0 % of accesses have fewer than 1,000 other rows" in out
    status, out, _ = called(capsys, "reuse", "--data", "rm1:l2", "--json")
    found = json.loads(out)
    assert found["name"] == "RM1:L2"
    assert found["within_1000"] == pytest.approx(0.99, abs=0.001)
    assert len(found["x"]) == len(found["share"])
    status, out, _ = called(capsys, "reuse", str(CHECKOUT / "examples/embedding/kg_lookup.emb"), "--data", "RM1:L1")
    assert "KGLookup: 4 operations for each element that is looked up, and 3 rows for each entry (counted)" in out
    status, out, _ = called(capsys, "reuse", str(CHECKOUT / "examples/embedding/sls.emb"), "--data", "RM1:L1", "--json")
    assert json.loads(out)["compute"] == {"name": "SLS", "operations": 1.0, "lookups": 1}
    status, _, err = called(capsys, "reuse", "--data", "RM1:L7")
    assert status == 2
    assert "did you mean" in err
