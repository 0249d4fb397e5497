"""The command line as a user meets it: a real process, its output, its exit status."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.cli import main
from explorer.compiler.language.names.builtins import BUILTINS
from explorer.compiler.language.names.prelude import prelude
from explorer.compiler.options import Options

TRANSE = """dim D = 64
score TransE(h: entity, r: relation, t: entity):
    param E[entity, D]
    param R[relation, D]
    return norm(E[h] + R[r] - E[t], 1)
"""

LAYERS = Path(__file__).resolve().parents[1] / "examples" / "rgnn"
SCORES = LAYERS.parent / "kge"
OPS = LAYERS.parent / "embedding"
STAGES = ["graph", "loops", "slc", "slc.opt1", "slc.opt2", "slc.opt3", "dlc", "kernels", "cuda", "ptx", "sass"]

BAD_MODELS = {
    "syntax error in the middle of a line": (TRANSE.replace("E[h] +", "E[h) +"), 5),
    "unknown name": (TRANSE.replace("E[h]", "Emb[h]"), 5),
    "shape mismatch": ("dim K = 32\n" + TRANSE.replace("R[relation, D]", "R[relation, K]"), 6),
    "index of the wrong set": (TRANSE.replace("E[h]", "E[r]"), 5),
    "nesting of 10,000 parentheses": (
        TRANSE.replace("E[h]", "(" * 10_000 + "E[h]" + ")" * 10_000),
        5,
    ),
    "script tag in the name": (TRANSE.replace("TransE(", "<script>alert(1)</script>("), 2),
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "transe.emb"
    path.write_text(TRANSE, encoding="utf-8")
    return path


def explorer(*arguments: str | Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "explorer.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, **settings)


def called(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """The command line in this process: status, stdout, stderr."""
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return status, captured.out, captured.err


def test_help_shows_the_commands_and_examples() -> None:
    shown = explorer("--help")
    assert shown.returncode == 0
    for word in ("stages", "compile", "run", "bench", "serve", "explorer run examples/kge/transr.emb --on dae"):
        assert word in shown.stdout


def test_a_folder_of_the_same_name_does_not_hide_the_package(tmp_path: Path) -> None:
    (tmp_path / "explorer").mkdir()  # as that which holds a checkout
    command = [sys.executable, "-c", "import explorer; print(explorer.compile)"]
    assert "function compile" in subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout


def test_the_help_tells_every_option_with_its_usual_value_first() -> None:
    shown = explorer("compile", "--help").stdout
    for name, usual in Options().to_json().items():
        assert re.search(rf"\b{name}(, \w+)*={str(usual).lower()}\b", shown), name


def test_the_help_of_bench_names_its_suites() -> None:
    shown = explorer("bench", "--help").stdout
    assert "one of calibrate, compile, dae, gpu, gpu_check, kge, memory, rgnn" in " ".join(shown.split())


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
        assert any(line["origin"] and line["operations"] for line in stage["lines"]), stage["name"]


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


@pytest.mark.parametrize("what", BAD_MODELS)
def test_a_bad_model_gets_its_line_and_a_caret(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, line = BAD_MODELS[what]
    path = tmp_path / "bad.emb"
    path.write_text(text, encoding="utf-8")
    status, out, err = called(capsys, "compile", path)
    assert (status, out) == (2, "")
    assert f"{path}:{line}:" in err
    assert "^" in err
    assert len(err) < 5_000
    status, out, _ = called(capsys, "compile", path, "--json")
    answer = json.loads(out)
    assert status == 2
    assert answer["ok"] is False
    assert answer["diagnostics"][0]["line"] == line


def test_a_run_of_a_bad_model_stops_at_the_diagnostics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.emb"
    path.write_text(BAD_MODELS["unknown name"][0], encoding="utf-8")
    status, out, err = called(capsys, "run", path, "--on", "cpu")
    assert (status, out) == (2, "")
    assert f"{path}:5:" in err


def test_bytes_that_are_not_utf8_get_their_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "latin.emb"
    path.write_bytes(b"# caf\xc3\xa9\ndim D = \xe9\n")
    status, _, err = called(capsys, "compile", path)
    assert status == 2
    assert f"{path}:2:9: byte 0xe9 is not UTF-8 text\n  dim D = \ufffd\n          ^" in err


def test_a_file_of_10_mb_is_refused_with_the_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "big.emb"
    path.write_bytes(b"#" * 10_000_000)
    status, _, err = called(capsys, "compile", path)
    assert status == 2
    assert "64 KiB" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compile", "nowhere.emb"], "nowhere.emb: cannot be read: No such file"),
        (["compile", "."], "cannot be read: Is a directory"),
        (["compile", "MODEL", "--stage", "slx"], "unknown stage 'slx' (did you mean 'slc'?)"),
        (["compile", "MODEL", "--set", "D:64"], "--set takes a dimension and a whole number"),
        (["compile", "MODEL", "--set", "D=-3"], "--set takes a dimension and a whole number"),
        (["compile", "MODEL", "--set", "Q=3"], "'Q'"),
        (["compile", "MODEL", "--option", "fast"], "--option takes NAME=VALUE"),
        (["compile", "MODEL", "--option", "fast=1"], "there is no option 'fast'"),
        (["compile", "MODEL", "--negatives", "tail:0"], "negatives take 1 to"),
        (["compile", "MODEL", "--name", "Nobody"], "Nobody"),
        (["compile", "MODEL", "--all", "--stage", "slc"], "not allowed with"),
        (["compile"], "the following arguments are required"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["run", "MODEL"], "required: --on"),
        (["run", "MODEL", "--on", "tpu"], "invalid choice: 'tpu'"),
        (["run", "MODEL", "--on", "gpu"], "GPU"),
        (["run", "MODEL", "--on", "cpu", "--batch", "0"], "--batch takes a whole number from 1"),
        (["run", "MODEL", "--on", "cpu", "--batch", "many"], "invalid int value: 'many'"),
        (["run", "MODEL", "--on", "cpu", "--timeout", "-1"], "--timeout takes"),
        (["compile", "MODEL", "--set", "D=1000000000"], "not 1,000,000,000"),
        (["run", "MODEL", "--on", "dae", "--machine", "queue"], "--machine takes NAME=NUMBER"),
        (["run", "MODEL", "--on", "dae", "--machine", "queue_size=4"], "no parameter 'queue_size' (did you mean"),
        (["run", "MODEL", "--on", "dae", "--machine", "colour=3"], "the machine has no parameter 'colour'"),
        (["run", "MODEL", "--on", "dae", "--machine", "queue_bytes=999999999"], "999,999,999, but must lie between"),
        (
            ["run", "MODEL", "--on", "cpu", "--data", "FB15k-238"],
            "FB15k-238: no such file or data set (did you mean 'FB15k-237'?)",
        ),
        (["run", "MODEL", "--on", "cpu", "--data", "none.tsv"], "none.tsv: no such file or data set"),
        (["compile", "MODEL", "--set", "D=99999999999999999999"], "D=99999999999999999999 is too large"),
        (["bench", "nothing"], "unknown suite 'nothing'"),
        (["serve", "--port", "70000"], "--port takes a number from 0 to 65535"),
        (["serve", "--data-dir", "nowhere"], "no such folder"),
    ],
)
def test_bad_arguments_are_named(
    arguments: list[str], message: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(model) if word == "MODEL" else word for word in arguments]
    status, out, err = called(capsys, *words)
    assert (status, out) == (2, "")
    assert message in err
    if words[0] in ("compile", "run"):
        status, out, _ = called(capsys, *words, "--json")
        assert status == 2
        answer = json.loads(out)
        assert answer["ok"] is False
        assert message in json.dumps(answer["diagnostics"], ensure_ascii=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "D=65000", "--memory", "2GiB"], "more than the limit of 2.00 GiB"),
        (["--on", "dae", "--machine", "queue_bytes=4"], "the data queue holds 4"),
    ],
)
def test_a_run_that_cannot_be_done_is_refused(
    arguments: list[str], message: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = called(capsys, "run", model, "--on", "cpu", *arguments, "--json")
    answer = json.loads(out)
    assert status == 2
    assert answer["ok"] is False
    assert answer["kind"] == "refused"
    assert message.lower() in answer["diagnostics"][0]["message"].lower()


def test_bad_data_names_the_line(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "ragged.tsv"
    data.write_text("a\tb\tc\na\tb\n", encoding="utf-8")
    status, _, err = called(capsys, "run", model, "--on", "cpu", "--data", data)
    assert status == 2
    assert "line 2" in err


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


def test_run_of_a_file_with_negatives_reads_as_a_summary(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "triples.tsv"
    data.write_text("anna\tknows\tben\nben\tknows\tcleo\n", encoding="utf-8")
    shown = explorer("run", model, "--on", "cpu", "--data", data, "--negatives", "tail:4", "--repeat", "2")
    assert shown.returncode == 0, shown.stderr
    assert "matches the float64 reference" in shown.stdout
    assert "negatives tail:4" in shown.stdout
    assert "of 2 repeats with warm caches; the first run" in shown.stdout


@pytest.mark.parametrize("arguments", [["cpu", "--grad"], ["cpu", "--option", "compact=false"], ["dae"]])
def test_a_layer_runs_on_a_file_with_inverse_triples(arguments: list[str], tmp_path: Path) -> None:
    data = tmp_path / "triples.tsv"
    data.write_text("anna\tknows\tben\nben\tknows\tcleo\nanna\tlikes\tcleo\n", encoding="utf-8")
    path = LAYERS / "rgcn.emb"
    shown = explorer("run", path, "--data", data, "--set", "F=4", "--set", "G=3", "--repeat", "2", "--on", *arguments)
    assert shown.returncode == 0, shown.stderr
    assert "matches the float64 reference: 3 rows" in shown.stdout
    assert "with inverse triples): 3 nodes of 1 type, 6 edges of 4 types" in shown.stdout
    assert "compaction ratio" in shown.stdout
    assert ("d W" in shown.stdout) == ("--grad" in arguments)


def test_compile_grad_shows_the_backward_pass(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = called(capsys, "compile", LAYERS / "gcn.emb", "--grad", "--stage", "graph")
    assert status == 0
    assert "gradient W = " in out


@pytest.mark.parametrize("on", ["cpu", "dae"])
def test_the_gradients_of_a_score_run_and_are_checked(on: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--data", "WN18", "--batch", "8", "--grad", "--negatives", "tail:2", "--set", "D=4", "--json")
    status, out, _ = called(capsys, "run", SCORES / "transe_l2.emb", "--on", on, *arguments)
    assert status == 0
    shown = json.loads(out)
    assert shown["matches_reference"]
    assert set(shown["gradients"]) == {"E", "R"}
    assert all(check["error_over_bound"] < 1 for check in shown["gradients"].values())
    assert [step["name"] for step in shown["inverses"]["preprocessing"]][:1] == ["batch rows sorted by h"]


def test_a_run_over_its_time_fails(model: Path) -> None:
    shown = explorer("run", model, "--on", "cpu", "--repeat", "10000000", "--timeout", "1.5")
    assert shown.returncode == 1
    assert "time limit" in shown.stderr
    assert "Traceback" not in shown.stderr


def _interruptible(command: list[str]) -> subprocess.Popen[str]:
    """A process that Ctrl-C ends also where the tests run in a shell's background, which ignores it."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_ctrl_c_ends_with_a_line_and_130(model: Path) -> None:
    command = [sys.executable, "-m", "explorer.cli", "run", str(model), "--on", "cpu", "--repeat", "10000000"]
    with _interruptible(command) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("running"):
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert err.strip() == "explorer: stopped"


def test_a_reader_that_leaves_early_is_no_error(model: Path) -> None:
    command = f"{sys.executable} -m explorer.cli compile {model} --all --json | head -c 10"
    shown = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=True)
    assert "Traceback" not in shown.stderr
    assert "Exception" not in shown.stderr


def test_serve_says_where_it_is_and_a_taken_port_is_a_sentence() -> None:
    command = [sys.executable, "-m", "explorer.cli", "serve", "--port", "0"]
    with _interruptible(command) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        port = line.rpartition(":")[2].partition("/")[0]
        assert f"http://127.0.0.1:{port}/" in line
        _wait_for(int(port))
        taken = explorer("serve", "--port", port)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=15)
    assert taken.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use: choose another" in taken.stderr
    assert process.returncode == 130
    assert err.strip() == "explorer: stopped"


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_help_and_compile_import_nothing_heavy(model: Path) -> None:
    script = (
        "import sys; from explorer.cli import main; main(['compile', sys.argv[1], '--stage', 'loops']);"
        "print({'numba', 'fastapi', 'uvicorn', 'torch'} & set(sys.modules))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script, str(model)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert shown.stdout.splitlines()[-1] == "set()"


def test_an_op_on_the_machine_says_how_much_faster_it_is_than_without_optimisation() -> None:
    done = explorer("run", OPS / "sls.emb", "--on", "dae", "--data", "RM3:L0", "--option", "opt=3", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
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


def test_an_op_in_words(capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = called(capfd, "run", OPS / "sls.emb", "--on", "cpu", "--repeat", "1", "--grad", "--set", "D=16")
    assert status == 0
    assert "RM1:L0 (preset, generated): 8,192 entries in 128 lists" in out
    assert "D = 16, given" in out
    assert "d T" in out
    assert "of what rounding may make" in out


@pytest.mark.parametrize(
    ("data", "message"),
    [("RM3:L9", "did you mean 'RM3:L"), ("com-Youtube/0", "can be divided by 1 to"), ("a.npz", "no such file")],
)
def test_data_that_an_op_cannot_use_is_named(capfd: pytest.CaptureFixture[str], data: str, message: str) -> None:
    status, _, err = called(capfd, "run", OPS / "sls.emb", "--on", "cpu", "--data", data)
    assert status == 2
    assert message in err


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


def test_reuse_distances_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = called(capsys, "reuse", "--data", "RM1:L1")
    assert status == 0
    assert "63.0 % of accesses have fewer than 1,000 other rows" in out
    status, out, _ = called(capsys, "reuse", "--data", "rm1:l2", "--json")
    found = json.loads(out)
    assert found["name"] == "RM1:L2"
    assert found["within_1000"] == pytest.approx(0.99, abs=0.001)
    assert len(found["x"]) == len(found["share"])
    status, _, err = called(capsys, "reuse", "--data", "RM1:L7")
    assert status == 2
    assert "did you mean" in err
